// Compares replicas of weights by their hashes, 8 bytes for each weight. Data and context ranks
// have the same weights; with ZeRO-3, ranks of different groups have the same shards. Tensor ranks
// have the same values of weights that are not split: norms, and one half of each low-rank branch.
// If memory is faulty, or one rank has another kernel or config, the ranks train different models,
// and only this check shows it.
#include "train/replicas.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { PIECE_BYTES = 1 << 20 }; // bytes hashed at a time

typedef struct replica_hashes {
    const held_model *model;
    arena *a;
    int n; // hashes: two for each weight, of itself and of its master
    uint64_t *hash;
    bool *alike; // tensor ranks have the same values
} replica_hashes;

static drv_status hash_state(const held_model *model, const char *name, int64_t bytes, char *piece,
        XXH3_state_t *state, uint64_t *out) {
    XXH3_64bits_reset(state);
    for (int64_t offset = 0; offset < bytes; offset += PIECE_BYTES) {
        const int64_t n = bytes - offset < PIECE_BYTES ? bytes - offset : PIECE_BYTES;
        DRV_TRY(backend_read(model->b, name, offset, n, piece));
        XXH3_64bits_update(state, piece, (size_t)n);
    }
    *out = XXH3_64bits_digest(state);
    return DRV_OK;
}

// Sharded masters differ between ranks on purpose, so they are not compared.
static bool has_whole_master(const held_model *model, const char *master, const param *w) {
    return !model->zero && strcmp(master, w->name) != 0;
}

static drv_status hash_all(replica_hashes *of) {
    const held_model *model = of->model;
    char *piece = mem_alloc(PIECE_BYTES);
    XXH3_state_t *state = XXH3_createState();
    drv_status status = DRV_OK;
    for (int i = 0; i < model->params.n && status == DRV_OK; i++) {
        const param *w = &model->params.p[i];
        const char *master = held_master(of->a, model, w);
        const int64_t n = param_elements(w);
        of->alike[2 * i] = of->alike[2 * i + 1] = w->split == SPLIT_NONE;
        status = hash_state(model, w->name, held_weight_bytes(model, w), piece, state,
                &of->hash[2 * i]);
        if (status == DRV_OK && has_whole_master(model, master, w))
            status = hash_state(model, master, n * (int64_t)sizeof(float), piece, state,
                    &of->hash[2 * i + 1]);
    }
    XXH3_freeState(state);
    free(piece);
    return status;
}

// Counts the ranks whose hash k equals that of place `i`.
static int count_like(const uint64_t *all, int n_hashes, int ranks, int i, int k) {
    int n = 0;
    for (int other = 0; other < ranks; other++)
        n += all[other * n_hashes + k] == all[i * n_hashes + k];
    return n;
}

// Takes the hash that most ranks have as the right one; of two ranks, that of the first.
static drv_status compare(const replica_hashes *of, const comm_group *ranks_of, const uint64_t *all,
        bool only_alike, int64_t step) {
    const int ranks = group_size(ranks_of);
    for (int k = 0; k < of->n; k++) {
        if (only_alike && !of->alike[k]) continue;
        int right = 0, wrong = -1;
        for (int i = 1; i < ranks; i++)
            if (count_like(all, of->n, ranks, i, k) > count_like(all, of->n, ranks, right, k))
                right = i;
        for (int i = ranks - 1; i >= 0; i--)
            if (all[i * of->n + k] != all[right * of->n + k]) wrong = i;
        if (wrong < 0) continue;
        const param *w = &of->model->params.p[k / 2];
        const int bad = group_rank(ranks_of, wrong), good = group_rank(ranks_of, right);
        return drv_fail(DRV_E_DATA,
                "after step %lld rank %d (%s) has another %s\"%s\" than rank %d (%s), which should "
                "be the same: a fault of its memory, processor or libraries, or another config",
                (long long)step, bad, comm_host(of->model->comm, bad), k % 2 ? "master of " : "",
                w->name, good, comm_host(of->model->comm, good));
    }
    return DRV_OK;
}

// Gathers the hashes of a group; every member finds the same difference.
static drv_status compare_in(const replica_hashes *of, comm_group *g, bool only_alike,
        int64_t step) {
    if (group_size(g) == 1) return DRV_OK;
    uint64_t *all = ARENA_ARRAY(of->a, uint64_t, (int64_t)of->n * group_size(g));
    DRV_TRY(comm_all_gather(g, of->hash, of->n * (int64_t)sizeof *all, NULL, all));
    return compare(of, g, all, only_alike, step);
}

drv_status replicas_check(const held_model *model, int64_t step) {
    if (!model->comm || comm_size(model->comm) == 1) return DRV_OK;
    arena *a = arena_new("replicas");
    replica_hashes of = {.model = model, .a = a, .n = 2 * model->params.n};
    of.hash = ARENA_ARRAY(a, uint64_t, of.n);
    of.alike = ARENA_ARRAY(a, bool, of.n);
    const mesh ranks = run_mesh(model->config);
    comm_group *alike =
            model->zero == 3 ? comm_same_shards(model->comm, &ranks)
                             : comm_axes(model->comm, &ranks, 1u << AXIS_DATA | 1u << AXIS_CONTEXT);
    drv_status status = hash_all(&of);
    if (status == DRV_OK) status = compare_in(&of, alike, false, step);
    // A rank that has found a difference still takes part, since the others wait for it.
    drv_saved found;
    drv_save(status, &found);
    if (status == DRV_OK || status == DRV_E_DATA)
        status = compare_in(&of, comm_axes(model->comm, &ranks, 1u << AXIS_TENSOR), true, step);
    arena_free(a);
    return found.status == DRV_E_DATA && status != DRV_E_PEER ? drv_restore(&found) : status;
}

// --- weights that are not finite
static bool is_finite(dtype dt, const char *values, int64_t i) {
    uint16_t half;
    uint32_t word;
    memcpy(&half, values + 2 * i, dt == DT_BF16 ? sizeof half : 0);
    memcpy(&word, values + 4 * i, dt == DT_BF16 ? 0 : sizeof word);
    return dt == DT_BF16 ? (half & 0x7F80) != 0x7F80 : (word & 0x7F800000) != 0x7F800000;
}

static drv_status check_state(const held_model *model, const char *name, int64_t n, char *piece,
        int64_t step) {
    const dtype dt = held_state_type(model, name);
    const int64_t unit = dtype_bytes(dt), most = PIECE_BYTES / unit;
    for (int64_t at = 0; at < n; at += most) {
        const int64_t here = n - at < most ? n - at : most;
        DRV_TRY(backend_read(model->b, name, at * unit, here * unit, piece));
        for (int64_t i = 0; i < here; i++)
            if (!is_finite(dt, piece, i))
                return drv_fail(DRV_E_DATA,
                        "after step %lld \"%s\" has a value that is not finite (value %lld on this rank): "
                        "an update that overflowed, or a fault of memory or processor",
                        (long long)step, name, (long long)(at + i + 1));
    }
    return DRV_OK;
}

drv_status replicas_check_finite(const held_model *model, int64_t step) {
    arena *a = arena_new("finite");
    char *piece = mem_alloc(PIECE_BYTES);
    drv_status status = DRV_OK;
    for (int i = 0; i < model->params.n && status == DRV_OK; i++) {
        const param *w = &model->params.p[i];
        const char *master = held_master(a, model, w);
        if (w->blocks) continue; // a frozen base, which no update changes
        status = check_state(model, w->name, held_weight_of(model, w).n, piece, step);
        if (status == DRV_OK && strcmp(master, w->name) != 0)
            status = check_state(model, master, held_shard_of(model, w).n, piece, step);
    }
    free(piece);
    arena_free(a);
    return status;
}
