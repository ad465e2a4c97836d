// Writes and reads the counters of a run by one table.
#include "train/trainer_json.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "ckpt/ckpt.h"
#include "train/set_counters.h"

typedef struct counter {
    const char *name;
    size_t offset;
    bool optional; // checkpoints of earlier versions do not have it
} counter;

#define COUNTER(name, optional)                                                                    \
    { #name, offsetof(run_state, name), optional }
static const counter counters[] = {COUNTER(step, false), COUNTER(updates, false),
        COUNTER(rows_taken, false), COUNTER(tokens, false), COUNTER(bad_steps, false),
        COUNTER(evaluated, true), COUNTER(part_step, true), COUNTER(part_rows, true),
        COUNTER(part_tokens, true)};
static const counter losses[] = {COUNTER(loss, true), COUNTER(val_loss, true)};
enum { N_COUNTERS = sizeof counters / sizeof *counters, N_LOSSES = sizeof losses / sizeof *losses };

#define MAX_STEPS 9e15   // the limit of training.steps
#define MAX_ROWS  0x1p24 // rows of a step and tokens of a row, the limits of the config

static int64_t *counter_of(run_state *state, const counter *c) {
    return (int64_t *)((char *)state + c->offset);
}
static double *loss_of(run_state *state, const counter *c) {
    return (double *)((char *)state + c->offset);
}

run_state run_state_new(void) {
    return (run_state){.evaluated = -1, .loss = (double)NAN, .val_loss = (double)NAN};
}

// --- what is recorded
// Returns whether trainer.json records a key: not if it does not change the result, or is compared
// elsewhere (model). Of the layout only the trees of sums are recorded (add_trees), so that a run
// writes the same files on any number of ranks.
static bool is_recorded(const char *path) {
    static const char *const left_out[] = {"model.", "run_dir", "training.status_dir",
            "training.threads", "training.http", "training.log_every", "training.recompute",
            "training.offload", "training.micro_batch_size", "training.eval_",
            "training.hash_every", "training.max_minutes", "training.stop_at_step", "checkpoint.",
            "parallel."};
    if (strcmp(path, "model.base_dtype") == 0) return true;
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
        if (str_starts(path, left_out[i])) return false;
    return true;
}

// Records the numbers of steps that `auto` and training.epochs resolve to with this data.
void trainer_about_lengths(json_t *about, const run_config *cfg) {
    json_t *values = json_object_get(about, "config");
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)cfg->steps);
    json_object_set_new(values, "training.steps", json_string(text));
    snprintf(text, sizeof text, "%lld", (long long)config_warmup_steps(cfg));
    json_object_set_new(values, "schedule.warmup_steps", json_string(text));
}

static void add_trees(const run_config *cfg, json_t *values) {
    const struct {
        const char *key;
        int64_t n;
    } trees[] = {{"parallel.accumulation_groups", cfg->n_accum_groups},
            {"parallel.tensor_blocks", cfg->tensor_blocks},
            {"parallel.context_blocks", cfg->n_context_blocks},
            {"parallel.partial_sum_rows", config_partial_sum_rows(cfg)}};
    char text[32];
    for (size_t i = 0; i < sizeof trees / sizeof *trees; i++) {
        snprintf(text, sizeof text, "%lld", (long long)trees[i].n);
        json_object_set_new(values, trees[i].key, json_string(trees[i].n ? text : "auto"));
    }
}

static json_t *config_values(const run_config *cfg) {
    arena *a = arena_new("config values");
    json_t *values = json_object();
    const char *path, *text;
    for (int i = 0; (text = config_key_text(a, cfg, i, &path)); i++)
        if (is_recorded(path)) json_object_set_new(values, path, json_string(text));
    add_trees(cfg, values);
    arena_free(a);
    return values;
}

json_t *trainer_about(const run_config *cfg, const rows *train, const char *arithmetic) {
    json_t *about = json_pack("{s:s, s:I, s:I, s:I, s:o, s:o}", "arithmetic", arithmetic, "seed",
            (json_int_t)cfg->seed, "global_batch_size", (json_int_t)cfg->global_batch_size,
            "sequence_length", (json_int_t)cfg->sequence_length, "config", config_values(cfg),
            "data", rows_fingerprint(train));
    trainer_about_lengths(about, cfg);
    return about;
}

char *trainer_json_text(const run_state *state, const json_t *about) {
    run_state copy = *state;
    json_t *o = json_object();
    for (int i = 0; i < N_COUNTERS; i++)
        json_object_set_new(o, counters[i].name, json_integer(*counter_of(&copy, &counters[i])));
    for (int i = 0; i < N_LOSSES; i++)
        json_object_set_new(o, losses[i].name, json_of_f64(*loss_of(&copy, &losses[i])));
    json_object_update(o, (json_t *)(uintptr_t)about);
    char *text = json_print(o, JSON_INDENT(2));
    json_decref(o);
    return text;
}

// --- reading
static drv_status read_counters(const char *path, const json_t *o, run_state *out) {
    if (!json_is_object(o)) return drv_fail(DRV_E_DATA, "%s: expected a JSON object", path);
    for (int i = 0; i < N_COUNTERS; i++) {
        const counter *c = &counters[i];
        if (!c->optional && !json_is_integer(json_object_get(o, c->name)))
            return drv_fail(DRV_E_DATA, "%s: \"%s\" is %s, expected a whole number", path, c->name,
                    json_object_get(o, c->name) ? "not one" : "missing");
        DRV_TRY(json_get_i64(path, o, c->name, counter_of(out, c)));
    }
    for (int i = 0; i < N_LOSSES; i++)
        DRV_TRY(json_get_f64(path, o, losses[i].name, loss_of(out, &losses[i])));
    return DRV_OK;
}

static drv_status check_range(const char *path, const char *name, int64_t value, double min,
        double max, const char *why) {
    if ((double)value >= min && (double)value <= max) return DRV_OK;
    return drv_fail(DRV_E_DATA, "%s: \"%s\" is %lld, expected %.0f to %.0f (%s)", path, name,
            (long long)value, min, max, why);
}

// Checks each counter against those before it.
static drv_status check_counters(const char *path, const run_state *state) {
    const double steps = (double)state->step, taken = (double)state->rows_taken;
    const double part_steps = (double)state->part_step, part_rows = (double)state->part_rows;
    const struct {
        const char *name;
        int64_t value;
        double min, max;
        const char *why;
    } ranges[] = {
            {"step", state->step, 0, MAX_STEPS, "as training.steps"},
            {"updates", state->updates, 0, steps, "at most one per step"},
            {"bad_steps", state->bad_steps, 0, steps - (double)state->updates,
                    "steps without an update"},
            {"rows_taken", state->rows_taken, steps, steps * MAX_ROWS, "1 to 2^24 rows per step"},
            {"tokens", state->tokens, 0, taken * MAX_ROWS, "at most 2^24 tokens per row"},
            {"evaluated", state->evaluated, -1, steps, "a step that is done"},
            {"part_step", state->part_step, 0, steps, "a step that is done"},
            {"part_rows", state->part_rows, part_steps, part_steps * MAX_ROWS,
                    "1 to 2^24 per step"},
            {"part_tokens", state->part_tokens, 0, part_rows * MAX_ROWS, "at most 2^24 per row"},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        DRV_TRY(check_range(path, ranges[i].name, ranges[i].value, ranges[i].min, ranges[i].max,
                ranges[i].why));
    return DRV_OK;
}

// Checks the rows and tokens, which follow from the steps, the batch and the length of a row.
static drv_status check_sums(const char *path, const json_t *o, const run_state *s) {
    int64_t n_rows = 0, length = 0;
    DRV_TRY(json_get_i64(path, o, "global_batch_size", &n_rows));
    DRV_TRY(json_get_i64(path, o, "sequence_length", &length));
    if (n_rows == 0 && length == 0) return DRV_OK; // written by an earlier version
    DRV_TRY(check_range(path, "global_batch_size", n_rows, 1, MAX_ROWS, "as in the config"));
    DRV_TRY(check_range(path, "sequence_length", length, 1, MAX_ROWS, "as in the config"));
    const double expected =
            (double)s->part_rows + (double)(s->step - s->part_step) * (double)n_rows;
    DRV_TRY(check_range(path, "rows_taken", s->rows_taken, expected, expected,
            "the rows of all steps, global_batch_size each"));
    const double tokens = (expected - (double)s->part_rows) * (double)length;
    return check_range(path, "tokens", s->tokens, (double)s->part_tokens,
            (double)s->part_tokens + tokens, "at most sequence_length in each row");
}

// Checks types of fields that a resume only compares; earlier versions lack some of them.
static drv_status check_about(const char *path, const json_t *o) {
    static const struct {
        const char *key, *expected;
        json_type type;
    } fields[] = {{"arithmetic", "a string", JSON_STRING}, {"seed", "a whole number", JSON_INTEGER},
            {"config", "an object", JSON_OBJECT}, {"data", "an object", JSON_OBJECT}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const json_t *x = json_object_get(o, fields[i].key);
        if (!x || json_typeof(x) == fields[i].type) continue;
        char *text = json_print(x, JSON_ENCODE_ANY | JSON_COMPACT);
        const drv_status status = drv_fail(DRV_E_DATA, "%s: \"%s\" is %.80s, expected %s", path,
                fields[i].key, text, fields[i].expected);
        free(text);
        return status;
    }
    return DRV_OK;
}

drv_status trainer_json_check(const char *path, int64_t named_step, const json_t *o,
        run_state *out) {
    *out = run_state_new();
    DRV_TRY(read_counters(path, o, out));
    DRV_TRY(check_counters(path, out));
    DRV_TRY(check_about(path, o));
    DRV_TRY(set_counters_check(path, o));
    if (json_object_get(o, "global_batch_size")) DRV_TRY(check_sums(path, o, out));
    if (!json_object_get(o, "evaluated"))
        out->evaluated = out->step; // written by an earlier version
    if (named_step >= 0 && named_step != out->step)
        return drv_fail(DRV_E_DATA, "%s: \"step\" is %lld, expected %lld as in the folder's name",
                path, (long long)out->step, (long long)named_step);
    return DRV_OK;
}

drv_status trainer_json_read(const char *folder, run_state *out, json_t **about) {
    arena *a = arena_new("trainer.json");
    const char *path = path_join(a, folder, "trainer.json");
    *about = NULL;
    drv_status status = json_read_file(path, about);
    if (status == DRV_OK) status = trainer_json_check(path, ckpt_step_of(folder), *about, out);
    if (status != DRV_OK) {
        json_decref(*about);
        *about = NULL;
    }
    arena_free(a);
    return status;
}
