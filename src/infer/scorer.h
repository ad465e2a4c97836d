// Computes the loss of each token of windows of text. Windows are packed into rows, and one forward
// pass computes many of them. Logits are not stored.
#pragma once
#include "infer/windows.h"
#include "backend/backend.h"
#include "config/config.h"
#include "data/set/batch.h"

typedef struct scorer scorer; // single owner

typedef struct scorer_opts {
    const char *folder, *adapter; // Hugging Face folder; adapter "": none
    const char *backend;          // "": cpu
    backend_opts device;          // options of the back end
    int64_t row_tokens, rows;     // of a forward pass
    bool bf16;                    // bf16 products; else fp32
    bool quantised;               // the weights stay in the blocks of a GGUF file; requires fp32
    base_dtype base;              // of the matrices beside an adapter, as in its run
    bool logits;                  // scorer_run_logits instead of scorer_run
    bool continuations;           // windows have several continuations, or rows are pairs
    int blocks; // reduction blocks of its sums, as in a run (model/layout.h); 0: plain sums
} scorer_opts;

// Tokens of a forward pass; more are hardly faster (bench/results).
enum { SCORER_TOKENS = 2048 };
// Chooses the length and number of rows for windows of at most `longest` tokens, `total` in all, of
// a model with a context of `context` tokens. Rows are no longer than the windows need, so memory
// depends on the texts and not on the context.
void scorer_choose_rows(int64_t context, int64_t longest, int64_t total, scorer_opts *out);

// Plans the program and loads the model. DRV_E_DEVICE: it needs more memory than is free, which is
// checked before any weight is read; the message has the row_tokens that would fit.
DRV_CHECKED drv_status scorer_open(arena *a, const scorer_opts *opts, scorer **out);
void scorer_close(scorer *s);   // NULL is allowed
batch *scorer_batch(scorer *s); // [rows, row_tokens], to be filled for scorer_run
// losses [rows, row_tokens]: -log p of each label, 0 where it is negative. They are valid until the
// next call. DRV_E_DATA: one is not finite.
DRV_CHECKED drv_status scorer_run(scorer *s, const double **losses);
// scorer_run_logits runs the batch of a scorer that was opened with opts.logits; labels are
// ignored. scorer_read_logits then reads the logits [vocab_size] of token `at` of the batch.
DRV_CHECKED drv_status scorer_run_logits(scorer *s);
DRV_CHECKED drv_status scorer_read_logits(scorer *s, int64_t at, float *logits);

// Called after each forward pass with the number of tokens of all windows so far. A status other
// than DRV_OK ends the scoring.
typedef drv_status (*scorer_each)(void *ctx, int64_t n_tokens);
// Scores windows [first, first + n) of a list: sets losses[i] = -log p of ids[i], given the tokens
// that precede it in its window, for ids that continuations predict; other elements stay unchanged.
// No window is longer than a row, and it has one continuation if opts.continuations is not set.
DRV_CHECKED drv_status scorer_windows(scorer *s, const int32_t *ids, const window_list *list,
        int64_t first, int64_t n, double *losses, scorer_each each, void *ctx);
