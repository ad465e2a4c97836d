// The members of a tar archive, in order: ustar, GNU's long names, pax (POSIX.1-2001). Names are
// only looked at; nothing is unpacked to the disk.
#pragma once
#include "base/str.h"
#include "data/read/byte_stream.h"

typedef struct tar_member {
    const char *name; // until the next one
    int64_t bytes;
    bool is_file; // a regular one; false: a link, a folder, a device
} tar_member;

typedef struct tar_members tar_members; // single owner
// `file` outlives it.
DRV_CHECKED drv_status tar_members_open(const input_file *file, tar_members **out);
// Describes the next member; what was not taken of the one before is passed over. *done: there are
// no more. DRV_E_DATA: a header is broken, the archive is cut short, or the member is sparse.
DRV_CHECKED drv_status tar_members_next(tar_members *tar, tar_member *out, bool *done);
// Appends the bytes of the member at hand.
DRV_CHECKED drv_status tar_members_take(tar_members *tar, str *out);
int64_t tar_members_where(const tar_members *tar); // bytes read of the file
void tar_members_close(tar_members *tar);
