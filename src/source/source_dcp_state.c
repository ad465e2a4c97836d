// The state of AdamW in checkpoints of torch.distributed.checkpoint:
//
//   optimizer.state.NAME.exp_avg     torch.distributed.checkpoint.state_dict, and torchtitan's
//   optimizer.param_groups.NAME.lr   (components/optimizer; v0.2.2 and the branch main): flattened
//   train_state.step                 names; a number is a tensor or an object
//
//   optimizer.state.exp_avg.NAME     megatron/core/optimizer/distrib_optimizer.py in the formats
//   optimizer.state.fp32_param.NAME  fully_sharded_model_space and fully_reshardable ("param"), and
//                                    the optimizer that is not distributed; numbers in common.pt
//
// Legend: r a checkpoint that is read, e an entry of .metadata
#include <math.h>
#include <string.h>

#include "source/source_dcp_internal.h"

static drv_status refuse(const dcp_reading *r, const char *name, const char *what) {
    return drv_fail(DRV_E_DATA, "%s/.metadata: \"%.100s\" %s", r->folder, name, what);
}

// --- numbers
// Reads a number that was saved as a tensor of one element or as an object. NaN: it is not a number.
static drv_status read_number(dcp_reading *r, const dcp_entry *e, double *out) {
    torch_file *file = NULL;
    torch_tensor *tensor = NULL;
    *out = (double)NAN;
    if (!e->type) {
        DRV_TRY(dcp_open_archive(r, e, e->chunks, &file));
        const pickle_value *v = file->root;
        if (v->kind == PICKLE_INT) *out = (double)v->integer;
        if (v->kind == PICKLE_REAL) *out = v->real;
        return DRV_OK;
    }
    if (e->n_chunks != 1 || !e->chunks->file) return DRV_OK;
    DRV_TRY(dcp_open_chunk(r, e, e->chunks, &file, &tensor));
    char bytes[8] = {0};
    if (tensor->elements != 1 || e->type->bytes > (int)sizeof bytes) return DRV_OK;
    DRV_TRY(torch_read(file, tensor, 0, 1, bytes));
    *out = torch_number(e->type, bytes);
    return DRV_OK;
}

static drv_status read_count(dcp_reading *r, const dcp_entry *e, int64_t *out) {
    double number;
    DRV_TRY(read_number(r, e, &number));
    if (!(number >= 0 && number <= 0x1p53 && number == floor(number)))
        return drv_fail(DRV_E_DATA, "%s/.metadata: \"%s\" is %g, expected a whole number from 0",
                r->folder, e->name, number);
    *out = (int64_t)number;
    return DRV_OK;
}

// --- names
typedef enum state_kind { STATE_EXP_AVG, STATE_EXP_AVG_SQ, STATE_MASTER, STATE_STEP } state_kind;
static const char *const before_ours[] = {CKPT_EXP_AVG, CKPT_EXP_AVG_SQ, CKPT_MASTER};

typedef struct state_name {
    state_kind kind;
    const char *weight; // in the trainer's names
} state_name;

// Returns the part after "optimizer." or "optim.", which Megatron's "chained_N." may precede; NULL:
// the entry is none of the optimizer's.
static const char *after_optimizer(const char *name) {
    int n = 0, end = 0;
    if (sscanf(name, "chained_%d.%n", &n, &end) == 1 && end) name += end;
    if (str_starts(name, "optimizer.")) return name + strlen("optimizer.");
    return str_starts(name, "optim.") ? name + strlen("optim.") : NULL;
}

// Takes the name of a tensor of the state apart: the kind comes first in Megatron's names, and last
// in torch's. `rest`: what follows "state.".
static bool parse_state(arena *a, const char *rest, state_name *out) {
    static const struct {
        const char *name;
        state_kind kind;
    } kinds[] = {{"exp_avg", STATE_EXP_AVG}, {"exp_avg_sq", STATE_EXP_AVG_SQ},
            {"fp32_param", STATE_MASTER}, {"param", STATE_MASTER}, {"step", STATE_STEP}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const size_t n = strlen(kinds[i].name), all = strlen(rest);
        out->kind = kinds[i].kind;
        if (str_starts(rest, kinds[i].name) && rest[n] == '.') {
            out->weight = rest + n + 1;
            return true;
        }
        if (all > n + 1 && str_ends(rest, kinds[i].name) && rest[all - n - 1] == '.') {
            out->weight = arena_strndup(a, rest, all - n - 1);
            return true;
        }
    }
    return false;
}

// Finds the weight that a state belongs to. The name may begin with the prefix of all weights; in
// NeMo's the number of "module." may differ.
static const foreign_name *weight_of(const dcp_reading *r, const char **name, int *layer) {
    const foreign_name *row = foreign_name_of(r->m->names, *name, layer);
    if (row) return row;
    if (*r->prefix && str_starts(*name, r->prefix))
        *name += strlen(r->prefix);
    else
        while (str_starts(*name, "module."))
            *name += strlen("module.");
    return foreign_name_of(r->m->names, *name, layer);
}

// --- pieces of flattened shards
// Megatron's fully_sharded_model_space has a tensor as a grid of shards, each of them flattened and
// cut anywhere among the data ranks: [Y, Z] in shards of [y, z] is [Y/y, Z/z, y*z], after the layer
// where layers are stacked.
typedef struct shard_grid {
    int64_t rows, cols;   // of a shard
    int64_t layer_rows;   // of the tensor
    int row_dim, col_dim; // of the entry; col_dim -1: a vector
} shard_grid;

static bool grid_of(const dcp_entry *e, const dcp_entry *weight, const foreign_name *row, int layer,
        shard_grid *g) {
    const int first = dcp_row_dim(row, layer), n = first + (foreign_is_vector(row) ? 1 : 2);
    if (weight->n_dims != n || e->n_dims != n + 1) return false;
    for (int i = 0; i < n; i++)
        if (!e->dim[i] || weight->dim[i] % e->dim[i]) return false;
    if (first && e->dim[0] != weight->dim[0]) return false;
    *g = (shard_grid){.rows = weight->dim[first] / e->dim[first],
            .cols = n == first + 1 ? 1 : weight->dim[first + 1] / e->dim[first + 1],
            .layer_rows = weight->dim[first],
            .row_dim = first,
            .col_dim = n == first + 1 ? -1 : first + 1};
    return e->dim[n] == g->rows * g->cols;
}

// Elements [from, from + n) of a shard are the end of a row, whole rows, and the beginning of one.
static void add_run(foreign_tensor *t, const shard_grid *g, foreign_block b, int64_t from,
        int64_t n) {
    const int64_t row = b.row, col = b.col;
    for (int64_t done = 0; done < n; b.first += b.rows * b.cols, done += b.rows * b.cols) {
        const int64_t at = from + done, in_row = at % g->cols, left = n - done;
        b.row = row + at / g->cols;
        b.col = col + in_row;
        b.rows = in_row || left < g->cols ? 1 : left / g->cols;
        b.cols = g->cols - in_row < left ? g->cols - in_row : left;
        t->blocks[t->n_blocks++] = b;
    }
}

static drv_status add_flattened(dcp_reading *r, const dcp_entry *e, const dcp_entry *weight,
        const char *name, const char *before, const foreign_name *row, int layer) {
    foreign_model *m = r->m;
    shard_grid grid;
    if (!grid_of(e, weight, row, layer, &grid))
        return refuse(r, e->name, "has not the shape of its weight, nor of its flattened shards");
    foreign_tensor *t = &m->tensors[m->n++];
    const int last = e->n_dims - 1;
    *t = (foreign_tensor){.name = name,
            .before = before,
            .type = e->type,
            .rows = grid.layer_rows * (grid.row_dim ? e->dim[0] : 1),
            .cols = grid.col_dim < 0 ? 1 : grid.cols * e->dim[grid.col_dim],
            .layers = grid.row_dim ? e->dim[0] : 0};
    t->blocks = ARENA_ARRAY(m->a, foreign_block, 3 * (int64_t)e->n_chunks + 1);
    for (int i = 0; i < e->n_chunks; i++) {
        const dcp_chunk *c = &e->chunks[i];
        foreign_block b = {0};
        torch_tensor *tensor = NULL;
        if (!c->file) continue; // empty
        for (int k = 0; k < last; k++)
            if (c->size[k] != 1) return refuse(r, e->name, "has a chunk of several shards");
        DRV_TRY(dcp_open_chunk(r, e, c, &b.file, &tensor));
        b.tensor = tensor;
        b.row = (grid.row_dim ? c->offset[0] : 0) * grid.layer_rows +
                c->offset[grid.row_dim] * grid.rows;
        b.col = grid.col_dim < 0 ? 0 : c->offset[grid.col_dim] * grid.cols;
        add_run(t, &grid, b, c->offset[last], c->size[last]);
    }
    return DRV_OK;
}

// --- the state
static drv_status add_state(dcp_reading *r, const dcp_entry *e, const state_name *state) {
    const char *name = state->weight;
    int layer;
    const foreign_name *row = weight_of(r, &name, &layer);
    if (!row) return refuse(r, e->name, "is of a parameter that is none of a Llama's");
    const char *before = before_ours[state->kind];
    const dcp_entry *weight =
            name_map_get(&r->metadata.by_name, arena_printf(r->m->a, "%s%s", r->prefix, name));
    if (!e->type) return refuse(r, e->name, "is an object, expected a tensor");
    if (!weight) return refuse(r, e->name, "is of a weight that is not there");
    return e->n_dims == weight->n_dims + 1 ? add_flattened(r, e, weight, name, before, row, layer)
                                           : dcp_add_tensor(r, e, name, before, row, layer);
}

// Takes the step of a parameter. All must have the same, from which the run continues.
static drv_status take_step(dcp_reading *r, const dcp_entry *e) {
    int64_t step = -1, *updates = &r->progress->updates;
    DRV_TRY(read_count(r, e, &step));
    if (*updates >= 0 && *updates != step)
        return drv_fail(DRV_E_DATA,
                "%s/.metadata: \"%s\" is %lld, but that of other parameters is %lld", r->folder,
                e->name, (long long)step, (long long)*updates);
    *updates = step;
    return DRV_OK;
}

// Takes the learning rate of param_groups: a number, a list of groups, or the list of state dicts
// of Megatron's distributed optimizer.
static drv_status take_rate(dcp_reading *r, const dcp_entry *e) {
    static const char *const paths[] = {"", "0.lr", "0.param_groups.0.lr"};
    torch_file *file;
    if (!isnan(r->progress->learning_rate)) return DRV_OK;
    if (e->type) return read_number(r, e, &r->progress->learning_rate);
    DRV_TRY(dcp_open_archive(r, e, e->chunks, &file));
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        const pickle_value *v = pickle_find(file->root, paths[i]);
        if (v && v->kind == PICKLE_REAL) r->progress->learning_rate = v->real;
    }
    return DRV_OK;
}

// Takes an entry. `rest`: what follows "optimizer.".
static drv_status take_entry(dcp_reading *r, const dcp_entry *e, const char *rest) {
    state_name state;
    const bool is_group = str_starts(rest, "param_groups");
    if (str_starts(rest, "distributed.") && e->type)
        return refuse(r, e->name,
                "is a bucket of Megatron's distributed optimizer (param_state_sharding_type "
                "dp_reshardable, dp_zero_gather_scatter or fully_sharded_bucket_space), whose place "
                "depends on the ranks; have Megatron load it and save it with "
                "--dist-ckpt-optim-fully-reshardable");
    if ((is_group && (str_ends(rest, ".lr") || !strchr(rest, '.'))) ||
            (str_starts(rest, "distributed.") && strstr(rest, ".optimizer/shard_0")))
        return take_rate(r, e);
    if (!str_starts(rest, "state.")) return DRV_OK;
    if (!parse_state(r->m->a, rest + strlen("state."), &state))
        return e->type ? refuse(r, e->name,
                                 "is state of another optimizer than AdamW, expected exp_avg, "
                                 "exp_avg_sq and step")
                       : DRV_OK;
    return state.kind == STATE_STEP ? take_step(r, e) : add_state(r, e, &state);
}

drv_status dcp_add_optimizer(dcp_reading *r) {
    for (int i = 0; i < r->metadata.n; i++) {
        const dcp_entry *e = &r->metadata.entries[i];
        const char *rest = after_optimizer(e->name);
        if (rest)
            DRV_TRY(take_entry(r, e, rest));
        else if (strcmp(e->name, "train_state.step") == 0)
            DRV_TRY(read_count(r, e, &r->progress->step));
    }
    if (r->m->n) return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "%s/.metadata: has no optimizer's state (optimizer.state...): it was saved with the model "
            "alone; give model.weights: load, which begins at step 0",
            r->folder);
}
