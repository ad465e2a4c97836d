// Sums gradients over data ranks and reduction blocks of the row, and shards state over data ranks.
#include <string.h>

#include "backend/cpu/cpu_op.h"
#include "comm/join.h"
#include "ir/op.h"
#include "ir/weight_shard.h"
#include "ir/wire.h"

// The shard of a rank: its first element, and how many of its `length` elements exist.
typedef struct shard {
    int64_t n, length, first, count;
    int ranks;
} shard;

static int groups_of(const node *n) { // groups of ranks that hold whole weights
    return n->attrs.mesh.groups ? n->attrs.mesh.groups : 1;
}

static shard shard_of(const instruction *ins, int64_t n) {
    const int ranks = ins->group ? ins->node->attrs.mesh.ranks : 1, groups = groups_of(ins->node),
              place = ins->group ? group_place(ins->group) : 0;
    const int64_t first = weight_shard_first(n, ranks, groups, place);
    return (shard){.n = n,
            .length = weight_shard_length(n, ranks, groups),
            .first = first,
            .count = weight_shard_first(n, ranks, groups, place + 1) - first,
            .ranks = ranks};
}

// Fills the missing end of a short shard with zeros.
static void fill_up(const instruction *ins, const shard *s) {
    const int64_t unit = dtype_bytes(ins->node->out[0]->dt);
    memset(output_at(ins, 0, s->count), 0, (size_t)((s->length - s->count) * unit));
}

// Lists the bytes of each shard, `unit` for an element.
static int64_t *list_sizes(const shard *s, int64_t unit, int64_t *sizes) {
    for (int i = 0; i < s->ranks; i++) {
        const int64_t left = s->n - i * s->length;
        sizes[i] = unit * (left < 0 ? 0 : left < s->length ? left : s->length);
    }
    return sizes;
}

static int64_t sizes_bytes(const node *n) {
    return round_up((int64_t)sizeof(int64_t) * n->attrs.mesh.ranks, 64);
}

// --- sums over reduction blocks of the row (docs/adr/0015)
static int64_t block_elements(const node *n) {
    return tensor_elements(n->in[0]) / row_blocks_of(&n->attrs);
}

// Returns the bytes of the parts of a shard: one from each reduction block of each rank.
static int64_t parts_bytes(const node *n) {
    const int64_t unit = dtype_bytes(n->in[0]->dt);
    return round_up(row_blocks_of(&n->attrs) * n->attrs.mesh.ranks *
                            weight_shard_length(block_elements(n), n->attrs.mesh.ranks,
                                    groups_of(n)) *
                            unit,
            64);
}

static int64_t list_bytes(const node *n) {
    return round_up((int64_t)sizeof(void *) * row_blocks_of(&n->attrs) * n->attrs.mesh.ranks, 64);
}

// Computes this rank's shard of the sum over all reduction blocks of all ranks, in the order that
// ir/ops/shard.c gives. Workspace: sizes | pointers to the parts | the parts, block by block in the
// order of ranks.
static drv_status sum_row_blocks(const instruction *ins, const shard *s, void *out) {
    const node *n = ins->node;
    const dtype dt = n->in[0]->dt;
    const int64_t unit = dtype_bytes(dt), *sizes = list_sizes(s, unit, ins->workspace);
    const int row_blocks = row_blocks_of(&n->attrs), data = n->attrs.sum.data_ranks;
    const void **list = (const void **)((char *)ins->workspace + sizes_bytes(n));
    char *parts = (char *)list + list_bytes(n);
    for (int own_block = 0; own_block < row_blocks; own_block++) {
        char *here = parts + own_block * s->ranks * s->count * unit;
        DRV_TRY(comm_all_to_all(ins->group, input_at(ins, 0, own_block * s->n), sizes, here, NULL,
                s->count * unit));
        for (int place = 0; place < s->ranks; place++)
            list[(place / data * row_blocks + own_block) * data + place % data] =
                    here + place * s->count * unit;
    }
    join_runs(dt, COMM_SUM, list, row_blocks * s->ranks, data, s->count, out);
    return DRV_OK;
}

// Adds the reduction blocks of this rank.
static void join_here(const instruction *ins, void *out) {
    const node *n = ins->node;
    const int row_blocks = row_blocks_of(&n->attrs);
    const void *list[MAX_REDUCTION_BLOCKS];
    for (int own_block = 0; own_block < row_blocks; own_block++)
        list[own_block] = input_at(ins, 0, own_block * block_elements(n));
    join_parts(n->in[0]->dt, COMM_SUM, list, row_blocks, block_elements(n), out);
}

// --- reduce_shard
static void clear_chunk(void *arg, int64_t c) {
    const instruction *ins = arg;
    const tensor *g = ins->node->in[0];
    const int64_t first = c * CHUNK_ELEMENTS;
    memset(output_at(ins, 1, first), 0,
            (size_t)(chunk_length(tensor_elements(g), CHUNK_ELEMENTS, c) * dtype_bytes(g->dt)));
}

static void reduce_shard(const instruction *ins) {
    const node *n = ins->node;
    const tensor *g = n->in[0];
    const shard s = shard_of(ins, block_elements(n));
    if (n->attrs.mesh.summed)
        memcpy(ins->out[0], input_at(ins, 0, s.first), (size_t)(s.count * dtype_bytes(g->dt)));
    else if (!ins->group)
        join_here(ins, ins->out[0]);
    else if (n->attrs.sum.row_blocks > 1)
        *ins->failed = sum_row_blocks(ins, &s, ins->out[0]);
    else
        *ins->failed = comm_reduce_scatter(ins->group, g->dt, COMM_SUM, ins->in[0], s.n,
                list_sizes(&s, 1, ins->workspace), ins->out[0],
                (char *)ins->workspace + sizes_bytes(n));
    if (*ins->failed != DRV_OK) return;
    fill_up(ins, &s);
    run_chunks(ins, tensor_elements(g), CHUNK_ELEMENTS, clear_chunk);
}

static int64_t reduce_workspace(const node *n, int n_threads DRV_UNUSED) {
    if (n->attrs.mesh.ranks <= 1 || n->attrs.mesh.summed) return 0;
    return sizes_bytes(n) + (n->attrs.sum.row_blocks > 1 ? list_bytes(n) : 0) + parts_bytes(n);
}

const cpu_op cpu_op_reduce_shard = {.run = reduce_shard, .workspace = reduce_workspace};

// --- add_shard
typedef double open_sums[SHARD_MAX_OPEN][SHARD_SUM_ELEMENTS];

typedef struct shard_call {
    const instruction *ins;
    const shard *s;
    char *parts;     // for each reduction block, in the order of ranks
    open_sums *sums; // by thread, in the accumulation type
    int64_t before;  // micro-batches that were added before these
} shard_call;

// Adds the gradients of the ranks one after the other, as a single rank adds its accumulation
// groups (programs_finish_accum_group). sums: the open sums before and after.
static void add_in_order(const shard_call *call, const char *part, int64_t n,
        double (*sums)[SHARD_SUM_ELEMENTS]) {
    const node *add = call->ins->node;
    const dtype dt = add->in[0]->dt;
    const int64_t in_accum_group = add->attrs.sum.in_accum_group;
    const kernels *k = call->ins->kernels;
    const int64_t from_rank_to_rank = call->s->count * dtype_bytes(dt);
    int open = shard_open(call->before, in_accum_group);
    for (int i = 0; i < add->attrs.sum.data_ranks; i++) {
        const int64_t index = call->before + i;
        if (index % in_accum_group == 0) memset(sums[open++], 0, sizeof *sums);
        k->accumulate(dt, n, part + i * from_rank_to_rank, sums[open - 1]);
        if ((index + 1) % in_accum_group != 0) continue;
        for (int64_t accum_group = index / in_accum_group; accum_group % 2 == 1;
                accum_group /= 2, open--)
            k->accumulate(dt, n, sums[open - 1], sums[open - 2]);
    }
}

// Adds to reduction block `block`, which data_ranks consecutive ranks have.
static void add_to_block(const shard_call *call, int64_t block, int64_t first, int64_t n,
        double (*sums)[SHARD_SUM_ELEMENTS]) {
    const instruction *ins = call->ins;
    const op_attrs *attrs = &ins->node->attrs;
    const tensor *kept = ins->node->in[1];
    const int row_blocks = row_blocks_of(attrs);
    const int64_t unit = dtype_bytes(kept->dt), bytes = n * unit, length = kept->dim[2],
                  place = block / row_blocks * attrs->sum.data_ranks,
                  own_block = block % row_blocks;
    const char *part =
            call->parts + ((own_block * call->s->ranks + place) * call->s->count + first) * unit;
    const int before = shard_open(call->before, attrs->sum.in_accum_group),
              after = shard_open(call->before + attrs->sum.data_ranks, attrs->sum.in_accum_group);
    for (int i = 0; i < before; i++)
        memcpy(sums[i], output_at(ins, 0, (i * kept->dim[1] + block) * length + first),
                (size_t)bytes);
    add_in_order(call, part, n, sums);
    for (int i = 0; i < after; i++)
        memcpy(output_at(ins, 0, (i * kept->dim[1] + block) * length + first), sums[i],
                (size_t)bytes);
}

static void add_shard_chunk(void *arg, int64_t c) {
    const shard_call *call = arg;
    const int64_t end = c * CHUNK_ELEMENTS + chunk_length(call->s->count, CHUNK_ELEMENTS, c);
    for (int64_t block = 0; block < call->ins->node->in[1]->dim[1]; block++)
        for (int64_t at = c * CHUNK_ELEMENTS; at < end; at += SHARD_SUM_ELEMENTS)
            add_to_block(call, block, at,
                    end - at < SHARD_SUM_ELEMENTS ? end - at : SHARD_SUM_ELEMENTS,
                    call->sums[par_thread()]);
}

// Gets this rank's shard of the gradients of all ranks.
static drv_status exchange_gradients(const shard_call *call) {
    const instruction *ins = call->ins;
    const shard *s = call->s;
    const int64_t unit = dtype_bytes(ins->node->in[0]->dt);
    for (int own_block = 0; own_block < row_blocks_of(&ins->node->attrs); own_block++)
        DRV_TRY(comm_all_to_all(ins->group, input_at(ins, 0, own_block * s->n), ins->sizes,
                call->parts + own_block * s->ranks * s->count * unit, NULL, s->count * unit));
    return DRV_OK;
}

static int64_t micro_batches_before(const instruction *ins) {
    return (int64_t) * (const int32_t *)ins->in[2] * ins->node->attrs.sum.data_ranks;
}

// The padding of a short shard stays zero. Workspace: sums of each thread | parts from all ranks.
static void add_shard(const instruction *ins) {
    const node *n = ins->node;
    const shard s = shard_of(ins, block_elements(n));
    shard_call call = {.ins = ins,
            .s = &s,
            .sums = ins->workspace,
            .before = micro_batches_before(ins)};
    call.parts = ins->group ? (char *)(call.sums + par_threads()) : ins->in[0];
    if (ins->group) *ins->failed = exchange_gradients(&call);
    if (*ins->failed == DRV_OK) par_for(div_up(s.count, CHUNK_ELEMENTS), add_shard_chunk, &call);
}

static int64_t begin_add(const instruction *ins) {
    const node *n = ins->node;
    const shard s = shard_of(ins, block_elements(n));
    return row_blocks_of(&n->attrs) * (s.n - s.count) * dtype_bytes(n->in[0]->dt);
}

// Runs on the communication thread. The second output holds: sums | parts from all ranks.
static drv_status add_rest(const void *of) {
    const instruction *ins = of;
    const shard s = shard_of(ins, block_elements(ins->node));
    shard_call call = {.ins = ins,
            .s = &s,
            .sums = ins->out[1],
            .parts = (char *)ins->out[1] + sizeof(open_sums),
            .before = micro_batches_before(ins)};
    DRV_TRY(exchange_gradients(&call));
    for (int64_t c = 0; c < div_up(s.count, CHUNK_ELEMENTS); c++)
        add_shard_chunk(&call, c);
    return DRV_OK;
}

static drv_status list_shards(arena *a, gemm_machine *m DRV_UNUSED, const node *n,
        instruction *out) {
    const shard s = shard_of(out, block_elements(n));
    out->sizes = list_sizes(&s, dtype_bytes(n->in[0]->dt), ARENA_ARRAY(a, int64_t, s.ranks));
    return DRV_OK;
}

static int64_t add_workspace(const node *n, int n_threads) {
    const int64_t sums = n_threads * (int64_t)sizeof(open_sums);
    if (n->attrs.mesh.async && n->attrs.mesh.ranks > 1) return 0;
    return sums + (n->attrs.mesh.ranks > 1 ? parts_bytes(n) : 0);
}

const cpu_op cpu_op_add_shard = {.run = add_shard,
        .begin = begin_add,
        .rest = add_rest,
        .workspace = add_workspace,
        .lower = list_shards};

// The back end waits (store_settle).
static void nothing(const instruction *ins DRV_UNUSED) {}

const cpu_op cpu_op_await_shard = {.run = nothing};

// --- join_shards
// Joins the open sums of all reduction blocks, from the last one on.
static void close_sums(void *arg, int64_t c) {
    const instruction *ins = arg;
    const tensor *s = ins->node->in[0];
    const int64_t all = s->dim[1] * s->dim[2], first = c * CHUNK_ELEMENTS,
                  n = chunk_length(all, CHUNK_ELEMENTS, c);
    for (int64_t open = ins->node->attrs.sum.open - 1; open > 0; open--)
        ins->kernels->accumulate(s->dt, n, output_at(ins, 0, open * all + first),
                output_at(ins, 0, (open - 1) * all + first));
}

static void join_shards(const instruction *ins) {
    const tensor *s = ins->node->in[0];
    const void *list[MAX_REDUCTION_BLOCKS];
    for (int64_t block = 0; block < s->dim[1]; block++)
        list[block] = output_at(ins, 0, block * s->dim[2]);
    if (ins->node->attrs.sum.open > 1)
        run_chunks(ins, s->dim[1] * s->dim[2], CHUNK_ELEMENTS, close_sums);
    if (s->dim[1] > 1 && !ins->node->attrs.sum.row_blocks)
        join_parts(s->dt, COMM_SUM, list, (int)s->dim[1], s->dim[2], ins->out[0]);
}

const cpu_op cpu_op_join_shards = {.run = join_shards};

// --- join_blocks
// Clears all reduction blocks after the first.
static void clear_blocks(void *arg, int64_t c) {
    const instruction *ins = arg;
    const int64_t n = block_elements(ins->node), all = tensor_elements(ins->node->in[0]);
    memset(output_at(ins, 0, n + c * CHUNK_ELEMENTS), 0,
            (size_t)(chunk_length(all - n, CHUNK_ELEMENTS, c) *
                     dtype_bytes(ins->node->out[0]->dt)));
}

// Each rank sums its shard in place in the first reduction block and sends it to all others.
static void join_blocks(const instruction *ins) {
    const node *n = ins->node;
    const int64_t elements = block_elements(n), unit = dtype_bytes(n->in[0]->dt);
    if (ins->group) {
        const shard s = shard_of(ins, elements);
        char *own = output_at(ins, 0, s.first);
        *ins->failed = sum_row_blocks(ins, &s, own);
        if (*ins->failed == DRV_OK)
            *ins->failed = comm_all_gather(ins->group, own, 0, list_sizes(&s, unit, ins->workspace),
                    ins->out[0]);
        if (*ins->failed != DRV_OK) return;
    } else {
        join_here(ins, ins->out[0]);
    }
    run_chunks(ins, tensor_elements(n->in[0]) - elements, CHUNK_ELEMENTS, clear_blocks);
}

const cpu_op cpu_op_join_blocks = {.run = join_blocks, .workspace = reduce_workspace};

// --- shards of weights
static void take_shard(const instruction *ins) {
    const shard s = shard_of(ins, tensor_elements(ins->node->in[0]));
    const int64_t unit = dtype_bytes(ins->node->in[0]->dt);
    memcpy(ins->out[0], input_at(ins, 0, s.first), (size_t)(s.count * unit));
    fill_up(ins, &s);
}

const cpu_op cpu_op_take_shard = {.run = take_shard};

// --- gathers of state, which may be asynchronous
static void run_at_once(const instruction *ins) {
    const cpu_op *row = cpu_ops[ins->node->op];
    if (row->begin(ins) >= 0) *ins->failed = row->rest(ins);
}

static int64_t gather_bytes(const shard *s, dtype dt) {
    return (s->ranks - 1) * s->count * dtype_bytes(dt);
}

// Copies this rank's shard to its place, from which it is sent.
static int64_t begin_gather(const instruction *ins) {
    const tensor *w = ins->node->in[0];
    const shard s = shard_of(ins, tensor_elements(w));
    memcpy(output_at(ins, 0, s.first), ins->in[1], (size_t)(s.count * dtype_bytes(w->dt)));
    return ins->group ? gather_bytes(&s, w->dt) : -1;
}

static drv_status gather_rest(const void *of) {
    const instruction *ins = of;
    const tensor *w = ins->node->in[0];
    const shard s = shard_of(ins, tensor_elements(w));
    return comm_gather_shards(ins->group, w->dt, ins->out[0], s.n, s.length);
}

const cpu_op cpu_op_gather_shards = {.run = run_at_once,
        .begin = begin_gather,
        .rest = gather_rest};

// --- gather_weight
static drv_status list_weight_sizes(arena *a, gemm_machine *m DRV_UNUSED, const node *n,
        instruction *out) {
    const tensor *w = n->out[0];
    const int ranks = out->group ? n->attrs.mesh.ranks : 1;
    out->sizes = ARENA_ARRAY(a, int64_t, ranks);
    for (int i = 0; i < ranks; i++)
        out->sizes[i] = weight_shard_bytes(w, ranks, groups_of(n), i);
    return DRV_OK;
}

static int64_t begin_weight(const instruction *ins) {
    const int64_t others = ins->group ? group_size(ins->group) - 1 : 0;
    return ins->group ? others * ins->sizes[group_place(ins->group)] : 0;
}

static drv_status weight_rest(const void *of) {
    const instruction *ins = of;
    if (ins->group) return comm_all_gather(ins->group, ins->in[0], 0, ins->sizes, ins->out[0]);
    memcpy(ins->out[0], ins->in[0], (size_t)ins->sizes[0]);
    return DRV_OK;
}

const cpu_op cpu_op_gather_weight = {.run = run_at_once,
        .begin = begin_weight,
        .rest = weight_rest,
        .lower = list_weight_sizes};

// --- sum_shard
static int64_t begin_sum(const instruction *ins) {
    const tensor *g = ins->node->in[0];
    const shard s = shard_of(ins, tensor_elements(g));
    if (!ins->group || *(const int32_t *)ins->in[1] == 0) return -1;
    return (s.n - s.count) * dtype_bytes(g->dt) +
           (ins->node->attrs.mesh.whole ? gather_bytes(&s, g->dt) : 0);
}

static drv_status sum_rest(const void *of) {
    const instruction *ins = of;
    const tensor *g = ins->node->in[0];
    const shard s = shard_of(ins, tensor_elements(g));
    DRV_TRY(comm_sum_shards(ins->group, g->dt, ins->out[0], s.n, s.length));
    if (!ins->node->attrs.mesh.whole) return DRV_OK;
    return comm_gather_shards(ins->group, g->dt, ins->out[0], s.n, s.length);
}

const cpu_op cpu_op_sum_shard = {.run = run_at_once, .begin = begin_sum, .rest = sum_rest};
