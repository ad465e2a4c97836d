// The pool of a pipeline rank: inputs and kept state of micro-batches in flight, each for as long
// as the parts of its chunk need it, in memory that all chunks share.
#include <string.h>

#include "base/name_map.h"
#include "base/round.h"
#include "ir/program_inputs.h"
#include "programs/stages.h"

_Static_assert((int)N_CUTS == (int)PIPELINE_PARTS, "the parts of the work on a micro-batch");

typedef struct pool_entry {
    int piece;       // 0; of what a layer computes: its number in the chunk, from 1 on
    int first, last; // parts of the work between which it is needed
    int64_t bytes, in_span;
    bool placed;
} pool_entry;

typedef struct chunk_pool {
    name_map seen;
    const state_pool *pool;
    int chunk, first_layer;
    int64_t *bytes; // by piece and span
} chunk_pool;

static bool is_pooled(const tensor *t) {
    return t->cls == TENSOR_KEPT || (t->cls == TENSOR_INPUT && t->n_slots > 1);
}

// Inputs are written before the forward pass, but for the gradient of the stream.
static int written_in(const tensor *t, int chunk, int part) {
    const input_name late = input_name_of(INPUT_STREAM_GRAD, chunk);
    return t->cls == TENSOR_INPUT && strcmp(t->name, late.text) != 0 ? CUT_FORWARD : part;
}

static void note_entries(chunk_pool *c, const graph *g, int part) {
    for (int i = 0; i < g->n_tensors; i++) {
        const tensor *t = g->tensors[i];
        if (!is_pooled(t)) continue;
        pool_entry *e = name_map_get(&c->seen, t->name);
        if (!e) {
            e = ARENA_NEW(c->seen.a, pool_entry);
            e->first = e->last = written_in(t, c->chunk, part);
            if (t->def && t->def->layer >= 0) e->piece = 1 + t->def->layer - c->first_layer;
            e->bytes = round_up(tensor_bytes(t), PLAN_ALIGN);
            name_map_set(&c->seen, t->name, e);
        }
        if (part > e->last) e->last = part;
    }
}

static void place_entries(chunk_pool *c, graph *g, int part) {
    for (int i = 0; i < g->n_tensors; i++) {
        tensor *t = g->tensors[i];
        if (!is_pooled(t)) continue;
        pool_entry *e = name_map_get(&c->seen, t->name);
        const int span = e->piece * PIPELINE_SPANS + pipeline_span(e->first, e->last);
        if (!e->placed) {
            e->placed = true;
            e->in_span = c->bytes[span];
            c->bytes[span] += e->bytes;
        }
        t->pool = c->pool;
        t->span = span;
        t->in_span = e->in_span;
        t->dies = part == e->last;
    }
}

// An evaluation sees the inputs of a micro-batch as its forward pass does.
static void place_chunk(chunk_pool *c, const stage_programs *stage) {
    for (int part = 0; part < N_CUTS; part++)
        if (stage->graph[part]) note_entries(c, stage->graph[part], part);
    note_entries(c, stage->eval_graph, CUT_FORWARD);
    for (int part = 0; part < N_CUTS; part++)
        if (stage->graph[part]) place_entries(c, stage->graph[part], part);
    place_entries(c, stage->eval_graph, CUT_FORWARD);
}

void stages_place(arena *a, programs *p) {
    const model_layout *layout = &p->held.params.layout;
    const int rank = mesh_place(&p->layout.mesh, (int)p->held.config->rank, AXIS_PIPELINE);
    state_pool *pooled = ARENA_NEW(a, state_pool);
    arena *scratch = arena_new("stages_place");
    int n_pieces = 1;
    for (int v = 0; v < p->n_stages; v++)
        if (layout->chunk[v].n >= n_pieces) n_pieces = 1 + (int)layout->chunk[v].n;
    const int n_spans = n_pieces * PIPELINE_SPANS;
    int64_t *bytes = ARENA_ARRAY(a, int64_t, p->n_stages * n_spans);
    for (int v = 0; v < p->n_stages; v++) {
        chunk_pool c = {.seen.a = scratch,
                .pool = pooled,
                .chunk = v,
                .first_layer = (int)layout->chunk[v].first,
                .bytes = &bytes[v * n_spans]};
        place_chunk(&c, &p->stage[v]);
    }
    p->pool = pipeline_place(a, &p->schedule, rank, n_pieces, bytes);
    pooled->bytes = p->pool.bytes;
    p->pooled = pooled;
    arena_free(scratch);
}

void stages_use(programs *p, int chunk, int micro_batch) {
    const int slot = p->slots.of[chunk * p->schedule.shape.micro_batches + micro_batch];
    backend_use_slot(p->held.b, slot, pipeline_offsets(&p->schedule, &p->pool, chunk, micro_batch));
}
