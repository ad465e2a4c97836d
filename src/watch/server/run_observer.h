// An observer shows a run to others while it runs. The run knows only this table of functions: an
// observer reads the run's files (docs/adr/0029), and its failure does not end the run.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "watch/server/run_view.h"

// A run at its start; the texts must outlive the observers.
typedef struct run_observed {
    const char *run_dir;
    const char *about;  // model and layout as text
    int64_t save_every; // steps between checkpoints; 0: only at the end
    // Keys of the config.
    const char *http;          // NULL: no page
    const char *password_file; // for a page in a separate process, which only this password opens
                               // and whose health is that of the process; NULL: secrets are made
                               // and written to RUN_DIR/http.json
    const char *http_metrics_token_file;
    bool http_ranks;
    run_view *view; // reads its files
} run_observed;

typedef struct run_observer {
    const char *name; // "page", for messages
    // Starts the observer on rank 0, once the files of the run exist. *self stays NULL if the
    // configuration asks for nothing. After a failure the run continues without it.
    drv_status (*begin)(const run_observed *run, void **self);
    // Ends the observer, once status.json says how the run ended; takes a few seconds at most.
    // Returns false if it has not ended yet: then the view must not be freed.
    bool (*end)(void *self);
} run_observer;

extern const run_observer page_observer;     // run_page.c
extern const run_observer progress_observer; // progress_post.c
