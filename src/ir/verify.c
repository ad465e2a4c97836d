// Checks that a graph is what its ops allow. Reads are checked by storage: each storage has a
// version, which every in-place update raises; a value may be read only while its version is the
// storage's.
#include <stdlib.h>

#include "ir/op.h"

typedef struct checker {
    const graph *g;
    graph_stage stage;
    int index; // of the node that is checked
    // By tensor id. Of every value: whether it exists, its storage, the version it is of. Of a
    // storage's first value: the version that the storage holds, and the node that wrote it.
    struct value {
        bool defined;
        int root, version, held, written_by;
    } * values;
} checker;

static struct value *value_of(const checker *c, const tensor *t) {
    return &c->values[t->id];
}

static drv_status check_read(const checker *c, const node *n, const tensor *t) {
    const struct value *value = value_of(c, t), *root = &c->values[value->root];
    if (t->def && !value->defined)
        return drv_fail(DRV_E_DATA, "graph %s: node %d %s reads %%%d before it is defined",
                c->g->name, c->index, op_name(n->op), t->id);
    if (value->version != root->held)
        return drv_fail(DRV_E_DATA,
                "graph %s: node %d %s reads %%%d, which node %d has overwritten", c->g->name,
                c->index, op_name(n->op), t->id, root->written_by);
    return DRV_OK;
}

// No other input of the node is in the storage that output o overwrites. (Nor is another output:
// it would take over such an input.)
static drv_status check_update(const checker *c, const node *n, int o) {
    const int root = value_of(c, n->out[o]->alias)->root;
    int uses = 0;
    for (int k = 0; k < n->n_in; k++)
        uses += value_of(c, n->in[k])->root == root;
    if (uses > 1)
        return drv_fail(DRV_E_DATA,
                "graph %s: node %d %s updates %%%d in place and reads its storage twice",
                c->g->name, c->index, op_name(n->op), n->out[o]->alias->id);
    return DRV_OK;
}

static bool follows(const tensor *t, const tensor_spec *spec, const node *n) {
    if (t->dt != spec->dt || t->n_dims != spec->n_dims) return false;
    for (int d = 0; d < t->n_dims; d++)
        if (t->dim[d] != spec->dim[d]) return false;
    const bool in_place = spec->alias_in >= 0 && !spec->may_alias;
    return t->alias == (in_place ? n->in[spec->alias_in] : NULL) && t->def == n;
}

static const char *const stage_names[] = {"built", "differentiated", "planned"};

// Only ops that widen blocks read a weight that is held in them.
static const char *check_blocks(const node *n) {
    const op_row *row = op_rows[n->op];
    for (int k = 0; k < n->n_in; k++)
        if (tensor_blocks(n->in[k]) && !row->renames && !(row->reads_blocks && k == 1))
            return "an input is held in blocks, which the op does not read";
    return NULL;
}

static drv_status check_row(const checker *check, const node *checked) {
    const op_row *row = op_rows[checked->op];
    tensor_spec spec[MAX_OUT];
    int n_out;
    const char *bad = op_outputs(checked, spec, &n_out);
    if (!bad) bad = op_attrs_unlisted(checked);
    if (!bad) bad = check_blocks(checked);
    bool same = n_out == checked->n_out;
    for (int o = 0; !bad && same && o < n_out; o++)
        same = follows(checked->out[o], &spec[o], checked);
    if (!bad && !same) bad = "outputs do not follow the op's row";
    if (bad)
        return drv_fail(DRV_E_DATA, "graph %s: node %d %s: %s", check->g->name, check->index,
                op_name(checked->op), bad);
    const mesh_use *use = &checked->attrs.mesh;
    const int axis = use->axis, ranks = use->ranks;
    const mesh update = mesh_of_update(&check->g->mesh); // over which gradients are summed
    const int of_axis = use->groups ? ranks * use->groups : ranks;
    const bool along = use->across ? ranks == update.groups
                                   : of_axis == check->g->mesh.size[axis] ||
                                             (OP_READS(checked->op, sum, data_ranks) &&
                                                     of_axis == update.size[axis]);
    if (OP_READS(checked->op, mesh, axis) && ranks && !along)
        return drv_fail(DRV_E_DATA, "graph %s: node %d %s: %d ranks, but the %s axis has %d",
                check->g->name, check->index, op_name(checked->op), ranks,
                mesh_axis_name((mesh_axis)axis), check->g->mesh.size[axis]);
    if (check->stage == STAGE_BUILT && !row->built)
        return drv_fail(DRV_E_DATA, "graph %s: node %d %s is not allowed in a graph that is %s",
                check->g->name, check->index, op_name(checked->op), stage_names[check->stage]);
    return DRV_OK;
}

static void define(checker *c, const node *n, const tensor *t) {
    struct value *value = value_of(c, t);
    value->defined = true;
    value->root = t->id;
    if (!t->alias) return;
    const struct value *old = value_of(c, t->alias);
    struct value *root = &c->values[old->root];
    value->root = old->root;
    value->version = old->version;
    if (op_rows[n->op]->renames) return;
    value->version = ++root->held;
    root->written_by = c->index;
}

static drv_status check_node(checker *c, const node *n) {
    for (int k = 0; k < n->n_in; k++)
        DRV_TRY(check_read(c, n, n->in[k]));
    DRV_TRY(check_row(c, n));
    for (int o = 0; o < n->n_out; o++)
        if (n->out[o]->alias && !op_rows[n->op]->renames) DRV_TRY(check_update(c, n, o));
    for (int o = 0; o < n->n_out; o++)
        define(c, n, n->out[o]);
    return DRV_OK;
}

drv_status graph_verify(const graph *g, graph_stage stage) {
    if (g->stage < stage)
        return drv_fail(DRV_E_DATA, "graph %s is %s, not yet %s", g->name, stage_names[g->stage],
                stage_names[stage]);
    checker c = {.g = g, .stage = stage};
    c.values = mem_alloc(sizeof *c.values * ((size_t)g->n_tensors + 1));
    for (int i = 0; i < g->n_tensors; i++)
        c.values[i] = (struct value){.root = i, .written_by = -1};
    drv_status status = DRV_OK;
    for (; status == DRV_OK && c.index < g->n_nodes; c.index++)
        status = check_node(&c, g->nodes[c.index]);
    free(c.values);
    return status;
}
