// Makes the body of a post, after Kubeflow Trainer's pkg/apis/trainer/v1alpha1/trainjob_types.go.
#include "watch/server/progress_body.h"

#include <math.h>
#include <time.h>

static void add_metric(json_t *list, const char *name, double x) {
    char text[40];
    if (isnan(x) || json_array_size(list) >= PROGRESS_METRICS) return;
    snprintf(text, sizeof text, "%.9g", x);
    json_array_append_new(list, json_pack("{s:s, s:s}", "name", name, "value", text));
}

static json_t *metrics_of(const watched_run *run) {
    const watched_step *last = &run->last;
    json_t *list = json_array();
    if (last->step >= 0) add_metric(list, "step", (double)last->step);
    if (last->step >= 0 && isnan(last->loss)) // a loss that is not finite is worth reporting
        json_array_append_new(list, json_pack("{s:s, s:s}", "name", "loss", "value", "NaN"));
    add_metric(list, "loss", last->loss);
    add_metric(list, "validation_loss", last->val_loss);
    add_metric(list, "learning_rate", last->lr);
    add_metric(list, "gradient_norm", last->grad_norm);
    add_metric(list, "tokens", last->tokens);
    add_metric(list, "tokens_per_second", last->tokens_per_s);
    add_metric(list, "step_seconds", last->step_s);
    add_metric(list, "mfu", last->mfu);
    add_metric(list, "goodput", run->sums.goodput);
    add_metric(list, "attempt", run->sums.n_attempts);
    return list;
}

static int percentage(const run_status *status) {
    if (status->end == RUN_DONE) return 100;
    if (status->steps <= 0 || status->step <= 0) return 0;
    // A run that goes on is never reported as complete.
    return status->step >= status->steps ? 99 : (int)(100 * status->step / status->steps);
}

void progress_body(const watched_run *run, double time, str *out) {
    json_t *status = json_object();
    const time_t seconds = (time_t)time;
    char text[32];
    struct tm tm;
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &tm));
    if (run->has_status) {
        const double left = run->status.end == RUN_DONE ? 0 : run->status.eta_s;
        json_object_set_new(status, "progressPercentage", json_integer(percentage(&run->status)));
        if (left >= 0 && left < 1e9)
            json_object_set_new(status, "estimatedRemainingSeconds", json_integer((int64_t)left));
    }
    json_object_set_new(status, "metrics", metrics_of(run));
    json_object_set_new(status, "lastUpdatedTime", json_string(text));
    json_print_to(out, json_pack("{s:o}", "trainerStatus", status), JSON_COMPACT);
}
