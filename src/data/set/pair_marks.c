// Three i32 for each pair, little endian, nothing else; the hash is in PREFIX.idx.json.
#include "data/set/pair_marks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/log.h"
#include "data/set/dataset_internal.h"
#include "data/sft/sft.h"

enum { PIECE_BYTES = 2048 };

static int32_t as_i32(int64_t x) {
    return x < INT32_MAX ? (int32_t)x : INT32_MAX;
}

// Finds the first of n tokens in which the documents that begin at `a` and `b` differ; n: none.
static drv_status first_apart(const dataset *set, int64_t a, int64_t b, int64_t n, int64_t *out) {
    unsigned char x[PIECE_BYTES], y[PIECE_BYTES];
    const int64_t width = set->type.bytes, most = PIECE_BYTES / width;
    for (int64_t at = 0; at < n; at += most) {
        const int64_t k = n - at < most ? n - at : most;
        DRV_TRY(dataset_read_bytes(set, a + at, k, x));
        DRV_TRY(dataset_read_bytes(set, b + at, k, y));
        int64_t i = 0;
        while (i < k * width && x[i] == y[i])
            i++;
        *out = at + i / width;
        if (i < k * width) return DRV_OK;
    }
    *out = n;
    return DRV_OK;
}

// Finds the first of n tokens from `first` on that is of the response; n: none.
static drv_status first_answer(const dataset *set, int64_t first, int64_t n, int64_t *out) {
    unsigned char roles[PIECE_BYTES];
    for (int64_t at = 0; at < n; at += PIECE_BYTES) {
        const int64_t k = n - at < PIECE_BYTES ? n - at : PIECE_BYTES;
        DRV_TRY(dataset_read_roles(set, first + at, k, roles));
        const unsigned char *there = memchr(roles, ROLE_LAST_ANSWER, (size_t)k);
        if (there) {
            *out = at + (there - roles);
            return DRV_OK;
        }
    }
    *out = n > 0 ? n : 0;
    return DRV_OK;
}

static drv_status mark_pair(const dataset *set, int64_t pair, pair_mark *out) {
    int64_t start[2], n[2], apart, answer;
    for (int side = 0; side < 2; side++)
        DRV_TRY(dataset_find_document(set, 2 * pair + side, &start[side], &n[side]));
    DRV_TRY(first_apart(set, start[0], start[1], n[0] < n[1] ? n[0] : n[1], &apart));
    out->apart = as_i32(apart);
    for (int side = 0; side < 2; side++) {
        DRV_TRY(first_answer(set, start[side] + 1, n[side] - 1, &answer));
        out->answer[side] = as_i32(answer);
    }
    return DRV_OK;
}

static drv_status mark_pairs(const dataset *set, int64_t first, int64_t n, pair_mark *out) {
    for (int64_t i = 0; i < n; i++)
        DRV_TRY(mark_pair(set, first + i, &out[i]));
    dataset_forget(set);
    return DRV_OK;
}

static void hash_of(const void *p, size_t n, char *out) {
    snprintf(out, 17, "%016llx", (unsigned long long)XXH3_64bits(p, n));
}

drv_status pair_marks_parse(const char *path, const void *bytes, size_t n_bytes, const char *hash,
        int64_t n, pair_mark *out) {
    char found[17];
    if (n_bytes / sizeof *out != (size_t)n || n_bytes % sizeof *out)
        return drv_fail(DRV_E_DATA, "%s: %zu bytes long, expected %zu for each of %lld pairs", path,
                n_bytes, sizeof *out, (long long)n);
    hash_of(bytes, n_bytes, found);
    if (strcmp(found, hash) != 0)
        return drv_fail(DRV_E_DATA, "%s: its hash is %s, expected %.16s as in the .idx.json", path,
                found, hash);
    memcpy(out, bytes, n_bytes);
    for (int64_t i = 0; i < n; i++)
        if (out[i].apart < 0 || out[i].answer[0] < 0 || out[i].answer[1] < 0)
            return drv_fail(DRV_E_DATA,
                    "%s: pair %lld has %d, %d and %d, expected numbers of tokens", path,
                    (long long)i, out[i].apart, out[i].answer[0], out[i].answer[1]);
    return DRV_OK;
}

// Reads the whole of PREFIX.pairs; the caller frees *out.
static drv_status read_file(arena *a, const dataset *set, pair_mark **out) {
    const int64_t n = set->about.pairs;
    const char *path = arena_printf(a, "%s.pairs", set->prefix);
    char *bytes;
    size_t n_bytes;
    DRV_TRY(file_read(a, path, &bytes, &n_bytes));
    *out = mem_alloc(sizeof **out * (size_t)(n + 1));
    const drv_status status =
            pair_marks_parse(path, bytes, n_bytes, set->about.pairs_hash, n, *out);
    if (status != DRV_OK) free(*out);
    return status;
}

drv_status pair_marks_read(const dataset *set, int64_t first, int64_t n, pair_mark *out) {
    pair_mark *all;
    if (!set->about.pairs_hash) return mark_pairs(set, first, n, out);
    arena *a = arena_new("marks of pairs");
    const drv_status status = read_file(a, set, &all);
    arena_free(a);
    if (status != DRV_OK) {
        log_warn("%s; all tokens of the pairs are read instead", drv_message());
        return mark_pairs(set, first, n, out);
    }
    memcpy(out, all + first, sizeof *out * (size_t)n);
    free(all);
    return DRV_OK;
}

drv_status pair_marks_write(const dataset *set, int64_t n, char *hash) {
    const size_t n_bytes = sizeof(pair_mark) * (size_t)n;
    pair_mark *marks = mem_alloc(n_bytes + 1);
    arena *a = arena_new("marks of pairs");
    drv_status status = mark_pairs(set, 0, n, marks);
    if (status == DRV_OK) {
        hash_of(marks, n_bytes, hash);
        status = file_write_atomic(arena_printf(a, "%s.pairs", set->prefix), marks, n_bytes);
    }
    arena_free(a);
    free(marks);
    return status;
}

drv_status pair_marks_verify(const dataset *set) {
    pair_mark *kept, mark;
    if (!set->about.pairs_hash) return DRV_OK;
    arena *a = arena_new("marks of pairs");
    drv_status status = read_file(a, set, &kept);
    const bool there = status == DRV_OK;
    for (int64_t i = 0; status == DRV_OK && i < set->about.pairs; i++) {
        status = mark_pair(set, i, &mark);
        if (status == DRV_OK && memcmp(&mark, &kept[i], sizeof mark) != 0)
            status = drv_fail(DRV_E_DATA,
                    "%s.pairs: pair %lld has %d, %d and %d, expected %d, %d and %d by its tokens",
                    set->prefix, (long long)i, kept[i].apart, kept[i].answer[0], kept[i].answer[1],
                    mark.apart, mark.answer[0], mark.answer[1]);
    }
    if (there) free(kept);
    arena_free(a);
    return status;
}
