// Checkpoints that are Hugging Face folders (design D8):
//
//   checkpoints/step-000100/
//     config.json  model.safetensors  (or model-00001-of-0000N.safetensors and an index)
//     tokenizer.json ...              copied from the run's tokenizer and source
//     optimizer.safetensors           exp_avg.NAME and exp_avg_sq.NAME, or of a matrix that Muon
//                                     updates momentum_buffer.NAME, full shapes, in the run's state
//                                     type; master.NAME, the run's own weights, if the model file
//                                     has another type
//     trainer.json                    step, rows taken, tokens, the optimizer's counts
//     (adapter_model.safetensors and adapter_config.json instead of model and config: a LoRA run's)
//     manifest.json                   size and hash by blocks of every other file; written last
//
// A checkpoint is written to step-000100.drover-tmp, synced, renamed into place, and its parent
// folder is synced. A folder without a valid manifest is not a checkpoint. An unusable checkpoint
// of the same name is renamed to step-000100.refused.
//
// The ranks of a job write and read one folder together. All ranks list the same tensors in the
// same order, and each names the pieces that it holds. A file is cut into blocks that are dealt out
// to the ranks: each rank writes, syncs and hashes its blocks, from data that the other ranks send.
// So no rank holds the whole file, and the bytes are the same for any layout.
#pragma once
#include "base/file.h"
#include "base/json.h"
#include "source/checkpoint_names.h"
#include "source/model_source.h"
#include "comm/comm.h"

// The ranks that take part. A NULL pointer means this process alone.
typedef struct ckpt_ranks {
    comm *comm;
    mesh mesh;
} ckpt_ranks;
int ckpt_rank(const ckpt_ranks *r);
int ckpt_size(const ckpt_ranks *r);
// Returns the same status on all ranks, with the message of the first one that failed. DRV_E_PEER:
// the job has failed.
DRV_CHECKED drv_status ckpt_agree(const ckpt_ranks *r, drv_status status);

// A rectangle of a tensor that a rank holds, row by row without gaps. A vector is one column. Ranks
// that differ only along `replicated` axes (bits 1 << AXIS_DATA, ...) hold the same rectangle;
// apart from that, the pieces of all ranks tile the tensor. `at_ends`: only the first and the last
// pipeline stage hold it, as of a tied embedding.
typedef struct ckpt_piece {
    int64_t row, rows, column, columns;
    const char *source; // state that holds its values
    int64_t first;      // index of its first element in the source
    unsigned replicated;
    bool at_ends;
} ckpt_piece;

// A rank holds no piece of a tensor, one rectangle, or a run of elements (at most three rectangles).
enum { MAX_CKPT_PIECES = 3 };
typedef struct ckpt_tensor {
    st_entry entry; // the whole tensor; its type is that of the run: BF16 or F32
    ckpt_piece piece[MAX_CKPT_PIECES];
    int n_pieces;
} ckpt_tensor;

// Reads elements [first, first + n) of a source, converted to fp32.
typedef drv_status (
        *ckpt_read)(void *ctx, const char *source, int64_t first, int64_t n, float *values);
// Receives the values of this rank's pieces: elements [first, first + n) of a piece, in rising order.
typedef struct ckpt_sink {
    drv_status (*write)(void *ctx, const ckpt_tensor *t, const ckpt_piece *piece, int64_t first,
            int64_t n, const float *values);
    void *ctx;
    // `exact`: set for a resume. Weights are read as the run had them, from the model file or from
    // the masters next to it: F32, or BF16 where this run keeps BF16. `takes_bf16`: moments may be
    // BF16, since some runs keep them so.
    bool exact, takes_bf16;
    // Set if a run begins with another run's state (model.weights: resume): weights are read from
    // its master weights if it has them; weights and moments may have any type.
    bool resumes;
} ckpt_sink;

typedef struct ckpt_content {
    const ckpt_tensor *model, *optimizer;
    int n_model, n_optimizer;
    st_type model_type; // of the model file (docs/adr/0007); an adapter's is F32
    const char *config_json, *trainer_json; // texts
    bool is_adapter; // adapter_model.safetensors and adapter_config.json instead of the model's
    const ckpt_carried *carried; // the tokenizer's files and other copied files
    int n_carried;
} ckpt_content;

// A background writer for one run. The state must not change from ckpt_start until ckpt_was_read
// returns true: the files are written from it in place, so a checkpoint needs no second copy in
// memory. Ranks (NULL: one) start the same saves in the same order, and all succeed or all fail.
typedef struct ckpt_saver ckpt_saver;
ckpt_saver *ckpt_saver_new(const char *dir, int64_t keep, const ckpt_ranks *ranks, ckpt_read read,
        void *ctx);
// Registers a check that rank 0's background thread calls before it renames a checkpoint into place
// or removes an old one. If it does not return DRV_OK, another run owns the folder by now, and
// nothing in it is changed.
void ckpt_saver_guard(ckpt_saver *saver, drv_status (*is_ours)(void *ctx), void *ctx);
// Marks the checkpoint of this step as unusable although its files match its manifest: it no longer
// counts as a checkpoint, and is renamed if a new one needs its name.
void ckpt_saver_refuse(ckpt_saver *saver, int64_t step);
// For a new saver of a run that has resumed from this step: removes the old checkpoints that a
// stopped run was about to remove, in the background; the first save waits for the end of it.
void ckpt_saver_retain(ckpt_saver *saver, int64_t step);
// Waits for an earlier save, then starts this one. trainer_json is copied; the rest of `content`
// must live until the save is done.
DRV_CHECKED drv_status ckpt_start(ckpt_saver *saver, int64_t step, const ckpt_content *content);
// Waits for at most `at_most_s` seconds, and returns whether the state may change again.
bool ckpt_was_read(ckpt_saver *saver, double at_most_s);
// The same for the end of a save: true if ckpt_wait would return at once.
bool ckpt_ended(ckpt_saver *saver, double at_most_s);
// Waits for the save. DRV_OK: the checkpoint is in place; otherwise nothing of it is left, unless
// only the sync after the rename failed, as the message then says. Another save of the same step
// then accepts the checkpoint that is in place, and only repeats the sync.
DRV_CHECKED drv_status ckpt_wait(ckpt_saver *saver);
// Returns the duration of the last successful save in seconds, and the bytes of all its files.
// Valid on rank 0.
void ckpt_saved(const ckpt_saver *saver, double *seconds, int64_t *n_bytes);
void ckpt_saver_free(ckpt_saver *saver);

// Finds the newest checkpoint in `dir` of a step below `below` (INT64_MAX: of any) whose files all
// match its manifest, and warns of those that do not. *path is NULL if there is no checkpoint at
// all; DRV_E_DATA: all checkpoints are refused, with the reasons; DRV_STOPPED: a stop was
// requested. All ranks call it and get the same result.
DRV_CHECKED drv_status ckpt_newest(arena *a, const ckpt_ranks *ranks, const char *dir,
        int64_t below, const char **path);
// The same for one process that reads only weights: optimizer.safetensors and trainer.json, which
// only resuming needs, may be missing, which is logged.
DRV_CHECKED drv_status ckpt_newest_weights(arena *a, const char *dir, const char **path);
// Checks sizes and hashes. DRV_E_DATA, DRV_E_IO: names the file and the difference.
DRV_CHECKED drv_status ckpt_verify(const char *path);
DRV_CHECKED drv_status ckpt_verify_weights(const char *path); // likewise
// The same by all ranks, each of which checks its share of the bytes. DRV_STOPPED: a stop was
// requested.
DRV_CHECKED drv_status ckpt_verify_shared(const ckpt_ranks *ranks, const char *path);
// Removes the unfinished folders of killed writers.
DRV_CHECKED drv_status ckpt_clean(const char *dir);

// Checks that a model has exactly these tensors, apart from those that model_source_drops accepts.
// DRV_E_DATA as in ckpt_fill.
DRV_CHECKED drv_status ckpt_check(const model_source *s, const ckpt_tensor *list, int n);
// Fills the pieces of every rank from a model (a checkpoint is one). `which`: "model" or
// "optimizer". Each rank reads its share of every tensor and sends the other ranks their pieces.
// DRV_E_DATA: a tensor is missing, has another shape or is unexpected, a value is not finite, or an
// index contradicts its files. DRV_E_USAGE: a run with master weights cannot resume from a
// checkpoint without them. DRV_STOPPED: a stop was requested.
DRV_CHECKED drv_status ckpt_fill(const ckpt_ranks *ranks, const char *path, const char *which,
        const ckpt_tensor *list, int n, const ckpt_sink *sink);
// Fills the pieces of this rank alone, from a source that may have other tensors too. Fails as
// ckpt_fill does.
DRV_CHECKED drv_status ckpt_fill_alone(const model_source *s, const ckpt_tensor *list, int n,
        const ckpt_sink *sink);
