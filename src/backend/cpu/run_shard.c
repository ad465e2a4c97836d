// Shards of state over data ranks.
#include <string.h>

#include "backend/cpu/cpu_op.h"
#include "ir/shard.h"
#include "ir/wire.h"

// Where a rank's shard is: its first element, and how many of `length` are there.
typedef struct shard {
    int64_t n, length, first, count;
    int ranks;
} shard;

static shard shard_of(const instruction *ins, const tensor *whole) {
    const int ranks = ins->node->attrs.ranks, place = ins->group ? group_place(ins->group) : 0;
    const int64_t n = tensor_elements(whole);
    return (shard){n, shard_length(n, ranks), shard_first(n, ranks, place),
            shard_count(n, ranks, place), ranks};
}

// What is missing of a short shard is zero.
static void fill_up(const instruction *ins, const shard *s) {
    const int64_t unit = dtype_bytes(ins->node->out[0]->dt);
    memset(output_at(ins, 0, s->count), 0, (size_t)((s->length - s->count) * unit));
}

// Of each shard, in elements of so many bytes; before what comm joins from.
static int64_t *sizes_of(const instruction *ins, const shard *s, int64_t unit) {
    int64_t *sizes = ins->workspace;
    for (int i = 0; i < s->ranks; i++)
        sizes[i] = unit * shard_count(s->n, s->ranks, i);
    return sizes;
}

static int64_t sizes_bytes(const node *n) {
    return round_up((int64_t)sizeof(int64_t) * n->attrs.ranks, 64);
}

static void clear_chunk(void *arg, int64_t c, int thread) {
    (void)thread;
    const instruction *ins = arg;
    const tensor *g = ins->node->in[0];
    const int64_t first = c * CHUNK_ELEMENTS;
    memset(output_at(ins, 1, first), 0,
            (size_t)(chunk_length(tensor_elements(g), CHUNK_ELEMENTS, c) * dtype_bytes(g->dt)));
}

static void reduce_shard(const instruction *ins) {
    const tensor *g = ins->node->in[0];
    const shard s = shard_of(ins, g);
    if (ins->group)
        *ins->failed = comm_reduce_scatter(ins->group, g->dt, COMM_SUM, ins->in[0], s.n,
                sizes_of(ins, &s, 1), ins->out[0], (char *)ins->workspace + sizes_bytes(ins->node));
    else
        memcpy(ins->out[0], ins->in[0], (size_t)tensor_bytes(g));
    if (*ins->failed != DRV_OK) return;
    fill_up(ins, &s);
    run_chunks(ins, s.n, CHUNK_ELEMENTS, clear_chunk);
}

static int64_t reduce_workspace(const node *n, int n_threads) {
    (void)n_threads;
    const int ranks = n->attrs.ranks;
    const int64_t length = shard_length(tensor_elements(n->in[0]), ranks);
    return ranks == 1 ? 0 : sizes_bytes(n) + ranks * length * dtype_bytes(n->in[0]->dt);
}

const cpu_op cpu_op_reduce_shard = {.run = reduce_shard, .workspace = reduce_workspace};

static void take_shard(const instruction *ins) {
    const shard s = shard_of(ins, ins->node->in[0]);
    const int64_t unit = dtype_bytes(ins->node->in[0]->dt);
    memcpy(ins->out[0], input_at(ins, 0, s.first), (size_t)(s.count * unit));
    fill_up(ins, &s);
}

const cpu_op cpu_op_take_shard = {.run = take_shard};

static void gather_shards(const instruction *ins) {
    const tensor *w = ins->node->in[0];
    const shard s = shard_of(ins, w);
    const int64_t unit = dtype_bytes(w->dt);
    if (!ins->group) {
        memcpy(ins->out[0], ins->in[1], (size_t)tensor_bytes(w));
        return;
    }
    const int64_t *sizes = sizes_of(ins, &s, unit);
    *ins->failed = comm_all_gather(ins->group, ins->in[1], 0, sizes, ins->out[0]);
}

static int64_t gather_workspace(const node *n, int n_threads) {
    (void)n_threads;
    return n->attrs.ranks == 1 ? 0 : sizes_bytes(n);
}

const cpu_op cpu_op_gather_shards = {.run = gather_shards, .workspace = gather_workspace};
