// Uploads large files of a repository to the hub's storage by Git LFS: whole (basic) or in parts
// (multipart), several at a time. Files that the hub has are not sent again.
#pragma once
#include "base/arena.h"
#include "data/get/file_hash.h"
#include "data/get/hub_call.h"

typedef struct lfs_object {
    const char *name, *path; // in the repository, for messages; on disk
    int64_t size;
    char sha256[HASH_TEXT_BYTES];
} lfs_object;

typedef struct lfs_stats {
    int64_t files, there; // sent; found on the hub
    int64_t bytes;        // sent, without those of failed attempts
    double seconds;
} lfs_stats;

// Sends the objects that the hub does not have. `branch`: the hub checks the permission to write to
// it; NULL: none. DRV_E_DATA: a response violates the protocol; DRV_E_IO: the hub refused, or all
// attempts failed.
DRV_CHECKED drv_status lfs_upload(arena *a, const http_link *link, const char *repo,
        const char *branch, const lfs_object *list, int n, lfs_stats *out);
