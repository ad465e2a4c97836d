// Finds the files of each rank's optimizer by the trainer, and joins their tensors.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "source/megatron_args.h"
#include "source/optimizer_states.h"
#include "source/rank_tensors.h"

static const char *beside(arena *a, const char *path, const char *name) {
    const char *slash = strrchr(path, '/');
    return slash ? arena_printf(a, "%.*s/%s", (int)(slash - path), path, name) : name;
}

// --- a rank
static drv_status read_buffers(rank_joining *j, int i, optimizer_states *o) {
    const char *path = beside(j->m->a, j->files.file[i], "distrib_optim.pt");
    torch_file *file;
    if (!file_exists(path))
        return drv_fail(DRV_E_DATA,
                "\"%s\" is not there, expected the state of the optimizer of %s", path,
                j->files.file[i]);
    DRV_TRY(rank_open_file(j->m, path, false, &file));
    return optimizer_states_read_buffers(o, file, j->n_chunks);
}

static drv_status read_shards(rank_joining *j, int i, optimizer_states *o) {
    const char **shards;
    int n;
    DRV_TRY(rank_files_shards(j->m->a, &j->files, i, &shards, &n));
    if (!n)
        return drv_fail(DRV_E_DATA,
                "%s: has no optimizer state, and there is no separate file for it; give model.weights: load, "
                "which begins at step 0",
                j->files.file[i]);
    for (int k = 0; k < n; k++) {
        torch_file *file;
        DRV_TRY(rank_open_file(j->m, shards[k], false, &file));
        DRV_TRY(optimizer_states_read(o, file, file->root, k, n));
    }
    return DRV_OK;
}

static drv_status read_rank(rank_joining *j, int i, optimizer_states *o) {
    torch_file *file = j->ranks[i].file;
    const pickle_value *megatron = pickle_get(file->top, "optimizer"),
                       *lightning = pickle_get(file->top, "optimizer_states"),
                       *v = megatron ? megatron : lightning;
    if (!v) {
        DRV_TRY(read_shards(j, i, o));
    } else {
        DRV_TRY(optimizer_states_read(o, file, v, 0, 1));
        if (optimizer_states_are_elsewhere(v)) DRV_TRY(read_buffers(j, i, o));
    }
    return optimizer_states_check(o, file->part.path);
}

// --- progress of the run
// NeMo and NxD Training have the number of samples in the name, as
// "llm--step=7-consumed_samples=56.0.ckpt".
static int64_t consumed_samples(const char *path) {
    static const char mark[] = "consumed_samples=";
    const char *last = NULL;
    for (const char *p = path; (p = strstr(p, mark)); p += sizeof mark - 1)
        last = p + sizeof mark - 1;
    return last && *last >= '0' && *last <= '9' ? strtoll(last, NULL, 10) : -1;
}

static void find_progress(const rank_joining *j, const optimizer_states *o, foreign_progress *out) {
    megatron_progress(j->ranks[0].file->top, out);
    if (out->samples < 0) out->samples = consumed_samples(j->files.file[0]);
    if (o->updates >= 0) out->updates = o->updates;
    if (!isnan(o->learning_rate)) out->learning_rate = o->learning_rate;
}

// --- all ranks
// Returns the parts of a kind, without the copy of a tied output weight that the last stage has.
static rank kept(const rank_joining *j, int i, const optimizer_states *o, optimizer_kind kind,
        bool is_tied) {
    rank r = {.file = j->ranks[i].file, .parts = ARENA_ARRAY(j->m->a, rank_part, o->n + 1)};
    for (int k = 0; k < o->n; k++) {
        const rank_part *p = &o->parts[kind][k];
        if (p->n_blocks && !(is_tied && strcmp(p->row->part[0], "lm_head.weight") == 0))
            r.parts[r.n++] = *p;
    }
    return r;
}

static bool has_masters(const optimizer_states *o) {
    for (int i = 0; i < o->n; i++)
        if (o->parts[KIND_MASTER][i].n_blocks) return true;
    return false;
}

drv_status ranks_optimizer_read(rank_joining *j, foreign_progress *progress) {
    static const char *const before[] = {CKPT_EXP_AVG, CKPT_EXP_AVG_SQ, CKPT_MASTER};
    const int n_ranks = j->files.tensor * j->files.pipeline;
    const bool is_tied = json_is_true(json_object_get(j->m->config, "tie_word_embeddings"));
    optimizer_states *states = ARENA_ARRAY(j->m->a, optimizer_states, n_ranks);
    for (int i = 0; i < n_ranks; i++) {
        optimizer_states_begin(j->m, &j->ranks[i], is_tied, &states[i]);
        if (i) states[i].updates = states[i - 1].updates;
        DRV_TRY(read_rank(j, i, &states[i]));
        if (has_masters(&states[i]) != has_masters(&states[0]))
            return drv_fail(DRV_E_DATA, "%s: the optimizer has %s, that of %s %s", j->files.file[i],
                    has_masters(&states[i]) ? "master weights" : "no master weights",
                    j->files.file[0], has_masters(&states[i]) ? "none" : "has them");
    }
    find_progress(j, &states[n_ranks - 1], progress);
    j->m->n = 0;
    j->by_name = (name_map){.a = j->m->a};
    for (int kind = 0; kind < N_OPTIMIZER_KINDS; kind++) {
        rank *ranks = ARENA_ARRAY(j->m->a, rank, n_ranks);
        for (int i = 0; i < n_ranks; i++)
            ranks[i] = kept(j, i, &states[i], (optimizer_kind)kind, is_tied);
        DRV_TRY(rank_join(j, ranks, before[kind]));
    }
    return DRV_OK;
}
