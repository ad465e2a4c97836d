// Adds the tokens that the files beside tokenizer.json name, as AutoTokenizer of transformers 5
// does (tokenization_utils_base.py, _from_pretrained; tokenization_utils_tokenizers.py, __init__):
// first those of added_tokens_decoder, by id, then those with a role, then additional ones. If
// tokenizer_config.json has no added_tokens_decoder, the older files special_tokens_map.json and
// added_tokens.json are read, and the former overrides the config.
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "tok/loader.h"

typedef struct beside {
    loader *load;
    json_t *known;              // texts of tokens that exist, or that have an id: {text: id}
    json_t *by_text;            // by text: its entry in added_tokens_decoder, or in the older files
    json_t *named;              // texts of tokens that have a role
    json_t *special;            // texts that are special where added_tokens.json names them
    json_t *found;              // the tokens to add
    json_t *given;              // the values from which they come
    json_t *more;               // tokens without a role
    const json_t *own_names[2]; // tokens whose roles are the model's own, as {name: token}
} beside;

static const char *const roles[] = {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token",
        "cls_token", "mask_token"};
enum { N_ROLES = sizeof roles / sizeof *roles };

// --- one token
const char *loader_token_text(const json_t *value) {
    return json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);
}

static json_t *flag_of(const json_t *value, const char *name, bool usual) {
    const json_t *given = json_object_get(value, name);
    return json_boolean(json_is_boolean(given) ? json_is_true(given) : usual);
}

// Returns a token with all its properties. A text alone is a special token.
static json_t *whole_token(const json_t *value, bool special) {
    const bool is_special =
            special || json_is_string(value) || json_is_true(json_object_get(value, "special"));
    json_t *token = json_pack("{s:s}", "content", loader_token_text(value));
    static const char *const flags[] = {"lstrip", "rstrip", "single_word"};
    for (int i = 0; i < 3; i++)
        json_object_set_new(token, flags[i], flag_of(value, flags[i], false));
    json_object_set_new(token, "normalized",
            flag_of(value, "normalized", !is_special && !json_is_string(value)));
    json_object_set_new(token, "special", json_boolean(is_special));
    return token;
}

// Adds a token that a role or a list of more tokens names, unless the same value was added before.
// added_tokens_decoder or the older files override the value of a `standard` role.
static void add_named(beside *b, const json_t *value, bool standard, bool special) {
    const char *text = loader_token_text(value);
    size_t i;
    json_t *before;
    if (!text || !*text || json_object_get(b->known, text)) return;
    const json_t *said = standard ? json_object_get(b->by_text, text) : NULL;
    if (said) value = said;
    json_array_foreach(b->given, i, before) if (json_equal(before, value)) return;
    json_array_append(b->given, (json_t *)(uintptr_t)value);
    json_array_append_new(b->found, whole_token(value, special));
}

// --- which tokens
static json_t *own_key(const beside *b, const char *key) { // the older file overrides the config
    json_t *older = b->load->has_decoder ? NULL : json_object_get(b->load->map, key);
    return older ? older : json_object_get(b->load->config, key);
}

static bool has_some(const json_t *tokens) {
    return json_array_size(tokens) > 0 || json_object_size(tokens) > 0;
}

// Records the text of a value that makes a token of added_tokens.json special: a text, or an object
// of the older file. An object of the config does not, since AutoTokenizer makes it a token later.
static void note_special(beside *b, const json_t *value, bool of_map) {
    const char *text = of_map || json_is_string(value) ? loader_token_text(value) : NULL;
    if (text) json_object_set_new(b->special, text, json_true());
}

static void find_special(beside *b, const json_t *extra, const json_t *extra_map) {
    size_t i;
    json_t *token;
    for (i = 0; i < N_ROLES; i++)
        note_special(b, own_key(b, roles[i]), json_object_get(b->load->map, roles[i]) != NULL);
    json_array_foreach(extra, i, token) note_special(b, token, false);
    json_array_foreach(extra_map, i, token) note_special(b, token, true);
}

// Finds the tokens that have no role: a list, and objects of {name: token}. The config's list
// replaces the map's, except that lists called extra_special_tokens are joined.
static void find_more(beside *self) {
    const json_t *config = self->load->config,
                 *map = self->load->has_decoder ? NULL : self->load->map;
    const json_t *extra = json_object_get(config, "extra_special_tokens"),
                 *additional = json_object_get(config, "additional_special_tokens"),
                 *extra_map = json_object_get(map, "extra_special_tokens");
    if (!has_some(extra) && additional) {
        extra = additional;
        additional = NULL;
    }
    if (json_is_object(extra)) {
        self->own_names[0] = extra;
        extra = NULL;
    }
    if (json_is_object(extra_map)) {
        self->own_names[1] = extra_map;
        extra = extra_map = NULL;
    }
    find_special(self, extra, extra_map);
    if (json_object_get(map, "additional_special_tokens"))
        additional = json_object_get(map, "additional_special_tokens");
    if (!extra && !extra_map) extra = additional;
    json_array_extend(self->more, (json_t *)(uintptr_t)extra);
    json_array_extend(self->more, (json_t *)(uintptr_t)extra_map);
}

static bool is_typed(const json_t *value) {
    return json_is_string(value) || json_object_get(value, "__type");
}

// Calls `take` for each value that has a role: the well-known ones, then the model's own.
static void each_named(beside *b, void (*take)(beside *b, const json_t *value, bool standard)) {
    const char *key;
    json_t *value;
    for (int i = 0; i < N_ROLES; i++)
        take(b, own_key(b, roles[i]), true);
    json_object_foreach(b->load->config, key, value) if (str_ends(key, "_token") &&
                                                         str_index(key, roles, N_ROLES) < 0 &&
                                                         is_typed(value)) take(b, value, false);
    if (!b->load->has_decoder)
        json_object_foreach(b->load->map, key,
                value) if (str_ends(key, "_token") && str_index(key, roles, N_ROLES) < 0)
                take(b, value, false);
    for (int i = 0; i < 2; i++)
        json_object_foreach((json_t *)(uintptr_t)b->own_names[i], key, value) take(b, value, false);
}

static void note_named(beside *b, const json_t *value, bool standard DRV_UNUSED) {
    const char *text = loader_token_text(value);
    if (text) json_object_set_new(b->named, text, json_true());
}

static void take_named(beside *b, const json_t *value, bool standard) {
    add_named(b, value, standard, true);
}

typedef struct numbered {
    int64_t id;
    int order;     // index in the file
    json_t *token; // owned
} numbered;

static int by_id(const void *x, const void *y) {
    const numbered *a = x, *b = y;
    return a->id != b->id ? (a->id > b->id) - (a->id < b->id) : a->order - b->order;
}

static void add_number(const beside *b, int64_t id, json_t *token, numbered *out, int *n) {
    json_object_set(b->by_text, loader_token_text(token), token);
    out[*n] = (numbered){id, *n, token};
    ++*n;
}

// Reads added_tokens_decoder: {"5": {"content": ...}}.
static drv_status read_decoder(const beside *b, const json_t *decoder, numbered *out, int *n) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)decoder, key, value) {
        int64_t id;
        if (!str_to_i64(key, &id) || !loader_token_text(value))
            return drv_fail(DRV_E_DATA,
                    "%s: added_tokens_decoder: \"%.40s\" is not an id with a token that has \"content\"",
                    loader_beside(b->load, "tokenizer_config.json"), key);
        add_number(b, id, whole_token(value, false), out, n);
    }
    return DRV_OK;
}

// Reads added_tokens.json: {"<token>": 5}. Tokens of tokenizer.json come after them, and replace
// one with the same id.
static void read_older(const beside *b, const json_t *own, const json_t *older, numbered *out,
        int *n) {
    const char *text;
    json_t *id, *token;
    size_t i;
    json_object_foreach((json_t *)(uintptr_t)older, text, id) {
        if (!json_is_integer(id)) continue;
        const bool special = json_object_get(b->special, text) != NULL;
        token = json_pack("{s:s, s:b, s:b}", "content", text, "special", special, "normalized",
                !special);
        add_number(b, json_integer_value(id), whole_token(token, false), out, n);
        json_decref(token);
    }
    json_array_foreach(own, i, token) {
        id = json_object_get(token, "id");
        if (loader_token_text(token) &&
                json_is_integer(id)) // others are refused where they are read
            add_number(b, json_integer_value(id), whole_token(token, false), out, n);
    }
}

// Adds all tokens with ids, also those that tokenizer.json has; the last one with a text counts.
static drv_status add_numbered(beside *self, const json_t *own) {
    const json_t *decoder = json_object_get(self->load->config, "added_tokens_decoder");
    json_t *older = NULL;
    drv_status status = DRV_OK;
    int n_tokens = 0;
    if (!self->load->has_decoder)
        DRV_TRY(loader_read_beside(self->load, "added_tokens.json", &older));
    numbered *list = ARENA_ARRAY(self->load->a, numbered,
            json_object_size(self->load->has_decoder ? decoder : older) + json_array_size(own) + 1);
    if (self->load->has_decoder)
        status = read_decoder(self, decoder, list, &n_tokens);
    else
        read_older(self, own, older, list, &n_tokens);
    qsort(list, (size_t)n_tokens, sizeof *list, by_id);
    for (int i = 0; i < n_tokens; i++) {
        const char *text = loader_token_text(list[i].token);
        const bool replaced = i + 1 < n_tokens && list[i + 1].id == list[i].id;
        if (status == DRV_OK && *text && !replaced) {
            json_t *token = json_copy(list[i].token), *id = json_integer(list[i].id);
            if (!json_equal(json_object_get(self->known, text), id)) // otherwise it is known
                json_object_set(token, "id", id);
            json_object_set(self->known, text, id);
            json_array_append_new(self->found, token);
            json_decref(id);
        }
        json_decref(list[i].token);
    }
    json_decref(older);
    return status;
}

static drv_status find_tokens(beside *b, const json_t *own) {
    size_t i;
    json_t *token;
    find_more(b);
    json_array_foreach(own, i, token) {
        json_t *id = json_object_get(token, "id");
        if (loader_token_text(token) && id) json_object_set(b->known, loader_token_text(token), id);
    }
    each_named(b, note_named);
    DRV_TRY(add_numbered(b, own));
    each_named(b, take_named);
    json_array_foreach(b->more, i, token) add_named(b, token, false, json_is_string(token));
    json_array_foreach(b->found, i, token) if (json_object_get(b->named, loader_token_text(token)))
            json_object_set_new(token, "special", json_true());
    return DRV_OK;
}

// --- the files
const char *loader_beside(const loader *l, const char *name) {
    return path_join(l->a, path_parent(l->a, l->path), name);
}

drv_status loader_read_beside(const loader *l, const char *name, json_t **out) {
    const char *path = loader_beside(l, name);
    if (!file_exists(path)) return DRV_OK;
    DRV_TRY(json_read_file(path, out));
    if (json_is_object(*out)) return DRV_OK;
    json_decref(*out);
    *out = NULL;
    return drv_fail(DRV_E_DATA, "%s: expected a JSON object", path);
}

drv_status load_beside(loader *load, const json_t *own, json_t **out) {
    beside self = {.load = load,
            .known = json_object(),
            .by_text = json_object(),
            .named = json_object(),
            .special = json_object(),
            .found = json_array(),
            .given = json_array(),
            .more = json_array()};
    drv_status status = loader_read_beside(load, "tokenizer_config.json", &load->config);
    if (status == DRV_OK) status = loader_read_beside(load, "special_tokens_map.json", &load->map);
    load->has_decoder = json_is_object(json_object_get(load->config, "added_tokens_decoder"));
    load->t->splits_special = json_is_true(json_object_get(load->config, "split_special_tokens"));
    if (status == DRV_OK) status = find_tokens(&self, own);
    *out = self.found;
    json_decref(self.known);
    json_decref(self.by_text);
    json_decref(self.named);
    json_decref(self.special);
    json_decref(self.given);
    json_decref(self.more);
    return status;
}
