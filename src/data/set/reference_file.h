// The log-probabilities that a reference model gives to the responses of a set of preference pairs,
// kept beside the set (docs/formats.md): PREFIX.reference-HASH, HASH of the text that says which
// model and which rows they are of.
#pragma once
#include "data/set/rows.h"

// Returns the path for a set and a key: any JSON object, in one line.
char *reference_file_path(arena *a, const char *prefix, const char *key);
// Reads the values of n pairs, the chosen response's and the rejected one's of each: [2 n]; NaN:
// none. DRV_E_DATA: the file is of another key or number of pairs, or damaged; DRV_E_IO.
DRV_CHECKED drv_status reference_file_read(const char *path, const char *key, int64_t n,
        double *values);
// The same of bytes in memory; `path` is for messages.
DRV_CHECKED drv_status reference_file_parse(const char *path, const void *bytes, size_t n_bytes,
        const char *key, int64_t n, double *values);
// Writes the file atomically.
DRV_CHECKED drv_status reference_file_write(const char *path, const char *key, int64_t n,
        const double *values);

// Reads the values of all sets of rows of pairs, [2 rows_n_pairs], of the reference with this hash
// in this precision. DRV_E_IO, DRV_E_DATA: they are missing or unusable; `say`: logs a warning then.
DRV_CHECKED drv_status references_load(const rows *of, const char *model, const char *precision,
        bool say, double *values);
// Writes them. Logs a warning if the folder cannot be written.
void references_keep(const rows *of, const char *model, const char *precision,
        const double *values);
