// Reads the shape of a model from the metadata of a GGUF file, and makes its config.json. Keys and
// defaults are those of llama.cpp's loader (llama-model.cpp, models/llama.cpp).
#include "gguf/llama_meta.h"

#include <string.h>

#include "base/log.h"

// Returns a key of the architecture: "llama.block_count". Overwritten 4 calls later in this thread.
static const char *arch_key(const char *arch, const char *name) {
    static _Thread_local char ring[4][96];
    static _Thread_local int next;
    char *key = ring[next++ & 3];
    snprintf(key, sizeof ring[0], "%.30s.%s", arch, name);
    return key;
}

// --- what is of no family
// Lists the architectures, "llama" or ..., in `a`.
static const char *architectures(arena *a) {
    const char *names = "";
    for (int i = 0; i < n_model_families; i++)
        if (model_family_of_gguf(model_families[i].gguf, false) == &model_families[i])
            names = arena_printf(a, "%s%s\"%s\"", names, *names ? " or " : "",
                    model_families[i].gguf);
    return names;
}

static drv_status check_kind(arena *a, const gguf_file *file, const char **arch,
        const model_family **family) {
    const char *kind = "model";
    int64_t parts = 1;
    *arch = NULL;
    DRV_TRY(gguf_get_text(a, file, "general.type", &kind));
    DRV_TRY(gguf_get_text(a, file, "general.architecture", arch));
    DRV_TRY(gguf_get_i64(file, "split.count", &parts));
    if (strcmp(kind, "model") != 0)
        return drv_fail(DRV_E_DATA, "%s: general.type is \"%.40s\", expected \"model\"", file->path,
                kind);
    if (parts > 1)
        return drv_fail(DRV_E_DATA,
                "%s: is one of %lld parts, expected a whole model; llama.cpp's llama-gguf-split "
                "--merge joins them",
                file->path, (long long)parts);
    if (!*arch)
        return drv_fail(DRV_E_DATA, "%s: general.architecture is missing, expected %s", file->path,
                architectures(a));
    // Current files call a Mistral "llama".
    *family = model_family_of_gguf(strcmp(*arch, "mistral") == 0 ? "llama" : *arch, false);
    if (*family) return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "%s: general.architecture is \"%.40s\", which is not read; expected %s", file->path,
            *arch, architectures(a));
}

// Refuses numbers that would change the graph, unless they have the value that does not.
static drv_status check_absent(const gguf_file *file, const char *arch) {
    static const struct {
        const char *name, *what;
        double harmless;
    } keys[] = {
            {"expert_count", "a mixture of experts", 0},
            {"expert_used_count", "a mixture of experts", 0},
            {"attention.clamp_kqv", "clamped queries, keys and values", 0},
            {"attn_logit_softcapping", "capped attention", 0},
            {"final_logit_softcapping", "capped logits", 0},
            {"attention.scale", "a scale of its own for attention", 0},
            {"logit_scale", "scaled logits", 1},
            {"residual_scale", "a scaled residual stream", 1},
            {"embedding_scale", "a scaled embedding", 1},
            {"rope.scaling.attn_factor", "a scaled rotary embedding", 1},
            {"rope.scale_linear", "linear scaling of the rotary embedding", 1},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *key = arch_key(arch, keys[i].name);
        const gguf_value *v = gguf_find(file, key);
        double x = keys[i].harmless;
        int64_t whole = 0;
        if (!v) continue;
        if (v->type == GGUF_F32 || v->type == GGUF_F64) {
            DRV_TRY(gguf_get_f64(file, key, &x));
        } else {
            DRV_TRY(gguf_get_i64(file, key, &whole));
            x = (double)whole;
        }
        if (x != keys[i].harmless && x != 0)
            return drv_fail(DRV_E_DATA,
                    "%s: %s is %g: %s, which no family of models here has, expected none",
                    file->path, key, x, keys[i].what);
    }
    return DRV_OK;
}

static drv_status check_rope_type(arena *a, const gguf_file *f, const char *arch) {
    const char *type = "none";
    double factor = 0;
    DRV_TRY(gguf_get_text(a, f, arch_key(arch, "rope.scaling.type"), &type));
    DRV_TRY(gguf_get_f64(f, arch_key(arch, "rope.scaling.factor"), &factor));
    if (strcmp(type, "none") == 0 || (strcmp(type, "linear") == 0 && (factor == 0 || factor == 1)))
        return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "%s: %s is \"%.40s\" with factor %g, expected none, or llama3's, which is in "
            "rope_freqs.weight",
            f->path, arch_key(arch, "rope.scaling.type"), type, factor);
}

// --- numbers
static drv_status need(const gguf_file *f, const char *key, int64_t most, int64_t *out) {
    *out = -1;
    DRV_TRY(gguf_get_i64(f, key, out));
    if (*out >= 1 && *out <= most) return DRV_OK;
    if (!gguf_find(f, key))
        return drv_fail(DRV_E_DATA, "%s: %s is missing, expected a number from 1 to %lld", f->path,
                key, (long long)most);
    return drv_fail(DRV_E_DATA, "%s: %s is %lld, expected 1 to %lld", f->path, key, (long long)*out,
            (long long)most);
}

// Reads the window. llama.cpp writes none for these architectures; ckpt export does.
static drv_status read_window(const gguf_file *f, const char *arch, llama_meta *m) {
    const char *key = arch_key(arch, "attention.sliding_window");
    m->window = 0;
    DRV_TRY(gguf_get_i64(f, key, &m->window));
    if (m->window < 0 || m->window > m->context)
        return drv_fail(DRV_E_DATA, "%s: %s is %lld, expected at most the context, %lld", f->path,
                key, (long long)m->window, (long long)m->context);
    if (m->window == m->context) m->window = 0;
    const model_family *family = model_family_of_gguf(m->family->gguf, m->window > 0);
    if (!family)
        return drv_fail(DRV_E_DATA, "%s: %s is %lld, expected none in a model of this architecture",
                f->path, key, (long long)m->window);
    m->family = family;
    return DRV_OK;
}

static drv_status check_width(const gguf_file *f, const char *key, int64_t expected) {
    int64_t width = expected;
    DRV_TRY(gguf_get_i64(f, key, &width));
    if (width == expected) return DRV_OK;
    return drv_fail(DRV_E_DATA, "%s: %s is %lld, expected %lld, the width of a head", f->path, key,
            (long long)width, (long long)expected);
}

static drv_status read_heads(const gguf_file *f, const char *arch, llama_meta *m) {
    DRV_TRY(need(f, arch_key(arch, "attention.head_count"), 4096, &m->n_heads));
    m->n_kv_heads = m->n_heads;
    DRV_TRY(gguf_get_i64(f, arch_key(arch, "attention.head_count_kv"), &m->n_kv_heads));
    if (m->n_kv_heads < 1 || m->n_heads % m->n_kv_heads)
        return drv_fail(DRV_E_DATA, "%s: %s is %lld, expected a divisor of head_count %lld",
                f->path, arch_key(arch, "attention.head_count_kv"), (long long)m->n_kv_heads,
                (long long)m->n_heads);
    m->head_dim = m->hidden_size / m->n_heads;
    DRV_TRY(gguf_get_i64(f, arch_key(arch, "attention.key_length"), &m->head_dim));
    if (m->head_dim < 2 || m->head_dim > 1024 || m->head_dim % 2)
        return drv_fail(DRV_E_DATA,
                "%s: a head is %lld wide, expected an even number from 2 to 1024", f->path,
                (long long)m->head_dim);
    DRV_TRY(check_width(f, arch_key(arch, "attention.value_length"), m->head_dim));
    return check_width(f, arch_key(arch, "rope.dimension_count"), m->head_dim);
}

static drv_status read_reals(const gguf_file *f, const char *arch, llama_meta *m) {
    const char *eps = arch_key(arch, "attention.layer_norm_rms_epsilon");
    m->rms_norm_eps = -1;
    m->rope_theta = 10000;
    DRV_TRY(gguf_get_f64(f, eps, &m->rms_norm_eps));
    DRV_TRY(gguf_get_f64(f, arch_key(arch, "rope.freq_base"), &m->rope_theta));
    if (!(m->rms_norm_eps >= 0 && m->rms_norm_eps <= 1))
        return drv_fail(DRV_E_DATA, "%s: %s is %s, expected a number from 0 to 1", f->path, eps,
                gguf_find(f, eps) ? "out of range" : "missing");
    if (m->rope_theta >= 1 && m->rope_theta <= 1e12) return DRV_OK;
    return drv_fail(DRV_E_DATA, "%s: %s is %g, expected 1 to 1e12", f->path,
            arch_key(arch, "rope.freq_base"), m->rope_theta);
}

static drv_status read_rope(const gguf_file *f, const char *arch, llama_meta *m) {
    const gguf_tensor *t = gguf_find_tensor(f, "rope_freqs.weight");
    int64_t context = 0;
    float divisors[512]; // half of the widest head
    m->rope = (llama3_rope){0};
    DRV_TRY(gguf_get_i64(f, arch_key(arch, "rope.scaling.original_context_length"), &context));
    if (!t) return DRV_OK;
    if (t->elements != m->head_dim / 2 || gguf_rows(t) != 1)
        return drv_fail(DRV_E_DATA,
                "%s: rope_freqs.weight has %lld numbers, expected half a head, %lld", f->path,
                (long long)t->elements, (long long)m->head_dim / 2);
    DRV_TRY(gguf_read_f32(f, t, 0, 1, divisors));
    if (llama3_rope_recover(divisors, m->rope_theta, m->head_dim, context, &m->rope)) return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "%s: rope_freqs.weight holds no llama3 scaling of the rotary embedding, expected one; "
            "other kinds are not supported",
            f->path);
}

// --- tokens
drv_status llama_meta_token(const gguf_file *f, const char *key, int64_t n_tokens, int64_t *id) {
    *id = -1;
    DRV_TRY(gguf_get_i64(f, key, id));
    if (*id < n_tokens || !gguf_find(f, key)) return DRV_OK;
    log_warn("%s: %s is %lld, which is not a token (there are %lld); it is left out", f->path, key,
            (long long)*id, (long long)n_tokens);
    *id = -1;
    return DRV_OK;
}

static drv_status read_tokens(const gguf_file *f, llama_meta *m) {
    static const char *const ends[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
            "tokenizer.ggml.eom_token_id"};
    const gguf_value *tokens = gguf_find(f, "tokenizer.ggml.tokens");
    const int64_t n = tokens && tokens->n < m->vocab_size ? tokens->n : m->vocab_size;
    DRV_TRY(llama_meta_token(f, "tokenizer.ggml.bos_token_id", n, &m->bos));
    DRV_TRY(llama_meta_token(f, "tokenizer.ggml.padding_token_id", n, &m->pad));
    m->n_eos = 0;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        int64_t id;
        DRV_TRY(llama_meta_token(f, ends[i], n, &id));
        bool seen = id < 0;
        for (int k = 0; k < m->n_eos; k++)
            seen |= m->eos[k] == id;
        if (!seen) m->eos[m->n_eos++] = id;
    }
    return DRV_OK;
}

// Checks that each token has a row in the embedding, which may have more rows, as padding.
static drv_status check_tokens(const gguf_file *f, int64_t n_rows) {
    const gguf_value *tokens = gguf_find(f, "tokenizer.ggml.tokens");
    if (!tokens) return DRV_OK;
    if (!tokens->is_array)
        return drv_fail(DRV_E_DATA,
                "%s: value \"tokenizer.ggml.tokens\" is %s, expected an array of texts", f->path,
                gguf_type_name(tokens->type));
    if (tokens->n > n_rows)
        return drv_fail(DRV_E_DATA,
                "%s: the tokenizer has %lld tokens, but token_embd.weight %lld rows", f->path,
                (long long)tokens->n, (long long)n_rows);
    if (tokens->n < n_rows)
        log_warn("%s: the tokenizer has %lld tokens, token_embd.weight %lld rows: the last %lld rows have no token",
                f->path, (long long)tokens->n, (long long)n_rows, (long long)(n_rows - tokens->n));
    return DRV_OK;
}

static drv_status read_vocabulary(const gguf_file *f, const char *arch, llama_meta *m) {
    const gguf_tensor *t = gguf_find_tensor(f, "token_embd.weight");
    if (!t)
        return drv_fail(DRV_E_DATA, "%s: has no tensor \"token_embd.weight\": it holds no model",
                f->path);
    m->vocab_size = gguf_rows(t);
    int64_t named = m->vocab_size;
    DRV_TRY(gguf_get_i64(f, arch_key(arch, "vocab_size"), &named));
    if (named != m->vocab_size)
        return drv_fail(DRV_E_DATA, "%s: %s is %lld, but token_embd.weight has %lld rows", f->path,
                arch_key(arch, "vocab_size"), (long long)named, (long long)m->vocab_size);
    return check_tokens(f, m->vocab_size);
}

drv_status llama_meta_read(arena *a, const gguf_file *f, llama_meta *out) {
    const char *arch;
    llama_meta m = {0};
    DRV_TRY(check_kind(a, f, &arch, &m.family));
    DRV_TRY(check_absent(f, arch));
    DRV_TRY(check_rope_type(a, f, arch));
    DRV_TRY(need(f, arch_key(arch, "block_count"), 4096, &m.n_layers));
    DRV_TRY(need(f, arch_key(arch, "context_length"), 1 << 30, &m.context));
    DRV_TRY(need(f, arch_key(arch, "embedding_length"), 1 << 20, &m.hidden_size));
    DRV_TRY(need(f, arch_key(arch, "feed_forward_length"), 1 << 22, &m.intermediate_size));
    DRV_TRY(read_window(f, arch, &m));
    DRV_TRY(read_heads(f, arch, &m));
    DRV_TRY(read_reals(f, arch, &m));
    DRV_TRY(read_vocabulary(f, arch, &m));
    DRV_TRY(read_rope(f, arch, &m));
    DRV_TRY(read_tokens(f, &m));
    m.tied = gguf_find_tensor(f, "output.weight") == NULL;
    *out = m;
    return DRV_OK;
}

// --- as Hugging Face's files
json_t *llama_id_json(int64_t id) {
    return id < 0 ? json_null() : json_integer(id);
}

json_t *llama_eos_json(const llama_meta *m) {
    if (m->n_eos <= 1) return llama_id_json(m->n_eos ? m->eos[0] : -1);
    json_t *list = json_array();
    for (int i = 0; i < m->n_eos; i++)
        json_array_append_new(list, json_integer(m->eos[i]));
    return list;
}

static json_t *rope_json(const llama_meta *m) {
    const llama3_rope *r = &m->rope;
    if (r->original_context == 0) return json_null();
    return json_pack("{s:s, s:f, s:f, s:f, s:I}", "rope_type", "llama3", "factor", r->factor,
            "low_freq_factor", r->low_freq_factor, "high_freq_factor", r->high_freq_factor,
            "original_max_position_embeddings", (json_int_t)r->original_context);
}

static void put_family(const llama_meta *m, json_t *o) {
    json_object_set_new(o, "architectures", json_pack("[s]", m->family->architecture));
    json_object_set_new(o, "model_type", json_string(m->family->model_type));
    if (!m->family->qkv_bias) json_object_set_new(o, "attention_bias", json_false());
    if (m->window) json_object_set_new(o, "sliding_window", json_integer(m->window));
    if (m->family->no_rope_layer_interval) // GGUF has no key for it
        json_object_set_new(o, "no_rope_layer_interval",
                json_integer(m->family->no_rope_layer_interval));
    if (m->family->window != WINDOW_SWITCHED) return;
    json_object_set_new(o, "use_sliding_window", json_boolean(m->window > 0));
    json_object_set_new(o, "max_window_layers", json_integer(0));
}

json_t *llama_config_json(const llama_meta *m, const char *torch_dtype) {
    json_t *shape = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "vocab_size",
            (json_int_t)m->vocab_size, "hidden_size", (json_int_t)m->hidden_size,
            "intermediate_size", (json_int_t)m->intermediate_size, "num_hidden_layers",
            (json_int_t)m->n_layers, "num_attention_heads", (json_int_t)m->n_heads,
            "num_key_value_heads", (json_int_t)m->n_kv_heads, "head_dim", (json_int_t)m->head_dim,
            "max_position_embeddings", (json_int_t)m->context);
    json_t *o = json_pack("{s:s, s:b, s:f, s:f, s:b, s:s}", "hidden_act", "silu", "mlp_bias", 0,
            "rms_norm_eps", m->rms_norm_eps, "rope_theta", m->rope_theta, "tie_word_embeddings",
            m->tied, "torch_dtype", torch_dtype);
    json_object_update(o, shape);
    json_decref(shape);
    json_object_set_new(o, "rope_scaling", rope_json(m));
    put_family(m, o);
    json_object_set_new(o, "bos_token_id", llama_id_json(m->bos));
    json_object_set_new(o, "eos_token_id", llama_eos_json(m));
    json_object_set_new(o, "pad_token_id", llama_id_json(m->pad));
    return o;
}
