#include "config/model_config.h"

#include <string.h>

#include "base/file.h"

#define LLAMA31_ROPE                                                                               \
    .rope_factor = 8, .rope_low_freq_factor = 1, .rope_high_freq_factor = 4,                       \
    .rope_original_context = 8192
#define COMMON .initializer_range = 0.02, .bos_token_id = -1, .pad_token_id = -1

// Sources: the models' config.json on the Hugging Face hub (meta-llama,
// HuggingFaceTB/SmolLM2-135M). llama-15m is the shape of karpathy/tinyllamas stories15M; tiny is
// ours, for tests.
static const struct {
    const char *name;
    model_config m;
} presets[] = {
        {"llama-2-7b", {32000, 4096, 11008, 32, 32, 32, 128, 4096, 1e-5, 1e4, COMMON}},
        {"llama-2-13b", {32000, 5120, 13824, 40, 40, 40, 128, 4096, 1e-5, 1e4, COMMON}},
        {"llama-2-70b", {32000, 8192, 28672, 80, 64, 8, 128, 4096, 1e-5, 1e4, COMMON}},
        {"llama-3-8b", {128256, 4096, 14336, 32, 32, 8, 128, 8192, 1e-5, 5e5, COMMON}},
        {"llama-3-70b", {128256, 8192, 28672, 80, 64, 8, 128, 8192, 1e-5, 5e5, COMMON}},
        {"llama-3.1-8b",
                {128256, 4096, 14336, 32, 32, 8, 128, 131072, 1e-5, 5e5, LLAMA31_ROPE, COMMON}},
        {"llama-3.1-70b",
                {128256, 8192, 28672, 80, 64, 8, 128, 131072, 1e-5, 5e5, LLAMA31_ROPE, COMMON}},
        {"llama-3.1-405b",
                {128256, 16384, 53248, 126, 128, 8, 128, 131072, 1e-5, 5e5, LLAMA31_ROPE, COMMON}},
        {"llama-135m", {49152, 576, 1536, 30, 9, 3, 64, 8192, 1e-5, 1e5,
                               .tie_word_embeddings = true, COMMON}},
        {"llama-15m", {32000, 288, 768, 6, 6, 6, 48, 1024, 1e-5, 1e4, .tie_word_embeddings = true,
                              COMMON}},
        {"tiny", {512, 64, 172, 5, 8, 4, 8, 512, 1e-5, 1e4, .tie_word_embeddings = true, COMMON}},
};

enum { N_PRESETS = sizeof presets / sizeof *presets };
const int n_model_presets = N_PRESETS;
const char *const model_preset_names[N_PRESETS] = {"llama-2-7b", "llama-2-13b", "llama-2-70b",
        "llama-3-8b", "llama-3-70b", "llama-3.1-8b", "llama-3.1-70b", "llama-3.1-405b",
        "llama-135m", "llama-15m", "tiny"};

bool model_preset(const char *name, model_config *out) {
    for (int i = 0; i < N_PRESETS; i++)
        if (strcmp(presets[i].name, name) == 0) {
            *out = presets[i].m;
            return true;
        }
    return false;
}

static drv_status read_rope(const char *path, const json_t *o, model_config *m) {
    if (!o || json_is_null(o)) return DRV_OK;
    const char *type = "default";
    DRV_TRY(json_get_str(path, o, "type", &type));
    DRV_TRY(json_get_str(path, o, "rope_type", &type));
    DRV_TRY(json_get_f64(path, o, "rope_theta", &m->rope_theta));
    if (strcmp(type, "default") == 0) return DRV_OK;
    if (strcmp(type, "llama3") != 0)
        return drv_fail(DRV_E_DATA, "%s: rope type is \"%s\", expected \"default\" or \"llama3\"",
                path, type);
    DRV_TRY(json_get_f64(path, o, "factor", &m->rope_factor));
    DRV_TRY(json_get_f64(path, o, "low_freq_factor", &m->rope_low_freq_factor));
    DRV_TRY(json_get_f64(path, o, "high_freq_factor", &m->rope_high_freq_factor));
    DRV_TRY(json_get_i64(path, o, "original_max_position_embeddings", &m->rope_original_context));
    if (!(m->rope_factor >= 1) || !(m->rope_low_freq_factor > 0) ||
            !(m->rope_high_freq_factor > m->rope_low_freq_factor) || m->rope_original_context < 1)
        return drv_fail(DRV_E_DATA,
                "%s: rope_scaling of type llama3 needs factor >= 1, 0 < low_freq_factor < "
                "high_freq_factor and original_max_position_embeddings",
                path);
    return DRV_OK;
}

static drv_status read_eos(const char *path, const json_t *v, model_config *m) {
    if (!v || json_is_null(v)) return DRV_OK;
    size_t n = json_is_array(v) ? json_array_size(v) : 1;
    if (n > MAX_EOS) return drv_fail(DRV_E_DATA, "%s: more than %d eos_token_id", path, MAX_EOS);
    for (size_t i = 0; i < n; i++) {
        const json_t *e = json_is_array(v) ? json_array_get(v, i) : v;
        if (!json_is_integer(e))
            return drv_fail(DRV_E_DATA, "%s: eos_token_id must be a number or a list of them",
                    path);
        m->eos_token_id[i] = json_integer_value(e);
    }
    m->n_eos = (int)n;
    return DRV_OK;
}

static drv_status read_fields(const char *path, const json_t *o, model_config *m) {
    *m = (model_config){.max_position_embeddings = 2048,
            .rms_norm_eps = 1e-6, // defaults of transformers' LlamaConfig
            .rope_theta = 10000,
            .initializer_range = 0.02,
            .bos_token_id = -1,
            .pad_token_id = -1};
    const char *type = "llama", *act = "silu";
    bool attention_bias = false, mlp_bias = false;
    if (!json_is_object(o)) return drv_fail(DRV_E_DATA, "%s: expected a JSON object", path);
    DRV_TRY(json_get_str(path, o, "model_type", &type));
    if (strcmp(type, "llama") != 0)
        return drv_fail(DRV_E_DATA, "%s: model_type is \"%s\", expected \"llama\"", path, type);
    DRV_TRY(json_get_str(path, o, "hidden_act", &act));
    if (strcmp(act, "silu") != 0)
        return drv_fail(DRV_E_DATA, "%s: hidden_act is \"%s\", expected \"silu\"", path, act);
    DRV_TRY(json_get_bool(path, o, "attention_bias", &attention_bias));
    DRV_TRY(json_get_bool(path, o, "mlp_bias", &mlp_bias));
    if (attention_bias || mlp_bias)
        return drv_fail(DRV_E_DATA, "%s: %s is true, expected false: biases are not supported",
                path, attention_bias ? "attention_bias" : "mlp_bias");
    DRV_TRY(json_get_i64(path, o, "vocab_size", &m->vocab_size));
    DRV_TRY(json_get_i64(path, o, "hidden_size", &m->hidden_size));
    DRV_TRY(json_get_i64(path, o, "intermediate_size", &m->intermediate_size));
    DRV_TRY(json_get_i64(path, o, "num_hidden_layers", &m->num_hidden_layers));
    DRV_TRY(json_get_i64(path, o, "num_attention_heads", &m->num_attention_heads));
    m->num_key_value_heads = m->num_attention_heads;
    DRV_TRY(json_get_i64(path, o, "num_key_value_heads", &m->num_key_value_heads));
    if (m->num_attention_heads > 0) m->head_dim = m->hidden_size / m->num_attention_heads;
    DRV_TRY(json_get_i64(path, o, "head_dim", &m->head_dim));
    DRV_TRY(json_get_i64(path, o, "max_position_embeddings", &m->max_position_embeddings));
    DRV_TRY(json_get_f64(path, o, "rms_norm_eps", &m->rms_norm_eps));
    DRV_TRY(json_get_f64(path, o, "rope_theta", &m->rope_theta));
    DRV_TRY(json_get_f64(path, o, "initializer_range", &m->initializer_range));
    DRV_TRY(json_get_bool(path, o, "tie_word_embeddings", &m->tie_word_embeddings));
    DRV_TRY(json_get_i64(path, o, "bos_token_id", &m->bos_token_id));
    DRV_TRY(json_get_i64(path, o, "pad_token_id", &m->pad_token_id));
    DRV_TRY(read_eos(path, json_object_get(o, "eos_token_id"), m));
    DRV_TRY(read_rope(path, json_object_get(o, "rope_scaling"), m));
    return read_rope(path, json_object_get(o, "rope_parameters"), m); // transformers 5's name
}

drv_status model_config_read(const char *path, model_config *out) {
    arena *a = arena_new("config.json");
    if (file_is_dir(path)) path = path_join(a, path, "config.json");
    json_t *o = NULL;
    drv_status s = json_read_file(path, &o);
    if (s == DRV_OK) s = read_fields(path, o, out);
    if (s == DRV_OK) s = model_config_check(path, out);
    json_decref(o);
    arena_free(a);
    return s;
}

static drv_status range(const char *where, const char *key, int64_t v, int64_t max) {
    if (v >= 1 && v <= max) return DRV_OK;
    return drv_fail(DRV_E_USAGE, "%s: %s is %lld, expected 1 to %lld", where, key, (long long)v,
            (long long)max);
}

drv_status model_config_check(const char *where, const model_config *m) {
    DRV_TRY(range(where, "vocab_size", m->vocab_size, 1 << 24));
    DRV_TRY(range(where, "hidden_size", m->hidden_size, 1 << 20));
    DRV_TRY(range(where, "intermediate_size", m->intermediate_size, 1 << 22));
    DRV_TRY(range(where, "num_hidden_layers", m->num_hidden_layers, 4096));
    DRV_TRY(range(where, "num_attention_heads", m->num_attention_heads, 4096));
    DRV_TRY(range(where, "num_key_value_heads", m->num_key_value_heads, m->num_attention_heads));
    DRV_TRY(range(where, "head_dim", m->head_dim, 1024));
    DRV_TRY(range(where, "max_position_embeddings", m->max_position_embeddings, 1 << 30));
    if (m->num_attention_heads % m->num_key_value_heads != 0)
        return drv_fail(DRV_E_USAGE,
                "%s: num_key_value_heads is %lld, which does not divide num_attention_heads %lld",
                where, (long long)m->num_key_value_heads, (long long)m->num_attention_heads);
    if (m->head_dim % 2)
        return drv_fail(DRV_E_USAGE, "%s: head_dim is %lld, expected an even number", where,
                (long long)m->head_dim);
    if (!(m->rms_norm_eps >= 0 && m->rms_norm_eps < 1) || !(m->rope_theta > 1) ||
            !(m->initializer_range > 0 && m->initializer_range < 10))
        return drv_fail(DRV_E_USAGE,
                "%s: rms_norm_eps %g, rope_theta %g or initializer_range %g is out of range "
                "(expected 0..1, > 1, 0..10)",
                where, m->rms_norm_eps, m->rope_theta, m->initializer_range);
    return DRV_OK;
}

json_t *model_config_json(const model_config *m) {
    json_t *o = json_pack("{s:[s], s:s, s:b, s:s, s:b, s:s}", "architectures", "LlamaForCausalLM",
            "model_type", "llama", "attention_bias", 0, "hidden_act", "silu", "mlp_bias", 0,
            "torch_dtype", "float32");
    json_object_set_new(o, "vocab_size", json_integer(m->vocab_size));
    json_object_set_new(o, "hidden_size", json_integer(m->hidden_size));
    json_object_set_new(o, "intermediate_size", json_integer(m->intermediate_size));
    json_object_set_new(o, "num_hidden_layers", json_integer(m->num_hidden_layers));
    json_object_set_new(o, "num_attention_heads", json_integer(m->num_attention_heads));
    json_object_set_new(o, "num_key_value_heads", json_integer(m->num_key_value_heads));
    json_object_set_new(o, "head_dim", json_integer(m->head_dim));
    json_object_set_new(o, "max_position_embeddings", json_integer(m->max_position_embeddings));
    json_object_set_new(o, "rms_norm_eps", json_real(m->rms_norm_eps));
    json_object_set_new(o, "rope_theta", json_real(m->rope_theta));
    json_object_set_new(o, "initializer_range", json_real(m->initializer_range));
    json_object_set_new(o, "tie_word_embeddings", json_boolean(m->tie_word_embeddings));
    if (m->rope_factor > 0)
        json_object_set_new(o, "rope_scaling",
                json_pack("{s:s, s:f, s:f, s:f, s:I}", "rope_type", "llama3", "factor",
                        m->rope_factor, "low_freq_factor", m->rope_low_freq_factor,
                        "high_freq_factor", m->rope_high_freq_factor,
                        "original_max_position_embeddings", (json_int_t)m->rope_original_context));
    if (m->bos_token_id >= 0) json_object_set_new(o, "bos_token_id", json_integer(m->bos_token_id));
    if (m->pad_token_id >= 0) json_object_set_new(o, "pad_token_id", json_integer(m->pad_token_id));
    if (m->n_eos == 1) json_object_set_new(o, "eos_token_id", json_integer(m->eos_token_id[0]));
    if (m->n_eos > 1) {
        json_t *list = json_array();
        for (int i = 0; i < m->n_eos; i++)
            json_array_append_new(list, json_integer(m->eos_token_id[i]));
        json_object_set_new(o, "eos_token_id", list);
    }
    return o;
}

static int64_t layer_weights(const model_config *m) {
    int64_t q = m->num_attention_heads * m->head_dim, kv = m->num_key_value_heads * m->head_dim;
    return m->hidden_size * (2 * q + 2 * kv + 3 * m->intermediate_size);
}

int64_t model_parameters(const model_config *m) {
    int64_t tables = m->tie_word_embeddings ? 1 : 2;
    return tables * m->vocab_size * m->hidden_size + m->hidden_size +
           m->num_hidden_layers * (layer_weights(m) + 2 * m->hidden_size);
}

double model_flops_per_token(const model_config *m, int64_t seq) {
    double weights = (double)(m->num_hidden_layers * layer_weights(m)) +
                     (double)m->vocab_size * (double)m->hidden_size;
    double attention = 12.0 *
                       (double)(m->num_hidden_layers * m->num_attention_heads * m->head_dim) *
                       (double)(seq + 1) / 2;
    return 6 * weights + attention;
}
