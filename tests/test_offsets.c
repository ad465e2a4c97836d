// Where ids begin in a text, against Hugging Face's offsets (tools/golden_offsets.py).
#include "harness.h"

#include "base/json.h"
#include "tok/tokenizer.h"

// The folder of the golden tokenizer, or of a copy that composes its text first.
static const char *folder_of(arena *a, const char *name, bool nfc) {
    const char *folder = golden_path(a, arena_printf(a, "tokenizers/%s", name));
    if (!nfc) return folder;
    json_t *settings;
    const char *copy = temporary_dir(a);
    OK(json_read_file(path_join(a, folder, "tokenizer.json"), &settings));
    json_object_set_new(settings, "normalizer", json_pack("{s:s}", "type", "NFC"));
    OK(json_write_file(path_join(a, copy, "tokenizer.json"), settings));
    return copy;
}

// Code points before a byte; one inside a character counts as that character.
static int64_t points_before(const char *text, int64_t byte) {
    int64_t n = -1;
    for (int64_t i = 0; i <= byte; i++)
        n += (text[i] & 0xC0) != 0x80;
    return n;
}

static void check_record(int number, const json_t *record, const tokenizer *tok) {
    const char *text = json_string_value(json_object_get(record, "text"));
    const json_t *ids = json_object_get(record, "ids"), *begins = json_object_get(record, "begins");
    const int64_t n = (int64_t)strlen(text);
    id_list got = {0};
    offset_list at = {0};
    encoder *e = encoder_new(tok);
    encoder_piece_traced(e, &(text_piece){text, (size_t)n, true, true}, false, &got, &at);
    if ((size_t)got.n != json_array_size(ids) || at.n != got.n)
        fail_msg("record %d: %lld ids, %lld begins, expected %zu", number, (long long)got.n,
                (long long)at.n, json_array_size(ids));
    for (int64_t i = 0; i < got.n; i++) {
        assert_int_equal(got.p[i], json_integer_value(json_array_get(ids, (size_t)i)));
        assert_true(at.p[i] <= (i + 1 < at.n ? at.p[i + 1] : n));
        const int64_t expected = json_integer_value(json_array_get(begins, (size_t)i));
        if (points_before(text, at.p[i]) != expected)
            fail_msg("record %d, \"%s\": id %lld (%s) begins at character %lld, expected %lld",
                    number, text, (long long)i, tokenizer_token_text(tok, got.p[i]),
                    (long long)points_before(text, at.p[i]), (long long)expected);
    }
    encoder_free(e);
    id_list_free(&got);
    offset_list_free(&at);
}

TEST(begins_are_those_of_hugging_face) {
    char *file, *line;
    size_t n_file;
    int number = 0;
    OK(file_read(a, golden_path(a, "tokenizers/offsets.jsonl"), &file, &n_file));
    for (line = file; *line; line = strchr(line, '\n') + 1) {
        tokenizer *t;
        json_t *o = json_loadb(line, (size_t)(strchr(line, '\n') - line), 0, NULL);
        OK(tokenizer_open(a,
                folder_of(a, json_string_value(json_object_get(o, "tokenizer")),
                        json_is_true(json_object_get(o, "nfc"))),
                &t));
        check_record(number++, o, t);
        tokenizer_close(t);
        json_decref(o);
    }
    assert_true(number >= 100);
}

// What is put around a text begins at its ends.
TEST(specials_begin_at_the_ends) {
    tokenizer *t;
    id_list ids = {0};
    offset_list begins = {0};
    OK(tokenizer_open(a, golden_path(a, "tokenizers/sentencepiece"), &t));
    encoder *e = encoder_new(t);
    encoder_piece_traced(e, &(text_piece){"a b", 3, true, true}, true, &ids, &begins);
    assert_int_equal(begins.n, ids.n);
    assert_true(ids.n >= 3 &&
                ids.p[0] == tokenizer_role(t, ROLE_BOS)); // the template's, then the words
    assert_true(begins.p[0] == 0 && begins.p[1] == 0 && begins.p[begins.n - 1] >= 1);
    encoder_free(e);
    tokenizer_close(t);
    id_list_free(&ids);
    offset_list_free(&begins);
}
