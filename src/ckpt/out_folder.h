// Writes a folder as PATH FILE_ASIDE, syncs it and renames it into place when it is complete: after
// a crash either the old folder or the complete new one exists. Every file is hashed while it is
// written. A folder that exists and that nothing can be renamed to gets its files one by one.
// Legend: o an output folder.
#pragma once
#include "base/file.h"
#include "base/json.h"

typedef struct written_file {
    const char *name;
    int64_t bytes;
    char hash[33]; // by blocks (block_hash.h), in hex
} written_file;

typedef struct out_folder { // single owner
    arena *a;
    const char *path, *tmp;
    const char *lock;    // beside tmp: a file for file_lock_take, whose use is the caller's choice
    written_file *files; // in the order of writing
    int n, cap;
    int64_t block_bytes;
    bool inside; // tmp is in `path`, which no folder can be renamed to, such as a mount point
} out_folder;

// The names of tmp and lock in a folder that nothing can be renamed to.
#define OUT_FOLDER_TMP  FILE_ASIDE
#define OUT_FOLDER_LOCK "drover.lock"

// Creates PATH FILE_ASIDE, and removes one that a killed writer left.
DRV_CHECKED drv_status out_folder_begin(arena *a, const char *path, out_folder *out);
// The two halves of it, for a `path` that may exist: the first one only chooses the names, and
// follows links.
void out_folder_name(arena *a, const char *path, out_folder *out);
DRV_CHECKED drv_status out_folder_make(out_folder *o);
// The same for a rank that does not create the folder: sets only the names.
void out_folder_follow(arena *a, const char *path, out_folder *out);
// Adds a file that other ranks wrote and hashed to the list.
void out_folder_note(out_folder *o, const char *name, int64_t bytes, const char hash[33]);
// Writes a whole file.
DRV_CHECKED drv_status out_folder_put(out_folder *o, const char *name, const void *p, size_t n);
// Copies a file of any size, and shows its progress.
DRV_CHECKED drv_status out_folder_copy(out_folder *o, const char *name, const char *from);
// Writes JSON, by the flags of json_print, and takes over (decrefs) the value.
DRV_CHECKED drv_status out_folder_put_json(out_folder *o, const char *name, json_t *value,
        size_t flags);
// Syncs all files and the folder.
DRV_CHECKED drv_status out_folder_sync(out_folder *o);
// Writes and syncs a checkpoint's manifest.json: size and hash of every file so far. Call it after
// out_folder_sync, so that the manifest reaches the disk last.
DRV_CHECKED drv_status out_folder_manifest(out_folder *o, int64_t step);
// Puts the folder into place, by the next two. `force`: its path may be a folder with other files.
DRV_CHECKED drv_status out_folder_place(out_folder *o, bool force);
// Returns the status of putting an output into place. Where only the sync failed, another try would
// find the output in its way, so the status is not DRV_E_FULL, which asks for one (docs/adr/0006).
static inline drv_status out_placed(drv_status status) {
    return status == DRV_E_FULL ? DRV_E_IO : status;
}
// Renames the folder to `path`, which may be an empty folder. Call out_folder_sync before, and
// file_sync_placed after it.
DRV_CHECKED drv_status out_folder_rename(out_folder *o, const char *path);
// Does both: renames the folder, and syncs its name.
DRV_CHECKED drv_status out_folder_commit(out_folder *o, const char *path);
// Moves the files one by one into a folder that has other files; files of the same name are
// replaced, and existing model*.safetensors with their index are removed, since they would be a
// second model.
DRV_CHECKED drv_status out_folder_commit_into(out_folder *o, const char *path);
// Removes everything that was written, which also frees a full disk, and empties the list.
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
