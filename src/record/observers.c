// Begins and ends the observers of a run, through their tables of functions only.
#include "record/observers.h"

#include <pthread.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "programs/stages.h"
#include "watch/server/run_observer.h"

static const run_observer *const all[] = {&page_observer, &progress_observer};
enum { N_OBSERVERS = sizeof all / sizeof *all, END_S = 6 };

struct observers {
    run_view *view;
    void *of[N_OBSERVERS]; // NULL: the run has none
    pthread_mutex_t lock;  // protects their end
    bool ended;
};

static const char *axis(arena *a, const char *name, int64_t n) {
    return n > 1 ? arena_printf(a, ", %s %lld", name, (long long)n) : "";
}

static const char *describe(arena *a, const run_config *cfg) {
    return arena_printf(a, "%s parameters, %s%s%s%s%s",
            str_si((double)model_parameters(&cfg->model)), precision_name(cfg->precision),
            axis(a, "tensor", cfg->tensor_parallel), axis(a, "pipeline", cfg->pipeline_parallel),
            axis(a, "context", cfg->context_parallel), axis(a, "data", cfg->data_ranks));
}

// Returns the bubble of the pipeline's schedule; 0 without one.
static double bubble_of(arena *a, const run_config *cfg) {
    pipeline_result result;
    if (cfg->pipeline_parallel <= 1) return 0;
    return stages_time(a, cfg, &result) == DRV_OK ? result.bubble : 0;
}

observers *observers_begin(arena *a, const run_config *cfg) {
    observers *self = ARENA_NEW(a, observers);
    pthread_mutex_init(&self->lock, NULL);
    self->view = run_view_open(cfg->run_dir, bubble_of(a, cfg));
    const run_observed run = {.run_dir = cfg->run_dir,
            .about = describe(a, cfg),
            .save_every = cfg->checkpoint_every,
            .http = config_http(cfg),
            .http_metrics_token_file = cfg->http_metrics_token_file,
            .http_ranks = cfg->http_ranks,
            .view = self->view};
    for (int i = 0; i < N_OBSERVERS; i++)
        if (all[i]->begin(&run, &self->of[i]) != DRV_OK)
            log_warn("%s: %s; training continues without it", all[i]->name, drv_message());
    return self;
}

void observers_end(observers *self) {
    bool all_ended = true;
    if (!self) return;
    const struct timespec until = clock_after(END_S);
    if (pthread_mutex_timedlock(&self->lock, &until) != 0) return;
    if (!self->ended) {
        for (int i = 0; i < N_OBSERVERS; i++)
            if (self->of[i]) all_ended &= all[i]->end(self->of[i]);
        if (all_ended) run_view_close(self->view); // otherwise one of them still reads it
        self->ended = true;
    }
    pthread_mutex_unlock(&self->lock);
}
