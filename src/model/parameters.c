// The table of a model's weights.
#include "model/parameters.h"

#include <string.h>

typedef struct part_spec {
    const char *hf_name; // NULL: no more parts
    int64_t rows;
} part_spec;

static char *layer_name(arena *a, int layer, const char *name) {
    if (layer < 0) return arena_strdup(a, name);
    return arena_printf(a, "model.layers.%d.%s", layer, name);
}

static param *add(arena *a, param_list *list, int layer, const char *name) {
    param *p = &list->p[list->n++];
    p->name = layer_name(a, layer, name);
    return p;
}

// Rows from `first` on, of `all`.
static void add_rows(param_list *list, param *p, const char *hf_name, int64_t rows, int64_t first,
        int64_t all) {
    p->part[p->n_parts++] = (param_part){.hf_name = hf_name,
            .row = p->dim[0],
            .rows = rows,
            .first_row = first,
            .all_rows = all};
    p->dim[0] += rows;
    name_map_set(&list->by_part, hf_name, p);
}

// Call after p->split is set.
static void add_part(param_list *list, param *p, const char *hf_name, int64_t rows) {
    const model_layout *l = &list->layout;
    const int ranks = p->split == SPLIT_ROWS ? l->mesh.size[AXIS_TENSOR] : 1;
    add_rows(list, p, hf_name, rows, ranks > 1 ? l->place * rows : 0, ranks * rows);
}

// A vector of n numbers.
static const param *norm(arena *a, param_list *list, int layer, const char *name, int64_t n) {
    param *p = add(a, list, layer, name);
    p->n_dims = 1;
    p->all_columns = 1;
    p->init = INIT_ONES;
    add_part(list, p, p->name, n);
    return p;
}

static void set_columns(const model_layout *l, param *p, param_split split, int64_t columns) {
    const int ranks = split == SPLIT_COLUMNS ? l->mesh.size[AXIS_TENSOR] : 1;
    p->n_dims = 2;
    p->split = split;
    p->dim[1] = columns;
    p->all_columns = ranks * columns;
    p->first_column = ranks > 1 ? l->place * columns : 0;
}

// [rows, columns], one Hugging Face parameter of the same name.
static const param *matrix(arena *a, param_list *list, int layer, const char *name,
        param_split split, int64_t rows, int64_t columns) {
    param *p = add(a, list, layer, name);
    set_columns(&list->layout, p, split, columns);
    add_part(list, p, p->name, rows);
    return p;
}

// A fused weight: several Hugging Face parameters stacked by rows; each is split by rows.
static const param *fused(arena *a, param_list *list, int layer, const char *name,
        const part_spec parts[MAX_PARTS], int64_t columns) {
    param *p = add(a, list, layer, name);
    set_columns(&list->layout, p, SPLIT_ROWS, columns);
    for (int i = 0; i < MAX_PARTS && parts[i].hf_name; i++)
        add_part(list, p, layer_name(a, layer, parts[i].hf_name), parts[i].rows);
    return p;
}

// Adds the bias of a fused weight; its parts are Hugging Face's biases.
static void add_bias(arena *a, param_list *list, int layer, const char *name,
        const part_spec parts[MAX_PARTS], const param *projection) {
    param *p = add(a, list, layer, name);
    p->n_dims = 1;
    p->all_columns = 1;
    p->split = SPLIT_ROWS;
    p->init = INIT_ZEROS;
    for (int i = 0; i < MAX_PARTS && parts[i].hf_name; i++)
        add_part(list, p, layer_name(a, layer, parts[i].hf_name), parts[i].rows);
    list->p[projection - list->p].bias = p;
}

// --- low-rank branches
static param *add_branch_matrix(arena *a, param_list *list, const char *name, param_split split,
        int64_t columns, param_init init) {
    param *p = add(a, list, -1, name);
    set_columns(&list->layout, p, split, columns);
    p->init = init;
    p->is_adapter = true;
    return p;
}

// "model.layers.0.self_attn.q_proj.weight" without its last part.
static char *module_of(arena *a, const char *weight) {
    return arena_strndup(a, weight, strlen(weight) - strlen(".weight"));
}

// Adds branches to the targeted parts of a projection, under PEFT's names. Tensor ranks split A as
// its input and B as the output to which it is added.
static void add_branches(arena *a, param_list *list, const param *projection, int site,
        const lora_set *lora) {
    param *weight = &list->p[projection - list->p], *down = NULL;
    param_branches *branches = ARENA_NEW(a, param_branches);
    for (int i = 0; i < weight->n_parts; i++) {
        const char *module = module_of(a, weight->part[i].hf_name);
        const lora_branch *branch = lora_find(lora, module);
        if (!branch) continue;
        const char *peft = arena_printf(a, "base_model.model.%s", module);
        if (!down)
            down = add_branch_matrix(a, list,
                    arena_printf(a, "%s.lora_A.weight", module_of(a, weight->name)),
                    weight->split == SPLIT_COLUMNS ? SPLIT_COLUMNS : SPLIT_NONE, weight->dim[1],
                    INIT_UNIFORM);
        add_part(list, down, arena_printf(a, "%s.lora_A.weight", peft), branch->rank);
        const char *up_name = arena_printf(a, "%s.lora_B.weight", peft);
        param *up = add_branch_matrix(a, list, up_name,
                weight->split == SPLIT_ROWS ? SPLIT_ROWS : SPLIT_NONE, branch->rank, INIT_ZEROS);
        add_part(list, up, up_name, weight->part[i].rows);
        branches->b[branches->n] = up;
        branches->scale[branches->n] = branch->scale;
        branches->column[branches->n++] = (int)weight->part[i].row;
    }
    if (!down) return;
    branches->a = down;
    branches->site = site;
    weight->branches = branches;
}

// `at`: the index of the layer among those of this rank.
static void add_layer_branches(arena *a, param_list *list, int layer, int here,
        const lora_set *lora) {
    const layer_params *w = &list->layer[here];
    const param *projections[] = {w->qkv, w->o, w->gate_up, w->down};
    enum { N_INPUTS = sizeof projections / sizeof *projections };
    for (int i = 0; i < N_INPUTS; i++)
        add_branches(a, list, projections[i], layer * N_INPUTS + i, lora);
}

// --- all weights
// Adds the biases and head norms that some families have in attention.
static void add_to_qkv(arena *a, param_list *list, int layer, layer_params *w) {
    const model_layout *l = &list->layout;
    const part_spec bias[MAX_PARTS] = {{"self_attn.q_proj.bias", l->q_width},
            {"self_attn.k_proj.bias", l->kv_width}, {"self_attn.v_proj.bias", l->kv_width}};
    if (l->model->qkv_bias) add_bias(a, list, layer, "self_attn.qkv_proj.bias", bias, w->qkv);
    if (!l->model->qk_norm) return;
    w->q_norm = norm(a, list, layer, "self_attn.q_norm.weight", l->head_dim);
    w->k_norm = norm(a, list, layer, "self_attn.k_norm.weight", l->head_dim);
}

static layer_params add_layer(arena *a, param_list *list, int i) {
    const model_layout *l = &list->layout;
    const part_spec qkv[MAX_PARTS] = {{"self_attn.q_proj.weight", l->q_width},
            {"self_attn.k_proj.weight", l->kv_width}, {"self_attn.v_proj.weight", l->kv_width}};
    const part_spec gate_up[MAX_PARTS] = {{"mlp.gate_proj.weight", l->ffn},
            {"mlp.up_proj.weight", l->ffn}};
    layer_params w = {0};
    w.input_norm = norm(a, list, i, "input_layernorm.weight", l->hidden);
    w.qkv = fused(a, list, i, "self_attn.qkv_proj.weight", qkv, l->hidden);
    add_to_qkv(a, list, i, &w);
    w.o = matrix(a, list, i, "self_attn.o_proj.weight", SPLIT_COLUMNS, l->hidden, l->q_width);
    w.post_norm = norm(a, list, i, "post_attention_layernorm.weight", l->hidden);
    w.gate_up = fused(a, list, i, "mlp.gate_up_proj.weight", gate_up, l->hidden);
    w.down = matrix(a, list, i, "mlp.down_proj.weight", SPLIT_COLUMNS, l->hidden, l->ffn);
    return w;
}

// [V, H]
static const param *table(arena *a, param_list *list, const char *name) {
    const model_layout *l = &list->layout;
    param *p = add(a, list, -1, name);
    set_columns(l, p, SPLIT_ROWS, l->hidden);
    add_rows(list, p, p->name, l->vocab, l->place * l->vocab_part, l->model->vocab_size);
    return p;
}

// A tied head is the embedding itself or, if another rank has that, a copy with the same name.
static void add_head(arena *a, param_list *list) {
    const model_layout *l = &list->layout;
    list->final_norm = norm(a, list, -1, "model.norm.weight", l->hidden);
    list->head = list->embedding;
    if (!l->model->tie_word_embeddings) list->head = table(a, list, "lm_head.weight");
    if (list->head) return;
    list->head = table(a, list, "model.embed_tokens.weight");
    list->p[list->n - 1].is_copy = true;
}

// Checks that the branches of this rank's layers are those of the LoRA set.
static void check_branches(const param_list *list, const lora_set *lora) {
    const model_layout *sizes = &list->layout;
    int64_t n = 0, expected = 0;
    for (int i = 0; i < list->n; i++)
        for (int k = 0; k < list->p[i].n_parts && list->p[i].is_adapter; k++)
            n += list->p[i].part[k].all_rows * list->p[i].all_columns;
    for (int v = 0; v < sizes->n_chunks; v++)
        expected +=
                lora_parameters_of(lora, sizes->model, sizes->chunk[v].first, sizes->chunk[v].n);
    DRV_ASSERT(n == expected, "%lld numbers are trained, expected %lld", (long long)n,
            (long long)expected);
}

param_list llama_params(arena *a, const model_layout *sizes, const lora_set *lora) {
    enum { BIASES = 1, PER_LAYER = sizeof(layer_params) / sizeof(param *) + BIASES, OUTSIDE = 3 };
    enum { BRANCHES_PER_LAYER = 4 + 7 }; // an A for each input, a B for each projection
    const bool has_lora = lora && lora->n > 0;
    param_list list = {.layout = *sizes, .by_part = {.a = a}};
    list.p = ARENA_ARRAY(a, param, (PER_LAYER + BRANCHES_PER_LAYER) * sizes->n_layers + OUTSIDE);
    list.layer = ARENA_ARRAY(a, layer_params, sizes->n_layers);
    if (sizes->embeds) list.embedding = table(a, &list, "model.embed_tokens.weight");
    for (int v = 0; v < sizes->n_chunks; v++)
        for (int i = 0; i < sizes->chunk[v].n; i++)
            list.layer[sizes->chunk[v].first_here + i] =
                    add_layer(a, &list, sizes->chunk[v].first + i);
    if (sizes->has_head) add_head(a, &list);
    for (int v = 0; v < sizes->n_chunks && has_lora; v++)
        for (int i = 0; i < sizes->chunk[v].n; i++)
            add_layer_branches(a, &list, sizes->chunk[v].first + i, sizes->chunk[v].first_here + i,
                    lora);
    for (int i = 0; i < list.n; i++)
        list.p[i].trainable = !has_lora || list.p[i].is_adapter;
    if (has_lora) check_branches(&list, lora);
    return list;
}

int64_t param_elements(const param *p) {
    return p->dim[0] * (p->n_dims == 2 ? p->dim[1] : 1);
}

dtype param_dtype(const param *p, dtype compute) {
    return p->n_dims == 1 ? dtype_acc(compute) : compute;
}

const param *param_of_part(const param_list *list, const char *hf_name) {
    return name_map_get(&list->by_part, hf_name);
}
