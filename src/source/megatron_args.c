// Names and defaults are those of megatron/training/arguments.py.
#include "source/megatron_args.h"

#include <string.h>

#include "pickle/pickle_writer.h"

// Classes other than tensors: Megatron's arguments have enumerations, Lightning's hyperparameters
// are OmegaConf's, xser has references. Only the references are read.
const pickle_name megatron_names[] = {{"torch_xla.utils.serialization", "TensorReference"},
        {"nemo.collections.nlp.parts.serialization", "TensorReference"},
        {"megatron.core.enums", "ModelType"}, {"megatron.model.enums", "ModelType"},
        {"megatron.core.enums", "Fp8Recipe"}, {"megatron.core.transformer.enums", "AttnBackend"},
        {"megatron.core.transformer.enums", "AttnMaskType"},
        {"megatron.core.transformer.enums", "CudaGraphScope"},
        {"megatron.core.rerun_state_machine", "RerunMode"},
        {"megatron.core.rerun_state_machine", "RerunState"},
        {"megatron.core.rerun_state_machine", "RerunDiagnostic"}, {"signal", "Signals"},
        {"omegaconf.dictconfig", "DictConfig"}, {"omegaconf.listconfig", "ListConfig"},
        {"omegaconf.base", "ContainerMetadata"}, {"omegaconf.base", "Metadata"},
        {"omegaconf.nodes", "AnyNode"}, {"typing", "Any"}, {"builtins", "dict"},
        {"builtins", "list"}, {"builtins", "int"}, {"builtins", "str"}, {"builtins", "float"},
        {"builtins", "bool"}, {NULL, NULL}};

static bool as_bool(const pickle_value *args, const char *name, bool absent) {
    const pickle_value *v = pickle_get(args, name);
    return v && v->kind == PICKLE_BOOL ? v->integer != 0 : absent;
}

static int64_t as_int(const pickle_value *args, const char *name, int64_t absent) {
    const pickle_value *v = pickle_get(args, name);
    return v && v->kind == PICKLE_INT ? v->integer : absent;
}

static double as_real(const pickle_value *args, const char *name, double absent) {
    const pickle_value *v = pickle_get(args, name);
    if (v && v->kind == PICKLE_INT) return (double)v->integer;
    return v && v->kind == PICKLE_REAL ? v->real : absent;
}

static bool is_set(const pickle_value *args, const char *name) {
    const pickle_value *v = pickle_get(args, name);
    return v && v->kind != PICKLE_NONE && !(v->kind == PICKLE_BOOL && v->integer == 0);
}

// Checks an argument that must have one value if it is present.
static drv_status check_bool(const char *where, const pickle_value *args, const char *name,
        bool expected) {
    if (as_bool(args, name, expected) == expected) return DRV_OK;
    return drv_fail(DRV_E_DATA, "%s: the run had args.%s %s, expected %s, as a Llama has it", where,
            name, expected ? "False" : "True", expected ? "True" : "False");
}

static drv_status check_text(const char *where, const pickle_value *args, const char *name,
        const char *expected) {
    const pickle_value *v = pickle_get(args, name);
    if (!v || v->kind != PICKLE_TEXT || pickle_is_text(v, expected)) return DRV_OK;
    return drv_fail(DRV_E_DATA, "%s: the run had args.%s \"%.*s\", expected \"%s\"", where, name,
            (int)(v->text.n < 80 ? v->text.n : 80), v->text.p, expected);
}

static drv_status check(const char *where, const pickle_value *args) {
    DRV_TRY(check_bool(where, args, "swiglu", true));
    DRV_TRY(check_bool(where, args, "add_bias_linear", false));
    DRV_TRY(check_bool(where, args, "rotary_interleaved", false));
    DRV_TRY(check_bool(where, args, "apply_layernorm_1p", false));
    DRV_TRY(check_text(where, args, "normalization", "RMSNorm"));
    DRV_TRY(check_text(where, args, "position_embedding_type", "rope"));
    DRV_TRY(check_text(where, args, "softmax_type", "vanilla"));
    static const char *const off[] = {"rotary_seq_len_interpolation_factor",
            "apply_residual_connection_post_layernorm", "multi_latent_attention", "qk_l2_norm",
            "attention_output_gate"};
    for (size_t i = 0; i < sizeof off / sizeof *off; i++)
        if (is_set(args, off[i]))
            return drv_fail(DRV_E_DATA, "%s: the run had args.%s, which drover does not compute",
                    where, off[i]);
    if (as_real(args, "rotary_percent", 1) != 1)
        return drv_fail(DRV_E_DATA, "%s: the run had args.rotary_percent %g, expected 1", where,
                as_real(args, "rotary_percent", 1));
    if (as_int(args, "num_experts", 0))
        return drv_fail(DRV_E_DATA, "%s: the run had args.num_experts %lld, expected a dense model",
                where, (long long)as_int(args, "num_experts", 0));
    return DRV_OK;
}

static void set_int(json_t *config, const char *key, int64_t value) {
    if (value > 0) json_object_set_new(config, key, json_integer(value));
}

typedef struct layer_window {
    int64_t tokens, first; // 0: none; the first layer that has it
} layer_window;

// Finds the first layer with the window: window_attn_skip_freq lists 1 for each layer that has it,
// or is the interval of layers that have none.
static drv_status read_pattern(const char *where, const pickle_value *args, layer_window *out) {
    const pickle_value *v = pickle_get(args, "window_attn_skip_freq");
    const int64_t layers = as_int(args, "num_layers", 0);
    bool known = !v || v->kind == PICKLE_NONE || (v->kind == PICKLE_INT && v->integer > layers);
    if (v && v->kind == PICKLE_LIST) {
        known = v->list.n == layers;
        for (int i = 0; i < v->list.n && known; i++) {
            const pickle_value *has = v->list.items[i];
            known = has->kind == PICKLE_INT &&
                    (has->integer == 1 || (has->integer == 0 && i == out->first));
            out->first += has->integer == 0;
        }
    }
    if (known) return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "%s: the run had args.window_attn_skip_freq, expected None, or 0 for some layers and 1 for all later ones: drover computes windows from one layer on",
            where);
}

// Reads window_size, (left, right): a token sees `left` tokens before it, itself, and `right` after
// it (get_sliding_window_causal_mask in megatron/core/transformer/utils.py); -1: all.
static drv_status read_window(const char *where, const pickle_value *args, layer_window *out) {
    const pickle_value *v = pickle_get(args, "window_size");
    *out = (layer_window){0};
    if (!is_set(args, "window_size")) return DRV_OK;
    const bool pair = (v->kind == PICKLE_TUPLE || v->kind == PICKLE_LIST) && v->list.n == 2 &&
                      v->list.items[0]->kind == PICKLE_INT && v->list.items[1]->kind == PICKLE_INT;
    const int64_t left = pair ? v->list.items[0]->integer : 0,
                  right = pair ? v->list.items[1]->integer : 0;
    if (!pair || left < -1 || (right && !(left == -1 && right == -1)))
        return drv_fail(DRV_E_DATA,
                "%s: the run had as args.window_size %s (%lld, %lld), expected None or (N, 0): N tokens before each one",
                where, pickle_kind_name(v->kind), (long long)left, (long long)right);
    if (left == -1 || left + 1 >= as_int(args, "max_position_embeddings", INT64_MAX)) return DRV_OK;
    out->tokens = left + 1;
    DRV_TRY(read_pattern(where, args, out));
    if (out->first == as_int(args, "num_layers", 0)) *out = (layer_window){0};
    return DRV_OK;
}

static drv_status set_window(const char *where, const layer_window *w, bool switched, bool no_rope,
        json_t *config) {
    if (!w->tokens) return DRV_OK;
    if (no_rope || (w->first && !switched))
        return drv_fail(DRV_E_DATA,
                "%s: the run had args.window_size %s, which drover does not compute", where,
                no_rope ? "beside layers without rotary embedding"
                        : "in some layers, without biases and norms of queries");
    set_int(config, "sliding_window", w->tokens);
    if (!switched) return DRV_OK;
    json_object_set_new(config, "use_sliding_window", json_true());
    json_object_set_new(config, "max_window_layers", json_integer(w->first));
    return DRV_OK;
}

drv_status megatron_args_config(const char *where, const pickle_value *args, json_t **out) {
    *out = NULL;
    if (!pickle_entries(args)) return DRV_OK;
    DRV_TRY(check(where, args));
    layer_window window;
    DRV_TRY(read_window(where, args, &window));
    // config.json has this as a list, so it is needed.
    const int64_t no_rope = as_int(args, "no_rope_freq", 0);
    if (is_set(args, "no_rope_freq") && no_rope < 1) return DRV_OK;
    const bool norm = as_bool(args, "qk_layernorm", false),
               bias = as_bool(args, "add_qkv_bias", false);
    const int64_t heads = as_int(args, "num_attention_heads", 0);
    json_t *config = json_pack("{s:[s], s:s, s:s, s:b}", "architectures",
            norm            ? "Qwen3ForCausalLM"
            : bias          ? "Qwen2ForCausalLM"
            : no_rope       ? "SmolLM3ForCausalLM"
            : window.tokens ? "MistralForCausalLM"
                            : "LlamaForCausalLM",
            "model_type",
            norm            ? "qwen3"
            : bias          ? "qwen2"
            : no_rope       ? "smollm3"
            : window.tokens ? "mistral"
                            : "llama",
            "hidden_act", "silu", "tie_word_embeddings",
            !as_bool(args, "untie_embeddings_and_output_weights", false));
    set_int(config, "num_hidden_layers", as_int(args, "num_layers", 0));
    set_int(config, "hidden_size", as_int(args, "hidden_size", 0));
    set_int(config, "intermediate_size", as_int(args, "ffn_hidden_size", 0));
    set_int(config, "num_attention_heads", heads);
    set_int(config, "num_key_value_heads",
            as_bool(args, "group_query_attention", false) ? as_int(args, "num_query_groups", heads)
                                                          : heads);
    set_int(config, "head_dim", as_int(args, "kv_channels", 0));
    set_int(config, "vocab_size", as_int(args, "padded_vocab_size", 0));
    set_int(config, "no_rope_layer_interval", no_rope);
    set_int(config, "max_position_embeddings", as_int(args, "max_position_embeddings", 0));
    json_object_set_new(config, "rope_theta", json_real(as_real(args, "rotary_base", 10000)));
    json_object_set_new(config, "rms_norm_eps",
            json_real(as_real(args, "norm_epsilon", as_real(args, "layernorm_epsilon", 1e-5))));
    if (as_bool(args, "use_rope_scaling", false))
        json_object_set_new(config, "rope_scaling",
                json_pack("{s:s, s:f, s:f, s:f, s:i}", "rope_type", "llama3", "factor",
                        as_real(args, "rope_scaling_factor", 8), "low_freq_factor", 1.0,
                        "high_freq_factor", 4.0, "original_max_position_embeddings", 8192));
    const drv_status status = set_window(where, &window, norm || bias, no_rope > 0, config);
    if (status == DRV_OK)
        *out = config;
    else
        json_decref(config);
    return status;
}

// --- progress of the run
// Returns the value of the first of these keys that exists; NULL: none does.
static const pickle_value *find_any(const pickle_value *top, const char *const *paths) {
    const pickle_value *v = NULL;
    for (int i = 0; paths[i] && !v; i++)
        v = pickle_find(top, paths[i]);
    return v;
}

static void take_int(const pickle_value *top, const char *const *paths, int64_t *out) {
    const pickle_value *v = find_any(top, paths);
    if (v && v->kind == PICKLE_INT) *out = v->integer;
}

void megatron_progress(const pickle_value *top, foreign_progress *out) {
    static const char *const steps[] = {"iteration", "global_step", NULL},
                             *const samples[] = {"args.consumed_train_samples", NULL},
                             *const updates[] = {"optimizer.optimizer.param_groups.0.step",
                                     "optimizer.param_groups.0.step",
                                     "optimizer.0.optimizer.param_groups.0.step",
                                     "optimizer_states.0.optimizer.param_groups.0.step",
                                     "optimizer_states.0.param_groups.0.step", NULL},
                             *const rates[] = {"optimizer.optimizer.param_groups.0.lr",
                                     "optimizer.param_groups.0.lr",
                                     "optimizer.0.optimizer.param_groups.0.lr",
                                     "optimizer_states.0.optimizer.param_groups.0.lr",
                                     "optimizer_states.0.param_groups.0.lr",
                                     "lr_schedulers.0._last_lr.0", NULL};
    take_int(top, steps, &out->step);
    take_int(top, samples, &out->samples);
    const pickle_dict *dict = pickle_entries(top); // NeMo 2 has it under the class of its data
    for (int i = 0; dict && i < dict->n; i++) {
        const pickle_value *taken = pickle_get(dict->entries[i].value, "consumed_samples");
        if (taken && taken->kind == PICKLE_INT) out->samples = taken->integer;
    }
    take_int(top, updates, &out->updates);
    const pickle_value *rate = find_any(top, rates);
    if (rate && rate->kind == PICKLE_REAL) out->learning_rate = rate->real;
}

// --- writing
static int64_t int_of(const json_t *config, const char *key, int64_t absent) {
    const json_t *value = json_object_get(config, key);
    return json_is_integer(value) ? json_integer_value(value) : absent;
}

static double real_of(const json_t *config, const char *key, double absent) {
    const json_t *value = json_object_get(config, key);
    return json_is_number(value) ? json_number_value(value) : absent;
}

static void put_int(str *out, const char *name, int64_t value) {
    pickle_put_text(out, name);
    pickle_put_int(out, value);
}

static void put_bool(str *out, const char *name, bool value) {
    pickle_put_text(out, name);
    pickle_put_bool(out, value);
}

static void put_text(str *out, const char *name, const char *value) {
    pickle_put_text(out, name);
    pickle_put_text(out, value);
}

static void put_real(str *out, const char *name, double value) {
    pickle_put_text(out, name);
    pickle_put_real(out, value);
}

static void put_sizes(str *out, const json_t *config, int64_t vocab_rows) {
    const int64_t heads = int_of(config, "num_attention_heads", 1),
                  hidden = int_of(config, "hidden_size", 1),
                  positions = int_of(config, "max_position_embeddings", 2048);
    put_int(out, "num_layers", int_of(config, "num_hidden_layers", 1));
    put_int(out, "hidden_size", hidden);
    put_int(out, "ffn_hidden_size", int_of(config, "intermediate_size", 1));
    put_int(out, "num_attention_heads", heads);
    put_bool(out, "group_query_attention", true);
    put_int(out, "num_query_groups", int_of(config, "num_key_value_heads", heads));
    put_int(out, "kv_channels", int_of(config, "head_dim", hidden / heads));
    put_int(out, "max_position_embeddings", positions);
    put_int(out, "seq_length", positions);
    put_int(out, "padded_vocab_size", vocab_rows);
    put_int(out, "tensor_model_parallel_size", 1);
    put_int(out, "pipeline_model_parallel_size", 1);
}

bool megatron_can_scale(const json_t *rope) {
    return real_of(rope, "low_freq_factor", 0) == 1 && real_of(rope, "high_freq_factor", 0) == 4 &&
           int_of(rope, "original_max_position_embeddings", 0) == 8192;
}

// Writes the arguments for additions of a family to a Llama.
static void put_additions(str *out, const json_t *config) {
    const char *type = json_string_value(json_object_get(config, "model_type"));
    const json_t *rope = json_object_get(config, "rope_scaling");
    const int64_t no_rope = int_of(config, "no_rope_layer_interval", 0),
                  window = int_of(config, "sliding_window", 0),
                  first = int_of(config, "max_window_layers", 0);
    put_bool(out, "add_qkv_bias", type && strcmp(type, "qwen2") == 0);
    put_bool(out, "qk_layernorm", type && strcmp(type, "qwen3") == 0);
    put_bool(out, "use_rope_scaling", rope != NULL);
    if (rope) put_real(out, "rope_scaling_factor", real_of(rope, "factor", 8));
    if (no_rope) put_int(out, "no_rope_freq", no_rope);
    if (window == 0) return;
    pickle_put_text(out, "window_size");
    pickle_put(out, PUT_MARK);
    pickle_put_int(out, window - 1);
    pickle_put_int(out, 0);
    pickle_put(out, PUT_TUPLE);
    if (first == 0) return;
    pickle_put_text(out, "window_attn_skip_freq");
    pickle_put(out, PUT_EMPTY_LIST);
    pickle_put(out, PUT_MARK);
    for (int64_t i = 0; i < int_of(config, "num_hidden_layers", 1); i++)
        pickle_put_int(out, i >= first);
    pickle_put(out, PUT_APPENDS);
}

void megatron_common_put(str *out, const json_t *config, int64_t vocab_rows) {
    pickle_begin(out);
    pickle_put(out, PUT_EMPTY_DICT);
    pickle_put(out, PUT_MARK);
    put_int(out, "iteration", 0);
    put_real(out, "checkpoint_version", 3);
    pickle_put_text(out, "args");
    pickle_put_global(out, "argparse", "Namespace");
    pickle_put(out, PUT_EMPTY_TUPLE);
    pickle_put(out, PUT_NEWOBJ);
    pickle_put(out, PUT_EMPTY_DICT);
    pickle_put(out, PUT_MARK);
    put_sizes(out, config, vocab_rows);
    put_text(out, "position_embedding_type", "rope");
    put_bool(out, "add_position_embedding", false);
    put_bool(out, "use_rotary_position_embeddings", true);
    put_real(out, "rotary_base", real_of(config, "rope_theta", 10000));
    put_real(out, "rotary_percent", 1);
    put_bool(out, "rotary_interleaved", false);
    put_text(out, "normalization", "RMSNorm");
    put_real(out, "norm_epsilon", real_of(config, "rms_norm_eps", 1e-6));
    put_bool(out, "swiglu", true);
    put_bool(out, "add_bias_linear", false);
    put_bool(out, "untie_embeddings_and_output_weights",
            !json_is_true(json_object_get(config, "tie_word_embeddings")));
    put_additions(out, config);
    put_text(out, "ckpt_format", "torch_dist");
    pickle_put(out, PUT_SETITEMS);
    pickle_put(out, PUT_BUILD);
    pickle_put(out, PUT_SETITEMS);
    pickle_end(out);
}
