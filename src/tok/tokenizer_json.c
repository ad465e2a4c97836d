// Loads a tokenizer from tokenizer.json.
#include <string.h>

#include "base/base64.h"
#include "base/file.h"
#include "base/hub_name.h"
#include "base/log.h"
#include "tok/loader.h"
#include "tok/model_file.h"

drv_status loader_refuse(const loader *l, const char *what, const char *value) {
    return drv_fail(DRV_E_DATA, "%s: %s \"%s\" is not supported", l->path, what,
            value ? value : "?");
}

static const char *type_of(const json_t *o) {
    const char *s = json_string_value(json_object_get(o, "type"));
    return s ? s : "?";
}

static drv_status check_list(const loader *l, const json_t *sequence, const char *name) {
    if (json_is_array(json_object_get(sequence, name))) return DRV_OK;
    return drv_fail(DRV_E_DATA, "%s: a Sequence has no list \"%s\"", l->path, name);
}

// Loads each part of a Sequence by `part`; `name`: the list of them.
static drv_status load_sequence(loader *l, const json_t *sequence, const char *name,
        drv_status (*part)(loader *l, const json_t *object)) {
    size_t i;
    json_t *v;
    DRV_TRY(check_list(l, sequence, name));
    json_array_foreach(json_object_get(sequence, name), i, v) DRV_TRY(part(l, v));
    return DRV_OK;
}

static drv_status add_step(loader *load, const char *type, struct text_step step) {
    tokenizer *tok = load->t;
    if (tok->nfc || tok->space_mark || tok->prefix != PREFIX_NONE)
        return loader_refuse(load, "after NFC, Prepend or Replace of a space, normalizer", type);
    if (tok->steps.n == MAX_TEXT_STEPS)
        return loader_refuse(load, "after eight others, normalizer", type);
    tok->steps.step[tok->steps.n++] = step;
    return DRV_OK;
}

static drv_status load_precompiled(loader *load, const json_t *object) {
    const json_t *text = json_object_get(object, "precompiled_charsmap");
    struct text_step step = {.kind = STEP_RULES};
    str bytes = {0};
    drv_status status = DRV_OK;
    if (!json_is_string(text) ||
            !base64_decode(json_string_value(text), json_string_length(text), &bytes))
        status = drv_fail(DRV_E_DATA, "%s: precompiled_charsmap is not Base64", load->path);
    const str_view map = {arena_strndup(load->a, bytes.p ? bytes.p : "", bytes.n), bytes.n};
    str_free(&bytes);
    DRV_TRY(status);
    DRV_TRY(piece_rules_open_map(load->a, load->path, map, &step.rules));
    return add_step(load, "Precompiled", step);
}

static drv_status load_strip(loader *load, const json_t *object) {
    if (json_is_true(json_object_get(object, "strip_left")))
        DRV_TRY(add_step(load, "Strip", (struct text_step){.kind = STEP_STRIP_LEFT}));
    if (json_is_true(json_object_get(object, "strip_right")))
        DRV_TRY(add_step(load, "Strip", (struct text_step){.kind = STEP_STRIP_RIGHT}));
    return DRV_OK;
}

static drv_status load_replace(loader *load, const json_t *object) {
    const json_t *pattern = json_object_get(object, "pattern");
    const char *from = json_string_value(json_object_get(pattern, "String")),
               *regex = json_string_value(json_object_get(pattern, "Regex")),
               *to = json_string_value(json_object_get(object, "content"));
    if (regex && to && strcmp(regex, " {2,}") == 0)
        return add_step(load, "Replace",
                (struct text_step){.kind = STEP_JOIN_SPACES, .content = arena_strdup(load->a, to)});
    if (!from || !to || strcmp(from, " ") != 0 || strcmp(to, SPACE_MARK) != 0)
        return loader_refuse(load, "normalizer Replace of", from ? from : regex);
    load->t->space_mark = true; // a second one finds nothing
    return DRV_OK;
}

static drv_status load_normalizer(loader *load, const json_t *object) {
    if (!object || json_is_null(object)) return DRV_OK;
    const char *type = type_of(object);
    if (strcmp(type, "Sequence") == 0)
        return load_sequence(load, object, "normalizers", load_normalizer);
    if (strcmp(type, "Precompiled") == 0) return load_precompiled(load, object);
    if (strcmp(type, "Strip") == 0) return load_strip(load, object);
    if (strcmp(type, "Replace") == 0) return load_replace(load, object);
    if (strcmp(type, "NFC") == 0) {
        if (load->t->steps.n) return loader_refuse(load, "after others, normalizer", type);
        load->t->nfc = true;
        return DRV_OK;
    }
    if (strcmp(type, "Prepend") == 0) {
        const char *p = json_string_value(json_object_get(object, "prepend"));
        if (!p || strcmp(p, SPACE_MARK) != 0) return loader_refuse(load, "prepend", p);
        if (load->t->prefix != PREFIX_NONE)
            return loader_refuse(load, "normalizer", "Prepend after another");
        load->t->prefix = PREFIX_ALWAYS;
        return DRV_OK;
    }
    return loader_refuse(load, "normalizer", type);
}

// Checks the order of pre-tokenizers. After ByteLevel one would see the stand-ins for bytes, and
// after U+2581 replaces spaces it would see U+2581. Here both replacements come later, so only a
// pattern that sees neither is right.
static drv_status check_order(const loader *l, split_kind kind, const char *type) {
    if (l->t->byte_level) return loader_refuse(l, "after ByteLevel, pre_tokenizer", type);
    if (l->t->space_mark && kind != SPLIT_DIGITS)
        return loader_refuse(l, "where U+2581 stands for spaces, pre_tokenizer", type);
    return DRV_OK;
}

static drv_status add_rule(loader *l, split_rule r) {
    if (l->t->n_rules == MAX_RULES)
        return loader_refuse(l, "pre_tokenizer", "a sequence of more than 8");
    split_rule *last = l->t->n_rules ? &l->t->rule[l->t->n_rules - 1] : NULL;
    if (last && last->kind == SPLIT_DIGITS && r.kind == SPLIT_GPT2)
        last->kind = SPLIT_DIGITS_GPT2;
    else
        l->t->rule[l->t->n_rules++] = r;
    return DRV_OK;
}

static drv_status load_metaspace(loader *load, const json_t *object) {
    const char *mark = json_string_value(json_object_get(object, "replacement"));
    const char *scheme = json_string_value(json_object_get(object, "prepend_scheme"));
    if (!mark || strcmp(mark, SPACE_MARK) != 0)
        return loader_refuse(load, "Metaspace replacement", mark);
    if (load->t->n_rules || load->t->byte_level)
        return loader_refuse(load, "pre_tokenizer", "Metaspace after another");
    if (load->t->metaspace) return loader_refuse(load, "pre_tokenizer", "Metaspace twice");
    if (load->t->space_mark || load->t->prefix != PREFIX_NONE)
        return loader_refuse(load, "beside a normalizer Prepend or Replace, pre_tokenizer",
                "Metaspace");
    if (!scheme) // older files
        scheme = json_is_false(json_object_get(object, "add_prefix_space")) ? "never" : "always";
    if (strcmp(scheme, "always") == 0)
        load->t->prefix = PREFIX_UNLESS;
    else if (strcmp(scheme, "first") == 0)
        load->t->prefix = PREFIX_FIRST;
    for (int i = 0; i < load->t->steps.n && load->t->prefix == PREFIX_FIRST; i++)
        if (load->t->steps.step[i].kind <= STEP_STRIP_LEFT) // the text may begin later after these
            return loader_refuse(load, "after Precompiled or Strip, Metaspace prepend_scheme",
                    scheme);
    if (load->t->prefix == PREFIX_NONE && strcmp(scheme, "never") != 0)
        return loader_refuse(load, "Metaspace prepend_scheme", scheme);
    load->t->space_mark = load->t->metaspace = true;
    const bool splits = !json_is_false(json_object_get(object, "split"));
    if (load->t->parts_spaces && (!splits || load->t->prefix != PREFIX_UNLESS))
        return loader_refuse(load, "after WhitespaceSplit, without split or prepend_scheme always",
                "Metaspace");
    if (!splits) return DRV_OK;
    return add_rule(load, (split_rule){.kind = SPLIT_SPACES});
}

static drv_status load_split(loader *load, const json_t *object) {
    const json_t *pattern = json_object_get(object, "pattern"),
                 *regex = json_object_get(pattern, "Regex");
    const char *how = json_string_value(json_object_get(object, "behavior")),
               *text = json_string_value(json_object_get(pattern, "String"));
    const bool inverted = json_is_true(json_object_get(object, "invert"));
    // Gemma's: its normalizer leaves no space at which a text could be split.
    if (text && strcmp(text, " ") == 0 && !inverted && load->t->space_mark && !load->t->metaspace)
        return DRV_OK;
    if (!json_is_string(regex))
        return loader_refuse(load, "pre_tokenizer Split with", "a String pattern");
    if (!how || strcmp(how, "Isolated") != 0 || inverted)
        return loader_refuse(load, "Split behavior", how);
    DRV_TRY(check_order(load, SPLIT_REGEX, "Split"));
    if (strlen(json_string_value(regex)) != json_string_length(regex))
        return loader_refuse(load, "a NUL in the split pattern", json_string_value(regex));
    split_rule rule;
    DRV_TRY(split_rule_for(load->path, json_string_value(regex), &rule));
    return add_rule(load, rule);
}

static drv_status load_pre_tokenizer(loader *load, const json_t *object) {
    if (!object || json_is_null(object)) return DRV_OK;
    const char *type = type_of(object);
    if (strcmp(type, "Sequence") == 0)
        return load_sequence(load, object, "pretokenizers", load_pre_tokenizer);
    if (strcmp(type, "ByteLevel") == 0) {
        DRV_TRY(check_order(load, SPLIT_GPT2, type));
        if (load->t->prefix != PREFIX_NONE)
            return loader_refuse(load, "beside a normalizer Prepend, pre_tokenizer", type);
        load->t->byte_level = true;
        if (json_is_true(json_object_get(object, "add_prefix_space")))
            return loader_refuse(load, "ByteLevel option", "add_prefix_space");
        if (json_is_false(json_object_get(object, "use_regex"))) return DRV_OK;
        return add_rule(load, (split_rule){.kind = SPLIT_GPT2});
    }
    if (strcmp(type, "Digits") == 0) {
        if (!json_is_true(json_object_get(object, "individual_digits")))
            return loader_refuse(load, "pre_tokenizer Digits without", "individual_digits");
        DRV_TRY(check_order(load, SPLIT_DIGITS, type));
        return add_rule(load, (split_rule){.kind = SPLIT_DIGITS});
    }
    if (strcmp(type, "Split") == 0) return load_split(load, object);
    if (strcmp(type, "Metaspace") == 0) return load_metaspace(load, object);
    if (strcmp(type, "WhitespaceSplit") == 0) {
        if (load->t->n_rules || load->t->byte_level || load->t->space_mark)
            return loader_refuse(load, "after another, pre_tokenizer", type);
        load->t->parts_spaces = true;
        return DRV_OK;
    }
    return loader_refuse(load, "pre_tokenizer", type);
}

// Adds the ids of a special token of the template, before or after the text.
static drv_status add_special(loader *l, const json_t *template, const json_t *special,
        bool after) {
    tokenizer *t = l->t;
    const char *name = json_string_value(json_object_get(special, "id"));
    const json_t *entry =
            json_object_get(json_object_get(template, "special_tokens"), name ? name : "");
    const json_t *ids = json_object_get(entry, "ids");
    size_t i;
    json_t *v;
    if (!name || !json_is_array(ids))
        return loader_refuse(l, "without ids, special token of the template", name);
    json_array_foreach(ids, i, v) {
        const json_int_t id = json_integer_value(v);
        int *n = after ? &t->n_after : &t->n_before;
        if (!json_is_integer(v) || id < 0 || id >= t->n_vocab || *n == MAX_TEMPLATE)
            return drv_fail(DRV_E_DATA, "%s: post_processor: bad special token \"%s\"", l->path,
                    name);
        (after ? t->after : t->before)[(*n)++] = (int32_t)id;
    }
    return DRV_OK;
}

static drv_status load_template(loader *load, const json_t *template) {
    const json_t *single = json_object_get(template, "single");
    int n_texts = 0;
    size_t i;
    json_t *part;
    if (load->template) return loader_refuse(load, "post_processor", "TemplateProcessing twice");
    load->template = true;
    DRV_TRY(check_list(load, template, "single"));
    json_array_foreach(single, i, part) {
        const json_t *special = json_object_get(part, "SpecialToken");
        const char *text =
                json_string_value(json_object_get(json_object_get(part, "Sequence"), "id"));
        if (special)
            DRV_TRY(add_special(load, template, special, n_texts > 0));
        else if (text && strcmp(text, "A") == 0)
            n_texts++;
        else
            return loader_refuse(load, "in the template of one text, part", text);
    }
    if (n_texts == 1) return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "%s: post_processor: the template has the text %d times, expected once", load->path,
            n_texts);
}

static drv_status load_post_processor(loader *l, const json_t *o) {
    if (!o || json_is_null(o)) return DRV_OK;
    const char *type = type_of(o);
    if (strcmp(type, "ByteLevel") == 0) return DRV_OK; // only moves offsets
    if (strcmp(type, "TemplateProcessing") == 0) return load_template(l, o);
    if (strcmp(type, "Sequence") == 0)
        return load_sequence(l, o, "processors", load_post_processor);
    return loader_refuse(l, "post_processor", type);
}

// Warns of truncation and padding. tokenizers applies them when it encodes; transformers turns them
// off, and so does drover, since it encodes whole documents.
static void tell_length(const loader *l, const json_t *root) {
    const bool cut = json_is_object(json_object_get(root, "truncation")),
               pad = json_is_object(json_object_get(root, "padding"));
    if (cut || pad)
        log_warn("%s: %s%s%s ignored: texts are encoded whole", l->path, cut ? "truncation" : "",
                cut && pad ? " and " : "", pad ? "padding" : "");
}

static drv_status load_decoder_replace(loader *l, const json_t *o) {
    const char *from = json_string_value(json_object_get(json_object_get(o, "pattern"), "String"));
    const char *to = json_string_value(json_object_get(o, "content"));
    if (!l->t->space_mark || !from || strcmp(from, SPACE_MARK) != 0 || !to || strcmp(to, " ") != 0)
        return loader_refuse(l, "decoder Replace of", from);
    l->t->decodes_keys = false;
    return DRV_OK;
}

static drv_status load_decoder_strip(loader *l, const json_t *o) {
    const char *what = json_string_value(json_object_get(o, "content"));
    const bool one = json_integer_value(json_object_get(o, "start")) == 1 &&
                     json_integer_value(json_object_get(o, "stop")) == 0;
    if (!one || !what || strcmp(what, " ") != 0) return loader_refuse(l, "decoder Strip of", what);
    if (!l->fused) return loader_refuse(l, "decoder Strip before", "Fuse");
    l->t->strip_space = true;
    return DRV_OK;
}

static drv_status load_decoder(loader *load, const json_t *object) {
    tokenizer *tok = load->t;
    const char *type = type_of(object);
    if (strcmp(type, "Sequence") == 0) return load_sequence(load, object, "decoders", load_decoder);
    if (strcmp(type, "Replace") == 0) return load_decoder_replace(load, object);
    if (strcmp(type, "Strip") == 0) return load_decoder_strip(load, object);
    if (strcmp(type, "Fuse") == 0) {
        load->fused = true;
    } else if (strcmp(type, "ByteLevel") == 0) {
        if (!tok->byte_level)
            return loader_refuse(load, "without such a pre_tokenizer, decoder", type);
        tok->decodes_keys = false;
        load->fused = true;
    } else if (strcmp(type, "ByteFallback") == 0) {
        if (load->fused) return loader_refuse(load, "decoder ByteFallback after", "Fuse");
        tok->decodes_bytes = true;
    } else if (strcmp(type, "Metaspace") == 0) {
        tok->strip_space = tok->prefix != PREFIX_NONE;
        if (tok->space_mark) tok->decodes_keys = false;
    } else {
        return loader_refuse(load, "decoder", type);
    }
    return DRV_OK;
}

// Loads the decoders. Unless one undoes it, texts decode to the vocabulary's own alphabet.
static drv_status load_decoders(loader *l, const json_t *o) {
    l->t->decodes_keys = l->t->byte_level || l->t->space_mark;
    l->t->joins_by_space = !o || json_is_null(o);
    return l->t->joins_by_space ? DRV_OK : load_decoder(l, o);
}

// Loads the unknown token. If it is missing, Hugging Face fails at a text that needs it; here the
// file is refused, if a text can need it at all.
static drv_status load_unknown(loader *l, const json_t *model) {
    tokenizer *t = l->t;
    const char *name = json_string_value(json_object_get(model, "unk_token"));
    t->unknown = name ? tokenizer_entry(t, name, strlen(name)) : -1;
    t->fuse_unknown = json_is_true(json_object_get(model, "fuse_unk"));
    if (!name || t->unknown >= 0 || t->all_bytes) return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "%s: unk_token \"%.40s\" is not in model.vocab, which has no tokens for some characters",
            l->path, name);
}

static drv_status check_model(loader *l, const json_t *m) {
    const char *type = json_string_value(json_object_get(m, "type"));
    if (json_is_object(m) && type && strcmp(type, "Unigram") == 0) return DRV_OK;
    if (!json_is_object(m) || (type && strcmp(type, "BPE") != 0))
        return loader_refuse(l, "model", type);
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (int i = 0; i < 2; i++) {
        const char *s = json_string_value(json_object_get(m, affixes[i]));
        if (s && *s) return loader_refuse(l, affixes[i], s);
    }
    if (json_number_value(json_object_get(m, "dropout")) > 0)
        return loader_refuse(l, "model option", "dropout");
    l->t->ignore_merges = json_is_true(json_object_get(m, "ignore_merges"));
    return DRV_OK;
}

static drv_status load_model(loader *load, const json_t *model) {
    const char *type = json_string_value(json_object_get(model, "type"));
    if (type && strcmp(type, "Unigram") == 0) return load_unigram(load, model);
    DRV_TRY(load_vocab(load));
    load_bytes(load, json_is_true(json_object_get(model, "byte_fallback")));
    DRV_TRY(load_merges(load));
    DRV_TRY(load_unknown(load, model));
    if (load->t->n_rules == 0) load_joins(load);
    return DRV_OK;
}

static drv_status load_all(loader *load, const json_t *root) {
    tokenizer *tok = load->t;
    if (!json_is_object(root))
        return drv_fail(DRV_E_DATA, "%s: expected a JSON object", load->path);
    const json_t *model = json_object_get(root, "model"),
                 *added = json_object_get(root, "added_tokens");
    DRV_TRY(check_model(load, model));
    DRV_TRY(load_normalizer(load, json_object_get(root, "normalizer")));
    if (tok->prefix != PREFIX_NONE && !tok->space_mark)
        return loader_refuse(load, "normalizer Prepend without", "Replace");
    DRV_TRY(load_pre_tokenizer(load, json_object_get(root, "pre_tokenizer")));
    if (tok->parts_spaces && !tok->metaspace)
        return loader_refuse(load, "without Metaspace, pre_tokenizer", "WhitespaceSplit");
    tell_length(load, root);
    for (int i = 0; i < tok->n_rules; i++)
        split_rule_speed_up(&tok->rule[i]);
    tok->can_cut = tok->n_rules == 0;      // then load_joins decides
    for (int i = 0; i < tok->n_rules; i++) // digits alone do not separate a letter from a space
        tok->can_cut |= tok->rule[i].kind != SPLIT_DIGITS;
    for (int i = 0; i < tok->n_rules; i++)
        tok->can_cut &= tok->rule[i].kind != SPLIT_REGEX;
    DRV_TRY(load_decoders(load, json_object_get(root, "decoder")));
    DRV_TRY(load_model(load, model));
    if (tok->n_rules == 0 || tok->unigram || tok->steps.n) tok->can_cut = false; // one word
    json_t *beside = NULL;
    drv_status status = load_beside(load, added, &beside);
    if (status == DRV_OK) status = load_added(load, added, beside);
    json_decref(beside);
    DRV_TRY(status);
    DRV_TRY(load_post_processor(load, json_object_get(root, "post_processor")));
    return load_roles(load);
}

// Reads the tree of the file without model.vocab and model.merges, which are megabytes and are read
// in place.
static drv_status read_tree(loader *load, str_view file, json_t **root) {
    json_cursor cursor = {.p = file.p, .end = file.p + file.n};
    const char *cut[4] = {cursor.end, cursor.end, cursor.end,
            cursor.end}; // both values, in the order of the file
    int n_cut = 0;
    str key = {0};
    for (bool first = true; jc_peek(&cursor) && jc_next(&cursor, '{', &first, &key);) {
        const bool model = str_is(&key, "model") && jc_peek(&cursor) == '{';
        for (bool inner = true; model && jc_next(&cursor, '{', &inner, &key);) {
            const bool vocab = str_is(&key, "vocab"), merges = str_is(&key, "merges");
            jc_peek(&cursor);
            const char *begin = cursor.p;
            jc_skip(&cursor);
            if (!(vocab || merges) || n_cut == 4) continue;
            *(vocab ? &load->vocab : &load->merges) = (json_cursor){.p = begin, .end = cursor.p};
            cut[n_cut++] = begin;
            cut[n_cut++] = cursor.p;
        }
        if (!model) jc_skip(&cursor);
    }
    str_clear(&key);
    str_add(&key, file.p, (size_t)(cut[0] - file.p));
    if (n_cut > 0) str_puts(&key, "0");
    str_add(&key, cut[1], (size_t)(cut[2] - cut[1]));
    if (n_cut > 2) str_puts(&key, "0");
    str_add(&key, cut[3], (size_t)(cursor.end - cut[3]));
    drv_status s = json_read_bytes(load->path, key.p, key.n, root);
    str_free(&key);
    return s;
}

// Refuses a folder without tokenizer.json; says how to make one from vocab.json if that is there.
static drv_status refuse_folder(arena *a, const char *folder) {
    const bool has = file_exists(path_join(a, folder, "vocab.json"));
    return drv_fail(DRV_E_IO, "\"%s\" has no tokenizer.json%s", folder,
            has ? ", but vocab.json: transformers makes one of it by AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)"
                : "");
}

// Returns whether a file is to be read as tokenizer.json.
static bool is_json(const char *path, const char *text) {
    return str_ends(path, ".json") || text[strspn(text, " \t\r\n")] == '{';
}

drv_status tokenizer_open(arena *a, const char *path, tokenizer **out) {
    if (!file_exists(path))
        return drv_fail(DRV_E_IO,
                "could not open \"%s\": No such file or directory; expected a tokenizer.json, a tokenizer.model or a folder with one%s",
                path, hub_hint(a, path));
    if (file_is_dir(path)) {
        DRV_TRY(dir_may_enter(path));
        const char *found = tokenizer_file_of(a, path);
        if (!found) return refuse_folder(a, path);
        path = found;
    }
    loader l = {.a = a, .path = path, .t = ARENA_NEW(a, tokenizer)};
    l.t->path = path;
    char *text;
    size_t n_text;
    json_t *root = NULL;
    arena *file = arena_new("tokenizer file");
    drv_status s = file_read(file, path, &text, &n_text);
    l.t->words = ARENA_NEW(a, word_table);
    DRV_MEMORY(word_table_open(l.t->words), "a table or a state of some KiB");
    if (s == DRV_OK && !is_json(path, text)) {
        s = load_model_file(&l, text, n_text);
    } else if (s == DRV_OK) {
        s = read_tree(&l, (str_view){text, n_text}, &root);
        if (s == DRV_OK) s = load_all(&l, root);
    }
    json_decref(root);
    json_decref(l.config);
    json_decref(l.map);
    arena_free(file);
    if (s != DRV_OK)
        tokenizer_close(l.t);
    else
        *out = l.t;
    return s;
}

void tokenizer_close(tokenizer *t) {
    if (t && t->words) word_table_close(t->words);
    for (int i = 0; t && i < t->n_rules; i++)
        split_rule_free(&t->rule[i]);
}

const char *tokenizer_path(const tokenizer *t) {
    return t->path;
}

int32_t tokenizer_n_vocab(const tokenizer *t) {
    return t->n_vocab;
}

int32_t tokenizer_role(const tokenizer *t, token_role role) {
    return t->role[role];
}

bool tokenizer_can_cut(const tokenizer *t) {
    return t->can_cut;
}
