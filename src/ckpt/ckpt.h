// Checkpoints that are Hugging Face folders (design D8):
//
//   checkpoints/step-000100/
//     config.json  model.safetensors  (or model-00001-of-0000N.safetensors and an index)
//     tokenizer.json ...              what the run carries from its tokenizer and source
//     optimizer.safetensors           exp_avg.NAME and exp_avg_sq.NAME, full shapes; master.NAME,
//                                     the fp32 weights, where the model file is of another type
//     trainer.json                    step, rows taken, tokens, what the optimizer counts
//     (adapter_model.safetensors and adapter_config.json instead of model and config: a LoRA run's)
//     manifest.json                   size and XXH3-128 of every other file; written last
//
// A checkpoint is written to step-000100.tmp, synced, renamed into place, and its folder synced.
// What has no valid manifest is not a checkpoint. What stood in its place and was refused becomes
// step-000100.refused.
#pragma once
#include "base/file.h"
#include "base/json.h"
#include "ckpt/model_source.h"

// A tensor to save or to fill, and where its bytes are for the owner of the state.
typedef struct ckpt_tensor {
    st_entry entry;
    const char *source; // name that the callback knows
    int64_t offset;     // bytes
} ckpt_tensor;

typedef drv_status (
        *ckpt_read)(void *ctx, const char *source, int64_t offset, int64_t bytes, void *dst);
// Takes the values of a folder's tensors, in pieces.
typedef struct ckpt_sink {
    drv_status (
            *write)(void *ctx, const ckpt_tensor *t, int64_t first, int64_t n, const float *values);
    void *ctx;
    bool fp32_only; // for a resume: fp32 weights, which the model file or the masters beside it hold

} ckpt_sink;

typedef struct ckpt_content {
    const ckpt_tensor *model, *optimizer;
    int n_model, n_optimizer;
    st_type model_type; // of the model file (docs/adr/0007); an adapter's is F32
    const char *config_json, *trainer_json; // texts
    bool is_adapter; // adapter_model.safetensors and adapter_config.json instead of the model's
    const ckpt_carried *carried; // the tokenizer's files and the like
    int n_carried;
} ckpt_content;

// A background writer for one run. The state must not change from ckpt_start until ckpt_wait_read
// returns: the files are written from it in place, so a checkpoint needs no second copy in memory.
typedef struct ckpt_saver ckpt_saver;
ckpt_saver *ckpt_saver_new(const char *dir, int64_t keep, ckpt_read read, void *ctx);
// Waits for an earlier save, then starts this one. trainer_json is copied; the rest of `content`
// must live until the save is done.
DRV_CHECKED drv_status ckpt_start(ckpt_saver *s, int64_t step, const ckpt_content *content);
void ckpt_wait_read(ckpt_saver *s); // until the state may change again
// A save that was started has come to its end: ckpt_wait will not wait.
bool ckpt_ended(ckpt_saver *s);
// The checkpoint is in place, or why not (then nothing of it is left).
DRV_CHECKED drv_status ckpt_wait(ckpt_saver *s);
void ckpt_saver_free(ckpt_saver *s);

// The newest checkpoint in `dir` whose files all match its manifest; refused ones are warned of by
// name. *path is NULL when there is none at all; DRV_E_DATA when there are some and all are
// refused, with the reasons.
DRV_CHECKED drv_status ckpt_newest(arena *a, const char *dir, const char **path);
// Checks sizes and hashes. DRV_E_DATA, DRV_E_IO: names the file and the difference.
DRV_CHECKED drv_status ckpt_verify(const char *path);
// Names "step-NNNNNN" in `dir`, oldest first; none when there is no `dir`.
DRV_CHECKED drv_status ckpt_list(arena *a, const char *dir, char ***names, int *n);
// NNNNNN of ".../step-NNNNNN"; -1: another name.
int64_t ckpt_step_of(const char *path);
// Removes what killed writers left.
DRV_CHECKED drv_status ckpt_clean(const char *dir);

// A model has exactly these tensors, beside what model_source_drops. DRV_E_DATA as ckpt_fill.
DRV_CHECKED drv_status ckpt_check(const model_source *s, const ckpt_tensor *list, int n);
// Fills every tensor from a model (a checkpoint is one). `which`: "model" or "optimizer".
// DRV_E_DATA: a tensor is missing, of another shape or not expected, a value is not finite, or an
// index does not fit its files.
DRV_CHECKED drv_status ckpt_fill(const char *folder, const char *which, const ckpt_tensor *list,
        int n, const ckpt_sink *sink);
