#include "model/llama.h"

static param *matrix(arena *a, param_list *l, const char *name, int64_t cols) {
    param *p = &l->p[l->n++];
    *p = (param){.name = arena_strdup(a, name), .n_dims = 2, .dim = {0, cols}};
    return p;
}

static void part(arena *a, param *p, const char *hf_name, int64_t rows) {
    p->part[p->n_parts++] = (param_part){arena_strdup(a, hf_name), p->dim[0], rows};
    p->dim[0] += rows;
}

static void norm(arena *a, param_list *l, const char *name, int64_t n) {
    l->p[l->n] = (param){.name = arena_strdup(a, name), .n_dims = 1, .dim = {n, 0}};
    l->p[l->n].part[0] = (param_part){l->p[l->n].name, 0, n};
    l->p[l->n++].n_parts = 1;
}

#define LAYER(suffix) arena_printf(a, "model.layers.%d." suffix, i)

param_list llama_params(arena *a, const model_config *m) {
    const int64_t hidden = m->hidden_size, q = m->num_attention_heads * m->head_dim,
                  kv = m->num_key_value_heads * m->head_dim;
    param_list l = {ARENA_ARRAY(a, param, 6 * m->num_hidden_layers + 3), 0};
    part(a, matrix(a, &l, "model.embed_tokens.weight", hidden), "model.embed_tokens.weight",
            m->vocab_size);
    for (int i = 0; i < (int)m->num_hidden_layers; i++) {
        norm(a, &l, LAYER("input_layernorm.weight"), hidden);
        param *p = matrix(a, &l, LAYER("self_attn.qkv_proj.weight"), hidden);
        part(a, p, LAYER("self_attn.q_proj.weight"), q);
        part(a, p, LAYER("self_attn.k_proj.weight"), kv);
        part(a, p, LAYER("self_attn.v_proj.weight"), kv);
        p = matrix(a, &l, LAYER("self_attn.o_proj.weight"), q);
        part(a, p, p->name, hidden);
        norm(a, &l, LAYER("post_attention_layernorm.weight"), hidden);
        p = matrix(a, &l, LAYER("mlp.gate_up_proj.weight"), hidden);
        part(a, p, LAYER("mlp.gate_proj.weight"), m->intermediate_size);
        part(a, p, LAYER("mlp.up_proj.weight"), m->intermediate_size);
        p = matrix(a, &l, LAYER("mlp.down_proj.weight"), m->intermediate_size);
        part(a, p, p->name, hidden);
    }
    norm(a, &l, "model.norm.weight", hidden);
    if (!m->tie_word_embeddings)
        part(a, matrix(a, &l, "lm_head.weight", hidden), "lm_head.weight", m->vocab_size);
    return l;
}

int64_t param_elements(const param *p) {
    return p->dim[0] * (p->n_dims == 2 ? p->dim[1] : 1);
}

dtype param_dtype(const param *p, dtype compute) {
    return p->n_dims == 1 ? dtype_acc(compute) : compute;
}

// --- the graph
typedef struct builder {
    graph *g;
    const model_config *m;
    const llama_opts *o;
    llama_mode mode;
    param_list params;
    int next_param;
    tensor *position, *rope; // rope_ND
} builder;

static tensor *add1(builder *b, op_kind op, int n_in, tensor *const *in, op_attrs attrs) {
    return graph_add(b->g, op, n_in, in, &attrs)->out[0];
}

static tensor *weight(builder *b) {
    const param *p = &b->params.p[b->next_param++];
    return graph_state(b->g, TENSOR_WEIGHT, p->name, param_dtype(p, b->o->dt), p->n_dims, p->dim);
}

static tensor *linear(builder *b, tensor *x_NK, tensor *w_OK) {
    return add1(b, OP_matmul, 2, (tensor *[]){x_NK, w_OK}, (op_attrs){.tb = 1});
}

// The cached programs live side by side and take different numbers of tokens.
static tensor *i32_input(builder *b, const char *name) {
    int64_t n = b->o->rows * b->o->seq;
    if (b->mode == LLAMA_PREFILL) name = arena_printf(b->g->a, "prefill.%s", name);
    if (b->mode == LLAMA_DECODE) name = arena_printf(b->g->a, "decode.%s", name);
    return graph_state(b->g, TENSOR_INPUT, name, DT_I32, 1, &n);
}

// The residual stream is kept apart from the last branch: *h + *branch is its value, and the next
// norm adds them in the same pass over memory. branch NULL: nothing to add.
static tensor *norm_of_stream(builder *b, tensor **h, tensor **branch) {
    tensor *w = weight(b);
    op_attrs attrs = {.eps = b->m->rms_norm_eps};
    if (!*branch) return add1(b, OP_rmsnorm, 2, (tensor *[]){*h, w}, attrs);
    node *n = graph_add(b->g, OP_add_rmsnorm, 3, (tensor *[]){*h, *branch, w}, &attrs);
    *h = n->out[0];
    *branch = NULL;
    return n->out[1];
}

static tensor *cached_attention(builder *b, tensor *qkv_NC, const op_attrs *attrs) {
    tensor *cache[2];
    for (int i = 0; i < 2; i++)
        cache[i] = graph_state(b->g, TENSOR_CACHE,
                arena_printf(b->g->a, "cache.%d.%s", b->g->layer, i ? "values" : "keys"), b->o->dt,
                3, (int64_t[]){b->m->num_key_value_heads, b->o->capacity, b->m->head_dim});
    tensor *in[] = {qkv_NC, cache[0], cache[1], b->position};
    return graph_add(b->g, OP_cached_attention, 4, in, attrs)->out[0];
}

static tensor *attention_block(builder *b, tensor *x_NH) {
    const model_config *m = b->m;
    tensor *qkv_NC = linear(b, x_NH, weight(b));
    op_attrs rot = {.n_heads = (int)(m->num_attention_heads + m->num_key_value_heads),
            .head_dim = (int)m->head_dim};
    qkv_NC = add1(b, OP_rope, 2, (tensor *[]){qkv_NC, b->rope}, rot);
    op_attrs attrs = {.n_heads = (int)m->num_attention_heads,
            .n_kv_heads = (int)m->num_key_value_heads,
            .head_dim = (int)m->head_dim,
            .seq = (int)b->o->seq};
    bool cached = b->mode == LLAMA_PREFILL || b->mode == LLAMA_DECODE;
    tensor *o = cached ? cached_attention(b, qkv_NC, &attrs)
                       : add1(b, OP_attention, 2, (tensor *[]){qkv_NC, b->position}, attrs);
    return linear(b, o, weight(b));
}

static tensor *mlp_block(builder *b, tensor *x_NH) {
    tensor *gate_up_N2F = linear(b, x_NH, weight(b));
    tensor *y_NF = add1(b, OP_swiglu, 1, &gate_up_N2F, (op_attrs){0});
    return linear(b, y_NF, weight(b));
}

// Rows of logits that exist at a time: enough for an efficient GEMM, at most 256 MiB of them.
static int logit_rows(const builder *b) {
    int64_t n = b->o->rows * b->o->seq, rows = 512;
    while (rows > 32 && rows * b->m->vocab_size * 4 > (256 << 20))
        rows /= 2;
    return (int)(rows < n ? rows : n);
}

static void head(builder *b, tensor *x_NH, tensor *table) {
    tensor *w = b->m->tie_word_embeddings ? table : weight(b);
    if (b->mode != LLAMA_LOSS) {
        graph_output(b->g, linear(b, x_NH, w), "logits");
        return;
    }
    tensor *in[] = {x_NH, w, i32_input(b, "labels")};
    graph_output(b->g, add1(b, OP_linear_cross_entropy, 3, in, (op_attrs){.chunk = logit_rows(b)}),
            "loss");
}

graph *llama_build(arena *a, const model_config *m, llama_mode mode, const llama_opts *o) {
    static const char *const names[] = {"loss", "logits", "prefill", "decode"};
    builder b = {graph_new(a, names[mode]), m, o, mode, llama_params(a, m), 0, NULL, NULL};
    tensor *tokens = i32_input(&b, "tokens"), *table = weight(&b);
    b.position = i32_input(&b, "position");
    op_attrs rope = {.head_dim = (int)m->head_dim,
            .table_dtype = dtype_acc(o->dt),
            .theta = m->rope_theta,
            .factor = m->rope_factor,
            .low_freq_factor = m->rope_low_freq_factor,
            .high_freq_factor = m->rope_high_freq_factor,
            .original_context = (double)m->rope_original_context};
    tensor *h = add1(&b, OP_embedding, 2, (tensor *[]){tokens, table}, (op_attrs){0});
    b.rope = add1(&b, OP_rope_table, 1, &b.position, rope);
    tensor *branch = NULL;
    for (int i = 0; i < (int)m->num_hidden_layers; i++) {
        b.g->layer = i;
        branch = attention_block(&b, norm_of_stream(&b, &h, &branch));
        branch = mlp_block(&b, norm_of_stream(&b, &h, &branch));
    }
    b.g->layer = -1;
    tensor *x = norm_of_stream(&b, &h, &branch);
    if (mode != LLAMA_PREFILL) head(&b, x, table);
    graph_prune(b.g);
    return b.g;
}
