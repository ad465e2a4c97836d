// The table of all ranks of a run, RUN_DIR/ranks/status: the last report of each rank. Rank 0
// writes it once a second; watchers of the run read it. It is text in lines of equal length: one
// that names the format, one of titles, one for each rank. Each line ends with a checksum, since a
// reader may see it half written. docs/formats.md lists the columns. It is written by one pwrite
// and not through a mapping: a process that writes to a mapping is killed if the file is truncated
// or the disk is full, and bytes that pwrite has accepted survive kill -9 too.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"

enum {
    RANK_LINE = 192, // bytes of a line with its line feed
    RANK_TABLE_VERSION = 1,
    RANK_TABLE_MAX = 1 << 18, // ranks
};

// Texts are cut to these lengths, each at least the width of its column.
typedef struct rank_row {
    bool known; // when reading: false if the line is torn or missing; then all else is 0
    bool ended; // the rank has ended
    char host[21], program[9], op[25], arithmetic[13]; // op "": computing
    int64_t pid, step;
    double since_s; // seconds in this operation when it reported
    double heard_s; // age of that report, in seconds, at the time of the table
    double compute_s, wait_s, data_s, save_s; // of its last step
    int64_t resident, planned, device, sent;  // bytes, kept in KiB; sent: in its last step
} rank_row;

typedef struct rank_table {
    double time; // when it was written, seconds since 1970
    rank_row *rows;
    int n, n_torn;
} rank_table;

// --- writing
typedef struct rank_table_writer rank_table_writer; // single owner

// Opens RUN_DIR/ranks/status for n_ranks ranks. If status_dir is not "", the file lies there,
// on a local disk of rank 0, named after the run directory, and RUN_DIR/ranks/status is
// a link to it. DRV_E_IO, DRV_E_FULL. The writer lives in `a` until rank_table_close.
DRV_CHECKED drv_status rank_table_open(arena *a, const char *run_dir, const char *status_dir,
        int n_ranks, rank_table_writer **out);
// Writes rows[n_ranks], and the current time.
DRV_CHECKED drv_status rank_table_write(rank_table_writer *w, const rank_row *rows);
void rank_table_close(rank_table_writer *w); // NULL is allowed; the file stays

// Writes the bytes of a table: (n + 2) * RANK_LINE of them.
void rank_table_format(const rank_row *rows, int n, double time, char *out);

// --- reading
// Reads bytes; `path` is for messages. DRV_E_DATA: the first line is not that of a table, or it has
// another version. Torn and missing lines become rows that are not known.
DRV_CHECKED drv_status rank_table_parse(arena *a, const char *path, const char *p, size_t n,
        rank_table *out);
// Reads RUN_DIR/ranks/status; tries again a few times while a line is torn. DRV_E_IO: the file does
// not exist.
DRV_CHECKED drv_status rank_table_read(arena *a, const char *run_dir, rank_table *out);
// Returns an object with the fields of a row; the caller owns it.
json_t *rank_row_json(const rank_row *row, int rank);
