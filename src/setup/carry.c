// Collects tokenizer files, chat template, generation defaults and special ids for checkpoints.
#include "setup/carry.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "tok/model_file.h"
#include "tok/tokenizer.h"

enum { PADDING = 1024 }; // fewer unused rows of the vocabulary are usual padding

// Reports unused rows of the vocabulary: a preset has the vocabulary size of its own tokenizer.
static void log_unused(const run_config *cfg, int32_t n_vocab) {
    const model_config *m = &cfg->model;
    const int64_t unused = m->vocab_size - n_vocab, tables = m->tie_word_embeddings ? 1 : 2;
    if (*cfg->from || unused < PADDING) return;
    log_info("model.vocab_size is %lld, but the tokenizer has %d tokens: %s parameters and part of each step are for rows without a token; model.vocab_size: %d avoids this",
            (long long)m->vocab_size, n_vocab, str_si((double)(unused * m->hidden_size * tables)),
            n_vocab);
}

// A file's weights have the rows that they have: another model.vocab_size cannot load them.
static drv_status too_many_tokens(const run_config *cfg, const char *key, int32_t n_vocab) {
    const long long n_rows = (long long)cfg->model.vocab_size;
    if (config_loads_weights(cfg))
        return drv_fail(DRV_E_USAGE,
                "%s: %s: \"%s\" has %d tokens, more than model.vocab_size %lld; expected at most as many as the "
                "weights have rows: resize_token_embeddings(%d) of transformers adds rows",
                config_where(cfg, key), key, cfg->tokenizer, n_vocab, n_rows, n_vocab);
    return drv_fail(DRV_E_USAGE,
            "%s: %s: \"%s\" has %d tokens, more than model.vocab_size %lld; expected model.vocab_size: %d or more",
            config_where(cfg, key), key, cfg->tokenizer, n_vocab, n_rows, n_vocab);
}

drv_status carry_token_ids(arena *a, run_config *cfg) {
    tokenizer *t;
    model_config *m = &cfg->model;
    if (!*cfg->tokenizer) return DRV_OK;
    const char *key = config_gives(cfg, "tokenizer") ? "tokenizer" : "model.from";
    DRV_TRY_CTX(tokenizer_open(a, cfg->tokenizer, &t), "%s: %s", config_where(cfg, key), key);
    const int32_t n_vocab = tokenizer_n_vocab(t), eos = tokenizer_role(t, ROLE_EOS);
    if (m->n_eos == 0 && eos >= 0) m->eos_token_id[m->n_eos++] = eos;
    if (m->bos_token_id < 0) m->bos_token_id = tokenizer_role(t, ROLE_BOS);
    if (m->pad_token_id < 0) m->pad_token_id = tokenizer_role(t, ROLE_PAD);
    tokenizer_close(t);
    if (n_vocab > m->vocab_size) return too_many_tokens(cfg, key, n_vocab);
    log_unused(cfg, n_vocab);
    return DRV_OK;
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
        log_info("changed since the last part: %s differs from that of %s; new checkpoints get the new one",
                c->name, folder);
    }
    arena_free(a);
}

// Refuses a set whose ids are other texts in this tokenizer than in the one that built it.
static drv_status refuse_set(const run_config *cfg, const dataset *set, const char *why) {
    const char *built = set->about.tokenizer;
    return drv_fail(DRV_E_USAGE,
            "%s: data set \"%s\" was built with another tokenizer%s%s%s than \"%s\": %s; name that one, or build the set again",
            config_where(cfg, "tokenizer"), set->prefix, built ? ", \"" : "", built ? built : "",
            built ? "\"," : "", cfg->tokenizer, why);
}

// Sets of older versions do not record the texts of their ids, so they cannot be compared.
static drv_status warn_of_set(const run_config *cfg, const dataset *set) {
    const char *built = set->about.tokenizer;
    log_warn("data set \"%s\" was built with another tokenizer.json%s%s%s than that of \"%s\", and does not record the texts of its ids, which may be other texts here; build the set again to record them",
            set->prefix, built ? " (\"" : "", built ? built : "", built ? "\")" : "",
            cfg->tokenizer);
    return DRV_OK;
}

static drv_status check_texts(const run_config *cfg, const dataset *set, const tokenizer *tok) {
    const int64_t largest = set->about.largest_id;
    char why[128], hash[24];
    if (largest >= tokenizer_n_vocab(tok)) {
        snprintf(why, sizeof why, "its largest id is %lld, but the tokenizer has %d tokens",
                (long long)largest, tokenizer_n_vocab(tok));
        return refuse_set(cfg, set, why);
    }
    if (!set->about.tokenizer_hash) return DRV_OK;
    if (!set->about.texts_hash) return warn_of_set(cfg, set);
    snprintf(hash, sizeof hash, "%016llx",
            (unsigned long long)tokenizer_texts_hash(tok, largest + 1));
    if (strcmp(set->about.texts_hash, hash) == 0) return DRV_OK;
    return refuse_set(cfg, set, "its ids mean other text");
}

static bool is_of_file(const dataset *set, uint64_t hash) {
    char hex[24];
    snprintf(hex, sizeof hex, "%016llx", (unsigned long long)hash);
    return set->about.tokenizer_hash && strcmp(set->about.tokenizer_hash, hex) == 0;
}

drv_status carry_check_data(const run_config *cfg, const rows *stream) {
    arena *a = arena_new("tokenizer of the data");
    const char *path = cfg->tokenizer;
    tokenizer *t = NULL;
    uint64_t hash;
    if (*path) path = tokenizer_file_of(a, path);
    const bool there =
            path && *path && file_exists(path) && dataset_tokenizer_hash(path, &hash) == DRV_OK;
    drv_status status = DRV_OK;
    for (int i = 0; there && status == DRV_OK && i < rows_n_sources(stream); i++) {
        const dataset *set = rows_source(stream, i);
        if (!set->about.known || is_of_file(set, hash)) continue;
        if (!t) status = tokenizer_open(a, path, &t);
        if (status == DRV_OK) status = check_texts(cfg, set, t);
    }
    if (t) tokenizer_close(t);
    arena_free(a);
    return status;
}

static bool same_file(arena *a, const char *x, const char *y) {
    char *in_x, *in_y;
    size_t n_x, n_y;
    return file_exists(x) && file_exists(y) && file_read(a, x, &in_x, &n_x) == DRV_OK &&
           file_read(a, y, &in_y, &n_y) == DRV_OK && n_x == n_y && memcmp(in_x, in_y, n_x) == 0;
}

int64_t carry_bytes(const run_config *cfg) {
    int64_t bytes = 0;
    if (!cfg->tokenizer || !*cfg->tokenizer) return 0; // NULL: a model without a run
    arena *a = arena_new("sizes");
    const char *folder = path_folder(a, cfg->tokenizer);
    for (int i = 0; i < n_ckpt_carried_names; i++) {
        const int64_t n = file_size(path_join(a, folder, ckpt_carried_names[i]));
        if (n > 0) bytes += n;
    }
    arena_free(a);
    return bytes;
}

// Carries a tokenizer file that has another name than the usual ones.
static drv_status carry_own_name(arena *a, const run_config *cfg, ckpt_carried *list, int *n_list) {
    const char *path = tokenizer_file_of(a, cfg->tokenizer), *name = path ? path_name(path) : "";
    char *bytes;
    size_t n;
    if (!path || str_index(name, ckpt_carried_names, n_ckpt_carried_names) >= 0 ||
            (!str_ends(name, ".model") && !str_ends(name, ".tiktoken")))
        return DRV_OK;
    DRV_TRY(file_read(a, path, &bytes, &n));
    list[(*n_list)++] = (ckpt_carried){name, bytes, n, path_folder(a, path)};
    return DRV_OK;
}

drv_status carry_files(arena *a, const run_config *cfg, ckpt_content *out) {
    const char *folders[2] = {NULL, NULL};
    out->n_carried = 0;
    if (!*cfg->tokenizer) return DRV_OK;
    ckpt_carried *list = ARENA_ARRAY(a, ckpt_carried, n_ckpt_carried_names + 1);
    folders[0] = path_folder(a, cfg->tokenizer);
    arena *compare = arena_new("same tokenizer");
    const char *base = *cfg->from ? path_folder(a, cfg->from) : NULL;
    if (base && same_file(compare, path_join(compare, folders[0], "tokenizer.json"),
                        path_join(compare, base, "tokenizer.json")))
        folders[1] = base;
    arena_free(compare);
    for (int i = 0; i < n_ckpt_carried_names; i++)
        for (int k = 0; k < 2 && folders[k]; k++) {
            const char *path = path_join(a, folders[k], ckpt_carried_names[i]);
            char *bytes;
            size_t n;
            if (!file_exists(path)) continue;
            DRV_TRY(file_read(a, path, &bytes, &n));
            list[out->n_carried++] = (ckpt_carried){ckpt_carried_names[i], bytes, n, folders[k]};
            break;
        }
    out->carried = list;
    return carry_own_name(a, cfg, list, &out->n_carried);
}

// --- tokens that end a turn
static bool names_id(const json_t *eos, int64_t id) {
    if (json_is_integer(eos)) return json_integer_value(eos) == id;
    for (size_t i = 0; i < json_array_size(eos); i++)
        if (json_is_integer(json_array_get(eos, i)) &&
                json_integer_value(json_array_get(eos, i)) == id)
            return true;
    return false;
}

// Adds the ids of config.json that generation_config.json does not have.
static void fill_ids(const model_config *m, json_t *generation) {
    json_t *eos = json_array();
    for (int i = 0; i < m->n_eos; i++)
        json_array_append_new(eos, json_integer(m->eos_token_id[i]));
    if (m->n_eos > 0 && !json_object_get(generation, "eos_token_id"))
        json_object_set(generation, "eos_token_id", eos);
    json_decref(eos);
    if (m->bos_token_id >= 0 && !json_object_get(generation, "bos_token_id"))
        json_object_set_new(generation, "bos_token_id", json_integer(m->bos_token_id));
    if (m->pad_token_id >= 0 && !json_object_get(generation, "pad_token_id"))
        json_object_set_new(generation, "pad_token_id", json_integer(m->pad_token_id));
}

// Appends an id to eos_token_id; false: the list has it already.
static bool add_eos(json_t *generation, int64_t id) {
    json_t *eos = json_object_get(generation, "eos_token_id"), *list = eos;
    if (names_id(eos, id)) return false;
    if (!json_is_array(eos)) {
        list = json_array();
        if (json_is_integer(eos)) json_array_append(list, eos);
        json_object_set_new(generation, "eos_token_id", list);
    }
    json_array_append_new(list, json_integer(id));
    return true;
}

static bool add_turn_ends(const run_config *cfg, const rows *stream, bool say, json_t *generation) {
    bool added = false;
    for (int i = 0; i < rows_n_sources(stream); i++) {
        const dataset *set = rows_source(stream, i);
        const int64_t id = set->about.turn_end;
        if (id < 0 || id >= cfg->model.vocab_size || !add_eos(generation, id)) continue;
        added = true;
        if (say)
            log_info("answers of \"%s\" end with %s (%lld): generation_config.json of the checkpoints names it in eos_token_id",
                    set->prefix, set->about.turn_end_text ? set->about.turn_end_text : "a token",
                    (long long)id);
    }
    return added;
}

// Replaces the file of the same name, or appends it.
static void put_file(ckpt_carried *list, int *n, const ckpt_carried *file) {
    int at = 0;
    while (at < *n && strcmp(list[at].name, file->name) != 0)
        at++;
    list[at] = *file;
    *n += at == *n;
}

static drv_status carry_turn_ends(arena *a, const run_config *cfg, const rows *stream, bool say,
        ckpt_carried *list, int *n) {
    static const char name[] = "generation_config.json";
    json_t *generation = NULL;
    for (int i = 0; i < *n && !generation; i++)
        if (strcmp(list[i].name, name) == 0)
            DRV_TRY(json_read_bytes(name, list[i].bytes, list[i].n, &generation));
    if (!generation) generation = json_object();
    fill_ids(&cfg->model, generation);
    if (add_turn_ends(cfg, stream, say, generation)) {
        json_object_del(generation, "_from_model_config"); // else transformers uses config.json
        const char *text = json_print_in(a, json_incref(generation), JSON_INDENT(2));
        put_file(list, n, &(ckpt_carried){.name = name, .bytes = text, .n = strlen(text)});
    }
    json_decref(generation);
    return DRV_OK;
}

// --- the chat template
static bool same_text(const char *x, const char *y) {
    return x == y || (x && y && strcmp(x, y) == 0);
}

// Carries the template of the sets, if all sets of conversations were built with the same one.
static void carry_template(arena *a, const rows *stream, bool say, ckpt_carried *list, int *n) {
    static const char name[] = "chat_template.jinja";
    const dataset *first = NULL;
    for (int i = 0; i < rows_n_sources(stream); i++) {
        const dataset *set = rows_source(stream, i);
        if (!set->about.template) continue;
        if (!first) first = set;
        if (same_text(set->about.template_text, first->about.template_text)) continue;
        if (say)
            log_warn("\"%s\" and \"%s\" were built with different chat templates: the checkpoints carry the tokenizer's own, or none",
                    first->prefix, set->prefix);
        return;
    }
    const char *text = first ? first->about.template_text : NULL;
    if (!text) return;
    put_file(list, n,
            &(ckpt_carried){.name = name, .bytes = arena_strdup(a, text), .n = strlen(text)});
    if (say)
        log_info("\"%s\" was built with the template %s: the checkpoints carry it as %s",
                first->prefix, first->about.template, name);
}

drv_status carry_conversations(arena *a, const run_config *cfg, const rows *stream, bool say,
        ckpt_content *out) {
    enum { ADDED = 2 };
    ckpt_carried *list = ARENA_ARRAY(a, ckpt_carried, out->n_carried + ADDED);
    int n = out->n_carried;
    if (!*cfg->tokenizer) return DRV_OK;
    if (n > 0) memcpy(list, out->carried, sizeof *list * (size_t)n);
    DRV_TRY(carry_turn_ends(a, cfg, stream, say, list, &n));
    carry_template(a, stream, say, list, &n);
    out->carried = list;
    out->n_carried = n;
    return DRV_OK;
}
