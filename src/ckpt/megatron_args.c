// Names and defaults are those of megatron/training/arguments.py.
#include "ckpt/megatron_args.h"

#include <string.h>

// Classes beside tensors: Megatron's arguments have enumerations, Lightning's hyperparameters are
// OmegaConf's, xser has references. None is looked into but the last.
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

// An argument that has to have one value, if it is there.
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

drv_status megatron_args_config(const char *where, const pickle_value *args, json_t **out) {
    *out = NULL;
    if (!pickle_entries(args)) return DRV_OK;
    DRV_TRY(check(where, args));
    const bool norm = as_bool(args, "qk_layernorm", false),
               bias = as_bool(args, "add_qkv_bias", false);
    const int64_t heads = as_int(args, "num_attention_heads", 0);
    json_t *config = json_pack("{s:[s], s:s, s:s, s:b}", "architectures",
            norm   ? "Qwen3ForCausalLM"
            : bias ? "Qwen2ForCausalLM"
                   : "LlamaForCausalLM",
            "model_type",
            norm   ? "qwen3"
            : bias ? "qwen2"
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
    set_int(config, "max_position_embeddings", as_int(args, "max_position_embeddings", 0));
    json_object_set_new(config, "rope_theta", json_real(as_real(args, "rotary_base", 10000)));
    json_object_set_new(config, "rms_norm_eps",
            json_real(as_real(args, "norm_epsilon", as_real(args, "layernorm_epsilon", 1e-5))));
    if (as_bool(args, "use_rope_scaling", false))
        json_object_set_new(config, "rope_scaling",
                json_pack("{s:s, s:f, s:f, s:f, s:i}", "rope_type", "llama3", "factor",
                        as_real(args, "rope_scaling_factor", 8), "low_freq_factor", 1.0,
                        "high_freq_factor", 4.0, "original_max_position_embeddings", 8192));
    *out = config;
    return DRV_OK;
}
