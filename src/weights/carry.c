// Tokenizer files, chat template, generation defaults and special ids: from source to checkpoint.
#include "weights/carry.h"

#include <string.h>

#include "base/log.h"
#include "tok/tokenizer.h"

enum { PADDING = 1024 }; // rows of the vocabulary: fewer are usual, for round sizes

// A preset brings the vocabulary of its own tokenizer.
static void say_unused(const run_config *cfg, int32_t n_vocab) {
    const model_config *m = &cfg->model;
    const int64_t unused = m->vocab_size - n_vocab, tables = m->tie_word_embeddings ? 1 : 2;
    if (*cfg->from || unused < PADDING) return;
    log_info("model.vocab_size is %lld, but the tokenizer has %d tokens: %s parameters and part of each step are for tokens that never occur; model.vocab_size: %d leaves them out",
            (long long)m->vocab_size, n_vocab, str_si((double)(unused * m->hidden_size * tables)),
            n_vocab);
}

drv_status carry_token_ids(arena *a, run_config *cfg) {
    tokenizer *t;
    model_config *m = &cfg->model;
    if (!*cfg->tokenizer) return DRV_OK;
    const char *key = config_gives(cfg, "tokenizer") ? "tokenizer" : "model.from";
    DRV_TRY_CTX(tokenizer_open(a, cfg->tokenizer, &t), "%s: %s", config_where(cfg, key), key);
    const int32_t n_vocab = tokenizer_n_vocab(t), eos = tokenizer_eos(t);
    if (m->n_eos == 0 && eos >= 0) m->eos_token_id[m->n_eos++] = eos;
    if (m->bos_token_id < 0) m->bos_token_id = tokenizer_bos(t);
    if (m->pad_token_id < 0) m->pad_token_id = tokenizer_pad(t);
    tokenizer_close(t);
    if (n_vocab > m->vocab_size)
        return drv_fail(DRV_E_USAGE,
                "%s: %s: \"%s\" has %d tokens, more than model.vocab_size %lld; expected "
                "model.vocab_size: %d or more",
                config_where(cfg, key), key, cfg->tokenizer, n_vocab, (long long)m->vocab_size,
                n_vocab);
    say_unused(cfg, n_vocab);
    return DRV_OK;
}

// The folder of tokenizer.json, which may have been named itself.
static const char *folder_of(arena *a, const char *path) {
    if (file_is_dir(path)) return path;
    const char *slash = strrchr(path, '/');
    return slash ? arena_strndup(a, path, (size_t)(slash - path)) : ".";
}

void carry_say_changes(const ckpt_content *now, const char *folder) {
    arena *a = arena_new("carried files");
    for (int i = 0; i < now->n_carried; i++) {
        const ckpt_carried *c = &now->carried[i];
        const char *path = path_join(a, folder, c->name);
        char *bytes;
        size_t n;
        if (file_exists(path) && file_read(a, path, &bytes, &n) == DRV_OK && n == c->n &&
                memcmp(bytes, c->bytes, n) == 0)
            continue;
        log_info("changed since the last part: %s is not that of %s; new checkpoints carry the new one",
                c->name, folder);
    }
    arena_free(a);
}

void carry_check_data(const run_config *cfg, const rows *stream) {
    arena *a = arena_new("tokenizer of the data");
    const char *path = cfg->tokenizer;
    uint64_t hash;
    if (file_is_dir(path)) path = path_join(a, path, "tokenizer.json");
    const bool known = *path && file_exists(path) && dataset_tokenizer_hash(path, &hash) == DRV_OK;
    for (int i = 0; known && i < rows_n_sources(stream); i++) {
        const dataset *set = rows_source(stream, i);
        const char *built = set->about.tokenizer_hash;
        if (!built || strcmp(built, arena_printf(a, "%016llx", (unsigned long long)hash)) == 0)
            continue;
        log_warn("data set \"%s\" was built with another tokenizer%s%s%s than \"%s\": its ids may mean other text",
                set->prefix, set->about.tokenizer ? ", \"" : "",
                set->about.tokenizer ? set->about.tokenizer : "", set->about.tokenizer ? "\"," : "",
                cfg->tokenizer);
    }
    arena_free(a);
}

static bool same_file(arena *a, const char *x, const char *y) {
    char *in_x, *in_y;
    size_t n_x, n_y;
    return file_exists(x) && file_exists(y) && file_read(a, x, &in_x, &n_x) == DRV_OK &&
           file_read(a, y, &in_y, &n_y) == DRV_OK && n_x == n_y && memcmp(in_x, in_y, n_x) == 0;
}

int64_t carry_bytes(const run_config *cfg) {
    int64_t bytes = 0;
    if (!cfg->tokenizer || !*cfg->tokenizer) return 0; // NULL: of a model without a run
    arena *a = arena_new("sizes");
    const char *folder = folder_of(a, cfg->tokenizer);
    for (int i = 0; i < n_ckpt_carried_names; i++) {
        const int64_t n = file_size(path_join(a, folder, ckpt_carried_names[i]));
        if (n > 0) bytes += n;
    }
    arena_free(a);
    return bytes;
}

drv_status carry_files(arena *a, const run_config *cfg, ckpt_content *out) {
    const char *folders[2] = {NULL, NULL};
    out->n_carried = 0;
    if (!*cfg->tokenizer) return DRV_OK;
    ckpt_carried *list = ARENA_ARRAY(a, ckpt_carried, n_ckpt_carried_names);
    folders[0] = folder_of(a, cfg->tokenizer);
    arena *compare = arena_new("same tokenizer");
    if (*cfg->from && same_file(compare, path_join(compare, folders[0], "tokenizer.json"),
                              path_join(compare, cfg->from, "tokenizer.json")))
        folders[1] = cfg->from;
    arena_free(compare);
    for (int i = 0; i < n_ckpt_carried_names; i++)
        for (int k = 0; k < 2 && folders[k]; k++) {
            const char *path = path_join(a, folders[k], ckpt_carried_names[i]);
            char *bytes;
            size_t n;
            if (!file_exists(path)) continue;
            DRV_TRY(file_read(a, path, &bytes, &n));
            list[out->n_carried++] = (ckpt_carried){ckpt_carried_names[i], bytes, n};
            break;
        }
    out->carried = list;
    return DRV_OK;
}
