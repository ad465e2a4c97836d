// Finds the members of a tar archive as parts of the file, so that a member is read without
// extracting it.
#pragma once
#include <stdbool.h>

#include "base/arena.h"
#include "pickle/file_part.h"

typedef struct tar_place {
    const char *name; // without "./" before it
    file_part part;   // its bytes; the caller closes the file
} tar_place;

typedef struct tar_file {
    tar_place *
            members; // files, in the order of the archive; of a repeated name the last one is valid
    int n, cap;
} tar_file;

// Returns whether a part begins with the header of a member.
bool tar_is_tar(const file_part *part);
// Reads the headers. DRV_E_DATA: one is broken, or a member reaches beyond the part; the message
// numbers the member.
DRV_CHECKED drv_status tar_read(arena *a, const file_part *part, tar_file *out);
