// The state of a run, RUN_DIR/status.json: replaced as a whole during the run and at its end.
// Scripts read it, since a launcher may change the exit status of a job. docs/formats.md lists the
// fields.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"

typedef enum run_state_kind {
    RUN_STARTING,
    RUN_RUNNING,
    RUN_SAVING,
    RUN_STOPPING,
    RUN_ENDED,
    N_RUN_STATES
} run_state_kind;
typedef enum run_end { RUN_GOES_ON, RUN_DONE, RUN_STOPPED, RUN_FAILED, N_RUN_ENDS } run_end;
const char *run_state_name(run_state_kind state); // "starting"
const char *run_end_name(run_end end);            // "done"; NULL: it goes on

// Absent numbers: NaN; absent steps, statuses and ranks: -1; absent texts: "".
typedef struct run_status {
    run_state_kind state;
    double time; // when it was written: seconds since 1970
    int64_t step, steps;
    double loss, tokens_per_s, eta_s;
    int64_t attempt; // 0: unknown
    int64_t ranks, nodes;
    const char *host; // of rank 0, as is pid
    int64_t pid, saved_step;
    // The end of the run.
    run_end end;
    int64_t exit_status;
    const char *cause, *message;
    int64_t failed_rank;
    const char *failed_host;
} run_status;
run_status run_status_new(void); // starting; all else absent

// Replaces status.json in the open folder, whose name may have changed. `lasts`: it survives a
// crash of the machine; this may take tens of milliseconds. DRV_E_IO, DRV_E_FULL.
DRV_CHECKED drv_status run_status_write(int dir_fd, const run_status *status, bool lasts);
// Returns an object with these fields; the caller owns it.
json_t *run_status_json(const run_status *status);
// Read the text of RUN_DIR/status.json, and write such a text back.
DRV_CHECKED drv_status run_status_text(arena *a, const char *run_dir, char **text, size_t *n);
DRV_CHECKED drv_status run_status_put(int dir_fd, const char *text, size_t n, bool lasts);

// Reads bytes; `path` is for messages. DRV_E_DATA: not valid JSON, of another version, a field of
// another type or beyond its range. Texts live in `a`.
DRV_CHECKED drv_status run_status_parse(arena *a, const char *path, const char *text, size_t n,
        run_status *out);
// Reads RUN_DIR/status.json. DRV_E_IO: there is none.
DRV_CHECKED drv_status run_status_read(arena *a, const char *run_dir, run_status *out);
