// Tokenizers that are no tokenizer.json: the ids that sentencepiece and tiktoken have
// (tools/golden_model_files.py), where they begin in a text, and what is refused. An argument names
// a file of more cases.
#include "harness.h"

#include "base/base64.h"
#include "base/json.h"
#include "base/log.h"
#include "tok/model_file.h"
#include "tok/tokenizer.h"

static const char *cases_path;

static const char *write_case(arena *a, const json_t *test, const char *folder) {
    const char *path = path_join(a, folder, json_string_value(json_object_get(test, "file")));
    const json_t *text = json_object_get(test, "bytes");
    str bytes = {0};
    assert_true(base64_decode(json_string_value(text), json_string_length(text), &bytes));
    OK(file_write_atomic(path, bytes.p, bytes.n));
    str_free(&bytes);
    return path;
}

static bool same_ids(const id_list *got, const json_t *want) {
    bool same = (size_t)got->n == json_array_size(want);
    for (int64_t i = 0; same && i < got->n; i++)
        same = got->p[i] == json_integer_value(json_array_get(want, (size_t)i));
    return same;
}

static void check_text(const tokenizer *tok, const json_t *test, size_t i) {
    const json_t *text = json_array_get(json_object_get(test, "texts"), i),
                 *want = json_array_get(json_object_get(test, "ids"), i);
    id_list got = {0}, traced = {0};
    offset_list begins = {0};
    encoder *e = encoder_new(tok);
    const char *p = json_string_value(text);
    const size_t n = json_string_length(text);
    encoder_run(e, p, n, false, &got);
    encoder_piece_traced(e, &(text_piece){p, n, true, true}, false, &traced, &begins);
    str ids = {0};
    for (int64_t k = 0; !same_ids(&got, want) && k < got.n; k++)
        str_printf(&ids, " %d", got.p[k]);
    if (!same_ids(&got, want) || !same_ids(&traced, want))
        fail_msg("%s: \"%s\" gives%s, expected %s",
                json_string_value(json_object_get(test, "name")), p,
                ids.p ? ids.p : " other ids when traced", json_dumps(want, JSON_COMPACT));
    for (int64_t k = 0; k < begins.n; k++)
        assert_true(begins.p[k] <= (int64_t)n && (k == 0 || begins.p[k] >= begins.p[k - 1]));
    id_list_free(&got);
    id_list_free(&traced);
    offset_list_free(&begins);
    encoder_free(e);
}

// tokenizer.json finds control pieces in a text, so texts that may have one are left out.
static int check_converted(arena *a, const json_t *test, const char *path) {
    const char *folder = temporary_dir(a);
    const json_t *texts = json_object_get(test, "texts"), *text;
    const bool is_ranks = strchr(json_string_value(json_object_get(test, "name")), '.');
    tokenizer *t;
    size_t i;
    if (model_file_convert(path, folder) != DRV_OK) {
        assert_non_null(strstr(drv_message(), "tokenizer.json cannot express it: "));
        assert_false(file_exists(path_join(a, folder, "tokenizer.json")));
        return 0;
    }
    OK(tokenizer_open(a, folder, &t));
    json_array_foreach(texts, i, text) {
        const char *p = json_string_value(text);
        const size_t n_text = json_string_length(text);
        if (is_ranks || !(memchr(p, '<', n_text) || memchr(p, '[', n_text))) check_text(t, test, i);
    }
    tokenizer_close(t);
    return 1;
}

TEST(ids_of_the_packages) {
    char *rest;
    size_t n_file;
    int n_cases = 0, n_converted = 0;
    const char *folder = temporary_dir(a);
    OK(file_read(a, cases_path ? cases_path : golden_path(a, "model_files.jsonl"), &rest, &n_file));
    for (char *line; (line = strsep(&rest, "\n")) && *line; n_cases++) {
        json_t *test = json_loads(line, JSON_ALLOW_NUL, NULL);
        arena *work = arena_new("case");
        tokenizer *t;
        assert_non_null(test);
        OK(dir_remove(folder));
        OK(dir_make(folder));
        const char *path = write_case(work, test, folder);
        OK(tokenizer_open(work, n_cases % 2 ? path : folder, &t));
        for (size_t i = 0; i < json_array_size(json_object_get(test, "texts")); i++)
            check_text(t, test, i);
        tokenizer_close(t);
        if (!str_ends(path, ".json")) n_converted += check_converted(work, test, path);
        arena_free(work);
        json_decref(test);
    }
    assert_true(cases_path || (n_cases >= 36 && n_converted >= 2));
}

TEST(refused) {
    static const struct {
        const char *bytes;
        size_t n;
        const char *text;
    } cases[] = {
#define CASE(bytes, text) {bytes, sizeof(bytes) - 1, text}
            CASE("", "a model of sentencepiece without pieces"),
            CASE("\x0A", "byte 1: the file ends within a number"),
            CASE("\x0A\x7F\x0A", "byte 2: a field is longer than what is left"),
            CASE("\x0B", "byte 1: a field has an unknown type"),
            CASE("\x02\x00", "byte 1: a field has number 0"),
            CASE("\x08\x00", "field 1 before byte 2 has type 0, expected 2"),
            CASE("\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", "a number of more than 64 bits"),
            CASE("\x0A\x02\x0A\x00", "piece 0 is empty"),
            CASE("\x0A\x03\x0A\x01\xFF", "piece 0 is not UTF-8"),
            CASE("\x0A\x08\x0A\x01g\x15\x00\x00\xC0\x7F", "piece 0: its score is not finite"),
            CASE("\x0A\x05\x0A\x01g\x18\x07", "piece 0: its type is 7, expected 1 to 6"),
            CASE("\x0A\x03\x0A\x01g", "no piece is the unknown token"),
            CASE("\x0A\x03\x0A\x01g\x0A\x03\x0A\x01g", "piece 1 (\"g\") is piece 0, too"),
            CASE("\x0A\x05\x0A\x01g\x18\x06", "piece 0 is a byte, but byte_fallback is off"),
            CASE("\x0A\x05\x0A\x01g\x18\x02\x12\x03\x98\x02\x01", "byte <0x00> is not a piece"),
            CASE("\x0A\x05\x0A\x01g\x18\x02\x12\x02\x18\x03", "of type word is not supported"),
            CASE("\x0A\x05\x0A\x01g\x18\x02\x1A\x05\x12\x03xyz", "precompiled_charsmap: 3 bytes"),
            CASE("IQ== 0\n", "byte 0x00 has no rank"),
            CASE("IQ== 0\nIg== 0\n", "two tokens have rank 0"),
            CASE("IQ== 0\n**** 1\n", "rank 1: \"****\" is not Base64"),
            CASE("IQ== 0\nnonsense\n", "tokenizer.model:2: expected a token in Base64"),
            CASE("IQ== 16777216\n", "tokenizer.model:1: expected a token in Base64"),
            CASE("IQ== 200000\n", "200001 ranks of tiktoken, whose pattern the file does not have"),
#undef CASE
    };
    const char *path = path_join(a, temporary_dir(a), "tokenizer.model");
    tokenizer *t;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        OK(file_write_atomic(path, cases[i].bytes, cases[i].n));
        FAILS(tokenizer_open(a, path, &t), DRV_E_DATA, cases[i].text);
        FAILS(tokenizer_open(a, path, &t), DRV_E_DATA, path);
    }
}

// Whatever is left of a file that was cut, or has another byte: it opens, or one line says why not.
TEST(harmed) {
    char *rest;
    size_t n_file;
    const char *folder = temporary_dir(a);
    OK(file_read(a, golden_path(a, "model_files.jsonl"), &rest, &n_file));
    for (char *line; (line = strsep(&rest, "\n")) && *line;) {
        json_t *test = json_loads(line, JSON_ALLOW_NUL, NULL);
        char *bytes;
        size_t n;
        OK(file_read(a, write_case(a, test, folder), &bytes, &n));
        for (size_t i = 0; i < n; i += 97) {
            arena *work = arena_new("case");
            const char *path = path_join(work, folder, "harmed.model");
            tokenizer *t;
            bytes[i] ^= (char)(1 << i % 8);
            OK(file_write_atomic(path, bytes, i % 2 ? i : n));
            bytes[i] ^= (char)(1 << i % 8);
            if (tokenizer_open(work, path, &t) == DRV_OK)
                tokenizer_close(t);
            else
                assert_non_null(strstr(drv_message(), "harmed.model"));
            arena_free(work);
        }
        json_decref(test);
    }
}

int main(int argc, char **argv) {
    cases_path = argc > 1 ? argv[1] : NULL;
    return tests_run();
}
