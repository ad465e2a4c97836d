// torch/optim/optimizer.py; megatron/core/optimizer/{optimizer,distrib_optimizer}.py of
// Megatron-Core 0.7 to 0.19; torch_xla/distributed/zero_redundancy_optimizer.py of torch_xla 2.1
// to 2.9.
#include "source/optimizer_states.h"

#include <math.h>
#include <string.h>

#include "source/rank_tensors.h"

static const char *const kind_names[] = {"exp_avg", "exp_avg_sq", "master weight"};

// A tensor and its file.
typedef struct found_tensor {
    torch_file *file;
    const torch_tensor *tensor;
} found_tensor;

// A state dict while it is read.
typedef struct reading {
    optimizer_states *o;
    torch_file *file;
    const pickle_value *state, *groups;
    int shard, n_shards;
    found_tensor *exp_avg; // of each number
    int *number, *group;   // of each parameter, once they are known
} reading;

void optimizer_states_begin(foreign_model *m, const rank *r, bool is_tied, optimizer_states *out) {
    bool has_embedding = false;
    *out = (optimizer_states){.m = m, .updates = -1, .learning_rate = (double)NAN};
    out->weights = ARENA_ARRAY(m->a, const rank_part *, r->n + 1);
    for (int i = 0; i < r->n; i++) {
        const rank_part *p = &r->parts[i];
        if (!p->row) continue;
        if (strcmp(p->row->part[0], "model.embed_tokens.weight") == 0) has_embedding = true;
        if (is_tied && has_embedding && strcmp(p->row->part[0], "lm_head.weight") == 0) continue;
        out->weights[out->n++] = p;
    }
    for (int k = 0; k < N_OPTIMIZER_KINDS; k++)
        out->parts[k] = ARENA_ARRAY(m->a, rank_part, out->n + 1);
}

// --- values
// Returns the value of a numeric key; NULL: there is none. Keys are usually 0, 1, .. in order.
static const pickle_value *by_number(const pickle_value *v, int64_t number) {
    const pickle_dict *dict = v ? pickle_entries(v) : NULL;
    for (int64_t i = 0; dict && i <= dict->n; i++) {
        const int64_t k = i ? i - 1 : number; // first where it is expected
        if (k >= dict->n) continue;
        const pickle_entry *e = &dict->entries[k];
        if (e->key->kind == PICKLE_INT && e->key->integer == number) return e->value;
    }
    return NULL;
}

static const pickle_value *item_of(const pickle_value *list, int64_t i) {
    if (!list || (list->kind != PICKLE_LIST && list->kind != PICKLE_TUPLE)) return NULL;
    return i < list->list.n ? list->list.items[i] : NULL;
}

static int n_items(const pickle_value *list) {
    return list && (list->kind == PICKLE_LIST || list->kind == PICKLE_TUPLE) ? list->list.n : 0;
}

static drv_status read_number(optimizer_states *o, torch_file *file, const pickle_value *v,
        double *out) {
    char bytes[8] = {0};
    foreign_block b = {0};
    torch_file *from;
    *out = (double)NAN;
    if (v->kind == PICKLE_INT) *out = (double)v->integer;
    if (v->kind == PICKLE_REAL) *out = v->real;
    if (v->kind != PICKLE_CALL) return DRV_OK;
    DRV_TRY(rank_tensor_of(o->m, file, "step", v, &from, &b.tensor));
    b.file = from;
    if (b.tensor->elements != 1 || b.tensor->type->bytes > (int)sizeof bytes) return DRV_OK;
    DRV_TRY(foreign_read_block(&b, 0, 1, bytes));
    *out = torch_number(b.tensor->type, bytes);
    return DRV_OK;
}

// Notes the step count of an optimizer, which must be the same for all parameters and ranks.
static drv_status note_updates(optimizer_states *o, torch_file *file, const pickle_value *v) {
    double steps;
    if (!v) return DRV_OK;
    DRV_TRY(read_number(o, file, v, &steps));
    if (!(steps >= 0 && steps <= 0x1p53) || steps != floor(steps))
        return drv_fail(DRV_E_DATA, "%s: the optimizer's step is %g, expected a count",
                file->part.path, steps);
    if (o->updates >= 0 && o->updates != (int64_t)steps)
        return drv_fail(DRV_E_DATA,
                "%s: the optimizer's step is %lld, expected %lld, as elsewhere in the checkpoint",
                file->part.path, (long long)steps, (long long)o->updates);
    o->updates = (int64_t)steps;
    return DRV_OK;
}

static drv_status note_groups(optimizer_states *o, torch_file *file, const pickle_value *groups) {
    for (int i = 0; i < n_items(groups); i++) {
        const pickle_value *group = item_of(groups, i), *rate = pickle_get(group, "lr");
        DRV_TRY(note_updates(o, file, pickle_get(group, "step")));
        if (rate && rate->kind == PICKLE_REAL && isnan(o->learning_rate))
            o->learning_rate = rate->real;
    }
    return DRV_OK;
}

// --- which parameter is which
static int64_t shard_rows(const reading *r, const rank_part *w) {
    return (w->rows + r->n_shards - 1) / r->n_shards;
}

static bool fits(const reading *r, const rank_part *w, const torch_tensor *t) {
    return t->n_dims == w->n_dims && t->dim[0] == shard_rows(r, w) &&
           (t->n_dims < 2 || t->dim[1] == w->cols);
}

static drv_status read_parameter(reading *r, int64_t number) {
    optimizer_states *o = r->o;
    const pickle_value *state = by_number(r->state, number),
                       *v = state ? pickle_get(state, "exp_avg") : NULL,
                       *step = state ? pickle_get(state, "step") : NULL;
    found_tensor *out = &r->exp_avg[number];
    const char *name = arena_printf(o->m->a, "exp_avg of parameter %lld", (long long)number);
    if (!v)
        return drv_fail(DRV_E_DATA,
                "%s: parameter %lld of the optimizer has no exp_avg, expected the state of AdamW",
                r->file->part.path, (long long)number);
    // With xser each step count is a file of its own; the file of one parameter is read.
    if (step && (number == 0 || !rank_is_reference(step))) DRV_TRY(note_updates(o, r->file, step));
    return rank_tensor_of(o->m, r->file, name, v, &out->file, &out->tensor);
}

static drv_status read_parameters(reading *r) {
    optimizer_states *o = r->o;
    const int n_groups = n_items(r->groups);
    int listed = 0;
    r->exp_avg = ARENA_ARRAY(o->m->a, found_tensor, o->n + 1);
    r->number = ARENA_ARRAY(o->m->a, int, o->n + 1);
    r->group = ARENA_ARRAY(o->m->a, int, o->n + 1);
    for (int g = 0; g < n_groups; g++) {
        const pickle_value *params = pickle_get(item_of(r->groups, g), "params");
        for (int i = 0; i < n_items(params); i++, listed++) {
            const pickle_value *number = item_of(params, i);
            if (listed >= o->n) continue;
            if (number->kind != PICKLE_INT || number->integer < 0 || number->integer >= o->n)
                return drv_fail(DRV_E_DATA,
                        "%s: group %d of the optimizer has a parameter with an index beyond the model's %d parameters",
                        r->file->part.path, g, o->n);
            DRV_TRY(read_parameter(r, number->integer));
        }
    }
    if (listed == o->n) return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "%s: the optimizer has %d parameters, expected %d, as the rank has weights",
            r->file->part.path, listed, o->n);
}

static int number_in(const reading *r, int group, int i) {
    const pickle_value *v = item_of(pickle_get(item_of(r->groups, group), "params"), i);
    return v ? (int)v->integer : -1;
}

// Goes through the ways in which the groups make up the parameters, each group in its own order,
// and notes the first. Returns their number, where 2 means several, or too many to check.
static int count_ways(reading *r, int *next) {
    const int n_params = r->o->n, n_groups = n_items(r->groups);
    int *choice = ARENA_ARRAY(r->o->m->a, int, n_params + 1), ways = 0;
    int64_t trials = 100000 + 100 * (int64_t)n_params;
    for (int i = 0; i >= 0;) { // choice[i] - 1 is the group of parameter i
        int number = -1;
        if (choice[i]) next[choice[i] - 1]--;
        if (trials-- == 0) return 2;
        while (i < n_params && choice[i] < n_groups) {
            number = number_in(r, choice[i], next[choice[i]]);
            if (number >= 0 && fits(r, r->o->weights[i], r->exp_avg[number].tensor)) break;
            choice[i]++;
            number = -1;
        }
        if (i == n_params && ++ways == 2) return 2;
        for (int k = 0; i == n_params && k < n_params; k++)
            r->group[k] = choice[k] - 1;
        if (number >= 0) {
            next[choice[i]++]++;
            i++;
            choice[i] = 0;
        } else
            i--;
    }
    return ways;
}

static drv_status find_parameters(reading *r) {
    const int n_groups = n_items(r->groups);
    int *next = ARENA_ARRAY(r->o->m->a, int, n_groups + 1);
    DRV_TRY(read_parameters(r));
    const int ways = count_ways(r, next);
    if (ways == 0)
        return drv_fail(DRV_E_DATA,
                "%s: exp_avg of the optimizer's parameters are of other sizes than the rank's "
                "weights, in the order of its groups",
                r->file->part.path);
    if (ways > 1)
        return drv_fail(DRV_E_DATA,
                "%s: %d groups of parameters do not identify their weights; convert the "
                "checkpoint to a form with names (Megatron-LM: --ckpt-convert-format torch_dist "
                "--dist-ckpt-optim-fully-reshardable)",
                r->file->part.path, n_groups);
    memset(next, 0, sizeof *next * (size_t)n_groups);
    for (int i = 0; i < r->o->n; i++)
        r->number[i] = number_in(r, r->group[i], next[r->group[i]]++);
    return DRV_OK;
}

// --- taking tensors
// Adds a block of rows of a parameter's state.
static drv_status add_rows(optimizer_states *o, int i, optimizer_kind kind, foreign_block b,
        int n_blocks) {
    const rank_part *w = o->weights[i];
    rank_part *p = &o->parts[kind][i];
    if (kind == KIND_MASTER && b.tensor->type->bytes <= w->type->bytes) return DRV_OK;
    if (!p->n_blocks) {
        *p = *w;
        p->path = b.file->part.path;
        p->type = b.tensor->type;
        p->blocks = ARENA_ARRAY(o->m->a, foreign_block, n_blocks);
        p->n_blocks = 0;
    }
    if (p->type != b.tensor->type)
        return drv_fail(DRV_E_DATA, "%s: %s of \"%s\" is of %s, expected %s, as in %s",
                b.file->part.path, kind_names[kind], w->name, b.tensor->type->name, p->type->name,
                p->path);
    b.cols = w->cols;
    p->blocks[p->n_blocks++] = b;
    return DRV_OK;
}

static drv_status take(reading *r, int i, optimizer_kind kind, found_tensor from) {
    const rank_part *w = r->o->weights[i];
    const int64_t n = shard_rows(r, w), row = r->shard * n, left = w->rows - row;
    if (!fits(r, w, from.tensor))
        return drv_fail(DRV_E_DATA,
                "%s: %s of \"%s\" has another size than the weight, of which a rank has %lld x "
                "%lld",
                from.file->part.path, kind_names[kind], w->name, (long long)n, (long long)w->cols);
    if (left <= 0) return DRV_OK; // all of it is padding
    return add_rows(r->o, i, kind,
            (foreign_block){.row = row,
                    .rows = left < n ? left : n,
                    .file = from.file,
                    .tensor = from.tensor},
            r->n_shards);
}

static drv_status take_value(reading *r, int i, optimizer_kind kind, const pickle_value *v) {
    found_tensor from;
    if (!v)
        return drv_fail(DRV_E_DATA, "%s: the optimizer has no %s of \"%s\"", r->file->part.path,
                kind_names[kind], r->o->weights[i]->name);
    DRV_TRY(rank_tensor_of(r->o->m, r->file, r->o->weights[i]->name, v, &from.file, &from.tensor));
    return take(r, i, kind, from);
}

static drv_status take_moments(reading *r) {
    for (int i = 0; i < r->o->n; i++) {
        const pickle_value *state = by_number(r->state, r->number[i]);
        DRV_TRY(take(r, i, KIND_EXP_AVG, r->exp_avg[r->number[i]]));
        DRV_TRY(take_value(r, i, KIND_EXP_AVG_SQ, pickle_get(state, "exp_avg_sq")));
    }
    return DRV_OK;
}

// Megatron keeps master weights of weights that are not fp32, group by group.
static drv_status take_grouped_masters(reading *r, const pickle_value *masters) {
    const int n_groups = n_items(r->groups);
    int *next = ARENA_ARRAY(r->o->m->a, int, n_groups + 1);
    for (int i = 0; i < r->o->n; i++) {
        const int group = r->group[i];
        if (r->o->weights[i]->type->bytes >= 4) continue;
        DRV_TRY(take_value(r, i, KIND_MASTER, item_of(item_of(masters, group), next[group]++)));
    }
    return DRV_OK;
}

// --- forms
bool optimizer_states_are_elsewhere(const pickle_value *v) {
    const pickle_value *inner = pickle_get(v, "optimizer");
    return inner && pickle_entries(inner) && !pickle_get(inner, "state");
}

static drv_status check_form(const torch_file *file, const pickle_value *v, int n_shards) {
    const char *path = file->part.path;
    if (!pickle_entries(v))
        return drv_fail(DRV_E_DATA,
                "%s: the optimizer's state is %s, expected a dict; several optimizers, as for experts, "
                "are not read",
                path, pickle_kind_name(v->kind));
    if (pickle_get(v, "ep_param_id_offset"))
        return drv_fail(DRV_E_DATA, "%s: the optimizer is one with experts, which are not read",
                path);
    if (n_shards > 1 && !pickle_get(v, "base_state"))
        return drv_fail(DRV_E_DATA,
                "%s: the optimizer has no base_state, expected the shards of ZeRO-1, as there are "
                "files of %d data ranks",
                path, n_shards);
    return DRV_OK;
}

drv_status optimizer_states_read(optimizer_states *o, torch_file *file, const pickle_value *v,
        int shard, int n_shards) {
    if (n_items(v) == 1) v = item_of(v, 0);
    DRV_TRY(check_form(file, v, n_shards));
    const pickle_value *wrapped = pickle_get(v, "optimizer"), *inner = wrapped ? wrapped : v,
                       *masters = pickle_get(v, "fp32_from_fp16_params"),
                       *sharded = pickle_get(v, "sharded_master_weights"),
                       *base = pickle_get(inner, "base_state");
    reading r = {.o = o,
            .file = file,
            .state = base ? base : pickle_get(inner, "state"),
            .groups = pickle_get(inner, "param_groups"),
            .shard = shard,
            .n_shards = n_shards};
    DRV_TRY(note_groups(o, file, r.groups));
    if (optimizer_states_are_elsewhere(v)) return DRV_OK;
    DRV_TRY(find_parameters(&r));
    DRV_TRY(take_moments(&r));
    if (masters) DRV_TRY(take_grouped_masters(&r, masters));
    for (int i = 0; i < o->n && sharded; i++)
        DRV_TRY(take_value(&r, i, KIND_MASTER, by_number(sharded, r.number[i])));
    return DRV_OK;
}

drv_status optimizer_states_check(const optimizer_states *o, const char *path) {
    for (int i = 0; i < o->n; i++)
        for (int k = 0; k < N_OPTIMIZER_KINDS; k++) {
            const rank_part *p = &o->parts[k][i];
            int64_t rows = 0;
            for (int b = 0; b < p->n_blocks; b++)
                rows += p->blocks[b].rows;
            if (rows != o->weights[i]->rows && (p->n_blocks || k != KIND_MASTER))
                return drv_fail(DRV_E_DATA, "%s: %s of \"%s\" has %lld rows, expected %lld", path,
                        kind_names[k], o->weights[i]->name, (long long)rows,
                        (long long)o->weights[i]->rows);
        }
    return DRV_OK;
}

// --- buffers
// The vectors have the parameters of a chunk from the last to the first. From Megatron-Core 0.8 on
// each begins at a multiple of 64 elements, but not after the end of a bucket, and nothing says
// where buckets end. It does not matter where the size is the one with all the padding, or with
// none.
static int64_t end_of(const optimizer_states *o, int chunk, int64_t multiple,
        foreign_block *blocks) {
    int64_t end = 0;
    for (int i = o->n - 1; i >= 0; i--) {
        const rank_part *w = o->weights[i];
        if (w->chunk != chunk) continue;
        const int64_t first = (end + multiple - 1) / multiple * multiple;
        if (blocks) blocks[i] = (foreign_block){.rows = w->rows, .first = first};
        end = first + w->rows * w->cols;
    }
    return end;
}

static drv_status read_buffer(optimizer_states *o, torch_file *file, int chunk,
        const pickle_value *vectors) {
    static const char *const keys[] = {"exp_avg", "exp_avg_sq", "param"};
    foreign_block *blocks = ARENA_ARRAY(o->m->a, foreign_block, o->n + 1);
    const int64_t plain = end_of(o, chunk, 1, NULL), padded = end_of(o, chunk, 64, NULL);
    for (int k = 0; k < N_OPTIMIZER_KINDS; k++) {
        const pickle_value *v = pickle_get(vectors, keys[k]);
        found_tensor from;
        if (!v)
            return drv_fail(DRV_E_DATA, "%s: buffer %d has no \"%s\"", file->part.path, chunk,
                    keys[k]);
        DRV_TRY(rank_tensor_of(o->m, file, keys[k], v, &from.file, &from.tensor));
        const int64_t n = from.tensor->elements;
        if (from.tensor->n_dims != 1 || (n != plain && n != padded))
            return drv_fail(DRV_E_DATA,
                    "%s: \"%s\" of buffer %d has %lld elements, expected %lld, or %lld with all "
                    "padding; the ends of buckets are not known, so convert the checkpoint "
                    "(Megatron-LM: --ckpt-convert-format torch_dist "
                    "--dist-ckpt-optim-fully-reshardable)",
                    file->part.path, keys[k], chunk, (long long)n, (long long)plain,
                    (long long)padded);
        end_of(o, chunk, n == plain ? 1 : 64, blocks);
        for (int i = 0; i < o->n; i++) {
            if (o->weights[i]->chunk != chunk) continue;
            blocks[i].file = from.file;
            blocks[i].tensor = from.tensor;
            DRV_TRY(add_rows(o, i, (optimizer_kind)k, blocks[i], 1));
        }
    }
    return DRV_OK;
}

drv_status optimizer_states_read_buffers(optimizer_states *o, torch_file *file, int n_chunks) {
    const char *path = file->part.path;
    if (!pickle_entries(file->root))
        return drv_fail(DRV_E_DATA,
                "%s: is %s, expected a dict; several optimizers, as for experts, are not read",
                path, pickle_kind_name(file->root->kind));
    if (!pickle_get(file->root, "buckets_coalesced"))
        return drv_fail(DRV_E_DATA,
                "%s: has buckets, as Megatron-Core before 0.7 wrote them; convert the checkpoint "
                "(Megatron-LM: --ckpt-convert-update-legacy-dist-opt-format)",
                path);
    for (int chunk = 0; chunk <= n_chunks; chunk++) {
        const pickle_value *buffer = by_number(file->root, chunk);
        const pickle_dict *types = buffer ? pickle_entries(buffer) : NULL;
        if (chunk == n_chunks ? buffer != NULL : !types || types->n != 1)
            return drv_fail(DRV_E_DATA,
                    "%s: expected buffers 0 to %d, one for each model chunk, of weights of one type",
                    path, n_chunks - 1);
        if (chunk < n_chunks) DRV_TRY(read_buffer(o, file, chunk, types->entries[0].value));
    }
    return DRV_OK;
}
