// Checks the largest id of a data set against a vocabulary. It is known from PREFIX.idx.json, or
// else found by reading all tokens on a background thread.
#include "data/set/vocab_check.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "data/set/dataset_internal.h"

enum { PIECE_BYTES = 4 << 20 };

// The first of n tokens that is not in [0, n_vocab); n: none. Most sets are u16 or i32: their loops
// are simple enough for the compiler to take many tokens at a time.
static int64_t first_outside(const dataset *set, const unsigned char *tokens, int64_t n_tokens,
        int64_t n_vocab) {
    enum { BLOCK = 4096 };
    for (int64_t i = 0; i < n_tokens; i += BLOCK) {
        const int64_t k = n_tokens - i < BLOCK ? n_tokens - i : BLOCK;
        uint32_t largest = 0; // of a negative one: beyond any vocabulary
        bool checked = true;
        if (set->type.bytes == 2 && !set->type.is_signed) {
            const uint16_t *u16 = (const void *)(tokens + 2 * i);
            for (int64_t j = 0; j < k; j++)
                largest = u16[j] > largest ? u16[j] : largest;
        } else if (set->type.bytes == 4) {
            const uint32_t *u32 = (const void *)(tokens + 4 * i);
            for (int64_t j = 0; j < k; j++)
                largest = u32[j] > largest ? u32[j] : largest;
        } else {
            checked = false;
        }
        if (checked && largest < n_vocab) continue;
        for (int64_t j = i; j < i + k; j++) {
            const int64_t id = token_at(set->type, tokens + j * set->type.bytes);
            if (id < 0 || id >= n_vocab) return j;
        }
    }
    return n_tokens;
}

drv_status dataset_scan_vocab(const dataset *set, int64_t n_vocab, const atomic_bool *cancel) {
    const int64_t step = PIECE_BYTES / set->type.bytes;
    unsigned char *piece = mem_alloc(PIECE_BYTES);
    drv_status status = DRV_OK;
    posix_fadvise(set->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    for (int64_t i = 0; status == DRV_OK && i < set->n_tokens; i += step) {
        const int64_t n = set->n_tokens - i < step ? set->n_tokens - i : step;
        if (cancel && atomic_load(cancel)) break;
        status = dataset_read_bytes(set, i, n, piece);
        if (status != DRV_OK) break;
        const int64_t bad = first_outside(set, piece, n, n_vocab);
        if (bad < n)
            status = dataset_bad_token(set, i + bad,
                    token_at(set->type, piece + bad * set->type.bytes), n_vocab);
    }
    posix_fadvise(set->fd, 0, 0, POSIX_FADV_NORMAL);
    free(piece);
    return status;
}

bool dataset_knows_largest(const dataset *set) {
    unsigned char bytes[8];
    return set->about.known && set->about.largest_id >= 0 &&
           dataset_read_bytes(set, set->about.largest_at, 1, bytes) == DRV_OK &&
           token_at(set->type, bytes) == set->about.largest_id;
}

drv_status dataset_check_vocab(const dataset *set, int64_t n_vocab, const atomic_bool *cancel) {
    if (!dataset_knows_largest(set)) return dataset_scan_vocab(set, n_vocab, cancel);
    if (set->about.largest_id < n_vocab) return DRV_OK;
    return dataset_bad_token(set, set->about.largest_at, set->about.largest_id, n_vocab);
}

// --- data sets of several rows, in the background
static drv_status run(void *ctx) {
    vocab_check *check = ctx;
    drv_status status = DRV_OK;
    for (int i = 0; status == DRV_OK && i < check->n_slow && !atomic_load(&check->cancel); i++)
        status = dataset_check_vocab(check->slow[i], check->n_vocab, &check->cancel);
    atomic_store(&check->done, true);
    return status;
}

static bool is_listed(const vocab_check *check, const dataset *set) {
    for (int i = 0; i < check->n_slow; i++)
        if (strcmp(check->slow[i]->prefix, set->prefix) == 0) return true;
    return false;
}

drv_status vocab_check_start(arena *a, const rows *const *list, int n, vocab_check *check) {
    int sources = 0;
    for (int i = 0; i < n; i++)
        sources += rows_n_sources(list[i]);
    *check = (vocab_check){.slow = ARENA_ARRAY(a, const dataset *, sources + 1)};
    for (int i = 0; i < n; i++) {
        check->n_vocab = rows_n_vocab(list[i]);
        for (int k = 0; k < rows_n_sources(list[i]); k++) {
            const dataset *set = rows_source(list[i], k);
            if (dataset_knows_largest(set))
                DRV_TRY(dataset_check_vocab(set, check->n_vocab, NULL));
            else if (!is_listed(check, set))
                check->slow[check->n_slow++] = set;
        }
    }
    atomic_store(&check->done, check->n_slow == 0);
    if (check->n_slow) task_start(&check->task, run, check);
    return DRV_OK;
}

bool vocab_check_done(const vocab_check *check) {
    return atomic_load(&check->done);
}

drv_status vocab_check_wait(vocab_check *check) {
    return task_wait(&check->task);
}

void vocab_check_cancel(vocab_check *check) {
    atomic_store(&check->cancel, true);
    const drv_status ignored = task_wait(&check->task);
    (void)ignored;
}
