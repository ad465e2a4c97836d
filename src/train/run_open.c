// Opens a run: its directory, data, programs and weights. Resumes it if there is a checkpoint.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/stop.h"
#include "ckpt/adapter.h"
#include "programs/fit.h"
#include "record/observers.h"
#include "train/audit.h"
#include "train/references.h"
#include "train/replicas.h"
#include "train/resume.h"
#include "train/resume_elsewhere.h"
#include "train/run.h"
#include "train/run_inputs.h"
#include "train/set_counters.h"
#include "setup/carry.h"
#include "setup/device.h"
#include "weights/lora_state.h"
#include "setup/process_bytes.h"
#include "weights/state.h"

static drv_status open_run_dir(run *r, bool fresh) {
    const char *dir = r->rank.cfg->run_dir;
    r->saving.checkpoints = path_join(r->rank.a, dir, "checkpoints");
    r->saving.run_dir = dir;
    r->opened.fresh = fresh;
    if (!r->rank.leads) return DRV_OK;
    DRV_TRY(dir_make(dir));
    DRV_TRY(record_take(r->rank.a, r->rank.cfg, r->rank.comm, &r->shown.record));
    if (fresh) DRV_TRY(resume_move_aside(dir));
    DRV_TRY(dir_make(r->saving.checkpoints));
    return log_open_file(path_join(r->rank.a, dir, "log.txt"));
}

static drv_status open_data(run *r) {
    const run_config *cfg = r->rank.cfg;
    const bool split = cfg->n_valid == 0;
    DRV_TRY(run_inputs_open(r->rank.a, r->rank.cfg, false, &r->opened.train_rows,
            &r->opened.valid_rows));
    const rows *both[2] = {r->opened.train_rows, r->opened.valid_rows};
    if (r->rank.leads) DRV_TRY(carry_check_data(cfg, r->opened.train_rows));
    if (r->rank.leads && !split && r->opened.valid_rows)
        DRV_TRY(carry_check_data(cfg, r->opened.valid_rows));
    if (r->rank.leads)
        DRV_TRY(vocab_check_start(r->rank.a, both, r->opened.valid_rows ? 2 : 1, &r->opened.vocab));
    r->opened.reader = batch_reader_new(r->rank.a, r->opened.train_rows, cfg);
    const int n_sets = rows_n_sources(r->opened.train_rows);
    r->progress.set_counts = ARENA_ARRAY(r->rank.a, row_count, n_sets);
    for (int i = 0; i < MAX_STARTED; i++)
        r->progress.started[i].counts = ARENA_ARRAY(r->rank.a, row_count, n_sets);
    return DRV_OK;
}

// Counts the steps, which depend on the position at which the run continues.
static void count_steps(run *r) {
    run_inputs_count(r->rank.cfg, r->rank.leads, r->opened.train_rows, r->progress.state.step);
    trainer_about_lengths(r->opened.about, r->rank.cfg);
}

// If the batch or the row length changed, begins a new part, from which rows are counted.
static void begin_part(run *r, const json_t *before) {
    run_state *state = &r->progress.state;
    int64_t n_rows = r->rank.cfg->global_batch_size, length = r->rank.cfg->sequence_length;
    const bool known = json_get_i64("", before, "global_batch_size", &n_rows) == DRV_OK &&
                       json_get_i64("", before, "sequence_length", &length) == DRV_OK &&
                       json_object_get(before, "global_batch_size");
    if (known && n_rows == r->rank.cfg->global_batch_size && length == r->rank.cfg->sequence_length)
        return;
    state->part_step = state->step;
    state->part_rows = state->rows_taken;
    state->part_tokens = state->tokens;
}

// --- LoRA: a frozen base, identified by the hashes of its tensors, and branches
static void carry(run *r, const char *name, const char *text) {
    ckpt_content *c = &r->saving.content;
    ckpt_carried *list = ARENA_ARRAY(r->rank.a, ckpt_carried, c->n_carried + 1);
    if (c->n_carried) memcpy(list, c->carried, sizeof *list * (size_t)c->n_carried);
    list[c->n_carried++] = (ckpt_carried){.name = name, .bytes = text, .n = strlen(text)};
    c->carried = list;
}

static drv_status open_base(run *r) {
    const char *base, *model = r->saving.content.config_json;
    DRV_TRY_CTX(lora_load_base(&r->opened.programs.held, r->rank.cfg->from, &r->opened.base_hashes),
            "%s: weights of model.from", config_where(r->rank.cfg, "model.from"));
    r->saving.content.is_adapter = true;
    DRV_TRY(lora_describe(r->rank.a, r->rank.cfg, r->opened.base_hashes,
            &r->saving.content.config_json, &base));
    carry(r, "base.json", base);
    carry(r, "base_config.json", model);
    return DRV_OK;
}

// Loads lora.adapter into the branches, which change nothing until then.
static drv_status begin_adapter(run *r) {
    const char *folder = r->rank.cfg->lora.adapter;
    if (!*folder) return DRV_OK;
    DRV_TRY(adapter_check_hashes(folder, r->rank.cfg->from, r->opened.base_hashes, NULL));
    DRV_TRY(lora_load(&r->opened.programs.held, folder, false));
    log_info("adapter from %s", folder);
    return DRV_OK;
}

static drv_status load_checkpoint(run *r, const char *folder) {
    if (!r->opened.base_hashes) return state_load(&r->opened.programs.held, folder);
    DRV_TRY(adapter_check_hashes(folder, r->rank.cfg->from, r->opened.base_hashes, NULL));
    DRV_TRY(lora_load(&r->opened.programs.held, folder, true));
    return state_load_moments(&r->opened.programs.held, folder);
}

// Records where the run continues (NULL: at step 0), and which metrics no checkpoint holds.
static void record_start(const run *r, const char *folder) {
    if (!r->rank.leads) return;
    const lost_metrics lost = metrics_count_lost(r->rank.cfg->run_dir, r->progress.state.step);
    record_resume(r->shown.record, r->progress.state.step, folder, &lost);
}

// Continues each data set at its position, and logs what changed.
static void continue_from(run *r, const char *folder, const json_t *before) {
    log_info("resumed from %s: step %lld, %lld row%s and %s tokens seen", folder,
            (long long)r->progress.state.step, (long long)r->progress.state.rows_taken,
            str_plural(r->progress.state.rows_taken), str_si((double)r->progress.state.tokens));
    r->progress.kept_counters =
            set_counters_resume(r->opened.train_rows, before, r->progress.state.rows_taken);
    rows_counts(r->opened.train_rows, r->progress.set_counts);
    count_steps(r);
    resume_log_changes(before, r->opened.about);
    if (r->rank.leads) carry_say_changes(&r->saving.content, folder);
    record_start(r, folder);
}

static drv_status resume_from(run *r, const char *folder) {
    json_t *before;
    DRV_TRY_CTX(resume_check_model(folder, &r->rank.cfg->model, lora_is_on(r->rank.cfg), true),
            "cannot resume");
    DRV_TRY_CTX(trainer_json_read(folder, &r->progress.state, &before), "cannot resume");
    drv_status status = resume_check_optimizer(folder, before, r->rank.cfg);
    if (status == DRV_OK) status = load_checkpoint(r, folder);
    if (status != DRV_OK) {
        json_decref(before);
        return drv_context(status, "resume from \"%s\"", folder);
    }
    r->saving.saved_step = r->progress.state.step;
    continue_from(r, folder, before);
    begin_part(r, before);
    json_decref(before);
    return DRV_OK;
}

// For a run that begins at step 0: renames metrics that an earlier run without a checkpoint left.
static drv_status rename_lost_metrics(run *r) {
    record_start(r, NULL);
    const char *path = path_join(r->rank.a, r->rank.cfg->run_dir, "metrics.jsonl");
    if (file_size(path) <= 0) return DRV_OK;
    const char *kept = path_unused(r->rank.a,
            path_join(r->rank.a, r->rank.cfg->run_dir, "metrics.lost"), ".jsonl");
    if (rename(path, kept) != 0)
        return drv_fail(DRV_E_IO, "could not rename \"%s\": %s", path, strerror(errno));
    log_warn("an earlier run here stopped before its first checkpoint; starting at step 0, its metrics are now \"%s\"",
            kept);
    return DRV_OK;
}

// Sets the initial weights: of a LoRA run the base, and branches that change nothing.
static drv_status begin_model(run *r) {
    const run_config *cfg = r->rank.cfg;
    if (lora_is_on(cfg)) return held_init_adapter(&r->opened.programs.held);
    if (!config_loads_weights(cfg)) {
        if (*cfg->from)
            log_info("fresh weights: model.weights is random, %s gives only the shape", cfg->from);
        return held_init_weights(&r->opened.programs.held);
    }
    DRV_TRY_CTX(state_load_weights(&r->opened.programs.held, cfg->from),
            "%s: weights of model.from", config_where(cfg, "model.from"));
    log_info("weights from %s", cfg->from);
    return DRV_OK;
}

// Reads the hash of the reference model from a checkpoint. DRV_E_USAGE: its run had no reference.
static drv_status recorded_reference(run *r, const char *folder, const char **out) {
    json_t *before;
    run_state ignored;
    const char *model = NULL;
    DRV_TRY_CTX(trainer_json_read(folder, &ignored, &before), "cannot resume");
    drv_status status = json_get_str(folder, before, "reference_model", &model);
    if (status == DRV_OK && !model)
        status = drv_fail(DRV_E_USAGE,
                "\"%s\" is of a run with training.objective tokens, but the config has dpo: give another run_dir or "
                "--fresh (model.from takes weights over)",
                folder);
    if (status == DRV_OK) *out = arena_strdup(r->rank.a, model);
    json_decref(before);
    return status;
}

// Refuses another reference than the one that the run began with.
static drv_status check_reference(const char *recorded, const char *model) {
    if (!recorded || strcmp(model, recorded) == 0) return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "the reference of this run, model %s, is neither stored with the data nor the initial model of the config, model %s: restore PREFIX.reference-*, or give the model.from and training.seed that it began with",
            recorded, model);
}

// Opens the reference's log-probabilities for a run that trains on pairs. The reference of a
// resumed run is the model with which it began. Sets *begun if the run holds that model now. If a
// rank fails while it computes them, the others end, as in a step.
static drv_status open_references(run *r, const char *folder, bool *begun) {
    const char *recorded = NULL, *model;
    bool found = false;
    if (folder) DRV_TRY(ranks_together(&r->rank, recorded_reference(r, folder, &recorded)));
    if (recorded) DRV_TRY(references_read(r, recorded, &found));
    if (!found) {
        DRV_TRY(ranks_together(&r->rank, begin_model(r)));
        *begun = true;
        DRV_TRY(references_model(r, &model));
        DRV_TRY(ranks_together(&r->rank, check_reference(recorded, model)));
        const drv_status computed = references_compute(r, model, !recorded);
        const bool agreed = comm_size(r->rank.comm) == 1 || computed == DRV_STOPPED;
        DRV_TRY(agreed ? ranks_together(&r->rank, computed) : computed);
        recorded = model;
    }
    json_object_set_new(r->opened.about, "reference_model", json_string(recorded));
    return DRV_OK;
}

// Chooses an older checkpoint, and warns, if one could not be used because of `status` and its
// message. Returns that failure if there is no older one, or if the checkpoint did not cause it.
static drv_status choose_older(run *r, drv_status status, const char **folder) {
    ckpt_ranks ranks;
    const ckpt_ranks *all = state_ranks(&r->opened.programs.held, &ranks);
    const char *older;
    drv_saved refused;
    drv_save(status, &refused);
    if (r->audit || (status != DRV_E_DATA && status != DRV_E_IO)) return status;
    DRV_TRY(resume_choose(r->rank.a, all, r->rank.cfg->run_dir, ckpt_step_of(*folder), &older));
    if (!older) return drv_restore(&refused);
    if (r->rank.leads) log_warn("checkpoint \"%s\" is not used: %s", *folder, refused.message);
    MEM_GROW(r->saving.refused, r->saving.n_refused, r->saving.cap_refused);
    r->saving.refused[r->saving.n_refused++] = ckpt_step_of(*folder);
    r->rank.together = false; // the ranks continue
    *folder = older;
    return DRV_OK;
}

static drv_status read_counters(run *r, const char *folder) {
    json_t *ignored = NULL;
    run_state state;
    const drv_status status = trainer_json_read(folder, &state, &ignored);
    json_decref(ignored);
    return ranks_together(&r->rank, status);
}

// Chooses the checkpoint to resume from (*folder NULL: none), and opens the base of a LoRA run.
static drv_status choose_checkpoint(run *r, const char **folder) {
    ckpt_ranks ranks;
    const ckpt_ranks *all = state_ranks(&r->opened.programs.held, &ranks);
    r->progress.state = run_state_new();
    r->saving.saved_step = -1;
    *folder = NULL;
    if (!r->audit)
        DRV_TRY(resume_choose(r->rank.a, all, r->rank.cfg->run_dir, INT64_MAX, folder));
    else if ((*folder = audit_checkpoint(r)))
        DRV_TRY(ckpt_verify_shared(all, *folder));
    for (drv_status status; *folder && (status = read_counters(r, *folder)) != DRV_OK;)
        DRV_TRY_CTX(choose_older(r, status, folder), "cannot resume");
    return lora_is_on(r->rank.cfg) ? open_base(r) : DRV_OK;
}

static drv_status resume(run *r, const char *folder) {
    for (drv_status status; (status = ranks_together(&r->rank, resume_from(r, folder))) != DRV_OK;)
        DRV_TRY(choose_older(r, status, &folder));
    return DRV_OK;
}

static drv_status open_weights(run *r, const char *folder, bool begun) {
    if (folder) return resume(r, folder);
    const bool resumes = r->rank.cfg->weights == WEIGHTS_RESUME;
    if (resumes)
        DRV_TRY_CTX(resume_elsewhere(r->rank.cfg, &r->opened.programs.held, r->opened.train_rows,
                            r->rank.leads, &r->progress.state),
                "%s: model.from", config_where(r->rank.cfg, "model.from"));
    rows_counts(r->opened.train_rows, r->progress.set_counts);
    count_steps(r);
    if (r->rank.leads) DRV_TRY(rename_lost_metrics(r));
    if (!begun && !resumes) DRV_TRY(begin_model(r));
    return begin_adapter(r);
}

static void log_size(const run *r) {
    const memory_plan memory = programs_memory(&r->opened.programs);
    log_info("%s parameters, %s, %s of memory planned; data: %lld row%s of %lld tokens an epoch",
            str_si((double)model_parameters(&r->rank.cfg->model)),
            precision_name(r->rank.cfg->precision), str_bytes((double)memory.total),
            (long long)rows_per_epoch(r->opened.train_rows),
            str_plural(rows_per_epoch(r->opened.train_rows)),
            (long long)r->rank.cfg->sequence_length);
    const int64_t trained = held_trained(&r->opened.programs.held);
    if (lora_is_on(r->rank.cfg))
        log_info("LoRA: %lld parameters are trained, %.3g %% of the model; rank %lld, alpha %g%s, dropout %g, base %s",
                (long long)trained,
                100 * (double)trained / (double)model_parameters(&r->rank.cfg->model),
                (long long)r->rank.cfg->lora.rank, r->rank.cfg->lora.alpha,
                r->rank.cfg->lora.use_rslora ? " (rsLoRA)" : "", r->rank.cfg->lora.dropout,
                r->rank.cfg->from);
    log_info("%s, on %s", backend_arithmetic(r->rank.b), backend_device(r->rank.b));
    if (!r->rank.cfg->deterministic)
        log_info(
                "training.deterministic is false: repeated runs may give different bits, and drover audit refuses them");
}

drv_status run_measure_peak(run *r) {
    double now;
    DRV_TRY(backend_peak_flops(r->rank.b, &now));
    now *= comm_size(r->rank.comm);
    if (now > r->opened.peak_flops) r->opened.peak_flops = now;
    return DRV_OK;
}

// Sets the type of the weights in checkpoints, which config.json names.
static void set_save_dtype(run *r, json_t *config_json) {
    static const struct {
        st_type type;
        const char *torch;
    } types[] = {[SAVE_F32] = {ST_F32, "float32"},
            [SAVE_BF16] = {ST_BF16, "bfloat16"},
            [SAVE_F16] = {ST_F16, "float16"}};
    const save_dtype chosen = config_save_dtype(r->rank.cfg);
    r->saving.content.model_type = types[chosen].type;
    json_object_set_new(config_json, "torch_dtype", json_string(types[chosen].torch));
}

// Opens the data before it makes the run directory or moves older files aside. A run that may
// resume opens its directory first, so that its journal records missing data.
static drv_status open_folder(run *r, bool fresh) {
    const run_config *cfg = r->rank.cfg;
    if (lora_is_on(cfg) && !config_loads_weights(cfg))
        return drv_fail(DRV_E_USAGE,
                "%s: LoRA trains an adapter of an existing model: expected model.from, and "
                "model.weights load",
                config_where(cfg, "lora"));
    memory_limit limit = memory_limit_read("");
    limit.free /= comm_ranks_on_host(r->rank.comm);
    DRV_TRY(fit_check(cfg, &limit)); // before anything is allocated or moved
    const bool goes_on = !fresh && file_is_dir(cfg->run_dir);
    if (goes_on) DRV_TRY(open_run_dir(r, fresh));
    DRV_TRY(open_data(r));
    return goes_on ? DRV_OK : open_run_dir(r, fresh);
}

static drv_status open_device(run *r) {
    const run_config *cfg = r->rank.cfg;
    return r->rank.pool ? device_open_of(r->rank.a, cfg, r->rank.pool, comm_rank(r->rank.comm),
                                  &r->rank.b)
                        : device_open_among(r->rank.a, cfg, r->rank.comm, &r->rank.b);
}

// Adds the keys that reduce memory, which the back end does not know.
static drv_status add_hint(const run *r, drv_status status) {
    if (status != DRV_E_DEVICE || !config_backend(r->rank.cfg)->uses_host_memory) return status;
    const char *why = arena_strdup(r->rank.a, drv_message());
    return drv_fail(status, "%s; less is needed with %s", why, fit_less(r->rank.a, r->rank.cfg));
}

// Records the stop before the process ends.
static void report_stopped_early(void *ctx) {
    const run *r = ctx;
    char message[128];
    snprintf(message, sizeof message, "stopped by %s while programs were compiled",
            stop_requested());
    record_stop(r->shown.record, r->progress.state.step, stop_requested(), NULL);
    record_end(r->shown.record, DRV_STOPPED, NULL, message, false);
}

// If the back end compiles, this takes seconds to minutes, so a stop ends the process at once. With
// other back ends a stop waits for the first step, where all ranks agree on it.
static drv_status load_programs(run *r) {
    if (!backend_has_steps(r->rank.b))
        return add_hint(r, programs_load(r->rank.a, r->rank.b, &r->opened.programs));
    if (r->rank.leads) DRV_TRY(stop_tell_end(report_stopped_early, r));
    stop_ends_process(!r->rank.leads && !r->rank.pool);
    const drv_status status = programs_load(r->rank.a, r->rank.b, &r->opened.programs);
    stop_is_saved_again();
    if (r->rank.leads) stop_untell();
    if (status == DRV_OK && r->rank.leads) programs_warn(&r->opened.programs);
    return status;
}

static drv_status open_programs(run *r) {
    const run_config *cfg = r->rank.cfg;
    r->opened.about = trainer_about(cfg, r->opened.train_rows, backend_arithmetic(r->rank.b));
    DRV_TRY(carry_files(r->rank.a, cfg, &r->saving.content));
    DRV_TRY(carry_conversations(r->rank.a, cfg, r->opened.train_rows, r->rank.leads,
            &r->saving.content));
    json_t *model = model_config_json(&cfg->model);
    set_save_dtype(r, model);
    r->saving.content.config_json = json_print_in(r->rank.a, model, JSON_INDENT(2));
    const mesh ranks = run_mesh(cfg);
    backend_join(r->rank.b, r->rank.comm, &ranks);
    // Measured before there are weights, so that its buffers do not add to them.
    if (r->rank.leads) DRV_TRY(run_measure_peak(r));
    DRV_TRY(programs_build(r->rank.a, cfg, &r->opened.programs));
    r->opened.programs.held.comm = r->rank.comm;
    DRV_TRY(load_programs(r));
    return programs_check_held(&r->opened.programs);
}

// Opens the metrics and the report on rank 0.
static drv_status open_reports(run *r) {
    const run_config *cfg = r->rank.cfg;
    if (!r->rank.leads) return DRV_OK;
    DRV_TRY(resume_write_config(cfg, r->progress.state.step));
    DRV_TRY(metrics_open(r->rank.a, cfg->run_dir, r->progress.state.step, cfg->hash_every > 0,
            &r->shown.metrics));
    r->shown.report = report_new(r->rank.a, cfg->run_dir, cfg->file, cfg->log_every);
    r->opened.flops_per_token = programs_flops_per_token(&r->opened.programs, false);
    log_size(r);
    return DRV_OK;
}

// Sends the figures that the other ranks show before this rank's first step.
static void report_plan(run *r) {
    r->shown.figures.planned =
            programs_memory(&r->opened.programs).total + process_bytes(r->rank.cfg);
    const char *arithmetic = backend_arithmetic(r->rank.b), *kernels = "kernels ";
    if (str_starts(arithmetic, kernels)) arithmetic += strlen(kernels);
    snprintf(r->shown.figures.arithmetic, sizeof r->shown.figures.arithmetic, "%.*s",
            (int)strcspn(arithmetic, ",; "), arithmetic);
    rank_watch_share_figures(r, &(rank_time){0});
}

bool run_checks_replicas(const run *r) {
    return r->rank.cfg->check_every > 0 && comm_size(r->rank.comm) > 1 &&
           config_backend(r->rank.cfg)->uses_host_memory;
}

// Called before this process ends because another rank failed (comm_before_end).
static void end_of_process(void *ctx) {
    const run *r = ctx;
    record_end(r->shown.record, DRV_E_PEER, NULL, "", false);
    observers_end(r->shown.observers);
}

// Opens the files of this rank in the run directory, which rank 0 has made: its log and the record
// of its operations.
static drv_status open_files(run *r) {
    if (r->rank.leads)
        DRV_TRY(rank_watch_open(r->rank.a, r->rank.comm, r->rank.cfg, &r->shown.watch));
    if (r->rank.leads) r->shown.observers = observers_begin(r->rank.a, r->rank.cfg);
    if (comm_size(r->rank.comm) == 1) return DRV_OK;
    DRV_TRY(comm_barrier(comm_all_ranks(r->rank.comm)));
    const char *dir = path_join(r->rank.a, r->rank.cfg->run_dir, "ranks");
    DRV_TRY(comm_record(r->rank.comm, dir));
    if (r->rank.leads || r->rank.pool) return DRV_OK;
    const int rank = comm_rank(r->rank.comm);
    DRV_TRY(log_open_file(arena_printf(r->rank.a, "%s/log-%05d.txt", dir, rank)));
    log_info("rank %d of %d, on %s", rank, comm_size(r->rank.comm), comm_host(r->rank.comm, rank));
    return DRV_OK;
}

drv_status run_open(run *r, bool fresh) {
    const char *folder;
    bool begun = false; // the run holds its initial model
    DRV_TRY(ranks_together(&r->rank, ranks_share_config(&r->rank)));
    DRV_TRY(ranks_choose_zero(&r->rank));
    DRV_TRY(ranks_together(&r->rank, open_folder(r, fresh)));
    DRV_TRY(record_share(r->rank.a, r->rank.cfg, r->rank.comm, &r->shown.record));
    if (comm_size(r->rank.comm) > 1) comm_before_end(r->rank.comm, end_of_process, r);
    DRV_TRY(ranks_together(&r->rank, open_files(r)));
    DRV_TRY(ranks_together(&r->rank, open_device(r)));
    DRV_TRY(ranks_together(&r->rank, ranks_agree_on_arithmetic(&r->rank)));
    DRV_TRY(ranks_together(&r->rank, open_programs(r)));
    const mesh ranks = run_mesh(r->rank.cfg);
    r->opened.stepper = stepper_new(r->rank.a, &r->opened.programs, r->rank.comm,
            &ranks); // also opens the links of a pipeline
    DRV_TRY(ranks_together(&r->rank, choose_checkpoint(r, &folder)));
    if (r->rank.cfg->objective == OBJECTIVE_DPO) DRV_TRY(open_references(r, folder, &begun));
    DRV_TRY(ranks_together(&r->rank, open_weights(r, folder, begun)));
    if (run_checks_replicas(r))
        DRV_TRY(ranks_together(&r->rank,
                replicas_check(&r->opened.programs.held, r->progress.state.step)));
    r->shown.times = rank_times_new(r->rank.a, r->rank.comm);
    rank_watch_find_stragglers(r, &ranks);
    report_plan(r);
    DRV_TRY(ranks_together(&r->rank, open_reports(r)));
    if (r->audit) DRV_TRY(ranks_together(&r->rank, audit_open(r)));
    return rank_watch_open_energy(r);
}

void run_close(run *r) {
    observers_end(r->shown.observers);
    if (r->rank.comm) comm_before_end(r->rank.comm, NULL, NULL);
    rank_watch_close(r->shown.watch);
    rank_watch_close_energy(r);
    ckpt_saver_free(r->saving.saver);
    if (r->shown.metrics) metrics_close(r->shown.metrics);
    vocab_check_cancel(&r->opened.vocab);
    batch_reader_close(&r->opened.reader);
    for (int i = 0; i < MAX_STARTED; i++)
        str_free(&r->progress.started[i].rows);
    if (r->opened.train_rows) rows_close(r->opened.train_rows);
    if (r->opened.valid_rows) rows_close(r->opened.valid_rows);
    arena_free(r->progress.hashed);
    if (r->rank.b) backend_close(r->rank.b);
    json_decref(r->opened.about);
    json_decref(r->opened.base_hashes);
    json_decref(r->progress.kept_counters);
    free(r->saving.refused);
    record_close(r->shown.record);
}
