// Hashes a tensor as the sum of the hashes of its elements, each with its index in the whole
// tensor: a rank adds up the elements that it has, and the sums of all ranks are added.
#include "weights/hashes.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "base/rng.h"
#include "base/round.h"
#include "ckpt/pieces.h"

enum { CHUNK = 1 << 14 }; // elements that a thread reads at a time

// Applies the finalizer of SplitMix64 (Steele et al., OOPSLA 2014). It is a bijection, so two
// elements of a tensor with fewer than 2^32 elements never have the same hash.
uint64_t hashes_word(uint64_t name, int64_t element, uint32_t bits) {
    uint64_t x = (((uint64_t)element << 32 | bits) ^ name) + 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

uint64_t hashes_element(uint64_t name, int64_t element, float value) {
    uint32_t bits = 0x7FC00000; // for any NaN, since processors differ in its sign and payload
    if (!isnan(value)) memcpy(&bits, &value, sizeof bits);
    return hashes_word(name, element, bits);
}

typedef struct piece_call {
    const held_model *model;
    const ckpt_tensor *t;
    const ckpt_piece *piece;
    uint64_t *sum;      // by chunk
    drv_status *status; // by chunk
} piece_call;

// Reads a chunk of a piece: *n elements from *first on.
static drv_status read_chunk(const held_model *model, const ckpt_piece *piece, int64_t chunk,
        float *values, int64_t *first, int64_t *n) {
    *first = chunk * CHUNK;
    const int64_t left = piece_elements(piece) - *first;
    *n = left < CHUNK ? left : CHUNK;
    return state_read_f32((void *)(uintptr_t)model, piece->source, piece->first + *first, *n,
            values);
}

static void hash_chunk(void *arg, int64_t chunk) {
    const piece_call *call = arg;
    const int64_t columns = tensor_columns(&call->t->entry);
    const uint64_t name = hash_name(call->t->entry.name);
    float *values = mem_alloc(sizeof *values * CHUNK);
    int64_t first, n;
    call->status[chunk] = read_chunk(call->model, call->piece, chunk, values, &first, &n);
    uint64_t sum = 0;
    for (int64_t i = 0, run; i < n && call->status[chunk] == DRV_OK; i += run) {
        const int64_t element = piece_index(call->piece, columns, first + i, &run);
        if (run > n - i) run = n - i;
        for (int64_t k = 0; k < run; k++)
            sum += hashes_element(name, element + k, values[i + k]);
    }
    call->sum[chunk] = sum;
    free(values);
}

static drv_status add_piece(const held_model *model, const ckpt_tensor *t, const ckpt_piece *piece,
        uint64_t *sum) {
    const int64_t n_chunks = div_up(piece_elements(piece), CHUNK);
    piece_call call = {.model = model,
            .t = t,
            .piece = piece,
            .sum = mem_alloc(sizeof *call.sum * (size_t)n_chunks),
            .status = mem_alloc(sizeof *call.status * (size_t)n_chunks)};
    par_for(n_chunks, hash_chunk, &call);
    drv_status status = DRV_OK;
    for (int64_t i = 0; i < n_chunks && status == DRV_OK; i++) {
        status = call.status[i];
        *sum += call.sum[i];
    }
    free(call.sum);
    free(call.status);
    return status;
}

// Returns whether this rank counts a piece: of several replicas only the first is counted.
static bool is_mine(const held_model *model, const ckpt_piece *piece) {
    const mesh ranks = run_mesh(model->config);
    for (int axis = 0; axis < N_AXES; axis++)
        if (piece->replicated >> axis & 1 &&
                mesh_place(&ranks, (int)model->config->rank, (mesh_axis)axis) > 0)
            return false;
    return true;
}

static drv_status add_tensors(const held_model *model, const ckpt_tensor *list, int n,
        uint64_t *sums) {
    for (int i = 0; i < n; i++)
        for (int k = 0; k < list[i].n_pieces; k++)
            if (is_mine(model, &list[i].piece[k]))
                DRV_TRY(add_piece(model, &list[i], &list[i].piece[k], &sums[i]));
    return DRV_OK;
}

static drv_status add_ranks(arena *a, const held_model *model, uint64_t *sums, int n) {
    if (!model->comm || comm_size(model->comm) == 1) return DRV_OK;
    comm_group *all_ranks = comm_all_ranks(model->comm);
    uint64_t *all = ARENA_ARRAY(a, uint64_t, (int64_t)n * group_size(all_ranks));
    DRV_TRY(comm_all_gather(all_ranks, sums, n * (int64_t)sizeof *sums, NULL, all));
    memset(sums, 0, sizeof *sums * (size_t)n);
    for (int rank = 0; rank < group_size(all_ranks); rank++)
        for (int i = 0; i < n; i++)
            sums[i] += all[(int64_t)rank * n + i];
    return DRV_OK;
}

static tensor_hashes of_tensors(const ckpt_tensor *list, int n, const uint64_t *sums) {
    tensor_hashes made = {list, n, sums, 0};
    for (int i = 0; i < n; i++)
        made.all += sums[i];
    return made;
}

drv_status hashes_begin(arena *a, const held_model *model, uint64_t batch, state_hashes *out) {
    int n;
    const ckpt_tensor *weights = state_used(a, model, &n);
    uint64_t *sums = ARENA_ARRAY(a, uint64_t, n + 1); // the last one is that of the batch
    DRV_TRY(add_tensors(model, weights, n, sums));
    sums[n] = batch;
    DRV_TRY(add_ranks(a, model, sums, n + 1));
    out->before = of_tensors(weights, n, sums);
    out->batch = sums[n];
    return DRV_OK;
}

drv_status hashes_take(arena *a, const held_model *model, state_hashes *out) {
    int n_gradients, n_weights;
    const ckpt_tensor *gradients = state_gradients(a, model, &n_gradients),
                      *weights = model->lora.n ? state_adapter(a, model, false, &n_weights)
                                               : state_model(a, model, false, &n_weights);
    const int n = n_gradients + n_weights;
    uint64_t *sums = ARENA_ARRAY(a, uint64_t, n);
    DRV_TRY(add_tensors(model, gradients, n_gradients, sums));
    DRV_TRY(add_tensors(model, weights, n_weights, sums + n_gradients));
    DRV_TRY(add_ranks(a, model, sums, n));
    out->gradients = of_tensors(gradients, n_gradients, sums);
    out->weights = of_tensors(weights, n_weights, sums + n_gradients);
    return DRV_OK;
}

// --- a flipped bit
typedef struct bit_search {
    const held_model *model;
    const ckpt_tensor *t;
    const ckpt_piece *piece;
    uint64_t difference;
    _Atomic int64_t found; // 32 element + bit; -1: not yet
    drv_status *status;    // by chunk
} bit_search;

static int64_t find_in_element(uint64_t name, int64_t element, float value, uint64_t difference) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint64_t mine = hashes_word(name, element, bits);
    for (int bit = 0; bit < 32; bit++)
        if (hashes_word(name, element, bits ^ 1u << bit) - mine == difference)
            return 32 * element + bit;
    return -1;
}

static void search_chunk(void *arg, int64_t chunk) {
    bit_search *call = arg;
    const int64_t columns = tensor_columns(&call->t->entry);
    const uint64_t name = hash_name(call->t->entry.name);
    float *values = mem_alloc(sizeof *values * CHUNK);
    int64_t first, n;
    call->status[chunk] = read_chunk(call->model, call->piece, chunk, values, &first, &n);
    for (int64_t i = 0, run; i < n && call->status[chunk] == DRV_OK; i++) {
        const int64_t element = piece_index(call->piece, columns, first + i, &run),
                      at = find_in_element(name, element, values[i], call->difference);
        if (at >= 0) call->found = at;
    }
    free(values);
}

static drv_status search_piece(bit_search *call) {
    const int64_t n_chunks = div_up(piece_elements(call->piece), CHUNK);
    drv_status status = DRV_OK;
    call->status = mem_alloc(sizeof *call->status * (size_t)n_chunks);
    par_for(n_chunks, search_chunk, call);
    for (int64_t i = 0; i < n_chunks && status == DRV_OK; i++)
        status = call->status[i];
    free(call->status);
    return status;
}

drv_status hashes_find_bit(const held_model *model, const ckpt_tensor *t, uint64_t difference,
        int64_t *element, int *bit) {
    bit_search call = {.model = model, .t = t, .difference = difference, .found = -1};
    drv_status status = DRV_OK;
    for (int k = 0; k < t->n_pieces && status == DRV_OK; k++) {
        call.piece = &t->piece[k];
        status = search_piece(&call);
    }
    int64_t found = call.found;
    DRV_TRY(status);
    if (model->comm)
        DRV_TRY(comm_all_reduce(comm_all_ranks(model->comm), DT_I64, COMM_MAX, &found, 1, NULL));
    *element = found < 0 ? -1 : found / 32;
    *bit = found < 0 ? 0 : (int)(found % 32);
    return DRV_OK;
}
