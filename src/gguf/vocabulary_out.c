// Converts tokenizer.json and tokenizer_config.json to tokenizer.ggml.*, as llama.cpp's
// convert_hf_to_gguf.py does. Sentencepiece vocabularies need scores for the order of merges.
#include "gguf/vocabulary.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "tok/score_merges.h"
#include "gguf/pre_types.h"
#include "tok/tokenizer.h"

#define SPACE_MARK "\xE2\x96\x81" // U+2581, which sentencepiece writes for a space
#define KEY(name)  "tokenizer.ggml." name

typedef struct writing {
    arena *a;
    const tokenizer_texts *texts;
    const char *path; // of tokenizer.json, for messages
    json_t *root, *config, *map;
    const json_t *model, *merges; // of the root
    gguf_text *tokens;            // by id; p NULL: none
    int32_t *types;
    int64_t n;
    bool sentencepiece, space_prefix, ignore_merges;
    const pre_type *pre;
    tokenizer *tokenizer; // with the files beside it; NULL: no folder, or not read
    tokenizer_added *added;
    int n_added;
    gguf_builder *out;
} writing;

static drv_status refuse(const writing *w, const char *what) {
    return drv_fail(DRV_E_DATA, "%s: %s, which GGUF has no name for", w->path, what);
}

// --- what kind of tokenizer
static bool has_type(const json_t *o, const char *list, const char *type) {
    const char *its = json_string_value(json_object_get(o, "type"));
    size_t i;
    json_t *v;
    if (its && strcmp(its, type) == 0) return true;
    json_array_foreach(json_object_get(o, list), i, v) if (has_type(v, list, type)) return true;
    return false;
}

static const json_t *part_of_type(const json_t *o, const char *list, const char *type) {
    const char *its = json_string_value(json_object_get(o, "type"));
    const json_t *found = its && strcmp(its, type) == 0 ? o : NULL;
    size_t i;
    json_t *v;
    json_array_foreach(json_object_get(o, list), i, v) if (!found) found =
            part_of_type(v, list, type);
    return found;
}

static drv_status find_kind(writing *out) {
    const json_t *model = out->model, *normalizer = json_object_get(out->root, "normalizer"),
                 *pre = json_object_get(out->root, "pre_tokenizer"),
                 *metaspace = part_of_type(pre, "pretokenizers", "Metaspace");
    const char *type = json_string_value(json_object_get(model, "type"));
    if (!json_is_object(model) || (type && strcmp(type, "BPE") != 0))
        return refuse(out, "its model is not BPE");
    out->ignore_merges = json_is_true(json_object_get(model, "ignore_merges"));
    if (has_type(pre, "pretokenizers", "ByteLevel")) {
        out->pre = pre_type_of_json(pre, out->ignore_merges);
        if (!out->pre) return refuse(out, "its pre_tokenizer is an unusual one");
        if (has_type(normalizer, "normalizers", "NFC"))
            log_warn("%s: the normalizer NFC is left out: GGUF has no place for it", out->path);
        return DRV_OK;
    }
    out->sentencepiece = metaspace || has_type(normalizer, "normalizers", "Replace");
    if (!out->sentencepiece)
        return refuse(out, "it is neither byte-level nor of the sentencepiece style");
    out->space_prefix = has_type(normalizer, "normalizers", "Prepend");
    if (metaspace) {
        const char *scheme = json_string_value(json_object_get(metaspace, "prepend_scheme"));
        out->space_prefix = scheme ? strcmp(scheme, "never") != 0
                                   : !json_is_false(json_object_get(metaspace, "add_prefix_space"));
    }
    return DRV_OK;
}

// --- tokens
static drv_status set_token(writing *w, int64_t id, const char *text, size_t n, int32_t type) {
    if (id < 0 || id >= w->n)
        return drv_fail(DRV_E_DATA,
                "%s: token \"%.60s\" has id %lld, expected 0 to %lld: the model has %lld rows",
                w->path, text, (long long)id, (long long)w->n - 1, (long long)w->n);
    if (w->tokens[id].p && (w->tokens[id].n != n || memcmp(w->tokens[id].p, text, n) != 0))
        return drv_fail(DRV_E_DATA, "%s: tokens \"%.60s\" and \"%.60s\" both have id %lld", w->path,
                w->tokens[id].p, text, (long long)id);
    w->tokens[id] = (gguf_text){text, n};
    w->types[id] = type;
    return DRV_OK;
}

static bool is_byte(const writing *w, const char *text, size_t n) {
    return w->sentencepiece && n == 6 && memcmp(text, "<0x", 3) == 0 && text[5] == '>';
}

static drv_status read_vocab(writing *w) {
    const json_t *vocab = json_object_get(w->model, "vocab");
    const char *text;
    json_t *id;
    if (!json_is_object(vocab))
        return drv_fail(DRV_E_DATA, "%s: model.vocab is not a JSON object", w->path);
    json_object_foreach((json_t *)(uintptr_t)vocab, text, id) {
        const size_t n = strlen(text);
        DRV_TRY(set_token(w, json_is_integer(id) ? json_integer_value(id) : -1, text, n,
                is_byte(w, text, n) ? PIECE_BYTE : PIECE_NORMAL));
    }
    return DRV_OK;
}

// --- added tokens
static void take_json_token(writing *w, const json_t *token) {
    const json_t *vocab = json_object_get(w->model, "vocab");
    const char *text = json_string_value(json_object_get(token, "content"));
    if (!text || !*text) return;
    const json_t *known = json_object_get(vocab, text),
                 *id = known ? known : json_object_get(token, "id");
    const int64_t value = json_is_integer(id) ? json_integer_value(id) : -1;
    w->added[w->n_added++] =
            (tokenizer_added){.id = value >= 0 && value < INT32_MAX ? (int32_t)value : -1,
                    .text = text,
                    .special = json_is_true(json_object_get(token, "special")),
                    .normalized = json_is_true(json_object_get(token, "normalized")),
                    .single_word = json_is_true(json_object_get(token, "single_word")),
                    .lstrip = json_is_true(json_object_get(token, "lstrip")),
                    .rstrip = json_is_true(json_object_get(token, "rstrip"))};
}

// Lists the added tokens: those of the tokenizer with the files beside it, or those of
// tokenizer.json alone if it is in no folder, or drover does not read it.
static void list_added(writing *w) {
    const json_t *own = json_object_get(w->root, "added_tokens");
    size_t i;
    json_t *token;
    if (file_exists(w->path) && tokenizer_open(w->a, w->path, &w->tokenizer) != DRV_OK)
        log_warn("tokens that only the files beside it have are left out, since drover does not read this tokenizer: %s",
                drv_message());
    if (w->tokenizer) {
        tokenizer_added one;
        while (tokenizer_added_at(w->tokenizer, w->n_added, &one))
            w->n_added++;
        w->added = ARENA_ARRAY(w->a, tokenizer_added, w->n_added + 1);
        for (int k = 0; k < w->n_added; k++)
            tokenizer_added_at(w->tokenizer, k, &w->added[k]);
        return;
    }
    w->added = ARENA_ARRAY(w->a, tokenizer_added, (int64_t)json_array_size(own) + 1);
    json_array_foreach(own, i, token) take_json_token(w, token);
}

static int flags_of(const tokenizer_added *t) {
    return (t->lstrip ? TOKEN_LSTRIP : 0) | (t->rstrip ? TOKEN_RSTRIP : 0) |
           (t->single_word ? TOKEN_SINGLE_WORD : 0) | (t->normalized ? TOKEN_NORMALIZED : 0);
}

static void put_flags(const writing *w) {
    json_t *list = json_array();
    for (int i = 0; i < w->n_added; i++) {
        const int flags = flags_of(&w->added[i]);
        json_t *token = json_pack("{s:i}", "id", (int)w->added[i].id);
        for (int k = 0; k < N_TOKEN_FLAGS; k++)
            if (flags >> k & 1) json_object_set_new(token, token_flag_names[k], json_true());
        if (flags) json_array_append(list, token);
        json_decref(token);
    }
    char *text = json_dumps(list, JSON_COMPACT);
    if (json_array_size(list) > 0) gguf_put_text(w->out, GGUF_TOKEN_FLAGS, text);
    free(text);
    json_decref(list);
}

// Warns of flags that llama.cpp lacks. It searches the raw text, which matters with a normalizer.
static void tell_flags(const writing *w) {
    const bool normalizes = json_is_object(json_object_get(w->root, "normalizer"));
    int n = 0, first = 0, flag = 0;
    for (int i = w->n_added - 1; i >= 0; i--) {
        const int lost = flags_of(&w->added[i]) & (normalizes ? ~0 : ~(int)TOKEN_NORMALIZED);
        if (!lost) continue;
        n++;
        first = i;
        flag = __builtin_ctz((unsigned)lost);
    }
    if (n > 0)
        log_warn("%s: llama.cpp does not know %s of added tokens (\"%s\"%s), and may cut texts with white space or "
                 "marks beside them in other tokens; the file keeps it for drover",
                w->path, token_flag_names[flag], w->added[first].text, n > 1 ? " and others" : "");
}

static drv_status put_added(writing *w) {
    const char *unk = json_string_value(json_object_get(w->model, "unk_token"));
    list_added(w);
    for (int i = 0; i < w->n_added; i++) {
        const tokenizer_added *t = &w->added[i];
        DRV_TRY(set_token(w, t->id, t->text, strlen(t->text),
                unk && strcmp(unk, t->text) == 0 ? PIECE_UNKNOWN
                : t->special                     ? PIECE_CONTROL
                                                 : PIECE_USER_DEFINED));
    }
    put_flags(w);
    tell_flags(w);
    return DRV_OK;
}

// Names the rows of the embedding without a token as llama.cpp's converter does.
static void fill_up(writing *w) {
    for (int64_t id = 0; id < w->n; id++) {
        if (w->tokens[id].p) continue;
        const char *text = arena_printf(w->a, "[PAD%lld]", (long long)id);
        w->tokens[id] = (gguf_text){text, strlen(text)};
        w->types[id] = PIECE_UNUSED;
    }
}

static void put_tokens(const writing *w) {
    gguf_put_array(w->out, KEY("tokens"), GGUF_TEXT, (uint64_t)w->n);
    for (int64_t id = 0; id < w->n; id++)
        gguf_add_text(w->out, w->tokens[id].p, w->tokens[id].n);
    gguf_put_array(w->out, KEY("token_type"), GGUF_I32, (uint64_t)w->n);
    str_add(&w->out->values, w->types, sizeof *w->types * (size_t)w->n);
}

// --- merges
// Reads a merge in either form: "LEFT RIGHT" or ["LEFT", "RIGHT"].
static drv_status merge_parts(const writing *w, size_t i, const json_t *merge, gguf_text part[2]) {
    const char *line = json_string_value(merge), *space = line ? strchr(line, ' ') : NULL;
    const char *left = json_string_value(json_array_get(merge, 0)),
               *right = json_string_value(json_array_get(merge, 1));
    if (left && right) {
        part[0] = (gguf_text){left, strlen(left)};
        part[1] = (gguf_text){right, strlen(right)};
    } else if (space && space > line) {
        part[0] = (gguf_text){line, (size_t)(space - line)};
        part[1] = (gguf_text){space + 1, strlen(space + 1)};
    } else {
        return drv_fail(DRV_E_DATA, "%s: merge %zu is not a pair of tokens", w->path, i);
    }
    return DRV_OK;
}

static drv_status put_merges(const writing *out) {
    size_t i;
    json_t *merge;
    str line = {0};
    drv_status status = DRV_OK;
    gguf_put_array(out->out, KEY("merges"), GGUF_TEXT, json_array_size(out->merges));
    json_array_foreach(out->merges, i, merge) {
        gguf_text part[2];
        status = merge_parts(out, i, merge, part);
        if (status == DRV_OK &&
                (memchr(part[0].p, ' ', part[0].n) || memchr(part[1].p, ' ', part[1].n)))
            status = refuse(out, "a merge has a space in it");
        if (status != DRV_OK) break;
        str_clear(&line);
        str_add(&line, part[0].p, part[0].n);
        str_puts(&line, " ");
        str_add(&line, part[1].p, part[1].n);
        gguf_add_text(out->out, line.p, line.n);
    }
    str_free(&line);
    return status;
}

// Finds the tokens that the merges make; -1: no token.
static drv_status made_tokens(const writing *w, int32_t *made) {
    token_index index;
    size_t i;
    json_t *merge;
    str whole = {0};
    drv_status status = DRV_OK;
    token_index_build(w->a, w->tokens, w->n, &index);
    json_array_foreach(w->merges, i, merge) {
        gguf_text part[2];
        status = merge_parts(w, i, merge, part);
        if (status != DRV_OK) break;
        str_clear(&whole);
        str_add(&whole, part[0].p, part[0].n);
        str_add(&whole, part[1].p, part[1].n);
        made[i] = token_index_find(&index, whole.p, whole.n);
    }
    str_free(&whole);
    return status;
}

// Makes scores from the order in which merges make tokens: 0 for the first, -1 for the second, ...;
// tokens that no merge makes come after them.
static void scores_of(const writing *w, const int32_t *made, size_t n_made, float *scores) {
    int64_t n = 0;
    bool *scored = ARENA_ARRAY(w->a, bool, w->n);
    for (size_t i = 0; i < n_made; i++) {
        if (made[i] < 0 || scored[made[i]]) continue;
        scored[made[i]] = true;
        scores[made[i]] = (float)-n++;
    }
    for (int64_t id = 0; id < w->n; id++)
        if (!scored[id] && w->types[id] == PIECE_NORMAL) scores[id] = (float)-n++;
}

// Writes scores, which are all that llama.cpp has. It splits every text as tokenizer.json does if
// the merges are those that follow from the scores. Merges that make the same token may have any
// order: no two of them ever match at the same place of a text.
static drv_status put_scores(const writing *w) {
    const size_t n_made = json_array_size(w->merges);
    int32_t *made = ARENA_ARRAY(w->a, int32_t, n_made + 1);
    float *scores = ARENA_ARRAY(w->a, float, w->n);
    score_merge *list;
    int64_t n;
    DRV_TRY(made_tokens(w, made));
    scores_of(w, made, n_made, scores);
    score_merges(w->a, w->tokens, scores, NULL, w->n, &list, &n);
    bool same = (size_t)n == n_made;
    for (int64_t i = 0; same && i < n; i++)
        same = made[i] == list[i].whole;
    if (!same)
        log_warn("%s: its merges do not follow from scores, which are all that GGUF has: llama.cpp "
                 "may cut a few texts in other tokens",
                w->path);
    gguf_put_array(w->out, KEY("scores"), GGUF_F32, (uint64_t)w->n);
    str_add(&w->out->values, scores, sizeof *scores * (size_t)w->n);
    return DRV_OK;
}

// --- special tokens
enum { N_END_TEXTS = 6 };

static int64_t id_of_text(const writing *w, const char *text) {
    const size_t n = text ? strlen(text) : 0;
    for (int64_t id = 0; n && id < w->n; id++)
        if (w->tokens[id].n == n && memcmp(w->tokens[id].p, text, n) == 0) return id;
    return -1;
}

// Returns the id that tokenizer_config.json or else special_tokens_map.json gives, else
// `otherwise`.
static int64_t id_of_role(const writing *w, const char *role, int64_t otherwise) {
    const json_t *files[] = {w->config, w->map};
    for (int i = 0; i < 2; i++) {
        const json_t *v = json_object_get(files[i], role);
        const char *text = json_string_value(json_is_object(v) ? json_object_get(v, "content") : v);
        const int64_t id = id_of_text(w, text);
        if (id >= 0) return id;
    }
    return otherwise >= 0 && otherwise < w->n ? otherwise : -1;
}

static void put_id(const writing *w, const char *key, int64_t id) {
    if (id >= 0) gguf_put_u32(w->out, key, (uint32_t)id);
}

// Returns the first end with one of these texts that has no key yet; texts[0] NULL: any text.
static int64_t other_end(const writing *w, const char *const *texts, const int64_t *taken) {
    for (int i = 0; i < w->texts->n_eos; i++) {
        const int64_t id = w->texts->eos[i];
        bool fits = !texts[0];
        for (int k = 0; k < N_END_TEXTS && texts[k]; k++)
            fits |= id_of_text(w, texts[k]) == id;
        if (fits && id >= 0 && id < w->texts->vocab_size && id != taken[0] && id != taken[1] &&
                id != taken[2])
            return id;
    }
    return -1;
}

// Writes the ends of a text, a turn and a message: the latter two by their usual names, if the
// model has them; any other ends then take the keys that are left.
static void put_ends(const writing *w, int64_t eos) {
    static const char *const keys[] = {KEY("eos_token_id"), KEY("eot_token_id"),
            KEY("eom_token_id")},
                             *const texts[][N_END_TEXTS] = {[1] = {"<|eot_id|>", "<|im_end|>",
                                                                    "<|end|>", "<end_of_turn>",
                                                                    "<|end_of_text|>",
                                                                    "<|endoftext|>"},
                                     [2] = {"<|eom_id|>"}},
                             *const any[N_END_TEXTS] = {NULL};
    int64_t ids[] = {eos, -1, -1};
    for (int i = 1; i < 3; i++)
        ids[i] = other_end(w, texts[i], ids);
    for (int i = 0; i < 3; i++) {
        if (ids[i] < 0) ids[i] = other_end(w, any, ids);
        put_id(w, keys[i], ids[i]);
    }
}

// Finds whether the post-processor's template has special tokens before and after a text.
static void find_template(const json_t *o, bool *before, bool *after) {
    const json_t *template = part_of_type(o, "processors", "TemplateProcessing");
    bool seen = false;
    size_t i;
    json_t *part;
    *before = *after = false;
    json_array_foreach(json_object_get(template, "single"), i, part) {
        if (json_object_get(part, "Sequence")) seen = true;
        if (json_object_get(part, "SpecialToken")) *(seen ? after : before) = true;
    }
}

static void put_specials(const writing *w) {
    const tokenizer_texts *t = w->texts;
    bool before, after;
    const int64_t eos = id_of_role(w, "eos_token", t->n_eos ? t->eos[0] : -1);
    put_id(w, KEY("bos_token_id"), id_of_role(w, "bos_token", t->bos));
    put_ends(w, eos);
    put_id(w, KEY("unknown_token_id"),
            id_of_role(w, "unk_token",
                    id_of_text(w, json_string_value(json_object_get(w->model, "unk_token")))));
    put_id(w, KEY("padding_token_id"), id_of_role(w, "pad_token", t->pad));
    find_template(json_object_get(w->root, "post_processor"), &before, &after);
    gguf_put_bool(w->out, KEY("add_bos_token"), before);
    gguf_put_bool(w->out, KEY("add_eos_token"), after);
    if (w->sentencepiece) gguf_put_bool(w->out, KEY("add_space_prefix"), w->space_prefix);
}

// --- chat templates
static void put_named_chats(const writing *self, const json_t *chat, const char **usual) {
    size_t i;
    json_t *one;
    json_array_foreach(chat, i, one) {
        const char *name = json_string_value(json_object_get(one, "name")),
                   *text = json_string_value(json_object_get(one, "template"));
        if (!name || !text) continue;
        if (strcmp(name, "default") == 0)
            *usual = text;
        else
            gguf_put_text(self->out, arena_printf(self->a, "tokenizer.chat_template.%.60s", name),
                    text);
    }
}

// Writes the chat templates; files override those of tokenizer_config.json.
static void put_chat(const writing *w) {
    const json_t *chat = json_object_get(w->config, "chat_template");
    const char *usual = w->texts->chat_template, *tool_use = w->texts->tool_template;
    if (tool_use) gguf_put_text(w->out, "tokenizer.chat_template.tool_use", tool_use);
    if (!usual && !tool_use) {
        usual = json_string_value(chat);
        put_named_chats(w, chat, &usual);
    }
    if (usual) gguf_put_text(w->out, "tokenizer.chat_template", usual);
}

// --- all of it
static drv_status put_all(writing *w) {
    w->model = json_object_get(w->root, "model");
    w->merges = json_object_get(w->model, "merges");
    DRV_TRY(find_kind(w));
    DRV_TRY(read_vocab(w));
    DRV_TRY(put_added(w));
    fill_up(w);
    gguf_put_text(w->out, KEY("model"), w->sentencepiece ? "llama" : "gpt2");
    gguf_put_text(w->out, KEY("pre"), w->sentencepiece ? "default" : w->pre->name);
    put_tokens(w);
    DRV_TRY(w->sentencepiece ? put_scores(w) : put_merges(w));
    put_specials(w);
    put_chat(w);
    return DRV_OK;
}

static drv_status read_optional(const tokenizer_texts *t, const char *name, const char *text,
        size_t n, json_t **out) {
    char path[512];
    snprintf(path, sizeof path, "%.400s/%s", t->folder, name);
    return text ? json_read_bytes(path, text, n, out) : DRV_OK;
}

// Writes the ids that the model has, if there is no tokenizer.
static drv_status put_ids(const tokenizer_texts *t, gguf_builder *out) {
    const writing w = {.out = out, .texts = t};
    put_id(&w, KEY("bos_token_id"), t->bos);
    put_ends(&w, t->n_eos ? t->eos[0] : -1);
    put_id(&w, KEY("padding_token_id"), t->pad);
    return DRV_OK;
}

drv_status vocabulary_put(const tokenizer_texts *texts, gguf_builder *out) {
    if (!texts->tokenizer_json) return put_ids(texts, out);
    arena *a = arena_new("vocabulary");
    writing state = {.a = a,
            .texts = texts,
            .path = arena_printf(a, "%s/tokenizer.json", texts->folder),
            .tokens = ARENA_ARRAY(a, gguf_text, texts->vocab_size + 1),
            .types = ARENA_ARRAY(a, int32_t, texts->vocab_size + 1),
            .n = texts->vocab_size,
            .out = out};
    drv_status status = read_optional(texts, "tokenizer.json", texts->tokenizer_json,
            texts->n_tokenizer_json, &state.root);
    if (status == DRV_OK)
        status = read_optional(texts, "tokenizer_config.json", texts->tokenizer_config_json,
                texts->n_tokenizer_config_json, &state.config);
    if (status == DRV_OK)
        status = read_optional(texts, "special_tokens_map.json", texts->special_tokens_map_json,
                texts->n_special_tokens_map_json, &state.map);
    if (status == DRV_OK) status = put_all(&state);
    if (state.tokenizer) tokenizer_close(state.tokenizer);
    json_decref(state.root);
    json_decref(state.config);
    json_decref(state.map);
    arena_free(a);
    return status;
}
