// Prepares the replay of an audit: chooses its steps, its checkpoint, and a configuration that
// gives the results of the run on the present ranks.
#include <stdlib.h>
#include <string.h>

#include "ckpt/ckpt.h"
#include "train/audit_internal.h"
#include "train/train.h"
#include "watch/files/rank_table.h"

enum { MAX_CONFIG = 1 << 20, MAX_SETS = 64, N_FORCED = 24 };

// --- keys that may differ in a replay, because no result depends on them
static drv_status check_sets(const audit_opts *opts) {
    static const char *const allowed[] = {"parallel.tensor=", "parallel.pipeline=",
            "parallel.schedule=", "parallel.virtual_stages=", "parallel.context=", "parallel.data=",
            "parallel.sequence=", "parallel.zero=", "parallel.zero_group=", "parallel.overlap=",
            "training.threads=", "training.micro_batch_size=", "training.recompute=",
            "training.offload=", "training.log_every=", "data.train=", "data.valid=", "tokenizer=",
            "model.from="};
    if (opts->n_sets > MAX_SETS)
        return drv_fail(DRV_E_USAGE, "audit: %d times --set, expected at most %d", opts->n_sets,
                MAX_SETS);
    for (int i = 0; i < opts->n_sets; i++) {
        bool known = false;
        for (size_t k = 0; k < sizeof allowed / sizeof *allowed; k++)
            known |= str_starts(opts->sets[i], allowed[k]);
        if (!known)
            return drv_fail(DRV_E_USAGE,
                    "audit: --set %s: it would not be the same run; expected the layout (parallel.tensor, .pipeline, "
                    ".context, .data, .zero, ...), threads, micro-batches, recomputation, or the present paths of data.train, data.valid, tokenizer or model.from",
                    opts->sets[i]);
    }
    return DRV_OK;
}

// --- steps
// Finds the first and the last step in hashes.jsonl.
static drv_status find_recorded(const char *path, int64_t *first, int64_t *last) {
    json_lines lines;
    *first = *last = 0;
    if (!file_exists(path))
        return drv_fail(DRV_E_USAGE,
                "there is no \"%s\": only a run with training.hash_every can be audited", path);
    DRV_TRY(json_lines_open(path, true, &lines));
    for (json_t *line; (line = json_lines_next(&lines));) {
        const json_t *step = json_object_get(line, "step");
        const int64_t number = json_is_integer(step) ? json_integer_value(step) : 0;
        if (number > 0 && *first == 0) *first = number;
        if (number > *last) *last = number;
        json_decref(line);
    }
    const drv_status status = json_lines_status(&lines);
    json_lines_close(&lines);
    if (status != DRV_OK || *last > 0) return status;
    return drv_fail(DRV_E_DATA, "%s has no line of a step", path);
}

static drv_status choose_steps(const audit_opts *opts, audit *self) {
    audit_result *x = self->result;
    int64_t first, last;
    if (!file_exists(path_join(self->a, self->run_dir, "config.yaml")))
        return drv_fail(DRV_E_USAGE, "\"%s\" is not a run directory: it has no config.yaml",
                self->run_dir);
    DRV_TRY(find_recorded(self->path, &first, &last));
    x->first = opts->first ? opts->first : first;
    x->last = opts->last ? opts->last : last;
    if (x->first > x->last || x->last > last)
        return drv_fail(DRV_E_USAGE, "audit: steps %lld:%lld, but %s has %lld to %lld",
                (long long)x->first, (long long)x->last, self->path, (long long)first,
                (long long)last);
    return DRV_OK;
}

// Chooses the newest checkpoint before the first step; NULL: the replay starts at step 0.
static drv_status choose_checkpoint(audit *self) {
    const char *dir = path_join(self->a, self->run_dir, "checkpoints");
    char **names;
    int n;
    self->result->checkpoint = NULL;
    DRV_TRY(ckpt_list(self->a, dir, &names, &n));
    for (int i = 0; i < n && ckpt_step_of(names[i]) < self->result->first; i++)
        self->result->checkpoint = path_join(self->a, dir, names[i]);
    return DRV_OK;
}

static int64_t from_step(const audit *self) {
    return self->result->checkpoint ? ckpt_step_of(self->result->checkpoint) : 0;
}

// --- the configuration
// Chooses the configuration of the steps after the checkpoint: config.until-N.yaml with the lowest
// N after it, else config.yaml.
static drv_status choose_config(const audit *self, const char **out) {
    char **names;
    int n;
    int64_t until = INT64_MAX;
    const char stem[] = "config.until-";
    *out = path_join(self->a, self->run_dir, "config.yaml");
    DRV_TRY(dir_list(self->a, self->run_dir, &names, &n));
    for (int i = 0; i < n; i++) {
        char *end;
        if (!str_starts(names[i], stem)) continue;
        const int64_t step = strtoll(names[i] + strlen(stem), &end, 10);
        if (strcmp(end, ".yaml") != 0 || step <= from_step(self) || step >= until) continue;
        until = step;
        *out = path_join(self->a, self->run_dir, names[i]);
    }
    if (self->result->last <= until) return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "the configuration of \"%s\" changed after step %lld (%s): audit the steps before and after it separately, "
            "with --steps",
            self->run_dir, (long long)until, *out);
}

// Reads the resolved values of `auto` in the keys that determine how sums are joined, so that a
// replay on any number of ranks joins them alike.
static drv_status read_trees(const audit *self, const char *config, char **sets, int *n) {
    run_config *cfg = ARENA_NEW(self->a, run_config);
    rank_table table;
    const int ranks = rank_table_read(self->a, self->run_dir, &table) == DRV_OK ? table.n : 1;
    char *text;
    size_t bytes;
    DRV_TRY(file_read_small(self->a, config, MAX_CONFIG, &text, &bytes));
    DRV_TRY(config_load(self->a, config, NULL, 0, cfg));
    DRV_TRY_CTX(config_set_ranks(cfg, ranks), "%s, for %d ranks", config, ranks);
    sets[(*n)++] = arena_printf(self->a, "parallel.accumulation_groups=%lld",
            (long long)cfg->n_accum_groups);
    if (cfg->tensor_blocks)
        sets[(*n)++] =
                arena_printf(self->a, "parallel.tensor_blocks=%lld", (long long)cfg->tensor_blocks);
    sets[(*n)++] =
            arena_printf(self->a, "parallel.context_blocks=%lld", (long long)cfg->n_context_blocks);
    sets[(*n)++] = arena_printf(self->a, "parallel.partial_sum_rows=%lld",
            (long long)config_partial_sum_rows(cfg));
    return DRV_OK;
}

// Loads the run's config without its layout, which does not fit the present ranks, and without
// evaluations, checkpoints and limits.
static drv_status load_config(const audit *self, const audit_opts *opts, run_config *out) {
    static const char *const forced[] = {"parallel.tensor=1", "parallel.pipeline=1",
            "parallel.context=1", "parallel.data=auto", "parallel.virtual_stages=1",
            "parallel.schedule=auto", "parallel.zero=1", "parallel.zero_group=auto",
            "checkpoint.every=0", "checkpoint.every_minutes=0", "training.eval_every=0",
            "training.max_minutes=0", "training.http=none", "training.status_dir="};
    char *sets[MAX_SETS + N_FORCED];
    int n = 0;
    const char *config;
    DRV_TRY(choose_config(self, &config));
    for (size_t i = 0; i < sizeof forced / sizeof *forced; i++)
        sets[n++] = arena_strdup(self->a, forced[i]);
    DRV_TRY(read_trees(self, config, sets, &n));
    for (int i = 0; i < opts->n_sets; i++)
        sets[n++] = arena_strdup(self->a, opts->sets[i]);
    sets[n++] = arena_printf(self->a, "training.stop_at_step=%lld", (long long)self->result->last);
    sets[n++] = arena_printf(self->a, "run_dir=%s",
            opts->out_dir ? opts->out_dir : path_join(self->a, opts->run_dir, "audit"));
    DRV_TRY(config_load(self->a, config, (const char *const *)sets, n, out));
    if (out->deterministic) return DRV_OK;
    return config_refuse(out, "training.deterministic",
            "is false, expected true: repeated runs may give different bits, even without a fault");
}

drv_status audit_run(arena *a, const audit_opts *opts, audit_result *out) {
    audit self = {.a = a,
            .run_dir = opts->run_dir,
            .path = path_join(a, opts->run_dir, "hashes.jsonl"),
            .result = out,
            .lines = {.fd = -1}};
    run_config *cfg = ARENA_NEW(a, run_config);
    *out = (audit_result){.element = -1};
    drv_status status = check_sets(opts);
    if (status == DRV_OK) status = choose_steps(opts, &self);
    if (status == DRV_OK) status = choose_checkpoint(&self);
    if (status == DRV_OK) status = load_config(&self, opts, cfg);
    if (status != DRV_OK) return train_refuse(a, status);
    status = train_audited(a, cfg, &self);
    json_decref(self.line);
    json_lines_close(&self.lines);
    return status;
}
