// The table of pre-tokenizers: names, patterns and flags of llama.cpp's llama-vocab.cpp; the
// patterns are those of the tokenizer.json for which each name stands.
#include "gguf/pre_types.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "tok/split.h"

// The known types.
static const pre_type types[] = {
        {"gpt-2", {NULL, false}, false, false,
                {"default", "phi-2", "mpt", "olmo", "jais", "trillion", "granite-docling",
                        "exaone4", "gigachat", "a.x-4.0", "mellum"}},
        {"smollm", {NULL, true}, false, false,
                {"starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b",
                        "mellum2"}},
        {"llama-bpe", {split_pattern_llama3, false}, true, true,
                {"llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"}},
        {"dbrx", {split_pattern_llama3, false}, false, false, {"smaug-bpe", "chatglm-bpe", "glm4"}},
        {"qwen2", {split_pattern_qwen2, false}, false, false,
                {"stablelm2", "deepseek-r1-qwen", "kormo", "megrez", "hunyuan", "solar-open",
                        "grok-2"}},
        {"tekken", {split_pattern_tekken, false}, true, true, {NULL}},
        {"gpt-4o", {split_pattern_o200k, false}, false, false, {"llama4", "kanana2", "talkie"}},
};
enum { N_TYPES = sizeof types / sizeof *types };

const pre_type *pre_type_of(const char *name) {
    for (int i = 0; i < N_TYPES; i++)
        if (strcmp(types[i].name, name) == 0 || str_index(name, types[i].others, N_OTHERS) >= 0)
            return &types[i];
    return NULL;
}

const char *pre_type_names(void) {
    static _Thread_local char text[600];
    size_t n = 0;
    for (int i = 0; i < N_TYPES; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? ", " : "", types[i].name);
    for (int i = 0; i < N_TYPES; i++)
        for (int k = 0; k < N_OTHERS && types[i].others[k]; k++)
            n += (size_t)snprintf(text + n, sizeof text - n, ", %s", types[i].others[k]);
    return text;
}

// --- of tokenizer.json
typedef struct found {
    const char *pattern;
    bool digits, byte_level, other;
} found;

static void look_at(const json_t *object, found *found_so_far) {
    const char *type = json_string_value(json_object_get(object, "type"));
    size_t i;
    json_t *entry;
    if (!type) {
        found_so_far->other = true;
    } else if (strcmp(type, "Sequence") == 0) {
        json_array_foreach(json_object_get(object, "pretokenizers"), i, entry)
                look_at(entry, found_so_far);
    } else if (strcmp(type, "Digits") == 0 && !found_so_far->pattern && !found_so_far->byte_level) {
        found_so_far->digits = json_is_true(json_object_get(object, "individual_digits"));
        found_so_far->other |= !found_so_far->digits;
    } else if (strcmp(type, "Split") == 0 && !found_so_far->pattern && !found_so_far->byte_level) {
        found_so_far->pattern =
                json_string_value(json_object_get(json_object_get(object, "pattern"), "Regex"));
        found_so_far->other |=
                !found_so_far->pattern || json_is_true(json_object_get(object, "invert"));
    } else if (strcmp(type, "ByteLevel") == 0) {
        const bool regex = !json_is_false(json_object_get(object, "use_regex"));
        found_so_far->other |= regex == (found_so_far->pattern != NULL) ||
                               json_is_true(json_object_get(object, "add_prefix_space"));
        found_so_far->byte_level = true;
    } else {
        found_so_far->other = true;
    }
}

const pre_type *pre_type_of_json(const json_t *pre_tokenizer, bool ignore_merges) {
    found f = {0};
    look_at(pre_tokenizer, &f);
    if (f.other || !f.byte_level) return NULL;
    for (int i = 0; i < N_TYPES; i++) {
        const pre_type *t = &types[i];
        const bpe_words *words = &t->words;
        const bool pattern = f.pattern ? words->pattern && strcmp(f.pattern, words->pattern) == 0
                                       : !words->pattern;
        if (pattern && f.digits == words->digits && ignore_merges == t->ignore_merges) return t;
    }
    return NULL;
}
