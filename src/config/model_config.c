// The fields of a model's shape: one table that reads, writes, checks and compares them, and that
// gives the keys below "model" in YAML.
#include "config/model_config.h"

#include <stddef.h>
#include <string.h>

#include "config/key.h"

static const choice rope_choices[] = {{"default", ROPE_DEFAULT}, {"llama3", ROPE_LLAMA3},
        {NULL, 0}};

#define FIELD(name, kind, member)                                                                  \
    .path = name, .type = &type_##kind, .offset = offsetof(model_config, member)
#define SHAPE_NOTE "the preset's or model.from's"
#define TOKEN_ID   .optional = true, .none = -1, .max = (1 << 24) - 1
#define ROPE_PART  .optional = true, .none = 0, .initial_note = SHAPE_NOTE

const key model_keys[] = {
        {FIELD("vocab_size", int, vocab_size), .min = 1, .max = 1 << 24, .initial_note = SHAPE_NOTE,
                .help = "rows of the embedding; at least as many as the tokenizer has tokens"},
        {FIELD("hidden_size", int, hidden_size), .min = 1, .max = 1 << 20,
                .initial_note = SHAPE_NOTE, .help = "width of the residual stream"},
        {FIELD("intermediate_size", int, intermediate_size), .min = 1, .max = 1 << 22,
                .initial_note = SHAPE_NOTE, .help = "width of the feed-forward layer"},
        {FIELD("num_hidden_layers", int, num_hidden_layers), .min = 1, .max = 4096,
                .initial_note = SHAPE_NOTE, .help = "layers"},
        {FIELD("num_attention_heads", int, num_attention_heads), .min = 1, .max = 4096,
                .initial_note = SHAPE_NOTE, .help = "query heads"},
        {FIELD("num_key_value_heads", int, num_key_value_heads), .min = 1, .max = 4096,
                .initial_note = "num_attention_heads",
                .help = "key and value heads, a divisor of the query heads (GQA)"},
        {FIELD("head_dim", int, head_dim), .min = 2, .max = 1024,
                .initial_note = "hidden_size / num_attention_heads",
                .help = "width of a head, even"},
        {FIELD("max_position_embeddings", int, max_position_embeddings), .min = 1, .max = 1 << 30,
                .initial_note = SHAPE_NOTE ", else 2048", .help = "longest context, in tokens"},
        {FIELD("rms_norm_eps", real, rms_norm_eps), .min = 0, .max = 1,
                .initial_note = SHAPE_NOTE ", else 1.0e-06",
                .help = "added to the mean square in a norm"},
        {FIELD("rope_theta", real, rope_theta), .min = 1, .max = 1e12,
                .initial_note = SHAPE_NOTE ", else 10000",
                .help = "base of the rotary frequencies"},
        {FIELD("initializer_range", real, initializer_range), .min = 1e-9, .max = 10,
                .initial_note = SHAPE_NOTE ", else 0.02",
                .help = "standard deviation of fresh weights"},
        {FIELD("tie_word_embeddings", bool, tie_word_embeddings),
                .initial_note = SHAPE_NOTE ", else false",
                .help = "the output weight is the embedding"},
        {FIELD("qkv_bias", bool, qkv_bias), .initial_note = SHAPE_NOTE ", else false",
                .help = "biases of the projections to queries, keys and values (Qwen2)"},
        {FIELD("qk_norm", bool, qk_norm), .initial_note = SHAPE_NOTE ", else false",
                .help = "an RMS norm of each head of queries and keys before their rotation (Qwen3)"},
        {FIELD("sliding_window", int, sliding_window), .min = 1, .max = 1 << 30, .optional = true,
                .none = 0, .initial_note = SHAPE_NOTE ", else null",
                .help = "a token attends to at most this many tokens, itself and those before it "
                        "(Mistral-7B-v0.1); null: to all before it"},
        {FIELD("max_window_layers", int, max_window_layers), .min = 0, .max = 4096,
                .initial_note = SHAPE_NOTE ", else 0",
                .help = "the first layer with sliding_window; those before it have none (Qwen2, Qwen3)"},
        {FIELD("no_rope_layer_interval", int, no_rope_layer_interval), .min = 1, .max = 4096,
                .optional = true, .none = 0, .initial_note = SHAPE_NOTE ", else null",
                .help = "layers n, 2 n, ... have no rotary embedding (SmolLM3: n = 4); null: all "
                        "layers have it"},
        {FIELD("rope_scaling.rope_type", choice, rope_type), .choices = rope_choices,
                .optional = true, .none = ROPE_DEFAULT, .initial_note = SHAPE_NOTE ", else default",
                .help = "llama3 stretches the low rotary frequencies, as Llama 3.1 does"},
        {FIELD("rope_scaling.factor", real, rope_factor), .min = 1, .max = 1e6, ROPE_PART,
                .help = "llama3: divisor of the low frequencies"},
        {FIELD("rope_scaling.low_freq_factor", real, rope_low_freq_factor), .min = 1e-6, .max = 1e6,
                ROPE_PART,
                .help = "llama3: wavelengths above original_max_position_embeddings / this are "
                        "stretched in full"},
        {FIELD("rope_scaling.high_freq_factor", real, rope_high_freq_factor), .min = 1e-6,
                .max = 1e6, ROPE_PART,
                .help = "llama3: wavelengths below original_max_position_embeddings / this are not "
                        "stretched"},
        {FIELD("rope_scaling.original_max_position_embeddings", int, rope_original_context),
                .min = 1, .max = 1 << 30, ROPE_PART,
                .help = "llama3: context before the stretching, in tokens"},
        {FIELD("bos_token_id", int, bos_token_id), TOKEN_ID, .initial_note = "the tokenizer's",
                .help = "begins a text; null: that of the tokenizer"},
        {FIELD("eos_token_id", ids, eos_token_id), .count_offset = offsetof(model_config, n_eos),
                .max = (1 << 24) - 1, .max_items = MAX_EOS, .initial_note = "the tokenizer's",
                .help = "ends a text, one or several; []: that of the tokenizer"},
        {FIELD("pad_token_id", int, pad_token_id), TOKEN_ID, .initial_note = "the tokenizer's",
                .help = "pads batches in other programs; null: that of the tokenizer"},
};
const int n_model_keys = sizeof model_keys / sizeof *model_keys;

model_config model_config_defaults(void) {
    return (model_config){.max_position_embeddings = 2048,
            .rms_norm_eps = 1e-6,
            .rope_theta = 10000,
            .initializer_range = 0.02,
            .bos_token_id = -1,
            .pad_token_id = -1};
}

// --- checking
static drv_status check_ranges(const char *where, const char *prefix, const model_config *m) {
    for (int i = 0; i < n_model_keys; i++) {
        const key *k = &model_keys[i];
        const void *field = (const char *)m + k->offset;
        const bool whole = k->type == &type_int;
        if (!whole && k->type != &type_real) continue;
        const double x = whole ? (double)*(const int64_t *)field : *(const double *)field;
        if (key_in_range(k, x)) continue;
        str expected = {0};
        k->type->expected(k, &expected);
        const drv_status status = x == 0 ? drv_fail(DRV_E_USAGE, "%s: no %s%s, expected %s", where,
                                                   prefix, k->path, expected.p)
                                         : drv_fail(DRV_E_USAGE, "%s: %s%s is %.10g, expected %s",
                                                   where, prefix, k->path, x, expected.p);
        str_free(&expected);
        return status;
    }
    return DRV_OK;
}

static drv_status check_heads(const char *where, const char *prefix, const model_config *m) {
    if (m->num_attention_heads % m->num_key_value_heads != 0)
        return drv_fail(DRV_E_USAGE,
                "%s: %snum_key_value_heads is %lld, expected a divisor of num_attention_heads %lld",
                where, prefix, (long long)m->num_key_value_heads,
                (long long)m->num_attention_heads);
    if (m->head_dim % 2)
        return drv_fail(DRV_E_USAGE, "%s: %shead_dim is %lld, expected an even number", where,
                prefix, (long long)m->head_dim);
    return DRV_OK;
}

// A checkpoint is a folder that transformers reads, so its class must exist there.
static drv_status check_family(const char *where, const char *prefix, const model_config *m) {
    if (m->qkv_bias && m->qk_norm)
        return drv_fail(DRV_E_USAGE,
                "%s: %sqkv_bias and %sqk_norm are true, expected one of them: no family has both",
                where, prefix, prefix);
    if (m->no_rope_layer_interval && (m->qkv_bias || m->qk_norm || m->sliding_window))
        return drv_fail(DRV_E_USAGE,
                "%s: %sno_rope_layer_interval is %lld, expected null: no family has it beside "
                "%sqkv_bias, %sqk_norm or %ssliding_window",
                where, prefix, (long long)m->no_rope_layer_interval, prefix, prefix, prefix);
    if (m->sliding_window > m->max_position_embeddings)
        return drv_fail(DRV_E_USAGE,
                "%s: %ssliding_window is %lld, expected at most max_position_embeddings %lld, or "
                "null",
                where, prefix, (long long)m->sliding_window, (long long)m->max_position_embeddings);
    if (model_config_family(m)) return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "%s: %smax_window_layers is %lld, expected 0: of families without %sqkv_bias and "
            "%sqk_norm all layers have the window",
            where, prefix, (long long)m->max_window_layers, prefix, prefix);
}

// Drops a window that no layer uses, or that is as long as the context.
static void drop_window(model_config *m) {
    if (m->max_window_layers >= m->num_hidden_layers ||
            m->sliding_window == m->max_position_embeddings)
        m->sliding_window = 0;
    if (m->sliding_window == 0) m->max_window_layers = 0;
}

static drv_status check_rope(const char *where, const char *prefix, const model_config *m) {
    if (m->rope_type == ROPE_DEFAULT) return DRV_OK;
    if (m->rope_factor >= 1 && m->rope_low_freq_factor > 0 &&
            m->rope_high_freq_factor > m->rope_low_freq_factor && m->rope_original_context >= 1)
        return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "%s: %srope_scaling of type llama3 has factor %g, low_freq_factor %g, high_freq_factor "
            "%g and original_max_position_embeddings %lld, expected a factor of at least 1, 0 < "
            "low_freq_factor < high_freq_factor and at least 1 position",
            where, prefix, m->rope_factor, m->rope_low_freq_factor, m->rope_high_freq_factor,
            (long long)m->rope_original_context);
}

static drv_status check_ids(const char *where, const char *prefix, const model_config *m) {
    const struct {
        const char *name;
        int64_t id;
    } ids[] = {{"bos_token_id", m->bos_token_id}, {"pad_token_id", m->pad_token_id}};
    const char *name = NULL;
    int64_t id = 0;
    for (size_t i = 0; i < sizeof ids / sizeof *ids && !name; i++)
        if (ids[i].id >= m->vocab_size) name = ids[i].name, id = ids[i].id;
    for (int i = 0; i < m->n_eos && !name; i++)
        if (m->eos_token_id[i] >= m->vocab_size) name = "eos_token_id", id = m->eos_token_id[i];
    if (!name) return DRV_OK;
    return drv_fail(DRV_E_USAGE, "%s: %s%s is %lld, expected 0 to %lld (vocab_size is %lld)", where,
            prefix, name, (long long)id, (long long)m->vocab_size - 1, (long long)m->vocab_size);
}

static drv_status fill_heads(const char *where, const char *prefix, model_config *m) {
    if (m->num_key_value_heads == 0) m->num_key_value_heads = m->num_attention_heads;
    if (m->head_dim == 0 && m->num_attention_heads > 0) {
        if (m->hidden_size % m->num_attention_heads)
            return drv_fail(DRV_E_USAGE,
                    "%s: %snum_attention_heads is %lld, which does not divide hidden_size %lld; "
                    "expected a divisor, or %shead_dim",
                    where, prefix, (long long)m->num_attention_heads, (long long)m->hidden_size,
                    prefix);
        m->head_dim = m->hidden_size / m->num_attention_heads;
    }
    return DRV_OK;
}

drv_status model_config_check(const char *where, const char *prefix, model_config *m) {
    DRV_TRY(fill_heads(where, prefix, m));
    if (m->rope_type == ROPE_DEFAULT) {
        m->rope_factor = m->rope_low_freq_factor = m->rope_high_freq_factor = 0;
        m->rope_original_context = 0;
    }
    drop_window(m);
    if (m->no_rope_layer_interval > m->num_hidden_layers) m->no_rope_layer_interval = 0;
    DRV_TRY(check_ranges(where, prefix, m));
    DRV_TRY(check_heads(where, prefix, m));
    DRV_TRY(check_family(where, prefix, m));
    DRV_TRY(check_rope(where, prefix, m));
    return check_ids(where, prefix, m);
}

const char *model_config_difference(arena *a, const model_config *m, const model_config *other) {
    const char *difference = NULL;
    for (int i = 0; i < n_model_keys && !difference; i++) {
        const key *k = &model_keys[i];
        if (str_ends(k->path, "_token_id")) continue;
        const char *mine = key_text(a, k, m), *theirs = key_text(a, k, other);
        if (strcmp(mine, theirs) != 0)
            difference = arena_printf(a, "%s %s and %s", k->path, mine, theirs);
    }
    return difference;
}

// --- sizes
static int64_t layer_weights(const model_config *m) {
    const int64_t q = m->num_attention_heads * m->head_dim,
                  kv = m->num_key_value_heads * m->head_dim;
    const int64_t matrices = m->hidden_size * (2 * q + 2 * kv + 3 * m->intermediate_size);
    return matrices + 2 * m->hidden_size + (m->qkv_bias ? q + 2 * kv : 0) +
           (m->qk_norm ? 2 * m->head_dim : 0);
}

bool model_layer_rotates(const model_config *m, int64_t layer) {
    return !m->no_rope_layer_interval || (layer + 1) % m->no_rope_layer_interval != 0;
}

int64_t model_parameters(const model_config *m) {
    int64_t tables = m->tie_word_embeddings ? 1 : 2;
    return tables * m->vocab_size * m->hidden_size + m->hidden_size +
           m->num_hidden_layers * layer_weights(m);
}
