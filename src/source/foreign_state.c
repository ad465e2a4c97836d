// Chooses the reader of the optimizer's state by the format; reads the state in our own
// checkpoints.
#include "source/foreign_state.h"

#include <math.h>

#include "base/file.h"
#include "source/rank_files.h"
#include "pickle/torch_file.h"

foreign_progress foreign_progress_unknown(void) {
    return (foreign_progress){.step = -1,
            .updates = -1,
            .samples = -1,
            .tokens = -1,
            .learning_rate = (double)NAN};
}

static drv_status check_count(const char *path, const char *name, int64_t value) {
    const int64_t most = 9000000000000000; // as training.steps
    if (value >= -1 && value <= most) return DRV_OK;
    return drv_fail(DRV_E_DATA, "\"%s\": %s is %lld, expected 0 to %lld", path, name,
            (long long)value, (long long)most);
}

// Replaces a missing step by updates, or updates by step. DRV_E_DATA: both are missing, or a number
// is out of range.
static drv_status check_progress(const char *path, foreign_progress *p) {
    DRV_TRY(check_count(path, "the step", p->step));
    DRV_TRY(check_count(path, "the optimizer's step", p->updates));
    DRV_TRY(check_count(path, "the number of samples", p->samples));
    DRV_TRY(check_count(path, "the number of tokens", p->tokens));
    if (p->step < 0) p->step = p->updates;
    if (p->updates < 0) p->updates = p->step;
    if (p->step < 0)
        return drv_fail(DRV_E_DATA,
                "\"%s\" does not say at which step it was written, without which AdamW's moments "
                "cannot be used; give model.weights: load, which begins at step 0",
                path);
    if (p->updates <= p->step) return DRV_OK;
    return drv_fail(DRV_E_DATA, "\"%s\": the optimizer counts %lld steps, expected at most %lld",
            path, (long long)p->updates, (long long)p->step);
}

// --- a checkpoint of ours
// The counters; trainer_json.h checks them in full when a run resumes in its own directory.
static drv_status read_trainer(arena *a, const char *path, foreign_progress *out) {
    const char *file = path_join(a, path, "trainer.json");
    json_t *o = NULL;
    if (!file_exists(file))
        return drv_fail(DRV_E_DATA, "\"%s\" has optimizer.safetensors, but no trainer.json", path);
    DRV_TRY(json_read_file(file, &o));
    drv_status status = json_get_i64(file, o, "step", &out->step);
    if (status == DRV_OK) status = json_get_i64(file, o, "updates", &out->updates);
    if (status == DRV_OK) status = json_get_i64(file, o, "rows_taken", &out->samples);
    if (status == DRV_OK) status = json_get_i64(file, o, "tokens", &out->tokens);
    if (status == DRV_OK) status = json_get_f64(file, o, "learning_rate", &out->learning_rate);
    json_decref(o);
    return status;
}

static drv_status open_own(arena *a, const char *path, model_source *out,
        foreign_progress *progress) {
    DRV_TRY(read_trainer(a, path, progress));
    return model_source_open_folder(a, path, "optimizer", out);
}

// --- any
static drv_status open_any(arena *a, const char *path, model_source *out,
        foreign_progress *progress) {
    if (file_exists(path_join(a, path, "optimizer.safetensors")))
        return open_own(a, path, out, progress);
    if (source_is_dcp(a, path)) return source_open_dcp(a, path, progress, out);
    if (rank_files_are_there(a, path)) return source_open_ranks(a, path, progress, out);
    if (!file_is_dir(path) && torch_is_file(path))
        return drv_fail(DRV_E_DATA,
                "\"%s\" is one file of torch.save, whose optimizer state numbers parameters instead of naming them; save it by torch.distributed.checkpoint, or give "
                "model.weights: load, which begins at step 0",
                path);
    return drv_fail(DRV_E_DATA,
            "\"%s\" has weights, but no optimizer's state (optimizer.safetensors, or a checkpoint of "
            "another trainer in mid-run); give model.weights: load, which begins at step 0",
            path);
}

drv_status model_source_open_optimizer(arena *a, const char *path, const char *config_file,
        model_source *out, foreign_progress *progress) {
    foreign_progress found = foreign_progress_unknown();
    *out = (model_source){.path = path, .config_file = config_file};
    DRV_TRY(open_any(a, path, out, &found));
    const drv_status status = check_progress(path, &found);
    if (status == DRV_OK)
        *progress = found;
    else
        model_source_close(out);
    return status;
}

drv_status model_source_open_resumed(arena *a, const char *path, model_source *out) {
    foreign_progress ignored;
    model_source model;
    DRV_TRY(model_source_open_optimizer(a, path, NULL, out, &ignored));
    model_source_keep_masters(a, out);
    const drv_status status = model_source_open(a, path, &model);
    if (status == DRV_OK)
        model_source_join(a, out, &model);
    else
        model_source_close(out);
    return status;
}
