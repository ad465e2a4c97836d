// Writes the metadata and the tensors of a GGUF file, reads the file back, and compares.
#include "convert/convert_gguf.h"

#include <stdio.h>

#include "base/log.h"
#include "ckpt/out_folder.h"

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
        log_info("%s: %d of them, matrices whose rows are not a multiple of a %s block of %d numbers, are Q8_0 or F16",
                path, written->n_wider, type->name, (int)type->block);
}

// Writes a model to the file `out`, which will have the name `named`.
static drv_status write_model(const model *m, const char *out, const char *named,
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

// Compares the written file with its source, and gives it its name.
static drv_status prove(arena *a, const model *from, const char *name, const char *unproved,
        const char *file, comparison *compared) {
    model made;
    DRV_TRY(model_open(a, unproved, &made));
    const drv_status status = compare_models(a, from, &made, true, compared);
    model_close(&made);
    DRV_TRY(status);
    const char *kept = compared->problem ? unproved : file;
    DRV_TRY(json_write_file(arena_printf(a, "%s.verify.json", kept),
            comparison_json(compared, name, kept)));
    if (compared->problem)
        return drv_fail(DRV_E_DATA, "%s; the result is kept as \"%s\", not as \"%s\"",
                compared->problem, unproved, file);
    if (rename(unproved, file) != 0) return file_fail("rename into place", file);
    return out_placed(file_sync_placed(path_parent(a, file), file));
}

drv_status convert_gguf(arena *a, const model *from, const char *name, const char *file,
        const gguf_write_opts *opts, bool verify, comparison *compared) {
    const char *unproved = arena_printf(a, "%s.unproved", file);
    gguf_write_opts replacing = *opts;
    *compared = (comparison){0};
    if (!verify) return write_model(from, file, file, opts);
    replacing.force = true; // an earlier result that was not good
    DRV_TRY(write_model(from, unproved, file, &replacing));
    return prove(a, from, name, unproved, file, compared);
}
