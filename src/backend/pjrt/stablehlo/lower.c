// The table of rules, the signature of a program, and the record of which node wrote which line.
#include "backend/pjrt/stablehlo/lower.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/op.h"

#define X(name) extern const lower_op lower_op_##name;
IR_OPS(X)
#undef X

const lower_op *const lower_ops[N_OPS] = {
#define X(name) &lower_op_##name,
        IR_OPS(X)
#undef X
};

// --- helpers of rules
hlo_type lower_type(const lowering *l, dtype dt) {
    static const hlo_type types[] = {[DT_F32] = HLO_F32, [DT_BF16] = HLO_BF16, [DT_I32] = HLO_I32};
    DRV_ASSERT(dt != DT_I64, "no op has i64");
    return dt == DT_F64 ? (l->options.has_f64 ? HLO_F64 : HLO_F32) : types[dt];
}

hlo_value lower_like(const lowering *l, const tensor *t) {
    hlo_value like = {.type = lower_type(l, t->dt), .n_dims = t->n_dims};
    memcpy(like.dim, t->dim, sizeof *t->dim * (size_t)t->n_dims);
    return like;
}

hlo_type lower_acc(const lowering *l, const tensor *t) {
    return lower_type(l, dtype_acc(t->dt));
}

hlo_value lower_in(const lowering *l, const node *n, int k) {
    return l->values[n->in[k]->id];
}

hlo_value lower_in_acc(lowering *l, const node *n, int k, int like) {
    return hlo_convert(&l->h, lower_in(l, n, k), lower_acc(l, n->in[like]));
}

void lower_set(lowering *l, const node *n, int o, hlo_value v) {
    const tensor *t = n->out[o];
    bool same = v.type == lower_type(l, t->dt) && v.n_dims == t->n_dims;
    for (int i = 0; same && i < t->n_dims; i++)
        same = v.dim[i] == t->dim[i];
    DRV_ASSERT(same, "output %d of %s, node %d", o, op_name(n->op), l->node);
    l->values[t->id] = v;
    l->is_set[t->id] = true;
}

void lower_round(lowering *l, const node *n, int o, hlo_value v) {
    lower_set(l, n, o, hlo_convert(&l->h, v, lower_type(l, n->out[o]->dt)));
}

void lower_same(lowering *l, const node *n) {
    lower_set(l, n, 0, lower_in(l, n, 0));
}

// --- the signature
state_use lower_state_use(arena *a, const graph *g, int first, int end) {
    const state_use use = {ARENA_ARRAY(a, bool, g->n_tensors),
            ARENA_ARRAY(a, const tensor *, g->n_tensors)};
    for (int i = first; i < end; i++) {
        const node *n = g->nodes[i];
        for (int k = 0; k < n->n_in; k++)
            if (!n->in[k]->def) use.read[n->in[k]->id] = true;
        for (int o = 0; o < n->n_out && !op_rows[n->op]->renames; o++) {
            const tensor *root = tensor_root(n->out[o]);
            if (n->out[o]->alias && root->cls != TENSOR_TEMP) use.last[root->id] = n->out[o];
        }
    }
    return use;
}

lowered_state lower_state(const lowering *l, const tensor *t, int alias) {
    lowered_state s = {.name = t->name,
            .host = t->dt,
            .shape = {.dt = t->dt, .n_dims = t->n_dims},
            .n_slots = t->n_slots,
            .pool = t->pool,
            .dies = t->dies,
            .alias = alias};
    if (t->dt == DT_F64 && !l->options.has_f64) s.shape.dt = DT_F32;
    for (int i = 0; i < t->n_dims; i++)
        s.shape.dim[i] = t->dim[i];
    return s;
}

void lower_add_places(lowering *l, lowered *out) {
    l->has_places = mesh_ranks(&l->options.ranks) > 1;
    if (!l->has_places) return;
    l->places = hlo_new(&l->h, HLO_I32, HLO_DIMS(N_AXES));
    out->in[out->n_in++] = (lowered_state){.name = LOWERED_PLACES,
            .host = DT_I32,
            .shape = {.dt = DT_I32, .n_dims = 1, .dim = {N_AXES}},
            .alias = -1};
}

static hlo_value value_of_state(const lowering *l, const lowered_state *s) {
    hlo_value v = {.type = lower_type(l, s->host), .n_dims = s->shape.n_dims};
    for (int i = 0; i < v.n_dims; i++)
        v.dim[i] = s->shape.dim[i];
    return v;
}

void lower_head(lowering *l, const lowered *out) {
    hlo_text *h = &l->h;
    str_printf(&h->s, "module @%s attributes {mhlo.num_partitions = 1 : i32, ", out->name);
    str_printf(&h->s, "mhlo.num_replicas = %d : i32} {", mesh_ranks(&l->options.ranks));
    hlo_end_line(h);
    str_puts(&h->s, " func.func public @main(");
    for (int i = 0; i < out->n_in; i++) {
        const hlo_value v = value_of_state(l, &out->in[i]);
        str_printf(&h->s, i ? ", %%v%d: " : "%%v%d: ", i); // arguments have the first ids
        hlo_put_type(h, &v);
        for (int o = 0; o < out->n_out; o++)
            if (out->out[o].alias == i) str_printf(&h->s, " {tf.aliasing_output = %d : i32}", o);
    }
    str_puts(&h->s, ") -> (");
    for (int o = 0; o < out->n_out; o++) {
        const hlo_value v = value_of_state(l, &out->out[o]);
        if (o) str_puts(&h->s, ", ");
        hlo_put_type(h, &v);
    }
    str_puts(&h->s, ") {");
    hlo_end_line(h);
}

void lower_results(lowering *l, const hlo_value *v, int n) {
    hlo_put_return(&l->h, "func.return", v, n);
    str_puts(&l->h.s, " }");
    hlo_end_line(&l->h);
    str_puts(&l->h.s, "}");
    hlo_end_line(&l->h);
}

// --- the whole graph
bool lower_has_several_sums(const node *n) {
    const int k = lower_ops[n->op]->sums - 1;
    return k >= 0 && (n->in[k]->dim[0] > 1 || n->in[k]->dim[1] > 1);
}

// Ranks of different pipeline stages run different programs, so messages along that axis are
// exchanged between programs (lower_graph.c).
static drv_status check_mesh(const lowering *l, const node *n) {
    const mesh_use *use = &n->attrs.mesh;
    const mesh along = lower_ops[n->op]->of_update ? mesh_of_update(&l->mesh) : l->mesh;
    const int all = use->ends ? use->ranks : along.size[use->axis],
              here = use->across   ? mesh_groups(&along)
                     : use->groups ? all / use->groups
                                   : all,
              table = lower_ops[n->op]->vocabulary - 1;
    if (use->ranks <= 1) return DRV_OK;
    if (use->ranks != here)
        return drv_fail(DRV_E_DEVICE,
                "it communicates over %d ranks, but the %s axis of the pjrt back end has %d",
                use->ranks, mesh_axis_name((mesh_axis)use->axis), here);
    if (table >= 0 && n->attrs.vocabulary.part && n->in[table]->dim[0] != n->attrs.vocabulary.part)
        return drv_fail(DRV_E_DEVICE,
                "this rank has %lld rows of the vocabulary and others have %d, but devices run the "
                "same program, expected a vocabulary that %d ranks share evenly",
                (long long)n->in[table]->dim[0], n->attrs.vocabulary.part, use->ranks);
    return DRV_OK;
}

static drv_status check_node(const lowering *l, const node *n) {
    if (n->attrs.sum.row_blocks > 1)
        return drv_fail(DRV_E_DEVICE,
                "the pjrt back end cannot divide the tokens of a rank into %d reduction blocks, "
                "expected parallel.context_blocks auto, one for each context rank",
                n->attrs.sum.row_blocks);
    if (n->attrs.sum.partial_sums > 1)
        return drv_fail(DRV_E_DEVICE,
                "the pjrt back end cannot add %d partial sums of a micro-batch one by one, "
                "expected parallel.partial_sum_rows auto, the whole micro-batch",
                n->attrs.sum.partial_sums);
    if (lower_has_several_sums(n))
        return drv_fail(DRV_E_DEVICE,
                "the pjrt back end cannot keep several sums of a gradient on a rank, expected "
                "parallel.accumulation_groups 1");
    if (!lower_ops[n->op]->lower)
        return drv_fail(DRV_E_DEVICE, "the pjrt back end cannot compute this op");
    return check_mesh(l, n);
}

static drv_status check_nodes(const lowering *l) {
    for (int i = 0; i < l->g->n_nodes; i++) {
        const node *n = l->g->nodes[i];
        if (OP_READS(n->op, matmul, fp8) && n->attrs.matmul.fp8 && !l->options.has_fp8)
            return drv_fail(DRV_E_USAGE,
                    "training.precision is fp8, but the device cannot multiply fp8, expected bf16, "
                    "or an NVIDIA GPU of compute capability 8.9 or later");
        if (op_rows[n->op]->on_host && !l->options.has_host_memory)
            return drv_fail(DRV_E_USAGE,
                    "training.offload is activations, but the device has no memory of the kind "
                    "\"%s\", expected none; training.recompute full needs less memory",
                    HLO_MEMORY_OF_HOST);
        DRV_TRY_CTX(check_node(l, n), "graph \"%s\", node %d %s", l->g->name, i, op_name(n->op));
    }
    return DRV_OK;
}

// A graph without nodes along an axis need not have a mesh, which is then that of one rank.
static void find_mesh(lowering *l) {
    if (mesh_ranks(&l->options.ranks) == 0) l->options.ranks = mesh_single();
    l->of_update = l->options.ranks.size[AXIS_CONTEXT] > 1 && l->g->mesh.size[AXIS_CONTEXT] == 1;
    l->mesh = l->of_update ? mesh_of_update(&l->options.ranks) : l->options.ranks;
}

drv_status lower_open(arena *a, const graph *g, const lower_options *options, lowering *out) {
    *out = (lowering){.h.a = a, .g = g, .options = *options};
    find_mesh(out);
    DRV_TRY(check_nodes(out));
    out->values = ARENA_ARRAY(a, hlo_value, g->n_tensors);
    out->is_set = ARENA_ARRAY(a, bool, g->n_tensors);
    lower_note_reads(out);
    return DRV_OK;
}

static void lower_node(lowering *l, const node *n) {
    lower_ops[n->op]->lower(l, n);
    for (int o = 0; o < n->n_out; o++)
        DRV_ASSERT(l->is_set[n->out[o]->id], "the rule of %s leaves out output %d", op_name(n->op),
                o);
}

void lower_nodes(lowering *l, lowered *out, int first, int end) {
    const graph *of = l->g;
    for (int i = first, begin = first; i < end; i++) {
        const node *n = of->nodes[i];
        if (n->layer != of->nodes[begin]->layer || n->phase != of->nodes[begin]->phase) {
            lower_fence(l, begin, i);
            begin = i;
        }
        l->node = i;
        out->lines[out->n_lines++] = (lowered_line){l->h.n_lines + 1, of, i};
        lower_node(l, n);
    }
}

drv_status lower_explain(const lowered *l, drv_status failed) {
    // "...: error: 17:9: ..." or "loc("-":17:9)", after the function that failed.
    const char *text = drv_message();
    const lowered_line *found = NULL;
    int line = 0, column = 0;
    for (; *text && line == 0; text++)
        if (*text == ':' && sscanf(text, ":%d:%d", &line, &column) != 2) line = 0;
    for (int i = 0; i < l->n_lines && l->lines[i].first <= line; i++)
        found = &l->lines[i];
    if (!found) return drv_context(failed, "graph \"%s\"", l->name);
    return drv_context(failed, "graph \"%s\", node %d %s", found->g->name, found->node,
            op_name(found->g->nodes[found->node]->op));
}
