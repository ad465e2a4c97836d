// Are all tokens of a data set in a vocabulary? At once where PREFIX.idx.json knows the largest id,
// else by reading the tokens once from front to back, on a thread beside the caller.
#include "data/set/vocab_check.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "data/set/dataset_internal.h"

enum { PIECE_BYTES = 4 << 20 };

// The first of n tokens that is not in [0, n_vocab); n: none. Most sets are u16 or i32: their loops
// are simple enough for the compiler to take many tokens at a time.
static int64_t first_outside(const dataset *d, const unsigned char *p, int64_t n, int64_t n_vocab) {
    enum { BLOCK = 4096 };
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t k = n - i < BLOCK ? n - i : BLOCK;
        uint32_t largest = 0; // of a negative one: beyond any vocabulary
        bool checked = true;
        if (d->code == 8) {
            const uint16_t *u16 = (const void *)(p + 2 * i);
            for (int64_t j = 0; j < k; j++)
                largest = u16[j] > largest ? u16[j] : largest;
        } else if (d->code == 4) {
            const uint32_t *u32 = (const void *)(p + 4 * i);
            for (int64_t j = 0; j < k; j++)
                largest = u32[j] > largest ? u32[j] : largest;
        } else {
            checked = false;
        }
        if (checked && largest < n_vocab) continue;
        for (int64_t j = i; j < i + k; j++) {
            const int64_t id = dataset_token(d->code, p + j * d->token_bytes);
            if (id < 0 || id >= n_vocab) return j;
        }
    }
    return n;
}

drv_status dataset_scan_vocab(const dataset *d, int64_t n_vocab, const atomic_bool *cancel) {
    const int64_t step = PIECE_BYTES / d->token_bytes;
    unsigned char *piece = mem_alloc(PIECE_BYTES);
    drv_status status = DRV_OK;
    posix_fadvise(d->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    for (int64_t i = 0; status == DRV_OK && i < d->n_tokens; i += step) {
        const int64_t n = d->n_tokens - i < step ? d->n_tokens - i : step;
        if (cancel && atomic_load(cancel)) break;
        status = dataset_read_bytes(d, i, n, piece);
        if (status != DRV_OK) break;
        const int64_t bad = first_outside(d, piece, n, n_vocab);
        if (bad < n)
            status = dataset_bad_token(d, i + bad,
                    dataset_token(d->code, piece + bad * d->token_bytes), n_vocab);
    }
    posix_fadvise(d->fd, 0, 0, POSIX_FADV_NORMAL);
    free(piece);
    return status;
}

bool dataset_knows_largest(const dataset *d) {
    unsigned char bytes[8];
    return d->about.known && d->about.largest_id >= 0 &&
           dataset_read_bytes(d, d->about.largest_at, 1, bytes) == DRV_OK &&
           dataset_token(d->code, bytes) == d->about.largest_id;
}

drv_status dataset_check_vocab(const dataset *d, int64_t n_vocab, const atomic_bool *cancel) {
    if (!dataset_knows_largest(d)) return dataset_scan_vocab(d, n_vocab, cancel);
    if (d->about.largest_id < n_vocab) return DRV_OK;
    return dataset_bad_token(d, d->about.largest_at, d->about.largest_id, n_vocab);
}

// --- data sets of several rows, in the background
static drv_status run(void *ctx) {
    vocab_check *c = ctx;
    drv_status status = DRV_OK;
    for (int i = 0; status == DRV_OK && i < c->n_slow && !atomic_load(&c->cancel); i++)
        status = dataset_check_vocab(c->slow[i], c->n_vocab, &c->cancel);
    atomic_store(&c->done, true);
    return status;
}

static bool is_listed(const vocab_check *c, const dataset *d) {
    for (int i = 0; i < c->n_slow; i++)
        if (strcmp(c->slow[i]->prefix, d->prefix) == 0) return true;
    return false;
}

drv_status vocab_check_start(arena *a, const rows *const *list, int n, vocab_check *c) {
    int sources = 0;
    for (int i = 0; i < n; i++)
        sources += rows_n_sources(list[i]);
    *c = (vocab_check){.slow = ARENA_ARRAY(a, const dataset *, sources + 1)};
    for (int i = 0; i < n; i++) {
        c->n_vocab = rows_n_vocab(list[i]);
        for (int k = 0; k < rows_n_sources(list[i]); k++) {
            const dataset *d = rows_source(list[i], k);
            if (dataset_knows_largest(d))
                DRV_TRY(dataset_check_vocab(d, c->n_vocab, NULL));
            else if (!is_listed(c, d))
                c->slow[c->n_slow++] = d;
        }
    }
    atomic_store(&c->done, c->n_slow == 0);
    if (c->n_slow) task_start(&c->task, run, c);
    return DRV_OK;
}

bool vocab_check_done(const vocab_check *c) {
    return atomic_load(&c->done);
}

drv_status vocab_check_wait(vocab_check *c) {
    return task_wait(&c->task);
}

void vocab_check_cancel(vocab_check *c) {
    atomic_store(&c->cancel, true);
    const drv_status ignored = task_wait(&c->task);
    (void)ignored;
}

drv_status rows_check_vocab(const rows *r, const atomic_bool *cancel) {
    drv_status status = DRV_OK;
    for (int i = 0; status == DRV_OK && i < rows_n_sources(r); i++)
        status = dataset_check_vocab(rows_source(r, i), rows_n_vocab(r), cancel);
    return status;
}
