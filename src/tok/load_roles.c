// Finds the tokens that begin a text, end it, pad it and stand for what is unknown. In the order of
// trust: the files beside tokenizer.json (load_beside.c), tokenizer.json itself (its template's
// first token, its model's unk_token), well-known names.

#include "base/log.h"
#include "tok/loader.h"

static const char *const files[] = {"tokenizer_config.json", "special_tokens_map.json"};

// Takes a role that the file names; sets *decided if the file names one or says that there is none.
static drv_status take_role(loader *l, int file, token_role role, bool *decided) {
    const char *key = token_role_key(role);
    const json_t *value = json_object_get(file == 0 ? l->config : l->map, key);
    const char *text = loader_token_text(value);
    if (!value || *decided) return DRV_OK;
    if (!json_is_null(value) && (!text || !*text))
        return drv_fail(DRV_E_DATA,
                "%s: \"%s\" is neither a text, nor an object with \"content\", nor null",
                loader_beside(l, files[file]), key);
    const int32_t id = text ? tokenizer_id(l->t, text) : -1;
    *decided = !text || id >= 0;
    l->t->role[role] = id;
    if (!*decided)
        log_warn("%s: %s \"%s\" is not a token and is ignored", loader_beside(l, files[file]), key,
                text);
    return DRV_OK;
}

drv_status load_roles(loader *l) {
    tokenizer *t = l->t;
    bool decided[N_TOKEN_ROLES] = {false};
    for (token_role role = 0; role < N_TOKEN_ROLES; role++) {
        t->role[role] = -1;
        DRV_TRY(take_role(l, l->has_decoder ? 0 : 1, role, &decided[role]));
        DRV_TRY(take_role(l, l->has_decoder ? 1 : 0, role, &decided[role]));
    }
    if (!decided[ROLE_BOS] && t->n_before) t->role[ROLE_BOS] = t->before[0];
    if (!decided[ROLE_UNK]) t->role[ROLE_UNK] = t->unknown;
    for (token_role role = 0; role < N_TOKEN_ROLES; role++) {
        const char *const *name = token_role_names(role);
        for (; !decided[role] && t->role[role] < 0 && *name; name++)
            t->role[role] = tokenizer_id(t, *name);
    }
    return DRV_OK;
}
