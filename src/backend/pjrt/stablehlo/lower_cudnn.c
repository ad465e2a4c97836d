// Attention by cuDNN's fused kernels, which XLA calls on CUDA by name: no loop, no scores in
// memory, products on tensor cores. For rows that are purely causal, in bf16; others are computed
// by blocks (lower_attention.c). The call and its configuration are those that XLA's own
// GpuBackendConfig.CudnnfMHABackendConfig describes and JAX prints
// (jax/_src/cudnn/fused_attention_stablehlo.py).
//
// Legend: R rows of S tokens, H query heads, K key-value heads, D of a head. Operands lie as
// [R, S, H, D]; results are [R, H, S, D] in that same order in memory, so that their transposition
// costs nothing. Fewer key-value heads than query heads are cuDNN's to group.
#include "backend/pjrt/stablehlo/lower_cudnn.h"

#include <math.h>

enum {
    MAX_HEAD_DIM = 128,
    HEAD_DIM_STEP = 8
}; // what Ampere's and Hopper's kernels take, both ways

bool lower_cudnn_fits(const lowering *l, const node *n, const tensor *qkv) {
    const op_attrs *attrs = &n->attrs;
    const bool whole =
            attrs->mesh.ranks <= 1 && attrs->sum.row_leaves <= 1 && attrs->mesh.replicas <= 1;
    return l->options.cudnn && attrs->causal && whole && qkv->dt == DT_BF16 && !attrs->sum.wide &&
           attrs->head_dim % HEAD_DIM_STEP == 0 && attrs->head_dim <= MAX_HEAD_DIM;
}

typedef struct fused_call {
    hlo_text *h;
    int64_t rows, seq, heads, kv_heads, d;
    bool deterministic;
} fused_call;

static fused_call open_call(lowering *l, const node *n, const tensor *qkv) {
    const op_attrs *attrs = &n->attrs;
    return (fused_call){.h = &l->h,
            .rows = qkv->dim[0] / attrs->seq,
            .seq = attrs->seq,
            .heads = attrs->n_heads,
            .kv_heads = attrs->n_kv_heads,
            .d = attrs->head_dim,
            .deterministic = l->options.deterministic};
}

// --- the call
typedef struct fused_product { // which dims a product contracts, and which are its batches
    const char *name;
    int lhs, rhs, lhs_batch, rhs_batch; // beside dim 0
} fused_product;

static const fused_product forward_products[] = {{"bmm1", 3, 3, 2, 2}, {"bmm2", 3, 1, 1, 2}},
                           backward_products[] = {{"bmm1_grad_gemm1", 2, 1, 1, 2},
                                   {"bmm1_grad_gemm2", 3, 1, 1, 2}, {"bmm2_grad_gemm1", 2, 1, 1, 2},
                                   {"bmm2_grad_gemm2", 3, 3, 2, 2}};

// The shape of the scores, which are nowhere in memory.
static void put_scores(const fused_call *c, str *out) {
    str_printf(out,
            "\"intermediate_tensor_shape\":{\"element_type\":\"BF16\",\"dimensions\":[\"%lld\",\"%lld\","
            "\"%lld\",\"%lld\"],\"tuple_shapes\":[],\"layout\":{\"dim_level_types\":[],\"dim_unique\":[],"
            "\"dim_ordered\":[],\"minor_to_major\":[\"3\",\"2\",\"1\",\"0\"],\"tiles\":[],"
            "\"element_size_in_bits\":\"0\",\"memory_space\":\"0\","
            "\"index_primitive_type\":\"PRIMITIVE_TYPE_INVALID\","
            "\"pointer_primitive_type\":\"PRIMITIVE_TYPE_INVALID\","
            "\"dynamic_shape_metadata_prefix_bytes\":\"0\"},"
            "\"is_dynamic_dimension\":[false,false,false,false]}",
            (long long)c->rows, (long long)c->heads, (long long)c->seq, (long long)c->seq);
}

static void put_config(const fused_call *c, const fused_product *products, int n, str *out) {
    str_puts(out,
            "{\"operation_queue_id\":\"0\",\"cudnn_fmha_backend_config\":{\"algorithm\":{"
            "\"algo_id\":\"0\",\"math_type\":\"TENSOR_OP_MATH\",\"tuning_knobs\":{\"17\":\"1\","
            "\"24\":\"0\"},\"is_cudnn_frontend\":true,\"workspace_size\":\"0\"},");
    str_printf(out, "\"fmha_scale\":%.17g,", 1 / sqrt((double)c->d));
    put_scores(c, out);
    str_puts(out, ",\"is_flash_attention\":true,\"mask_type\":\"CAUSAL\"");
    for (int i = 0; i < n; i++)
        str_printf(out,
                ",\"%s_dot_dimension_numbers\":{\"lhs_contracting_dimensions\":[\"%d\"],"
                "\"rhs_contracting_dimensions\":[\"%d\"],\"lhs_batch_dimensions\":[\"0\",\"%d\"],"
                "\"rhs_batch_dimensions\":[\"0\",\"%d\"]}",
                products[i].name, products[i].lhs, products[i].rhs, products[i].lhs_batch,
                products[i].rhs_batch);
    str_printf(out,
            ",\"dropout_rate\":0.0,\"seed\":42,\"sliding_window_length\":0,"
            "\"max_seg_per_batch\":1,\"is_paged_attention\":false,"
            "\"force_deterministic\":%s}}",
            c->deterministic ? "true" : "false");
}

// As text inside quotation marks.
static void put_quoted(hlo_text *h, const str *text) {
    str_puts(&h->s, "\"");
    for (size_t i = 0; i < text->n; i++) {
        if (text->p[i] == '"') str_puts(&h->s, "\\");
        str_add(&h->s, &text->p[i], 1);
    }
    str_puts(&h->s, "\"");
}

static void put_layouts(hlo_text *h, const char *name, const hlo_value *v, int n,
        bool heads_inside) {
    str_printf(&h->s, ", %s = [", name);
    for (int i = 0; i < n; i++) {
        if (i) str_puts(&h->s, ", ");
        str_puts(&h->s, v[i].n_dims < 4 ? "dense<[2, 1, 0]> : tensor<3xindex>"
                        : heads_inside  ? "dense<[3, 1, 2, 0]> : tensor<4xindex>"
                                        : "dense<[3, 2, 1, 0]> : tensor<4xindex>");
    }
}

// Gives the n_out values of `out` their names; after them the call has a workspace.
static void put_call(const fused_call *c, bool backward, const hlo_value *in, int n_in,
        hlo_value *out, int n_out) {
    hlo_text *h = c->h;
    const int id = hlo_new(h, out->type, 0, NULL).id;
    str config = {0};
    if (backward)
        put_config(c, backward_products, 4, &config);
    else
        put_config(c, forward_products, 2, &config);
    str_printf(&h->s, "  %%v%d:%d = \"stablehlo.custom_call\"(", id, n_out + 1);
    hlo_put_values(h, in, n_in);
    str_printf(&h->s,
            ") {call_target_name = \"__cudnn$fmhaSoftmax%s\", api_version = 2 : i32, "
            "has_side_effect = false, backend_config = ",
            backward ? "Backward" : "");
    put_quoted(h, &config);
    put_layouts(h, "operand_layouts", in, n_in, false);
    str_puts(&h->s, "]");
    put_layouts(h, "result_layouts", out, n_out, true);
    str_puts(&h->s, ", dense<0> : tensor<1xindex>]} : (");
    hlo_put_types(h, in, n_in);
    str_puts(&h->s, ") -> (");
    hlo_put_types(h, out, n_out);
    str_puts(&h->s, ", tensor<0xui8>)");
    hlo_end_op(h);
    str_free(&config);
    for (int i = 0; i < n_out; i++) {
        out[i].id = id;
        out[i].part = i;
    }
}

// --- heads
// Columns [first, first + n) heads of [N, C]: [R, S, n, D].
static hlo_value take_heads(const fused_call *c, hlo_value x, int64_t first, int64_t n) {
    x = hlo_slice(c->h, x, 1, first * c->d, n * c->d);
    return hlo_reshape(c->h, x, HLO_DIMS(c->rows, c->seq, n, c->d));
}

// [R, n, S, D] -> [N, n D]
static hlo_value join_heads(const fused_call *c, hlo_value x) {
    static const int64_t order[] = {0, 2, 1, 3};
    const int64_t n = x.dim[1];
    return hlo_reshape(c->h, hlo_transpose(c->h, x, order), HLO_DIMS(c->rows * c->seq, n * c->d));
}

static void take_qkv(const fused_call *c, hlo_value qkv, hlo_value out[3]) {
    out[0] = take_heads(c, qkv, 0, c->heads);
    out[1] = take_heads(c, qkv, c->heads, c->kv_heads);
    out[2] = take_heads(c, qkv, c->heads + c->kv_heads, c->kv_heads);
}

static hlo_value of_heads(const fused_call *c, hlo_type type, int64_t n) {
    return (hlo_value){.type = type, .n_dims = 4, .dim = {c->rows, n, c->seq, c->d}};
}

static const int64_t swap_first[] = {1, 0, 2};

void lower_cudnn_attention(lowering *l, const node *n) {
    const fused_call c = open_call(l, n, n->in[0]);
    const hlo_type type = lower_type(l, n->in[0]->dt);
    hlo_value qkv[3];
    take_qkv(&c, lower_in(l, n, 0), qkv);
    hlo_value out[] = {of_heads(&c, type, c.heads),
            {.type = lower_acc(l, n->in[0]), .n_dims = 3, .dim = {c.rows, c.heads, c.seq}}};
    put_call(&c, false, qkv, 3, out, 2);
    lower_set(l, n, 0, join_heads(&c, out[0]));
    lower_set(l, n, 1,
            hlo_reshape(c.h, hlo_transpose(c.h, out[1], swap_first),
                    HLO_DIMS(c.heads, c.rows * c.seq)));
}

// inputs: do, qkv, o, lse, position
void lower_cudnn_attention_grad(lowering *l, const node *n) {
    const fused_call c = open_call(l, n, n->in[1]);
    const hlo_type type = lower_type(l, n->in[1]->dt);
    hlo_value in[6], out[] = {of_heads(&c, type, c.heads), of_heads(&c, type, c.kv_heads),
                             of_heads(&c, type, c.kv_heads)};
    take_qkv(&c, lower_in(l, n, 1), in);
    const hlo_value lse = hlo_reshape(c.h, lower_in(l, n, 3), HLO_DIMS(c.heads, c.rows, c.seq));
    in[3] = hlo_transpose(c.h, lse, swap_first);
    in[4] = take_heads(&c, lower_in(l, n, 0), 0, c.heads);
    in[5] = take_heads(&c, lower_in(l, n, 2), 0, c.heads);
    put_call(&c, true, in, 6, out, 3);
    for (int i = 0; i < 3; i++)
        out[i] = join_heads(&c, out[i]);
    lower_set(l, n, 0, hlo_concat(c.h, out, 3, 1));
}
