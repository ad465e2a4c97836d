// The directory of a zip file whose entries are stored, not compressed, as torch.save writes them
// (PKWARE's APPNOTE.TXT, sections 4.3 to 4.5, zip64 included). It has the offset of each entry's
// bytes, so that tensors are read from the file directly. libzip and minizip present entries as
// streams without offsets, so drover has its own reader.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/name_map.h"
#include "base/status.h"
#include "pickle/file_part.h"

typedef struct zip_entry {
    const char *name;
    int64_t header_at;     // of its local header, within the part
    int64_t offset, bytes; // of its data, within the part
} zip_entry;

typedef struct zip_file {
    zip_entry *entries; // in the order of the data
    int n;
    name_map by_name;
} zip_file;

// Reads the directory. DRV_E_DATA: it is broken, or an entry is compressed, encrypted, listed
// twice, beyond the end of the file, or overlaps another one; the message names the entry.
DRV_CHECKED drv_status zip_read(arena *a, const file_part *part, zip_file *out);
const zip_entry *zip_find(const zip_file *zip, const char *name); // NULL: absent
// Returns whether a file begins as a zip does.
bool zip_is_zip(const file_part *part);
