// Stores the log-probabilities that a reference model assigns to the responses of a set of
// preference pairs, in PREFIX.reference-HASH (docs/formats.md). HASH is the hash of the key, which
// names the model and the rows.
#pragma once
#include "data/set/rows.h"

// Returns the path for a set and a key. A key is a JSON object in one line.
char *reference_file_path(arena *a, const char *prefix, const char *key);
// Reads the values of n pairs, [2 n]: for each the chosen response's and the rejected one's; NaN:
// none. DRV_E_DATA: the file has another key or number of pairs, or is damaged.
DRV_CHECKED drv_status reference_file_read(const char *path, const char *key, int64_t n,
        double *values);
// The same for bytes in memory; `path` is for messages.
DRV_CHECKED drv_status reference_file_parse(const char *path, const void *bytes, size_t n_bytes,
        const char *key, int64_t n, double *values);
// Writes the file atomically.
DRV_CHECKED drv_status reference_file_write(const char *path, const char *key, int64_t n,
        const double *values);

// Reads the values of all data sets of `of`, [2 rows_n_pairs], that the reference model with this
// hash computed in this precision. DRV_E_IO, DRV_E_DATA: they are missing or unusable; `say`: also
// log a warning.
DRV_CHECKED drv_status references_load(const rows *of, const char *model, const char *precision,
        bool say, double *values);
// Writes them. Logs a warning if the folder cannot be written.
void references_keep(const rows *of, const char *model, const char *precision,
        const double *values);
