// The members of a tar archive (POSIX.1-2017, pax, ustar; GNU tar's long names and large sizes), as
// places in the file, so that a member is read without being unpacked. Python's tarfile, which
// trainers use, writes these forms.
#pragma once
#include <stdbool.h>

#include "base/arena.h"
#include "pickle/file_part.h"

typedef struct tar_member {
    const char *name; // without "./" before it
    file_part part;   // its bytes; the caller closes the file
} tar_member;

typedef struct tar_file {
    tar_member *members; // files, in the order of the archive; where a name is there twice, the
                         // last counts
    int n, cap;
} tar_file;

// Returns whether a part begins with the header of a member.
bool tar_is_tar(const file_part *part);
// Reads the headers. DRV_E_DATA: one is broken, or a member reaches beyond the part; the message
// names the byte.
DRV_CHECKED drv_status tar_read(arena *a, const file_part *part, tar_file *out);
