// Whoever shows a run to others while it goes on. A run knows them by this table alone: what they
// need they read from its files (docs/adr/0029), and nothing that becomes of them ends it.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "watch/server/run_view.h"

// A run as it is when it begins; texts must outlive the observers.
typedef struct run_observed {
    const char *run_dir;
    const char *about;  // model and layout in words
    int64_t save_every; // steps between checkpoints; 0: only at the end
    // Keys of the config.
    const char *http;          // NULL: no page
    const char *password_file; // of a page that is apart from the run: its password alone opens it,
                               // and its health is its own; NULL: keys are made, and written to
                               // RUN_DIR/http.json
    const char *http_metrics_token_file;
    bool http_ranks;
    run_view *view; // of its files
} run_observed;

typedef struct run_observer {
    const char *name; // "page": in messages
    // Begins, on rank 0, once the run's files are there. *self stays NULL where nothing is asked
    // for. On failure it watches nothing, and the run goes on.
    drv_status (*begin)(const run_observed *run, void **self);
    // Ends, once status.json says how the run ended; takes some seconds at most. False: it still
    // waits for something, and the view must be left alone.
    bool (*end)(void *self);
} run_observer;

extern const run_observer page_observer;     // run_page.c
extern const run_observer progress_observer; // progress_post.c
