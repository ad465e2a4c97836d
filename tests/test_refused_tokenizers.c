// Tokenizers that would give other ids than Hugging Face, or that Hugging Face refuses: refused by
// name when they are opened. And many added tokens: those that are found, and how the work grows.
#include "harness.h"

#include "tok/tokenizer.h"

#define MARK    "\xE2\x96\x81"
#define PREPEND "{\"type\": \"Prepend\", \"prepend\": \"" MARK "\"}"
#define REPLACE                                                                                    \
    "{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"" MARK "\"}"
#define META                                                                                       \
    "{\"type\": \"Metaspace\", \"replacement\": \"" MARK "\", \"prepend_scheme\": \"first\"}"
#define LEVEL "{\"type\": \"ByteLevel\", \"add_prefix_space\": false}"
#define SPLIT(re)                                                                                  \
    "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"" re                                         \
    "\"}, \"behavior\": \"Isolated\", \"invert\": false}"
#define NORMAL(x) "\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [" x "]}"
#define PRE(x)    "\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [" x "]}"
#define TEMPLATE(x)                                                                                \
    "{\"type\": \"TemplateProcessing\", \"single\": [" x                                           \
    "], \"special_tokens\": {\"<s>\": {\"ids\": [2]}}}"
#define TEXT_A    "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}"
#define TOKEN(n)  "{\"SpecialToken\": {\"id\": \"" n "\", \"type_id\": 0}}"
#define ADDED(id) "\"added_tokens\": [{" id "\"content\": \"<q>\", \"special\": true}]"

static void write_tokenizer(const char *path, const char *settings) {
    str text = {0};
    str_printf(&text,
            "{%s, \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"<s>\": 2}, "
            "\"merges\": []}}",
            settings);
    OK(file_write_atomic(path, text.p, text.n));
    str_free(&text);
}

TEST(refused_by_name) {
    static const struct {
        const char *settings, *said; // NULL: taken
    } cases[] = {
            {NORMAL(PREPEND "," REPLACE), NULL},
            {NORMAL(PREPEND "," REPLACE) ", " PRE(META), "\"Metaspace\" is not supported"},
            {NORMAL(REPLACE) ", " PRE(META), "\"Metaspace\" is not supported"},
            {PRE(META "," LEVEL), "U+2581"}, {PRE(LEVEL "," META), "Metaspace after another"},
            {PRE(META "," META), "Metaspace"}, {PRE(LEVEL "," SPLIT("a")), "after ByteLevel"},
            {PRE(LEVEL "," LEVEL), "after ByteLevel"}, {PRE(META "," SPLIT("a")), "U+2581"},
            {PRE(SPLIT("a") "," LEVEL), NULL}, {PRE(SPLIT("a\\u0000b")), "NUL"},
            {PRE(SPLIT("(?s)a")), "split pattern \"(?s)a\", byte 2"},
            {PRE(SPLIT("(?s)日本日本日本日本日本日本日本日本日本日本")), "日本\", byte 2"},
            {NORMAL(PREPEND) ", " PRE(LEVEL), "Prepend"}, {NORMAL(PREPEND), "Prepend"},
            {NORMAL(PREPEND "," PREPEND "," REPLACE), "Prepend after another"},
            {NORMAL(REPLACE) ", " PRE(LEVEL), "ByteLevel"},
            {"\"pre_tokenizer\": {\"type\": \"Sequence\"}", "no list \"pretokenizers\""},
            {"\"normalizer\": {\"type\": \"Sequence\"}", "no list \"normalizers\""},
            {"\"post_processor\": " TEMPLATE(TOKEN("<s>") "," TEXT_A), NULL},
            {"\"post_processor\": " TEMPLATE(TEXT_A "," TEXT_A), "the text 2 times"},
            {"\"post_processor\": " TEMPLATE(TOKEN("<s>")), "the text 0 times"},
            {"\"post_processor\": " TEMPLATE(TOKEN("<z>") "," TEXT_A), "\"<z>\""},
            {"\"post_processor\": {\"type\": \"Sequence\", \"processors\": [" TEMPLATE(
                     TEXT_A) "," TEMPLATE(TEXT_A) "]}",
                    "TemplateProcessing twice"},
            {ADDED("\"id\": 3, "), NULL}, {ADDED(""), "its id is not a number"},
            {ADDED("\"id\": null, "), "its id is not a number"},
            {ADDED("\"id\": \"5\", "), "its id is not a number"},
            {ADDED("\"id\": -1, "), "its id is not a number"},
            {ADDED("\"id\": 3.0, "), "its id is not a number"},
            {"\"truncation\": {\"max_length\": 2}, \"padding\": {}", NULL}, // said, left aside
    };
    const char *path = path_join(a, temporary_dir(a), "tokenizer.json");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tokenizer *t;
        write_tokenizer(path, cases[i].settings);
        const drv_status status = tokenizer_open(a, path, &t);
        if (status == DRV_OK) tokenizer_close(t);
        if (!cases[i].said) {
            OK(status);
        } else if (status != DRV_E_DATA || !strstr(drv_message(), cases[i].said)) {
            fail_msg("{%s}: expected \"%s\", got \"%s\"", cases[i].settings, cases[i].said,
                    status == DRV_OK ? "taken" : drv_message());
        }
    }
}

// --- many added tokens
static void check_one(encoder *e, const char *text, int32_t first, int32_t second) {
    id_list got = {0};
    encoder_run(e, text, strlen(text), true, &got);
    assert_int_equal(got.n, 2);
    assert_int_equal(got.p[0], first);
    assert_int_equal(got.p[1], second);
    id_list_free(&got);
}

// Loading 30,000 took 7 s where time grew by the square of them. The longest is
// found, and what is only the beginning of one is not.
TEST(many_added_tokens) {
    enum { N = 30000 };
    const char *path = path_join(a, temporary_dir(a), "tokenizer.json");
    str text = {0};
    str_puts(&text, "\"added_tokens\": [");
    for (int i = 0; i < N; i++)
        str_printf(&text, "%s{\"id\": %d, \"content\": \"<x%d\"}", i ? ", " : "", i + 3, i);
    str_puts(&text, "]");
    write_tokenizer(path, text.p);
    tokenizer *t;
    OK(tokenizer_open(a, path, &t));
    encoder *e = encoder_new(t);
    assert_int_equal(tokenizer_id(t, "<x29999"), 30002);
    assert_int_equal(tokenizer_id(t, "<x"), -1);
    check_one(e, "<x28888<x2", 28891, 5);
    check_one(e, "<x29999<x1", 30002, 4);
    encoder_free(e);
    tokenizer_close(t);
    str_free(&text);
}
