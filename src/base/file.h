// Files and folders. Every failure is DRV_E_IO with the path and the system's reason; DRV_E_FULL if
// the disk is full or a quota is exceeded.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/status.h"

// Fails with "could not WHAT "PATH": REASON" for errno, and returns the corresponding status.
DRV_CHECKED drv_status file_fail(const char *what, const char *path);

// Opens a regular file. Anything else (a pipe, a socket, a device, a folder) is refused with the
// kind of file; opening does not wait for a writer of a pipe.
DRV_CHECKED drv_status file_open_regular(const char *path, int *fd, int64_t *n_bytes);
// Names the kind of file that file_open_regular would refuse ("a pipe"). NULL: it is a file on a
// disk, or does not exist.
const char *file_odd_kind(const char *path);

// Reads the whole file, followed by a NUL that is not counted. A file on a disk, or of /proc.
DRV_CHECKED drv_status file_read(arena *a, const char *path, char **out, size_t *n_bytes);
// The same for a file on a disk that has at most max_bytes. DRV_E_DATA: it has more.
DRV_CHECKED drv_status file_read_small(arena *a, const char *path, int64_t max_bytes, char **out,
        size_t *n_bytes);
// The same for a file that a user names as an input: waits for the writer of a pipe, and reads a
// pipe or a device to its end. One with more than 1 GiB is refused.
DRV_CHECKED drv_status file_read_any(arena *a, const char *path, char **out, size_t *n_bytes);
// The same, where "-" means standard input.
DRV_CHECKED drv_status file_read_input(arena *a, const char *path, char **out, size_t *n_bytes);

// Reads the last bytes of a file on a disk, at most max_bytes, followed by a NUL that is not
// counted.
DRV_CHECKED drv_status file_read_tail(arena *a, const char *path, int64_t max_bytes, char **out,
        size_t *n_bytes);
// Reads `n` bytes at an offset. Returns the number of bytes read: fewer at the end of the file,
// where errno is 0, and after an error, whose reason errno has.
int64_t file_read_at(int fd, void *out, int64_t n, int64_t offset);

// A read-only memory map of a file on a disk, for one that is too large to be read whole. An empty
// file gives p = "" and n = 0. A read beyond the end of a file that has become shorter ends the
// process unless it is guarded (base/bus_error.h), as these are: the check of the index of a data
// set, the making of its rows and the count of its answers, the reading of a PJRT plugin, and that
// of a PyTorch checkpoint by mmap.
typedef struct file_map {
    const unsigned char *p;
    size_t n;
} file_map;
DRV_CHECKED drv_status file_map_open(const char *path, file_map *out);
void file_map_close(file_map *m);

// Writes all bytes to the descriptor.
DRV_CHECKED drv_status file_write_all(int fd, const char *path, const void *p, size_t n);

// Does the same at an offset in the file.
DRV_CHECKED drv_status file_write_at(int fd, const char *path, const void *p, size_t n,
        int64_t offset);

// Opens a file on a disk for appending; creates it if it does not exist. Refuses at once, by its
// kind, anything else at this path (a pipe, a link).
DRV_CHECKED drv_status file_append(const char *path, int *fd);

// The end of the name of a file or folder while it is being written. An existing one is replaced,
// so the name is one that no user chooses.
#define FILE_ASIDE ".drover-tmp"
// Writes PATH FILE_ASIDE, fsyncs it, renames it into place and fsyncs the folder: after a crash the
// file has its old content or the new one, never a part.
DRV_CHECKED drv_status file_write_atomic(const char *path, const void *p, size_t n);
// The two halves of it, up to the rename and from the rename on, for callers that must check
// something between them.
DRV_CHECKED drv_status file_write_aside(const char *path, const void *p, size_t n);
DRV_CHECKED drv_status file_put_in_place(const char *path);

DRV_CHECKED drv_status file_sync_dir(const char *path); // fsync of a folder
// The same after `path` was renamed into the folder: a failure says that it is in place.
DRV_CHECKED drv_status file_sync_placed(const char *dir, const char *path);
// Returns true also if the system cannot tell (it may not search the folder, the disk fails): what
// then opens the file learns the reason. Only what is known to be absent is taken for absent.
bool file_exists(const char *path);
bool file_is_dir(const char *path);
// Returns whether both paths lead to the same existing file or folder.
bool file_is_same(const char *x, const char *y);
// DRV_E_IO: this user may not search the folder, and so cannot see its files.
DRV_CHECKED drv_status dir_may_enter(const char *path);
int64_t file_size(const char *path);               // -1: no such file
DRV_CHECKED drv_status dir_make(const char *path); // with its parents; existing is fine
// Checks whether dir_make would succeed and the folder could get files: creates and removes a
// folder in the existing part of the path.
DRV_CHECKED drv_status dir_try(const char *path);
DRV_CHECKED drv_status dir_remove(const char *path); // with its content; absent is fine
// Lists the names in the folder, sorted bytewise, without "." and "..".
DRV_CHECKED drv_status dir_list(arena *a, const char *path, char ***names, int *n);
char *path_join(arena *a, const char *dir, const char *name);
// Returns STEM END, or the first of STEM-2 END, STEM-3 END and so on, where no file is known to be.
const char *path_unused(arena *a, const char *stem, const char *end);
// Returns a path as a shell takes it, for a command that a message suggests (str_add_shell).
const char *path_for_shell(arena *a, const char *path);
// Returns what follows the last slash of a path.
const char *path_name(const char *path);
// The same for a folder, whose path may end in slashes.
const char *path_folder_name(arena *a, const char *path);
// Returns the folder that a path lies in; ".": the path has no slash.
const char *path_parent(arena *a, const char *path);
// Returns the path itself if it is a folder, else the folder that it lies in.
const char *path_folder(arena *a, const char *path);
// Returns the folder NAME in the user's folder for caches: $XDG_CACHE_HOME, or ~/.cache. As the XDG
// Base Directory Specification asks, a path that is not absolute is ignored. NULL: there is none.
const char *path_user_cache(arena *a, const char *name);
// Makes the folder that `path` lies in, with its parents.
DRV_CHECKED drv_status dir_make_parent(const char *path);

// A lock between processes (flock). The system releases it when the process that holds it ends;
// file_lock_release also removes the file.
typedef struct file_lock {
    int fd; // -1: not held
    const char *path;
} file_lock;
// DRV_E_IO: another process has it; the message names the lock, the process and `what` it protects,
// as in "the data set \"data/web\"". DRV_E_USAGE: the file is not a lock of drover. On a file
// system without locks it warns and returns DRV_OK.
DRV_CHECKED drv_status file_lock_take(arena *a, const char *path, const char *what, file_lock *out);
void file_lock_release(file_lock *l); // allowed if it is not held
