// Prints a call of cuDNN's attention with its configuration, as XLA's
// GpuBackendConfig.CudnnfMHABackendConfig describes and JAX prints it
// (jax/_src/cudnn/fused_attention_stablehlo.py); tests/test_cudnn_text.c compares it with JAX's.
#include "backend/pjrt/stablehlo/cudnn_call.h"

#include <math.h>

// The dims of the operands that a product contracts, and the batch dims in addition to dim 0.
typedef struct fused_product {
    const char *name;
    int lhs, rhs, lhs_batch, rhs_batch;
} fused_product;

static const fused_product forward_products[] = {{"bmm1", 3, 3, 2, 2}, {"bmm2", 3, 1, 1, 2}},
                           backward_products[] = {{"bmm1_grad_gemm1", 2, 1, 1, 2},
                                   {"bmm1_grad_gemm2", 3, 1, 1, 2}, {"bmm2_grad_gemm1", 2, 1, 1, 2},
                                   {"bmm2_grad_gemm2", 3, 3, 2, 2}};

// Prints the shape of the scores, which are never in memory.
static void put_scores(const cudnn_call *c, str *out) {
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

// JAX leaves force_deterministic to XLA, which sets it by its flags (compiler_flags.c). A call that
// has the right value is not changed.
static void put_config(const cudnn_call *c, const fused_product *products, int n, str *out) {
    str_puts(out,
            "{\"operation_queue_id\":\"0\",\"cudnn_fmha_backend_config\":{\"algorithm\":{"
            "\"algo_id\":\"0\",\"math_type\":\"TENSOR_OP_MATH\",\"tuning_knobs\":{\"17\":\"1\","
            "\"24\":\"0\"},\"is_cudnn_frontend\":true,\"workspace_size\":\"0\"},");
    str_printf(out, "\"fmha_scale\":%.17g,", 1 / sqrt((double)c->d));
    put_scores(c, out);
    str_printf(out, ",\"is_flash_attention\":true,\"mask_type\":\"%s\"",
            c->segments > 1 ? "PADDING_CAUSAL" : "CAUSAL");
    for (int i = 0; i < n; i++)
        str_printf(out,
                ",\"%s_dot_dimension_numbers\":{\"lhs_contracting_dimensions\":[\"%d\"],"
                "\"rhs_contracting_dimensions\":[\"%d\"],\"lhs_batch_dimensions\":[\"0\",\"%d\"],"
                "\"rhs_batch_dimensions\":[\"0\",\"%d\"]}",
                products[i].name, products[i].lhs, products[i].rhs, products[i].lhs_batch,
                products[i].rhs_batch);
    str_printf(out,
            ",\"dropout_rate\":0.0,\"seed\":42,\"sliding_window_length\":%lld,"
            "\"max_seg_per_batch\":%lld,\"is_paged_attention\":false,"
            "\"force_deterministic\":%s}}",
            (long long)c->window, (long long)(c->segments > 1 ? c->segments : 1),
            c->deterministic ? "true" : "false");
}

// Prints a text in quotation marks.
static void put_quoted(hlo_text *h, const str *text) {
    str_puts(&h->s, "\"");
    for (size_t i = 0; i < text->n; i++) {
        if (text->p[i] == '"') str_puts(&h->s, "\\");
        str_add(&h->s, &text->p[i], 1);
    }
    str_puts(&h->s, "\"");
}

// Prints dims from the innermost to the outermost: the last one first, except that results by head
// have the layout of their operands.
static void put_layouts(hlo_text *h, const char *name, const hlo_value *v, int n,
        bool heads_inside) {
    str_printf(&h->s, ", %s = [", name);
    for (int i = 0; i < n; i++) {
        if (i) str_puts(&h->s, ", ");
        if (heads_inside && v[i].n_dims == 4) {
            str_puts(&h->s, "dense<[3, 1, 2, 0]> : tensor<4xindex>");
            continue;
        }
        str_puts(&h->s, "dense<[");
        for (int dim = v[i].n_dims - 1; dim >= 0; dim--)
            str_printf(&h->s, dim ? "%d, " : "%d", dim);
        str_printf(&h->s, "]> : tensor<%dxindex>", v[i].n_dims);
    }
}

void cudnn_put_call(hlo_text *h, const cudnn_call *c, bool backward, const hlo_value *in, int n_in,
        hlo_value *out, int n_out) {
    const int id = hlo_new(h, out->type, 0, NULL).id;
    str config = {0};
    if (backward)
        put_config(c, backward_products, 4, &config);
    else
        put_config(c, forward_products, 2, &config);
    str_printf(&h->s, "  %%v%d:%d = \"stablehlo.custom_call\"(", id, n_out + 1);
    hlo_put_values(h, in, n_in);
    str_printf(&h->s,
            ") {call_target_name = \"__cudnn$fmha%sSoftmax%s\", api_version = 2 : i32, "
            "has_side_effect = false, backend_config = ",
            c->masked ? "ScaleBias" : "", backward ? "Backward" : "");
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
