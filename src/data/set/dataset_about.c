// Reads and writes PREFIX.idx.json: what made a data set, with which tokenizer, and its largest id.
// Unknown and missing keys are allowed.
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/json.h"
#include "data/set/dataset_internal.h"

static drv_status another(const char *path, const char *field, long long is, long long expected) {
    return drv_fail(DRV_E_DATA, "%s: \"%s\" is %lld, expected %lld as in the .idx beside it", path,
            field, is, expected);
}

// Checks that the file was written for the set beside it.
static drv_status check_belongs(const dataset *set, const char *path, const json_t *root) {
    int64_t documents = -1, tokens = -1;
    const char *hash = "";
    char expected[24];
    DRV_TRY(json_get_i64(path, root, "documents", &documents));
    DRV_TRY(json_get_i64(path, root, "tokens", &tokens));
    DRV_TRY(json_get_str(path, root, "idx_xxh3", &hash));
    if (documents != set->n_documents)
        return another(path, "documents", documents, set->n_documents);
    if (tokens != set->n_tokens) return another(path, "tokens", tokens, set->n_tokens);
    snprintf(expected, sizeof expected, "%016llx", (unsigned long long)set->idx_hash);
    if (strcmp(hash, expected) != 0)
        return drv_fail(DRV_E_DATA,
                "%s: \"idx_xxh3\" is \"%s\", expected \"%s\", the hash of the .idx", path, hash,
                expected);
    return DRV_OK;
}

// An object under `key`; NULL when it is absent or null.
static drv_status get_object(const char *path, const json_t *root, const char *key,
        const json_t **out) {
    *out = json_object_get(root, key);
    if (json_is_null(*out)) *out = NULL;
    if (*out && !json_is_object(*out))
        return drv_fail(DRV_E_DATA, "%s: key \"%s\" is not an object", path, key);
    return DRV_OK;
}

static drv_status in_range(const char *path, const char *key, int64_t is, int64_t min,
        int64_t max) {
    if (is >= min && is <= max) return DRV_OK;
    return drv_fail(DRV_E_DATA, "%s: key \"%s\" is %lld, expected %lld to %lld", path, key,
            (long long)is, (long long)min, (long long)max);
}

static drv_status parse(const dataset *set, const char *path, const json_t *root,
        dataset_about *about) {
    const json_t *tokenizer, *eod, *largest, *roles, *turn_end;
    if (!json_is_object(root)) return drv_fail(DRV_E_DATA, "%s: expected a JSON object", path);
    DRV_TRY(check_belongs(set, path, root));
    DRV_TRY(json_get_str(path, root, "drover", &about->drover));
    DRV_TRY(get_object(path, root, "tokenizer", &tokenizer));
    DRV_TRY(json_get_str(path, tokenizer, "path", &about->tokenizer));
    DRV_TRY(json_get_str(path, tokenizer, "xxh3", &about->tokenizer_hash));
    DRV_TRY(json_get_str(path, tokenizer, "texts_xxh3", &about->texts_hash));
    DRV_TRY(json_get_i64(path, tokenizer, "vocab_size", &about->n_vocab));
    DRV_TRY(in_range(path, "tokenizer.vocab_size", about->n_vocab, 0, INT32_MAX));
    DRV_TRY(get_object(path, root, "end_of_document", &eod));
    DRV_TRY(json_get_i64(path, eod, "id", &about->eod));
    DRV_TRY(in_range(path, "end_of_document.id", about->eod, -1, INT32_MAX));
    DRV_TRY(json_get_str(path, eod, "text", &about->eod_text));
    DRV_TRY(get_object(path, root, "largest", &largest));
    DRV_TRY(json_get_i64(path, largest, "id", &about->largest_id));
    DRV_TRY(json_get_i64(path, largest, "token", &about->largest_at));
    DRV_TRY(in_range(path, "largest.id", about->largest_id, -1, INT32_MAX));
    if (about->largest_id >= 0)
        DRV_TRY(in_range(path, "largest.token", about->largest_at, 0, set->n_tokens - 1));
    DRV_TRY(get_object(path, root, "roles", &roles));
    DRV_TRY(json_get_str(path, roles, "xxh3", &about->roles_hash));
    DRV_TRY(json_get_str(path, roles, "template", &about->template));
    DRV_TRY(json_get_str(path, roles, "template_text", &about->template_text));
    DRV_TRY(get_object(path, roles, "turn_end", &turn_end));
    DRV_TRY(json_get_i64(path, turn_end, "id", &about->turn_end));
    DRV_TRY(in_range(path, "roles.turn_end.id", about->turn_end, -1, INT32_MAX));
    DRV_TRY(json_get_str(path, turn_end, "text", &about->turn_end_text));
    DRV_TRY(json_get_i64(path, roles, "answers", &about->answers));
    DRV_TRY(json_get_i64(path, roles, "last_answers", &about->last_answers));
    DRV_TRY(in_range(path, "roles.answers", about->answers, 0, set->n_tokens));
    DRV_TRY(in_range(path, "roles.last_answers", about->last_answers, 0, about->answers));
    DRV_TRY(json_get_i64(path, roles, "pairs", &about->pairs));
    if (about->pairs != 0 && 2 * about->pairs != set->n_documents)
        return drv_fail(DRV_E_DATA,
                "%s: key \"roles.pairs\" is %lld, expected half of the %lld documents", path,
                (long long)about->pairs, (long long)set->n_documents);
    DRV_TRY(json_get_str(path, roles, "pairs_xxh3", &about->pairs_hash));
    about->known = true;
    return DRV_OK;
}

drv_status dataset_about_parse(arena *a, const dataset *set, const char *path, const void *bytes,
        size_t n, dataset_about *out) {
    const dataset_about unknown = {.eod = -1, .largest_id = -1, .turn_end = -1};
    dataset_about about = unknown;
    json_t *root;
    *out = unknown;
    DRV_TRY(json_read_bytes(path, bytes, n, &root));
    const drv_status status = parse(set, path, root, &about);
    if (status == DRV_OK) { // the strings belong to the JSON tree
        const char **texts[] = {&about.drover, &about.tokenizer, &about.tokenizer_hash,
                &about.texts_hash, &about.eod_text, &about.roles_hash, &about.template,
                &about.template_text, &about.turn_end_text, &about.pairs_hash};
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
            if (*texts[i]) *texts[i] = arena_strdup(a, *texts[i]);
        *out = about;
    }
    json_decref(root);
    return status;
}

static json_t *token_or_null(int64_t id, const char *text) {
    if (id < 0) return json_null();
    json_t *token = json_object();
    json_object_set_new(token, "id", json_integer(id));
    json_object_set_new(token, "text", json_of_text(text));
    return token;
}

drv_status dataset_about_write(const dataset *set, const dataset_about *about) {
    char path[4096], hash[24];
    if (snprintf(path, sizeof path, "%s.idx.json", set->prefix) >= (int)sizeof path)
        return drv_fail(DRV_E_IO, "path \"%s.idx.json\" is too long", set->prefix);
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)set->idx_hash);
    json_t *root = json_object(), *tokenizer = json_object(),
           *eod = token_or_null(about->eod, about->eod_text), *largest = json_null(),
           *roles = json_null();
    json_object_set_new(tokenizer, "path", json_of_text(about->tokenizer));
    json_object_set_new(tokenizer, "xxh3", json_of_text(about->tokenizer_hash));
    json_object_set_new(tokenizer, "texts_xxh3", json_of_text(about->texts_hash));
    json_object_set_new(tokenizer, "vocab_size", json_integer(about->n_vocab));
    if (about->largest_id >= 0) {
        largest = json_object();
        json_object_set_new(largest, "id", json_integer(about->largest_id));
        json_object_set_new(largest, "token", json_integer(about->largest_at));
    }
    if (about->roles_hash)
        roles = json_pack("{s:s, s:o, s:I, s:I}", "xxh3", about->roles_hash, "template",
                json_of_text(about->template), "answers", (json_int_t)about->answers,
                "last_answers", (json_int_t)about->last_answers);
    if (about->roles_hash)
        json_object_set_new(roles, "turn_end",
                token_or_null(about->turn_end, about->turn_end_text));
    if (about->roles_hash && about->template_text)
        json_object_set_new(roles, "template_text", json_of_text(about->template_text));
    if (about->pairs) json_object_set_new(roles, "pairs", json_integer(about->pairs));
    if (about->pairs_hash) json_object_set_new(roles, "pairs_xxh3", json_string(about->pairs_hash));
    json_object_set_new(root, "drover", json_of_text(about->drover));
    json_object_set_new(root, "tokenizer", tokenizer);
    json_object_set_new(root, "end_of_document", eod);
    json_object_set_new(root, "largest", largest);
    json_object_set_new(root, "roles", roles);
    json_object_set_new(root, "documents", json_integer(set->n_documents));
    json_object_set_new(root, "tokens", json_integer(set->n_tokens));
    json_object_set_new(root, "idx_xxh3", json_string(hash));
    return json_write_file(path, root);
}

drv_status dataset_tokenizer_hash(const char *path, uint64_t *out) {
    arena *a = arena_new("tokenizer file");
    char *bytes;
    size_t n;
    const drv_status status = file_read(a, path, &bytes, &n);
    if (status == DRV_OK) *out = XXH3_64bits(bytes, n);
    arena_free(a);
    return status;
}
