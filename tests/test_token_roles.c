// Which token is BOS, EOS, padding and unknown: by the files beside tokenizer.json, by its
// template, by name; and what messages call a token.
#include "harness.h"

#include "tok/tokenizer.h"

#define ADDED(id, text)                                                                            \
    "{\"id\": " #id ", \"content\": \"" text "\", \"single_word\": false, \"lstrip\": false, "     \
    "\"rstrip\": false, \"normalized\": false, \"special\": true}"

static const char model[] = "{\"added_tokens\": [" ADDED(0, "<s>") "," ADDED(1, "</s>") "," ADDED(2,
        "<x>") "],"
               "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false},"
               "\"post_processor\": %s, \"decoder\": {\"type\": \"ByteLevel\"},"
               "\"model\": {\"type\": \"BPE\", \"merges\": [], \"unk_token\": %s, \"vocab\":"
               " {\"<s>\": 0, \"</s>\": 1, \"<x>\": 2, \"a\": 3, \"\xC4\xA0\": 4, \"\xC3\x83\": 5}}}";
static const char begins_with_x[] =
        "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"<x>\"}},"
        " {\"Sequence\": {\"id\": \"A\"}}], \"special_tokens\": {\"<x>\": {\"ids\": [2]}}}";

static void put(arena *a, const char *dir, const char *name, const char *text) {
    const char *path = path_join(a, dir, name);
    if (text)
        OK(file_write_atomic(path, text, strlen(text)));
    else
        remove(path);
}

static const struct {
    const char *story, *template, *unk, *config, *map;
    int bos, eos, pad, unknown;
} cases[] = {
        {"names alone", "null", "null", NULL, NULL, 0, 1, -1, -1},
        {"the template's first token goes before names", begins_with_x, "null", NULL, NULL, 2, 1,
                -1, -1},
        {"the model's unk_token", "null", "\"<x>\"", NULL, NULL, 0, 1, -1, 2},
        {"the config decides, as text", begins_with_x, "null",
                "{\"bos_token\": \"</s>\", \"eos_token\": \"<s>\", \"pad_token\": \"<x>\"}", NULL,
                1, 0, 2, -1},
        {"and as an object", "null", "null",
                "{\"eos_token\": {\"__type\": \"AddedToken\", \"content\": \"<x>\"}}", NULL, 0, 2,
                -1, -1},
        {"null says that there is none", begins_with_x, "\"<x>\"",
                "{\"bos_token\": null, \"unk_token\": null}", NULL, -1, 1, -1, -1},
        {"the map fills what a config with added_tokens_decoder leaves open", "null", "null",
                "{\"eos_token\": \"<x>\", \"added_tokens_decoder\": {}}",
                "{\"eos_token\": \"a\", \"pad_token\": {\"content\": \"a\"}}", 0, 2, 3, -1},
        {"and goes before one without it", "null", "null",
                "{\"eos_token\": \"<x>\", \"pad_token\": null}",
                "{\"eos_token\": \"a\", \"pad_token\": {\"content\": \"a\"}}", 0, 3, 3, -1},
        {"numbers that no machine holds are passed over", "null", "null",
                "{\"model_max_length\": 1000000000000000019884624838656, \"pad_token\": \"a\"}",
                NULL, 0, 1, 3, -1},
        {"a token that is not there is added", "null", "null", "{\"eos_token\": \"<new>\"}", NULL,
                0, 6, -1, -1},
};

TEST(roles_by_file_template_and_name) {
    const char *dir = temporary_dir(a);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tokenizer *t;
        put(a, dir, "tokenizer.json", arena_printf(a, model, cases[i].template, cases[i].unk));
        put(a, dir, "tokenizer_config.json", cases[i].config);
        put(a, dir, "special_tokens_map.json", cases[i].map);
        OK(tokenizer_open(a, dir, &t));
        const int got[] = {tokenizer_role(t, ROLE_BOS), tokenizer_role(t, ROLE_EOS),
                tokenizer_role(t, ROLE_PAD), tokenizer_role(t, ROLE_UNK)};
        const int want[] = {cases[i].bos, cases[i].eos, cases[i].pad, cases[i].unknown};
        if (memcmp(got, want, sizeof got) != 0)
            fail_msg("%s: bos, eos, pad, unk are %d %d %d %d, expected %d %d %d %d", cases[i].story,
                    got[0], got[1], got[2], got[3], want[0], want[1], want[2], want[3]);
        tokenizer_close(t);
    }
}

TEST(broken_files_are_named) {
    static const struct {
        const char *config, *says;
    } broken[] = {{"{\"eos_token\": 3}", "tokenizer_config.json: \"eos_token\" is neither a text"},
            {"{\"pad_token\": {\"id\": 3}}", "\"pad_token\" is neither"},
            {"{\"bos_token\": \"\"}", "\"bos_token\" is neither"},
            {"{} {}", "tokenizer_config.json:1:4: not valid JSON"},
            {"[]", "tokenizer_config.json: expected a JSON object"},
            {"{\"eos_token\": \"</s>\", ", "tokenizer_config.json:1:22: not valid JSON"},
            {"{\"added_tokens_decoder\": {\"x\": {\"content\": \"y\"}}}", "\"x\" is not an id"},
            {"{\"added_tokens_decoder\": {\"3\": {}}}", "\"3\" is not an id with a token"}};
    const char *dir = temporary_dir(a);
    put(a, dir, "tokenizer.json", arena_printf(a, model, "null", "null"));
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        tokenizer *t;
        put(a, dir, "tokenizer_config.json", broken[i].config);
        FAILS(tokenizer_open(a, dir, &t), DRV_E_DATA, broken[i].says);
    }
}

TEST(tokens_in_messages) {
    const char *dir = temporary_dir(a);
    tokenizer *t;
    put(a, dir, "tokenizer.json", arena_printf(a, model, "null", "null"));
    OK(tokenizer_open(a, dir, &t));
    static const struct {
        int32_t id;
        const char *text;
    } texts[] = {{0, "<s>"}, {3, "a"}, {4, " "}, {5, "\\xC3"}, {6, "?"}, {-1, "?"}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_string_equal(tokenizer_token_text(t, texts[i].id), texts[i].text);
    tokenizer_close(t);
}
