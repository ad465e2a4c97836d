// A folder that is written aside (PATH.tmp), synced and renamed into place when all is in it: after
// a crash there is what was there before, or all of the new. Every file is hashed while it is
// written.
#pragma once
#include "base/file.h"

typedef struct written_file {
    const char *name;
    int64_t bytes;
    char hash[33]; // by blocks (block_hash.h), in hex
} written_file;

typedef struct out_folder { // single owner
    arena *a;
    const char *path, *tmp;
    written_file *files; // in the order of writing
    int n, cap;
    int64_t block_bytes;
} out_folder;

// Makes PATH.tmp; what a killed writer left there goes.
DRV_CHECKED drv_status out_folder_begin(arena *a, const char *path, out_folder *out);
// The same folder for a rank that is not the one to make it: only names.
void out_folder_follow(arena *a, const char *path, out_folder *out);
// Notes a file of the folder that others have written and hashed.
void out_folder_note(out_folder *o, const char *name, int64_t bytes, const char hash[33]);
// Writes a whole file.
DRV_CHECKED drv_status out_folder_put(out_folder *o, const char *name, const void *p, size_t n);
// Brings all files and the folder to the disk.
DRV_CHECKED drv_status out_folder_sync(out_folder *o);
// manifest.json of a checkpoint: size and hash of every file so far. After out_folder_sync, so that
// it is the last to be on the disk; it is synced itself.
DRV_CHECKED drv_status out_folder_manifest(out_folder *o, int64_t step);
// Renames it to `path`, which may be an empty folder; out_folder_sync comes first.
DRV_CHECKED drv_status out_folder_commit(out_folder *o, const char *path);
// Moves the files one by one into a folder that has other files; those of the same names are
// replaced, and model*.safetensors with their index, which would be a second model, go.
DRV_CHECKED drv_status out_folder_commit_into(out_folder *o, const char *path);
// Removes what was written, which also frees a full disk, and forgets the list.
void out_folder_discard(out_folder *o);

// A file of the folder, written piece by piece.
typedef struct out_stream {
    out_folder *folder;
    const char *name, *path;
    int fd;
    struct block_hasher *hash;
    int64_t bytes;
} out_stream;
DRV_CHECKED drv_status out_stream_open(out_folder *o, const char *name, out_stream *out);
DRV_CHECKED drv_status out_stream_write(out_stream *s, const void *p, size_t n);
// Adds the file to the list. Returns `status`, the result so far, or the error of closing.
DRV_CHECKED drv_status out_stream_close(out_stream *s, drv_status status);
