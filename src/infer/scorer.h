// A model that scores tokens: windows of texts packed into rows, and the loss of each token by one
// forward pass over many of them. No logits are stored.
#pragma once
#include "infer/windows.h"
#include "backend/backend.h"
#include "config/config.h"
#include "data/set/batch.h"

typedef struct scorer scorer; // single owner

typedef struct scorer_opts {
    const char *folder, *adapter; // Hugging Face folder; adapter "": none
    const char *backend;          // "": cpu
    backend_opts device;          // what it is opened with
    int64_t row_tokens, rows;     // of a forward pass
    bool bf16;                    // products; else fp32
    bool quantised;               // the weights stay in the blocks of a GGUF file; goes with fp32
    bool logits;                  // scorer_run_logits instead of scorer_run
    bool continuations;           // its windows have several, or its rows are of pairs
    int blocks;                   // of its sums, as those of a run (model/layout.h); 0: chains
} scorer_opts;

// Tokens of a forward pass that keep the cores busy: more are hardly faster (bench/results).
enum { SCORER_TOKENS = 2048 };
// Chooses the length and number of rows for windows of at most `longest` tokens, `total` in all, of
// a model with a context of `context` tokens. Rows are no longer than the windows need, so memory
// depends on the texts and not on the context.
void scorer_choose_rows(int64_t context, int64_t longest, int64_t total, scorer_opts *out);

// Plans and loads it. DRV_E_DEVICE: it needs more memory than this machine has left, told before
// any weight is read, with the row_tokens that would fit.
DRV_CHECKED drv_status scorer_open(arena *a, const scorer_opts *opts, scorer **out);
void scorer_close(scorer *s);   // NULL is allowed
batch *scorer_batch(scorer *s); // [rows, row_tokens], to be filled for scorer_run
// losses [rows, row_tokens]: -log p of each label, 0 where it is negative. They live until the next
// call. DRV_E_DATA: one is not finite.
DRV_CHECKED drv_status scorer_run(scorer *s, const double **losses);
// scorer_run_logits runs the batch of a scorer that was opened with opts.logits; labels are
// ignored. scorer_read_logits then reads the logits [vocab_size] of token `at` of the batch.
DRV_CHECKED drv_status scorer_run_logits(scorer *s);
DRV_CHECKED drv_status scorer_read_logits(scorer *s, int64_t at, float *logits);

// Called after each forward pass, with the tokens of all windows so far. Another status than DRV_OK
// ends the scoring.
typedef drv_status (*scorer_each)(void *ctx, int64_t n_tokens);
// Scores windows [first, first + n) of a list: losses[i] = -log p of ids[i] given what its window
// has before it, for those that continuations predict; all others stay as they are. No window is
// longer than a row, and it has one continuation if opts.continuations is not set.
DRV_CHECKED drv_status scorer_windows(scorer *s, const int32_t *ids, const window_list *list,
        int64_t first, int64_t n, double *losses, scorer_each each, void *ctx);
