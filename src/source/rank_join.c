// Joins the tensors of tensor ranks by the kind of each, and renumbers layers.
#include "source/rank_join.h"

#include <stdlib.h>
#include <string.h>

#include "gguf/llama_names.h"

// --- layers
static int layers_of(const rank_joining *j, int stage, int chunk) {
    const rank *r = &j->ranks[stage * j->files.tensor];
    int n = 0;
    for (int i = 0; i < r->n; i++)
        if (r->parts[i].chunk == chunk && r->parts[i].row && r->parts[i].layer >= n)
            n = r->parts[i].layer + 1;
    return n;
}

// The layers that precede a chunk: chunk 0 of all stages comes before chunk 1 of all stages.
static int layers_before(const rank_joining *j, int stage, int of_chunk) {
    int before = 0;
    for (int chunk = 0; chunk <= of_chunk; chunk++)
        for (int k = 0; k < (chunk < of_chunk ? j->files.pipeline : stage); k++)
            before += layers_of(j, k, chunk);
    return before;
}

// Stages beyond the first that have a layer 0 count on their own.
static bool layers_are_local(const rank_joining *j) {
    if (j->n_chunks > 1) return true;
    for (int stage = 1; stage < j->files.pipeline; stage++) {
        const rank *r = &j->ranks[stage * j->files.tensor];
        for (int i = 0; i < r->n; i++)
            if (r->parts[i].layer == 0) return true;
    }
    return false;
}

void rank_join_number(rank_joining *j) {
    const int stages = j->files.pipeline, n = stages * j->n_chunks;
    if (!layers_are_local(j)) return;
    int *before = ARENA_ARRAY(j->m->a, int, n);
    for (int i = 0; i < n; i++)
        before[i] = layers_before(j, i / j->n_chunks, i % j->n_chunks);
    for (int k = 0; k < stages * j->files.tensor; k++)
        for (int i = 0; i < j->ranks[k].n; i++) {
            rank_part *p = &j->ranks[k].parts[i];
            if (p->layer >= 0) p->layer += before[k / j->files.tensor * j->n_chunks + p->chunk];
        }
}

// --- joining
static const rank_part *find_part(const rank *r, const rank_part *like) {
    for (int i = 0; i < r->n; i++)
        if (r->parts[i].chunk == like->chunk && strcmp(r->parts[i].name, like->name) == 0)
            return &r->parts[i];
    return NULL;
}

static drv_status disagree(const rank_joining *j, const rank_part *p, const rank_part *other,
        const char *what) {
    return drv_fail(DRV_E_DATA, "\"%s\": \"%s\" of %s and of %s %s", j->m->path, p->name, p->path,
            other ? other->path : "another rank", what);
}

// Norms are the same on all tensor ranks.
static drv_status check_same(const rank_joining *j, const rank_part *p, const rank_part *other) {
    const int64_t elements = p->rows * p->cols;
    const size_t n = (size_t)(elements * p->type->bytes);
    char *mine = mem_alloc(n + 1), *theirs = mem_alloc(n + 1);
    drv_status status = foreign_read_block(p->blocks, 0, elements, mine);
    if (status == DRV_OK) status = foreign_read_block(other->blocks, 0, elements, theirs);
    if (status == DRV_OK && memcmp(mine, theirs, n) != 0)
        status = disagree(j, p, other, "differ, expected equal values");
    free(mine);
    free(theirs);
    return status;
}

static drv_status add_rank(const rank_joining *j, foreign_tensor *t, const rank_part *first,
        const rank_part *p) {
    const foreign_cut how = foreign_cut_of(first->row);
    if (p->type != t->type || p->n_dims != first->n_dims)
        return disagree(j, first, p, "have other types or dimensions");
    if (how == CUT_COLUMNS ? p->rows != first->rows : p->cols != first->cols)
        return disagree(j, first, p, "have shapes that do not fit together");
    if (how == CUT_NOT) {
        if (p->rows != first->rows) return disagree(j, first, p, "have other sizes");
        // The optimizer's state of the first rank counts, which may differ where norms do not.
        return t->before ? DRV_OK : check_same(j, first, p);
    }
    for (int i = 0; i < p->n_blocks; i++) {
        foreign_block *b = &t->blocks[t->n_blocks++];
        *b = p->blocks[i];
        b->row += how == CUT_ROWS ? t->rows : 0;
        b->col = how == CUT_COLUMNS ? t->cols : 0;
    }
    if (how == CUT_ROWS) t->rows += p->rows;
    if (how == CUT_COLUMNS) t->cols += p->cols;
    return DRV_OK;
}

// Joins a tensor of all tensor ranks of a stage, whose ranks these are.
static drv_status join(rank_joining *j, const rank *stage, const rank_part *p, const char *before) {
    foreign_model *m = j->m;
    const char *name = llama_name_print(m->a, p->row->foreign, p->layer),
               *key = arena_printf(m->a, "%s%s", before ? before : "", name);
    int n_blocks = 0;
    if (name_map_get(&j->by_name, key)) return disagree(j, p, NULL, "are one tensor");
    if (p->n_dims < 1 || p->n_dims > 2)
        return drv_fail(DRV_E_DATA, "%s: \"%s\" has %d dimensions, expected 1 or 2", p->path,
                p->name, p->n_dims);
    foreign_tensor *t = &m->tensors[m->n++];
    *t = (foreign_tensor){.name = name, .before = before, .type = p->type};
    name_map_set(&j->by_name, key, t);
    for (int k = 0; k < j->files.tensor; k++) {
        const rank_part *other = find_part(&stage[k], p);
        if (!other)
            return drv_fail(DRV_E_DATA, "%s: has no tensor \"%s\", which tensor rank 0 has",
                    stage[k].file->part.path, p->name);
        n_blocks += other->n_blocks;
    }
    t->blocks = ARENA_ARRAY(m->a, foreign_block, n_blocks);
    t->rows = p->rows;
    t->cols = p->cols;
    for (; t->n_blocks < p->n_blocks; t->n_blocks++)
        t->blocks[t->n_blocks] = p->blocks[t->n_blocks];
    for (int k = 1; k < j->files.tensor; k++)
        DRV_TRY(add_rank(j, t, p, find_part(&stage[k], p)));
    return DRV_OK;
}

drv_status rank_join(rank_joining *j, const rank *ranks, const char *before) {
    for (int i = 0; i < j->files.pipeline; i++) {
        const rank *stage = &ranks[i * j->files.tensor];
        for (int k = 0; k < stage->n; k++) {
            const rank_part *p = &stage->parts[k];
            if (foreign_name_is_ignored(p->name)) continue;
            if (p->row)
                DRV_TRY(join(j, stage, p, before));
            else if (*j->prefix || j->n_chunks > 1)
                return drv_fail(DRV_E_DATA, "%s: tensor \"%s%s\" is none of a Llama's", p->path,
                        j->prefix, p->name);
        }
    }
    return DRV_OK;
}
