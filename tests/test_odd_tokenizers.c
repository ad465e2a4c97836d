// Tokenizers that are odd on purpose (tools/compare_random_tokenizers.py): raw characters in
// byte-level vocabularies, bytes without a token, byte fallback that is not whole, ids with gaps,
// added tokens with spaces or ids of their own, decoders that are missing or not whole, keys that
// share an id, merges that stand twice. Ids and text are Hugging Face's.
#include "harness.h"

#include "base/json.h"
#include "tok/tokenizer.h"

typedef struct odd {
    long long seed; // of tools/compare_random_tokenizers.py
    tokenizer *t;
    encoder *e;
} odd;

static void ids_of(const json_t *list, id_list *out) {
    size_t i;
    json_t *v;
    json_array_foreach(list, i, v) id_list_add(out, (int32_t)json_integer_value(v));
}

static void check_ids(const odd *o, const json_t *one) {
    const json_t *text = json_object_get(one, "text");
    id_list got = {0}, want = {0};
    ids_of(json_object_get(one, "ids"), &want);
    encoder_run(o->e, json_string_value(text), json_string_length(text), true, &got);
    if (got.n != want.n || (got.n && memcmp(got.p, want.p, sizeof *got.p * (size_t)got.n) != 0))
        fail_msg("seed %lld: other ids for \"%s\"", o->seed, json_string_value(text));
    id_list_free(&got);
    id_list_free(&want);
}

static void check_text(const odd *o, const json_t *one) {
    const json_t *text = json_object_get(one, "text");
    id_list ids = {0};
    str got = {0};
    ids_of(json_object_get(one, "ids"), &ids);
    tokenizer_decode(o->t, ids.p, ids.n, false, &got);
    if (got.n != json_string_length(text) ||
            (got.n && memcmp(got.p, json_string_value(text), got.n) != 0))
        fail_msg("seed %lld: decoded to \"%s\", expected \"%s\"", o->seed, got.n ? got.p : "",
                json_string_value(text));
    id_list_free(&ids);
    str_free(&got);
}

static void check_tokenizer(const char *path, const json_t *line) {
    arena *a = arena_new("odd");
    odd o = {.seed = json_integer_value(json_object_get(line, "seed"))};
    size_t i;
    json_t *one;
    const json_t *file = json_object_get(line, "tokenizer"); // its text: keys may hold NUL
    OK(file_write_atomic(path, json_string_value(file), json_string_length(file)));
    OK(tokenizer_open(a, path, &o.t));
    o.e = encoder_new(o.t);
    json_array_foreach(json_object_get(line, "encode"), i, one) check_ids(&o, one);
    json_array_foreach(json_object_get(line, "encode"), i, one)
            check_ids(&o, one); // from the cache
    json_array_foreach(json_object_get(line, "decode"), i, one) check_text(&o, one);
    encoder_free(o.e);
    tokenizer_close(o.t);
    arena_free(a);
}

TEST(as_hugging_face) {
    const char *path = path_join(a, temporary_dir(a), "tokenizer.json");
    FILE *f = fopen(golden_path(a, "tokenizers/odd.jsonl"), "r");
    assert_non_null(f);
    char *line = NULL;
    size_t cap = 0;
    int n = 0;
    for (ssize_t k; (k = getline(&line, &cap, f)) > 0; n++) {
        json_t *o = json_loadb(line, (size_t)k, JSON_ALLOW_NUL, NULL);
        assert_non_null(o);
        check_tokenizer(path, o);
        json_decref(o);
    }
    assert_int_equal(n, 40);
    free(line);
    fclose(f);
}
