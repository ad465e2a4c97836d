// Writes a model as a GGUF file; the model was checked when it was opened.
#include "cli/ckpt_convert.h"

#include "base/log.h"

static llama_meta meta_of(const model_config *cfg) {
    llama_meta meta = {.family = model_config_family(cfg),
            .vocab_size = cfg->vocab_size,
            .hidden_size = cfg->hidden_size,
            .intermediate_size = cfg->intermediate_size,
            .n_layers = cfg->num_hidden_layers,
            .n_heads = cfg->num_attention_heads,
            .n_kv_heads = cfg->num_key_value_heads,
            .head_dim = cfg->head_dim,
            .context = cfg->max_position_embeddings,
            .window = cfg->sliding_window,
            .rms_norm_eps = cfg->rms_norm_eps,
            .rope_theta = cfg->rope_theta,
            .tied = cfg->tie_word_embeddings,
            .bos = cfg->bos_token_id,
            .pad = cfg->pad_token_id,
            .n_eos = cfg->n_eos};
    if (cfg->rope_type == ROPE_LLAMA3)
        meta.rope = (llama3_rope){cfg->rope_factor, cfg->rope_low_freq_factor,
                cfg->rope_high_freq_factor, cfg->rope_original_context};
    _Static_assert((int)MAX_EOS <= (int)MAX_LLAMA_EOS, "ids that end a text");
    for (int i = 0; i < cfg->n_eos; i++)
        meta.eos[i] = cfg->eos_token_id[i];
    return meta;
}

drv_status gguf_export_opts(const char *what, const char *type, bool force, gguf_write_opts *out) {
    *out = (gguf_write_opts){.verb = what, .has_type = type != NULL, .force = force};
    if (!type || gguf_write_type(type, &out->type)) return DRV_OK;
    return drv_fail(DRV_E_USAGE, "ckpt %s: --type is \"%s\", expected f32, f16, bf16, q8_0 or q4_k",
            what, type);
}

// Refuses properties of layers that a GGUF file cannot express.
static drv_status check_layers(const char *path, const model_config *cfg) {
    const int64_t interval = model_config_family(cfg)->no_rope_layer_interval;
    if (cfg->max_window_layers)
        return drv_fail(DRV_E_DATA,
                "%s: max_window_layers is %lld, which a GGUF file has no place for, expected 0",
                path, (long long)cfg->max_window_layers);
    if (cfg->no_rope_layer_interval == interval) return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "%s: no_rope_layer_interval is %lld, which a GGUF file has no place for, expected %lld",
            path, (long long)cfg->no_rope_layer_interval, (long long)interval);
}

static void summarise(const char *path, const gguf_written *written) {
    const quant_type *type = quant_type_of(written->type);
    log_info("%s: %d tensors, %s of %s in %.1f s", path, written->n_tensors,
            str_bytes((double)written->bytes), type->name, written->seconds);
    if (written->n_wider)
        log_info("%s: %d of these are matrices whose rows are not a multiple of %d numbers, a block of %s: "
                 "they are Q8_0 or F16",
                path, written->n_wider, (int)type->block, type->name);
}

drv_status gguf_export(const model *m, const char *out, const char *named,
        const gguf_write_opts *opts) {
    gguf_written written;
    DRV_TRY(check_layers(m->path, &m->config));
    if (m->config.sliding_window)
        log_warn("%s has a sliding window of %lld tokens; the file says so, but llama.cpp attends to "
                 "all tokens of a model of this architecture",
                m->path, (long long)m->config.sliding_window);
    const int64_t heads = m->config.num_attention_heads * m->config.head_dim;
    if (m->config.qkv_bias && heads != m->config.hidden_size)
        log_warn("%s has a hidden size of %lld and heads of %lld numbers together; llama.cpp loads a "
                 "model of this architecture only where these are the same",
                m->path, (long long)m->config.hidden_size, (long long)heads);
    const llama_meta meta = meta_of(&m->config);
    DRV_TRY(gguf_write(&m->source, &meta, out, opts, &written));
    summarise(named, &written);
    return DRV_OK;
}
