// The table of a Llama's weights.
#include "model/parameters.h"

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
    p->trainable = true;
    return p;
}

static void add_part(param_list *list, param *p, const char *hf_name, int64_t rows) {
    p->part[p->n_parts++] = (param_part){hf_name, p->dim[0], rows};
    p->dim[0] += rows;
    name_map_set(&list->by_part, hf_name, p);
}

// A vector of n numbers.
static const param *norm(arena *a, param_list *list, int layer, const char *name, int64_t n) {
    param *p = add(a, list, layer, name);
    p->n_dims = 1;
    add_part(list, p, p->name, n);
    return p;
}

// [rows, columns], one Hugging Face parameter of the same name.
static const param *matrix(arena *a, param_list *list, int layer, const char *name, int64_t rows,
        int64_t columns) {
    param *p = add(a, list, layer, name);
    p->n_dims = 2;
    p->dim[1] = columns;
    add_part(list, p, p->name, rows);
    return p;
}

// Several Hugging Face parameters, one below the other.
static const param *fused(arena *a, param_list *list, int layer, const char *name,
        const part_spec parts[MAX_PARTS], int64_t columns) {
    param *p = add(a, list, layer, name);
    p->n_dims = 2;
    p->dim[1] = columns;
    for (int i = 0; i < MAX_PARTS && parts[i].hf_name; i++)
        add_part(list, p, layer_name(a, layer, parts[i].hf_name), parts[i].rows);
    return p;
}

static layer_params add_layer(arena *a, param_list *list, int i) {
    const model_layout *l = &list->layout;
    const part_spec qkv[MAX_PARTS] = {{"self_attn.q_proj.weight", l->q_width},
            {"self_attn.k_proj.weight", l->kv_width}, {"self_attn.v_proj.weight", l->kv_width}};
    const part_spec gate_up[MAX_PARTS] = {{"mlp.gate_proj.weight", l->ffn},
            {"mlp.up_proj.weight", l->ffn}};
    layer_params w;
    w.input_norm = norm(a, list, i, "input_layernorm.weight", l->hidden);
    w.qkv = fused(a, list, i, "self_attn.qkv_proj.weight", qkv, l->hidden);
    w.o = matrix(a, list, i, "self_attn.o_proj.weight", l->hidden, l->q_width);
    w.post_norm = norm(a, list, i, "post_attention_layernorm.weight", l->hidden);
    w.gate_up = fused(a, list, i, "mlp.gate_up_proj.weight", gate_up, l->hidden);
    w.down = matrix(a, list, i, "mlp.down_proj.weight", l->hidden, l->ffn);
    return w;
}

param_list llama_params(arena *a, const model_layout *l) {
    enum { PER_LAYER = sizeof(layer_params) / sizeof(param *), OUTSIDE = 3 };
    param_list list = {.layout = *l, .by_part = {.a = a}};
    list.p = ARENA_ARRAY(a, param, PER_LAYER * l->n_layers + OUTSIDE);
    list.layer = ARENA_ARRAY(a, layer_params, l->n_layers);
    list.embedding = matrix(a, &list, -1, "model.embed_tokens.weight", l->vocab, l->hidden);
    for (int i = 0; i < l->n_layers; i++)
        list.layer[i] = add_layer(a, &list, i);
    list.final_norm = norm(a, &list, -1, "model.norm.weight", l->hidden);
    list.head = l->model->tie_word_embeddings
                        ? list.embedding
                        : matrix(a, &list, -1, "lm_head.weight", l->vocab, l->hidden);
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
