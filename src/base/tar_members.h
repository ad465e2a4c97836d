// Reads the members of a tar archive in order: ustar, GNU's long names, pax (POSIX.1-2001). Nothing
// is written to the disk.
#pragma once
#include "base/status.h"
#include "base/str.h"

// The bytes of an archive, in order.
typedef struct tar_input {
    const char *name; // for messages
    // Reads n bytes; *got is less than n only at the end.
    drv_status (*read)(void *ctx, char *out, size_t n, size_t *got);
    // Skips n bytes; *got is less than n only at the end.
    drv_status (*skip)(void *ctx, int64_t n, int64_t *got);
    void *ctx;
} tar_input;

typedef struct tar_member {
    const char *name; // valid until the next one is read
    int64_t bytes;
    bool is_file; // a regular one; false: a link, a folder, a device
} tar_member;

enum { TAR_BLOCK = 512 };
// Returns whether a block is the header of a member.
bool tar_is_header(const unsigned char *block);

typedef struct tar_members tar_members; // single owner
tar_members *tar_members_open(const tar_input *input);
// Describes the next member, and skips the rest of the one before. *done: there are no more.
// DRV_E_DATA: a header is broken, the archive is cut short, or the member is sparse.
DRV_CHECKED drv_status tar_members_next(tar_members *tar, tar_member *out, bool *done);
// Appends the bytes of the current member. DRV_E_DATA: the archive is cut short.
DRV_CHECKED drv_status tar_members_take(tar_members *tar, str *out);
void tar_members_close(tar_members *tar);
