// Allocates named state in pages, and tracks the asynchronous operations that write it.
#include "backend/cpu/cpu_state.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "ir/op.h"

drv_status store_pages(state_store *s, const char *what, int64_t bytes, char **out) {
    *out = pages_alloc((size_t)bytes);
    if (!*out)
        return drv_fail(DRV_E_DEVICE, "out of memory: %s wanted for %s, %s held already",
                str_bytes((double)bytes), what, str_bytes((double)s->held));
    s->held += bytes;
    return DRV_OK;
}

drv_status store_create(state_store *store, const graph *of) {
    int64_t total = 0;
    for (int pass = 0; pass < 2; pass++) {
        char *next = NULL;
        if (pass == 1 && total > 0) {
            DRV_TRY(store_pages(store, "weights, gradients and optimizer", total, &next));
            MEM_GROW(store->blocks, store->n_blocks, store->cap_blocks);
            store->blocks[store->n_blocks++] = (page_block){next, total};
        }
        for (int i = 0; i < of->n_tensors; i++) {
            const tensor *named = of->tensors[i];
            if (named->cls == TENSOR_TEMP || named->alias) continue;
            if (named->pool) store->pool_bytes = named->pool->bytes;
            int64_t bytes = tensor_bytes(named);
            const state *there = name_map_get(&store->names, named->name);
            DRV_ASSERT(!there || there->bytes == bytes, "\"%s\" has two sizes", named->name);
            if (there) continue;
            if (pass == 0) {
                total += plan_state_bytes(named);
                continue;
            }
            state *made = ARENA_NEW(store->a, state);
            made->p = named->pool ? NULL : next;
            made->bytes = bytes;
            made->in_pool = named->pool != NULL;
            made->span = named->span;
            made->in_span = named->in_span;
            name_map_set(&store->names, named->name, made);
            if (!named->pool) next += plan_state_bytes(named);
        }
    }
    return DRV_OK;
}

void store_free(state_store *s) {
    comm_thread_close(s->comm_thread);
    s->comm_thread = NULL;
    for (int i = 0; i < s->n_blocks; i++)
        pages_free(s->blocks[i].p, (size_t)s->blocks[i].bytes);
    free(s->blocks);
    s->blocks = NULL;
}

state *store_of(const state_store *s, const plan *p, const tensor *t) {
    const tensor *root = p->storage[t->id];
    return root->cls == TENSOR_TEMP ? NULL : name_map_get(&s->names, root->name);
}

drv_status store_find(const state_store *s, const char *name, int64_t offset, int64_t bytes,
        char **out) {
    const state *found = name_map_get(&s->names, name);
    DRV_ASSERT(found, "no tensor \"%s\"", name);
    DRV_ASSERT(offset >= 0 && bytes >= 0 && offset + bytes <= found->bytes,
            "\"%s\": %lld bytes at %lld of %lld", name, (long long)bytes, (long long)offset,
            (long long)found->bytes);
    *out = (found->in_pool ? store_place(s, found) : found->p) + offset;
    const int64_t async_op = atomic_load(&found->async_op);
    return async_op ? comm_thread_wait(s->comm_thread, async_op, NULL, NULL) : DRV_OK;
}

// --- asynchronous nodes
state **store_arriving(const state_store *s, const plan *p) {
    state **arriving = ARENA_ARRAY(s->a, state *, p->g->n_tensors);
    for (int i = 0; i < p->g->n_nodes; i++) {
        const node *n = p->g->nodes[i];
        for (int o = 0; o < n->n_out && n->attrs.mesh.async; o++)
            if (!store_of(s, p, n->out[o]))
                arriving[p->storage[n->out[o]->id]->id] = ARENA_NEW(s->a, state);
    }
    return arriving;
}

static int add_states(const state_store *s, const plan *p, state *const *arriving,
        tensor *const *of, int n, state **list) {
    int n_states = 0;
    for (int k = 0; k < n; k++) {
        state *named = store_of(s, p, of[k]),
              *one = named ? named : arriving[p->storage[of[k]->id]->id];
        if (one) list[n_states++] = one;
    }
    return n_states;
}

state **store_touched(const state_store *s, const plan *p, state *const *arriving, const node *n) {
    state **list = ARENA_ARRAY(s->a, state *, n->n_in + n->n_out + 1);
    const int n_read = add_states(s, p, arriving, n->in, n->n_in, list);
    add_states(s, p, arriving, n->out, n->n_out, list + n_read);
    return list;
}

state **store_written(const state_store *s, const plan *p, state *const *arriving, const node *n) {
    state **list = ARENA_ARRAY(s->a, state *, n->n_out + 1);
    add_states(s, p, arriving, n->out, n->n_out, list);
    return list;
}

drv_status store_settle(const state_store *s, state *const *touched, const instruction **writer) {
    for (state *const *one = touched; *one; one++) {
        const int64_t async_op = atomic_load(&(*one)->async_op);
        if (!async_op) continue;
        const instruction *by = (*one)->writer;
        DRV_TRY(comm_thread_wait(s->comm_thread, async_op, by->group, by->label));
        atomic_store(&(*one)->async_op, 0);
        *writer = by;
    }
    return DRV_OK;
}

void store_begin(const state_store *s, const instruction *ins) {
    const cpu_op *row = cpu_ops[ins->node->op];
    const int64_t bytes = row->begin(ins);
    if (bytes < 0) return;
    const int64_t async_op = comm_thread_start(s->comm_thread, row->rest, ins, ins->group, bytes);
    for (state **written = ins->written; *written; written++) {
        (*written)->writer = ins;
        atomic_store(&(*written)->async_op, async_op);
    }
}
