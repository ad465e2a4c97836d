// Finds tokens whose id has no row in the model, which would fail in the middle of a text.
#include <stdlib.h>
#include <string.h>

#include "source/model_source.h"

typedef struct tokens {
    const ckpt_carried *file; // that is looked at
    const json_t *vocab;      // of tokenizer.json: an added token of the same text has its id
    int64_t rows;
} tokens;

static drv_status check(const tokens *t, const char *text, int64_t id) {
    if (id < t->rows) return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "%s%s%s: token \"%.60s\" has id %lld, but the model has %lld rows; leave the token out, or add a row for it (resize_token_embeddings)",
            t->file->folder ? t->file->folder : "", t->file->folder ? "/" : "", t->file->name, text,
            (long long)id, (long long)t->rows);
}

static drv_status check_added(const tokens *t, const json_t *token, const json_t *id) {
    const char *text = json_string_value(json_object_get(token, "content"));
    const json_t *known = text ? json_object_get(t->vocab, text) : NULL;
    if (known) id = known;
    return text && json_is_integer(id) ? check(t, text, json_integer_value(id)) : DRV_OK;
}

static drv_status check_vocab(const tokens *t) {
    const char *text;
    json_t *id;
    json_object_foreach((json_t *)(uintptr_t)t->vocab, text, id) {
        DRV_TRY(check(t, text, json_is_integer(id) ? json_integer_value(id) : 0));
    }
    return DRV_OK;
}

static drv_status check_tokenizer(const tokens *t, const json_t *root) {
    const json_t *added = json_object_get(root, "added_tokens");
    DRV_TRY(check_vocab(t));
    for (size_t i = 0; i < json_array_size(added); i++) {
        const json_t *token = json_array_get(added, i);
        DRV_TRY(check_added(t, token, json_object_get(token, "id")));
    }
    return DRV_OK;
}

static drv_status check_config(const tokens *t, const json_t *root) {
    const json_t *added = json_object_get(root, "added_tokens_decoder");
    const char *key;
    json_t *token;
    json_object_foreach((json_t *)(uintptr_t)added, key, token) {
        json_t *id = json_integer(strtoll(key, NULL, 10));
        const drv_status status = check_added(t, token, id);
        json_decref(id);
        DRV_TRY(status);
    }
    return DRV_OK;
}

const ckpt_carried *carried_find(const ckpt_carried *files, int n, const char *name) {
    int i = 0;
    while (i < n && strcmp(files[i].name, name) != 0)
        i++;
    return i < n ? &files[i] : NULL;
}

static json_t *parse(const ckpt_carried *files, int n, const char *name, tokens *t) {
    json_t *root;
    const ckpt_carried *file = carried_find(files, n, name);
    if (!file) return NULL;
    t->file = file;
    return json_read_bytes(name, file->bytes, file->n, &root) == DRV_OK ? root : NULL;
}

drv_status carried_tokens_check(const ckpt_carried *files, int n_files, int64_t rows) {
    tokens t = {.rows = rows};
    json_t *tokenizer = parse(files, n_files, "tokenizer.json", &t);
    t.vocab = json_object_get(json_object_get(tokenizer, "model"), "vocab");
    drv_status status = check_tokenizer(&t, tokenizer);
    if (status == DRV_OK) {
        json_t *config = parse(files, n_files, "tokenizer_config.json", &t);
        status = check_config(&t, config);
        json_decref(config);
    }
    json_decref(tokenizer);
    return status;
}
