// Derives the work of a layer from the difference of two small graphs. All amounts are linear in
// the number of layers and in the rows of a micro-batch, so micro-batches of one and of two rows
// suffice.
#include "search/layer_work.h"

#include <stdlib.h>
#include <string.h>

#include "programs/programs.h"

enum { SAMPLED_ROWS = 2 }; // larger micro-batches are not built

typedef struct entry {
    layer_key key;
    layer_work work;
    bool possible;
} entry;

struct layer_works {
    const run_config *cfg;
    entry **list;
    int n, cap;
    const entry *last; // the last one returned, since consecutive candidates often share a layer
};

layer_works *layer_works_new(const run_config *cfg) {
    layer_works *all = mem_zeroed(sizeof *all);
    all->cfg = cfg;
    return all;
}

void layer_works_free(layer_works *all) {
    for (int i = 0; all && i < all->n; i++)
        free(all->list[i]);
    if (all) free(all->list);
    free(all);
}

static bool is_same(const layer_key *x, const layer_key *y) {
    return x->tensor == y->tensor && x->context == y->context && x->micro_batch == y->micro_batch &&
           x->recompute == y->recompute && x->sequence == y->sequence;
}

// Sets the forward and backward work of a whole model on tensor x context ranks.
static drv_status build(arena *a, const run_config *cfg, const layer_key *key, int layers,
        layer_work *out) {
    run_config one = *cfg;
    programs built;
    config_one_rank(&one);
    one.model.num_hidden_layers = layers;
    one.tensor_parallel = key->tensor;
    one.context_parallel = key->context;
    one.micro_batch_size = one.global_batch_size = key->micro_batch;
    one.recompute = key->recompute;
    one.sequence_parallel = key->sequence;
    one.context_blocks = one.partial_sum_rows = one.accum_groups = 0;
    DRV_TRY(config_set_ranks(&one, key->tensor * key->context));
    DRV_TRY(programs_outline(a, &one, &built));
    work_add_graph(built.step_graph, &out->forward, &out->backward);
    return DRV_OK;
}

static drv_status sample(const run_config *cfg, const layer_key *key, layer_work *out) {
    arena *a = arena_new("a layer");
    layer_work one = {.forward = {.bytes = 0}}, two = one;
    drv_status status = build(a, cfg, key, 1, &one);
    if (status == DRV_OK) status = build(a, cfg, key, 2, &two);
    arena_free(a);
    DRV_TRY(status);
    out->forward = two.forward;
    out->backward = two.backward;
    work_add(&one.forward, -1, &out->forward);
    work_add(&one.backward, -1, &out->backward);
    out->ends_forward = one.forward;
    out->ends_backward = one.backward;
    work_add(&out->forward, -1, &out->ends_forward);
    work_add(&out->backward, -1, &out->ends_backward);
    return DRV_OK;
}

// Sets *out to one + times (two - one).
static void extend(const layer_work *one, const layer_work *two, double times, layer_work *out) {
    const struct {
        const work *x, *y;
        work *to;
    } parts[] = {{&one->forward, &two->forward, &out->forward},
            {&one->backward, &two->backward, &out->backward},
            {&one->ends_forward, &two->ends_forward, &out->ends_forward},
            {&one->ends_backward, &two->ends_backward, &out->ends_backward}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        *parts[i].to = (work){.bytes = 0};
        work_add(parts[i].x, 1 - times, parts[i].to);
        work_add(parts[i].y, times, parts[i].to);
    }
}

static bool fill(layer_works *all, const layer_key *key, layer_work *out) {
    if (key->micro_batch <= SAMPLED_ROWS) return sample(all->cfg, key, out) == DRV_OK;
    layer_key fewer = *key;
    fewer.micro_batch = 1;
    const layer_work *one = layer_works_get(all, &fewer);
    fewer.micro_batch = SAMPLED_ROWS;
    const layer_work *two = layer_works_get(all, &fewer);
    if (!one || !two) return false;
    extend(one, two, (double)(key->micro_batch - 1) / (SAMPLED_ROWS - 1), out);
    return true;
}

static const entry *find(layer_works *all, const layer_key *key) {
    if (all->last && is_same(&all->last->key, key)) return all->last;
    for (int i = 0; i < all->n; i++)
        if (is_same(&all->list[i]->key, key)) return all->last = all->list[i];
    return NULL;
}

const layer_work *layer_works_get(layer_works *all, const layer_key *key) {
    const entry *known = find(all, key);
    if (known) return known->possible ? &known->work : NULL;
    entry *made = mem_zeroed(sizeof *made);
    made->key = *key;
    made->possible = fill(all, key, &made->work);
    MEM_GROW(all->list, all->n, all->cap);
    all->list[all->n++] = made;
    return made->possible ? &made->work : NULL;
}
