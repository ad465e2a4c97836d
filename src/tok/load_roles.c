// Finds the tokens that begin a text, end it, pad it and stand for what is unknown. In the order of
// trust: tokenizer_config.json and special_tokens_map.json beside tokenizer.json (as in
// transformers), tokenizer.json itself (its template's first token, its model's unk_token),
// well-known names.
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "tok/loader.h"

typedef struct role_file { // what one file says of each role
    bool given[N_TOKEN_ROLES], is_null[N_TOKEN_ROLES];
    str text[N_TOKEN_ROLES];
} role_file;

// A text, an object with "content", or null.
static bool read_value(json_cursor *c, str *text, bool *is_null) {
    str_clear(text);
    *is_null = jc_peek(c) == 'n';
    if (*is_null) return jc_skip(c);
    if (jc_peek(c) == '"') return jc_string(c, text) && text->n;
    if (jc_peek(c) != '{') return false;
    str key = {0};
    for (bool first = true; jc_next(c, '{', &first, &key);)
        if (str_is(&key, "content") && jc_peek(c) == '"')
            jc_string(c, text);
        else
            jc_skip(c);
    str_free(&key);
    return text->n;
}

// By a cursor: model_max_length may be a whole number that no tree holds (10^30).
static drv_status read_role_file(const char *path, const file_map *file, role_file *out) {
    json_cursor cursor = {.p = (const char *)file->p, .end = (const char *)file->p + file->n};
    str key = {0};
    drv_status status = DRV_OK;
    if (jc_peek(&cursor) != '{') status = drv_fail(DRV_E_DATA, "%s: expected a JSON object", path);
    for (bool first = true; status == DRV_OK && jc_next(&cursor, '{', &first, &key);) {
        token_role role = 0;
        while (role < N_TOKEN_ROLES && !str_is(&key, token_role_key(role)))
            role++;
        if (role == N_TOKEN_ROLES) {
            jc_skip(&cursor);
            continue;
        }
        out->given[role] = true;
        if (!read_value(&cursor, &out->text[role], &out->is_null[role]) && !cursor.error)
            status = drv_fail(DRV_E_DATA,
                    "%s: \"%s\" is neither a text, nor an object with \"content\", nor null", path,
                    token_role_key(role));
    }
    str_free(&key);
    if (status == DRV_OK && !cursor.error && jc_peek(&cursor))
        cursor.error = "more text after the object";
    if (status == DRV_OK && cursor.error)
        status = drv_fail(DRV_E_DATA, "%s: not valid JSON at byte %zu: %s", path,
                (size_t)(cursor.p - (const char *)file->p), cursor.error);
    return status;
}

// Roles that this file names and no earlier one did.
static void take_roles(loader *l, const char *path, const role_file *file,
        bool decided[N_TOKEN_ROLES]) {
    for (token_role role = 0; role < N_TOKEN_ROLES; role++) {
        if (!file->given[role] || decided[role]) continue;
        const char *text = file->text[role].p;
        const int32_t id = file->is_null[role] ? -1 : tokenizer_id(l->t, text);
        decided[role] = file->is_null[role] || id >= 0;
        l->t->role[role] = id;
        if (!decided[role]) // transformers would add it after the vocabulary
            log_warn("%s: %s \"%s\" is not a token of tokenizer.json and is ignored", path,
                    token_role_key(role), text);
    }
}

static drv_status load_role_file(loader *l, const char *name, bool decided[N_TOKEN_ROLES]) {
    const char *slash = strrchr(l->path, '/'), *folder = ".";
    if (slash)
        folder = arena_strndup(l->a, l->path, slash > l->path ? (size_t)(slash - l->path) : 1);
    const char *path = path_join(l->a, folder, name);
    if (!file_exists(path)) return DRV_OK;
    file_map f;
    DRV_TRY(file_map_open(path, &f));
    role_file file = {0};
    const drv_status status = read_role_file(path, &f, &file);
    file_map_close(&f);
    if (status == DRV_OK) take_roles(l, path, &file, decided);
    for (token_role role = 0; role < N_TOKEN_ROLES; role++)
        str_free(&file.text[role]);
    return status;
}

drv_status load_roles(loader *l) {
    tokenizer *t = l->t;
    bool decided[N_TOKEN_ROLES] = {false};
    for (token_role role = 0; role < N_TOKEN_ROLES; role++)
        t->role[role] = -1;
    DRV_TRY(load_role_file(l, "tokenizer_config.json", decided));
    DRV_TRY(load_role_file(l, "special_tokens_map.json", decided));
    if (!decided[ROLE_BOS] && t->n_before) t->role[ROLE_BOS] = t->before[0];
    if (!decided[ROLE_UNK]) t->role[ROLE_UNK] = t->unknown;
    for (token_role role = 0; role < N_TOKEN_ROLES; role++) {
        const char *const *name = token_role_names(role);
        for (; !decided[role] && t->role[role] < 0 && *name; name++)
            t->role[role] = tokenizer_id(t, *name);
    }
    return DRV_OK;
}
