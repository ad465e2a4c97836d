// Ids and decoded text against Hugging Face tokenizers (tools/golden_tokenizer.py), and the
// trainer's merges against theirs.
#include "harness.h"

#include <openssl/evp.h>

#include "base/json.h"
#include "data/read/text_batch.h"
#include "tok/bpe_trainer.h"

typedef void (*line_fn)(void *ctx, int64_t number, const json_t *o);

static void each_line(const char *path, line_fn fn, void *ctx) {
    FILE *f = fopen(path, "r");
    if (!f) fail_msg("no %s", path);
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    for (int64_t i = 1; (n = getline(&line, &cap, f)) >= 0; i++) {
        json_t *o = json_loadb(line, (size_t)n, JSON_ALLOW_NUL, NULL);
        assert_non_null(o);
        fn(ctx, i, o);
        json_decref(o);
    }
    free(line);
    fclose(f);
}

typedef struct check {
    const char *name;
    tokenizer *t;
    encoder *e;
    int64_t lines;
} check;

static void check_line(void *ctx, int64_t number, const json_t *o) {
    check *c = ctx;
    const json_t *text = json_object_get(o, "text"), *ids = json_object_get(o, "ids"),
                 *decoded = json_object_get(o, "decoded");
    id_list got = {0};
    const size_t n = json_string_length(text);
    char *exact = malloc(n + !n); // nothing may be read past it
    memcpy(exact, json_string_value(text), n);
    encoder_run(c->e, exact, n, true, &got);
    free(exact);
    bool same = (size_t)got.n == json_array_size(ids);
    for (int64_t i = 0; same && i < got.n; i++)
        same = got.p[i] == json_integer_value(json_array_get(ids, (size_t)i));
    if (!same)
        fail_msg("%s, case %lld: other ids for \"%.80s\"", c->name, (long long)number,
                json_string_value(text));
    str out = {0};
    tokenizer_decode(c->t, got.p, got.n, false, &out);
    if (out.n != json_string_length(decoded) ||
            (out.n && memcmp(out.p, json_string_value(decoded), out.n) != 0))
        fail_msg("%s, case %lld: decoded to \"%.80s\", expected \"%.80s\"", c->name,
                (long long)number, out.p ? out.p : "", json_string_value(decoded));
    // The streaming decoder gives the same text, in whole characters.
    str stream = {0};
    stream_decoder d = {.t = c->t};
    for (int64_t i = 0; i < got.n; i++)
        stream_decoder_add(&d, got.p[i], &stream);
    if (d.pending.n) utf8_sanitize(d.pending.p, d.pending.n, &stream);
    if (stream.n != out.n || (out.n && memcmp(out.p, stream.p, out.n) != 0))
        fail_msg("%s, case %lld: streamed otherwise", c->name, (long long)number);
    str_free(&d.pending);
    str_free(&stream);
    str_free(&out);
    id_list_free(&got);
    c->lines++;
}

static void same_as_hugging_face(void **state) {
    (void)state;
    static const char *const names[] = {"gpt2", "llama3", "other", "digits", "sentencepiece",
            "metaspace_first", "metaspace_split", "metaspace_never"};
    for (int i = 0; i < 8; i++) {
        arena *a = arena_new("tokenizer");
        const char *dir = golden_path(a, arena_printf(a, "tokenizers/%s", names[i]));
        check c = {.name = names[i]};
        OK(tokenizer_open(a, dir, &c.t));
        c.e = encoder_new(c.t);
        each_line(path_join(a, dir, "cases.jsonl"), check_line, &c);
        each_line(path_join(a, dir, "cases.jsonl"), check_line, &c); // and from the cache
        assert_true(c.lines > 300);
        encoder_free(c.e);
        tokenizer_close(c.t);
        arena_free(a);
    }
}

typedef struct digest {
    EVP_MD_CTX *ids, *decoded;
    int64_t n;
} digest;

static void digest_end(EVP_MD_CTX *c, char out[65]) {
    unsigned char sum[32];
    EVP_DigestFinal_ex(c, sum, NULL);
    EVP_MD_CTX_free(c);
    for (int i = 0; i < 32; i++)
        snprintf(out + 2 * i, 3, "%02x", sum[i]);
}

// All documents of a file, with the ids and decoded texts one after the other.
static void check_file(const tokenizer *t, const char *name, const char *path, const json_t *want) {
    arena *a = arena_new("file");
    digest d = {EVP_MD_CTX_new(), EVP_MD_CTX_new(), 0};
    EVP_DigestInit_ex(d.ids, EVP_sha256(), NULL);
    EVP_DigestInit_ex(d.decoded, EVP_sha256(), NULL);
    reader *r;
    const char *inputs[] = {path};
    OK(reader_open(a, inputs, 1, &(reader_opts){.whole = !tokenizer_can_cut(t), .as_is = true},
            &r));
    text_batch *b = text_batch_new();
    encoder *e = encoder_new(t);
    id_list ids = {0};
    str text = {0};
    while (b->more) {
        OK(text_batch_read(b, r));
        OK(text_batch_decode(b, r, NULL, NULL));
        for (int i = 0; i < b->n; i++) {
            encoder_piece(e, &b->pieces[i], true, &ids);
            if (!b->pieces[i].ends) continue;
            str_clear(&text);
            tokenizer_decode(t, ids.p, ids.n, false, &text);
            EVP_DigestUpdate(d.ids, ids.p, sizeof *ids.p * (size_t)ids.n);
            EVP_DigestUpdate(d.decoded, text.p ? text.p : "", text.n);
            d.n += ids.n;
            ids.n = 0;
        }
    }
    char x[65], y[65];
    digest_end(d.ids, x);
    digest_end(d.decoded, y);
    if (d.n != json_integer_value(json_object_get(want, "n")) ||
            strcmp(x, json_string_value(json_object_get(want, "ids"))) != 0)
        fail_msg("%s: other ids for %s (%lld of them)", name, path, (long long)d.n);
    if (strcmp(y, json_string_value(json_object_get(want, "decoded"))) != 0)
        fail_msg("%s: other text decoded for %s", name, path);
    id_list_free(&ids);
    str_free(&text);
    encoder_free(e);
    text_batch_free(b);
    reader_close(r);
    arena_free(a);
}

// The tokenizers and texts of ../shared (tools/golden_shared_tokenizers.py).
static void real_tokenizers(void **state) {
    (void)state;
    arena *a = arena_new("shared");
    const char *data = arena_printf(a, "%s/../../shared/data", TEST_DIR), *name, *file;
    json_t *golden, *row, *want;
    if (!file_exists(data)) skip();
    OK(json_read_file(golden_path(a, "tokenizers/shared.json"), &golden));
    json_object_foreach(json_object_get(golden, "tokenizers"), name, row) {
        tokenizer *t;
        OK(tokenizer_open(a, path_join(a, data, name), &t));
        json_object_foreach(row, file, want) {
            const bool stress = strcmp(file, "stress") == 0;
            check_file(t, name,
                    stress ? golden_path(a, "tokenizers/stress.jsonl.gz")
                           : path_join(a, data, file),
                    want);
        }
        tokenizer_close(t);
    }
    json_decref(golden);
    arena_free(a);
}

static void count_line(void *ctx, int64_t number, const json_t *o) {
    (void)number;
    const json_t *text = json_object_get(o, "text");
    bpe_trainer_add(ctx,
            &(text_piece){json_string_value(text), json_string_length(text), true, true}, 0);
}

static void trains_the_same_merges(void **state) {
    (void)state;
    static const char *const names[] = {"gpt2", "llama3"};
    for (int i = 0; i < 2; i++) {
        arena *a = arena_new("trainer");
        static const char *const specials[] = {"<|endoftext|>"};
        const char *dir = temporary_dir(a);
        int64_t n;
        bpe_trainer *t = bpe_trainer_new(&(bpe_trainer_opts){.vocab_size = 700,
                .min_frequency = 2,
                .specials = specials,
                .n_specials = 1,
                .pattern = i ? split_pattern_llama3 : NULL});
        each_line(golden_path(a, "tokenizers/corpus.jsonl"), count_line, t);
        OK(bpe_trainer_finish(t, dir, &n));
        bpe_trainer_free(t);
        json_t *ours, *theirs;
        OK(json_read_file(path_join(a, dir, "tokenizer.json"), &ours));
        OK(json_read_file(golden_path(a, arena_printf(a, "tokenizers/%s/tokenizer.json", names[i])),
                &theirs));
        const char *const parts[] = {"merges", "vocab"};
        for (int k = 0; k < 2; k++) {
            const json_t *x = json_object_get(json_object_get(ours, "model"), parts[k]),
                         *y = json_object_get(json_object_get(theirs, "model"), parts[k]);
            for (size_t m = 0; k == 0 && m < json_array_size(y); m++)
                if (!json_equal(json_array_get(x, m), json_array_get(y, m)))
                    fail_msg("%s: merge %zu is %s, Hugging Face has %s", names[i], m,
                            json_dumps(json_array_get(x, m), 0),
                            json_dumps(json_array_get(y, m), 0));
            assert_true(json_equal(x, y));
        }
        json_decref(ours);
        json_decref(theirs);
        arena_free(a);
    }
}

static void refused_by_name(void **state) {
    (void)state;
    arena *a = arena_new("refused");
    const char *path = path_join(a, temporary_dir(a), "tokenizer.json");
    const struct {
        const char *json, *says;
    } cases[] = {{"{\"model\": {\"type\": \"Unigram\"}}", "model \"Unigram\" is not supported"},
            {"[]", "expected a JSON object"},
            {"{\"model\": {\"type\": \"BPE\", \"vocab\": {}, \"merges\": []}, \"normalizer\": "
             "{\"type\": \"Lowercase\"}}",
                    "normalizer \"Lowercase\""},
            {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": -1}, \"merges\": []}}",
                    "id of \"a\" is -1"},
            {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 0}, \"merges\": []}}",
                    "another entry has too"},
            {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [\"a b\"]}}",
                    "merge 0"},
            {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [3]}}",
                    "merge 0 is not a pair"},
            {"{\"model\": {\"type\": \"BPE\", \"vocab\": {}, \"merges\": []}, \"pre_tokenizer\": "
             "{\"type\": \"Punctuation\"}}",
                    "pre_tokenizer \"Punctuation\""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tokenizer *t;
        OK(file_write_atomic(path, cases[i].json, strlen(cases[i].json)));
        FAILS(tokenizer_open(a, path, &t), DRV_E_DATA, cases[i].says);
    }
    arena_free(a);
}

// A long text may be cut only where every rule and every merge allows it. The golden vocabulary of
// the sentencepiece style has entries with a space after a letter.
static void cuts(void **state) {
    (void)state;
    arena *a = arena_new("cuts");
    const char *path = path_join(a, temporary_dir(a), "tokenizer.json");
    const struct {
        const char *name;
        bool regex, can_cut; // regex: ByteLevel's own pattern is on
    } cases[] = {{"gpt2", true, true}, {"digits", true, true}, {"digits", false, false},
            {"llama3", false, true}, {"other", false, false}, {"sentencepiece", false, false},
            {"metaspace_split", false, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *root;
        size_t k;
        json_t *v;
        OK(json_read_file(golden_path(a,
                                  arena_printf(a, "tokenizers/%s/tokenizer.json", cases[i].name)),
                &root));
        json_array_foreach(json_object_get(json_object_get(root, "pre_tokenizer"), "pretokenizers"),
                k, v) if (json_object_get(v, "use_regex"))
                json_object_set_new(v, "use_regex", json_boolean(cases[i].regex));
        OK(json_write_file(path, root));
        tokenizer *t;
        OK(tokenizer_open(a, path, &t));
        if (tokenizer_can_cut(t) != cases[i].can_cut)
            fail_msg("%s, pattern %d: can_cut is %d", cases[i].name, cases[i].regex,
                    tokenizer_can_cut(t));
        tokenizer_close(t);
    }
    arena_free(a);
}

static void invalid_utf8(void **state) {
    (void)state;
    // Each maximal ill-formed part is one U+FFFD, as Python's and Rust's lossy decoders do.
    const struct {
        const char *in, *out;
        int n;
    } cases[] = {{"ok", "ok", 0}, {"\xFF", "\xEF\xBF\xBD", 1}, {"a\xC3", "a\xEF\xBF\xBD", 1},
            {"\xE2\x82z", "\xEF\xBF\xBDz", 1},
            {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD", 3},
            {"\xF0\x9F\x98", "\xEF\xBF\xBD", 1}, {"\xC0\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD", 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        str out = {0};
        assert_int_equal(utf8_sanitize(cases[i].in, strlen(cases[i].in), &out), cases[i].n);
        assert_string_equal(out.p, cases[i].out);
        str_free(&out);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_as_hugging_face),
            cmocka_unit_test(real_tokenizers), cmocka_unit_test(trains_the_same_merges),
            cmocka_unit_test(refused_by_name), cmocka_unit_test(cuts),
            cmocka_unit_test(invalid_utf8)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
