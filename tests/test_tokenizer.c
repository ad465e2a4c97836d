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

// --- golden cases: one tokenizer of each kind, some 300 texts each
typedef struct check {
    const char *name;
    tokenizer *t;
    encoder *e;
    int64_t lines, number; // seen; of the case at hand
} check;

static void check_ids(const check *c, const json_t *text, const json_t *ids, id_list *got) {
    const size_t n = json_string_length(text);
    char *exact = malloc(n + !n); // nothing may be read after it
    assert_non_null(exact);
    memcpy(exact, json_string_value(text), n);
    encoder_run(c->e, exact, n, true, got);
    free(exact);
    bool same = (size_t)got->n == json_array_size(ids);
    for (int64_t i = 0; same && i < got->n; i++)
        same = got->p[i] == json_integer_value(json_array_get(ids, (size_t)i));
    if (!same)
        fail_msg("%s, case %lld: other ids for \"%.80s\"", c->name, (long long)c->number,
                json_string_value(text));
}

static bool same_text(const str *got, const char *want, size_t n) {
    return got->n == n && (n == 0 || memcmp(got->p, want, n) == 0);
}

// Decoded at once, and id by id in whole characters.
static void check_text(const check *c, const id_list *ids, const char *want, size_t n) {
    str once = {0}, streamed = {0};
    tokenizer_decode(c->t, ids->p, ids->n, false, &once);
    if (!same_text(&once, want, n))
        fail_msg("%s, case %lld: decoded to \"%.80s\", expected \"%.80s\"", c->name,
                (long long)c->number, once.p ? once.p : "", want);
    stream_decoder d = {.t = c->t};
    for (int64_t i = 0; i < ids->n; i++)
        stream_decoder_add(&d, ids->p[i], &streamed);
    if (d.pending.n) utf8_sanitize(d.pending.p, d.pending.n, &streamed);
    if (!same_text(&streamed, want, n))
        fail_msg("%s, case %lld: streamed \"%.80s\", expected \"%.80s\"", c->name,
                (long long)c->number, streamed.p ? streamed.p : "", want);
    str_free(&d.pending);
    str_free(&streamed);
    str_free(&once);
}

static void check_line(void *ctx, int64_t number, const json_t *line) {
    check *c = ctx;
    const json_t *decoded = json_object_get(line, "decoded");
    id_list got = {0};
    c->number = number;
    check_ids(c, json_object_get(line, "text"), json_object_get(line, "ids"), &got);
    check_text(c, &got, json_string_value(decoded), json_string_length(decoded));
    id_list_free(&got);
    c->lines++;
}

TEST(same_as_hugging_face) {
    static const char *const names[] = {"gpt2", "llama3", "qwen2", "other", "digits",
            "sentencepiece", "metaspace_first", "metaspace_split", "metaspace_never"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *dir = golden_path(a, arena_printf(a, "tokenizers/%s", names[i]));
        check c = {.name = names[i]};
        OK(tokenizer_open(a, dir, &c.t));
        c.e = encoder_new(c.t);
        each_line(path_join(a, dir, "cases.jsonl"), check_line, &c);
        each_line(path_join(a, dir, "cases.jsonl"), check_line, &c); // and from the cache
        assert_true(c.lines > 300);
        encoder_free(c.e);
        tokenizer_close(c.t);
    }
}

// --- whole files, by the digests of their ids and texts
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

// A document: its ids and what they decode to.
static void digest_add(digest *d, const tokenizer *t, const id_list *ids) {
    str text = {0};
    tokenizer_decode(t, ids->p, ids->n, false, &text);
    EVP_DigestUpdate(d->ids, ids->p, sizeof *ids->p * (size_t)ids->n);
    EVP_DigestUpdate(d->decoded, text.p ? text.p : "", text.n);
    d->n += ids->n;
    str_free(&text);
}

// All documents of a file, one after the other.
static void digest_file(digest *sum, const tokenizer *tok, const char *path) {
    arena *a = arena_new("file");
    reader *in;
    const char *inputs[] = {path};
    OK(reader_open(a, inputs, 1, &(reader_opts){.whole = !tokenizer_can_cut(tok), .as_is = true},
            &in));
    text_batch *b = text_batch_new();
    encoder *e = encoder_new(tok);
    id_list ids = {0};
    while (b->more) {
        OK(text_batch_read(b, in));
        OK(text_batch_decode(b, in, NULL, NULL));
        for (int i = 0; i < b->n; i++) {
            encoder_piece(e, &b->pieces[i], true, &ids);
            if (!b->pieces[i].ends) continue;
            digest_add(sum, tok, &ids);
            ids.n = 0;
        }
    }
    id_list_free(&ids);
    encoder_free(e);
    text_batch_free(b);
    reader_close(in);
    arena_free(a);
}

static void check_file(const tokenizer *t, const char *name, const char *path, const json_t *want) {
    digest d = {EVP_MD_CTX_new(), EVP_MD_CTX_new(), 0};
    char ids[65], decoded[65];
    EVP_DigestInit_ex(d.ids, EVP_sha256(), NULL);
    EVP_DigestInit_ex(d.decoded, EVP_sha256(), NULL);
    digest_file(&d, t, path);
    digest_end(d.ids, ids);
    digest_end(d.decoded, decoded);
    if (d.n != json_integer_value(json_object_get(want, "n")) ||
            strcmp(ids, json_string_value(json_object_get(want, "ids"))) != 0)
        fail_msg("%s: other ids for %s (%lld of them)", name, path, (long long)d.n);
    if (strcmp(decoded, json_string_value(json_object_get(want, "decoded"))) != 0)
        fail_msg("%s: other text decoded for %s", name, path);
}

// The tokenizers and texts of ../shared (tools/golden_shared_tokenizers.py).
TEST(real_tokenizers) {
    const char *data = outside_path(TEST_DIR "/../../shared/data"), *name, *file;
    json_t *golden, *row, *want;
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
}

// --- small tokenizers, written here
#define MODEL(more, vocab)                                                                         \
    "\"model\": {\"type\": \"BPE\", " more "\"vocab\": {" vocab "}, \"merges\": [\"a b\"]}}"
#define LEVEL "{\"type\": \"ByteLevel\", \"add_prefix_space\": false}"
#define SPECIAL(text)                                                                              \
    "{\"id\": 4, \"content\": \"" text                                                             \
    "\", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "                           \
    "\"normalized\": false, \"special\": true}"

// What Hugging Face tokenizers 0.23.3 gives for each.
TEST(small_tokenizers) {
    static const struct {
        const char *story, *json, *text;
        int32_t ids[8]; // up to -1
        const char *decoded;
    } cases[] = {
            {"without a decoder tokens are joined by spaces",
                    "{" MODEL("", "\"a\": 0, \"b\": 1, \"ab\": 2, \"c\": 3"), "ababc",
                    {2, 2, 3, -1}, "ab ab c"},
            {"as the vocabulary writes them",
                    "{\"decoder\": null, \"pre_tokenizer\": " LEVEL ", " MODEL("",
                            "\"a\": 0, \"b\": 1, \"ab\": 2, \"\xC4\xA0\": 3, \"\xC3\x83\": 4, "
                            "\"\xC2\xA9\": 5"),
                    "ab \xC3\xA9 a", {2, 3, 4, 5, 3, 0, -1},
                    "ab \xC4\xA0 \xC3\x83 \xC2\xA9 \xC4\xA0 a"},
            {"special ones too",
                    "{\"added_tokens\": [" SPECIAL("<s>") "], " MODEL("",
                            "\"a\": 0, \"b\": 1, \"ab\": 2, \"d\": 3, \"e\": 4, \"c\": 5"),
                    "ab<s>a", {2, 6, 0, -1}, "ab <s> a"},
            {"a decoder that only joins leaves stand-ins",
                    "{\"decoder\": {\"type\": \"Fuse\"}, \"pre_tokenizer\": " LEVEL
                    ", " MODEL("", "\"a\": 0, \"b\": 1, \"ab\": 2, \"\xC4\xA0\": 3"),
                    "ab a", {2, 3, 0, -1},
                    "ab\xC4\xA0"
                    "a"},
            {"keys that share an id are all found",
                    "{" MODEL("", "\"a\": 0, \"b\": 1, \"ab\": 7, \"c\": 0, \"d\": 7"), "abcd",
                    {7, 0, 7, -1}, "ab a ab"},
            {"of a key that is there twice the last one counts, and it is one",
                    "{\"added_tokens\": [" SPECIAL("<s>") "], " MODEL("",
                            "\"a\": 0, \"b\": 1, \"ab\": 2, \"a\": 5, \"c\": 0"),
                    "ac<s>ab", {5, 0, 4, 2, -1}, "a c <s> ab"},
            {"of two added tokens with one id the later one is looked for",
                    "{\"added_tokens\": [" SPECIAL("<s>") ", " SPECIAL(
                            "<t>") "], " MODEL("", "\"a\": 0, \"b\": 1, \"ab\": 2, \"<s>\": 4"),
                    "a<t>b<s>ab", {0, 4, 1, 2, -1}, "a <t> b ab"},
    };
    const char *path = path_join(a, temporary_dir(a), "tokenizer.json");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check c = {.name = cases[i].story};
        id_list got = {0};
        int64_t n = 0;
        OK(file_write_atomic(path, cases[i].json, strlen(cases[i].json)));
        OK(tokenizer_open(a, path, &c.t));
        c.e = encoder_new(c.t);
        encoder_run(c.e, cases[i].text, strlen(cases[i].text), true, &got);
        while (cases[i].ids[n] >= 0)
            n++;
        if (got.n != n || memcmp(got.p, cases[i].ids, sizeof *got.p * (size_t)n) != 0)
            fail_msg("%s: other ids", cases[i].story);
        check_text(&c, &got, cases[i].decoded, strlen(cases[i].decoded));
        id_list_free(&got);
        encoder_free(c.e);
        tokenizer_close(c.t);
    }
}

// --- training
static void count_line(void *ctx, int64_t number, const json_t *o) {
    (void)number;
    const json_t *text = json_object_get(o, "text");
    bpe_trainer_add(ctx,
            &(text_piece){json_string_value(text), json_string_length(text), true, true}, 0);
}

// The tokenizer.json of 700 tokens that training on the golden corpus gives.
static json_t *train(arena *a, const char *pattern) {
    static const char *const specials[] = {"<|endoftext|>"};
    const char *dir = temporary_dir(a);
    int64_t n;
    json_t *root;
    bpe_trainer *t = bpe_trainer_new(&(bpe_trainer_opts){.vocab_size = 700,
            .min_frequency = 2,
            .specials = specials,
            .n_specials = 1,
            .pattern = pattern});
    each_line(golden_path(a, "tokenizers/corpus.jsonl"), count_line, t);
    OK(bpe_trainer_finish(t, dir, &n));
    bpe_trainer_free(t);
    OK(json_read_file(path_join(a, dir, "tokenizer.json"), &root));
    return root;
}

static void check_same_model(const char *name, const json_t *ours, const json_t *theirs) {
    const json_t *x = json_object_get(json_object_get(ours, "model"), "merges"),
                 *y = json_object_get(json_object_get(theirs, "model"), "merges");
    for (size_t i = 0; i < json_array_size(y); i++)
        if (!json_equal(json_array_get(x, i), json_array_get(y, i)))
            fail_msg("%s: merge %zu is %s, Hugging Face has %s", name, i,
                    json_dumps(json_array_get(x, i), 0), json_dumps(json_array_get(y, i), 0));
    assert_int_equal(json_array_size(x), json_array_size(y));
    assert_true(json_equal(json_object_get(json_object_get(ours, "model"), "vocab"),
            json_object_get(json_object_get(theirs, "model"), "vocab")));
}

TEST(trains_the_same_merges) {
    const struct {
        const char *name, *pattern;
    } cases[] = {{"gpt2", NULL}, {"llama3", split_pattern_llama3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *ours = train(a, cases[i].pattern), *theirs;
        OK(json_read_file(golden_path(a,
                                  arena_printf(a, "tokenizers/%s/tokenizer.json", cases[i].name)),
                &theirs));
        check_same_model(cases[i].name, ours, theirs);
        json_decref(ours);
        json_decref(theirs);
    }
}

// --- what is refused, and where texts may be cut
#define UNIGRAM(pieces, unknown)                                                                   \
    "{\"model\": {\"type\": \"Unigram\", \"vocab\": [" pieces "], \"unk_id\": " unknown "}"

TEST(refused_by_name) {
    const char *path = path_join(a, temporary_dir(a), "tokenizer.json");
    const struct {
        const char *json, *says;
    } cases[] = {{"{\"model\": {\"type\": \"WordPiece\"}}", "model \"WordPiece\" is not supported"},
            {UNIGRAM("[\"a\", -1]", "0") ", \"normalizer\": {\"type\": \"Precompiled\", "
                                         "\"precompiled_charsmap\": \"!\"}}",
                    "precompiled_charsmap is not Base64"},
            {UNIGRAM("[\"a\", -1]", "0") ", \"normalizer\": {\"type\": \"Precompiled\", "
                                         "\"precompiled_charsmap\": \"eHl6\"}}",
                    "precompiled_charsmap: 3 bytes"},
            {UNIGRAM("[\"a\", -1]",
                     "0") ", \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": "
                          "[{\"type\": \"NFC\"}, {\"type\": \"Strip\", \"strip_left\": true}]}}",
                    "after NFC, Prepend or Replace of a space, normalizer \"Strip\""},
            {UNIGRAM("[\"a\", -1]", "0") ", \"pre_tokenizer\": {\"type\": \"WhitespaceSplit\"}}",
                    "without Metaspace, pre_tokenizer \"WhitespaceSplit\""},
            {UNIGRAM("[\"a\", -1]", "0") ", \"pre_tokenizer\": {\"type\": \"ByteLevel\"}}",
                    "beside ByteLevel, model \"Unigram\""},
            {UNIGRAM("", "0") "}", "a unigram model has 0 pieces"},
            {UNIGRAM("[\"a\"]", "0") "}", "entry 0 of model.vocab is not a text and its score"},
            {UNIGRAM("[\"a\", -1]", "1") "}",
                    "unk_id is missing or not the id of a piece, expected 0 to 0"},
            {UNIGRAM("[\"a\", -1]", "null") "}", "unk_id is missing"},
            {"{\"model\": {\"type\": \"Unigram\", \"unk_id\": 0}}",
                    "without vocab, model \"Unigram\""},
            {"[]", "expected a JSON object"},
            {"{\"model\": {\"type\": \"BPE\", \"vocab\": {}, \"merges\": []}, \"normalizer\": "
             "{\"type\": \"Lowercase\"}}",
                    "normalizer \"Lowercase\""},
            {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": -1}, \"merges\": []}}",
                    "id of \"a\" is -1"},
            {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [], "
             "\"unk_token\": \"<gone>\"}}",
                    "tokenizer.json: unk_token \"<gone>\" is not in model.vocab"},
            {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": []}, \"decoder\": "
             "{\"type\": \"ByteLevel\"}}",
                    "without such a pre_tokenizer, decoder \"ByteLevel\""},
            {"{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": []}, \"decoder\": "
             "{\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}}",
                    "decoder Strip before \"Fuse\""},
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
}

// A golden tokenizer, with ByteLevel's own pattern on or off where it has one.
static tokenizer *open_with_pattern(arena *a, const char *path, const char *name, bool pattern) {
    json_t *root, *part;
    size_t i;
    tokenizer *t;
    OK(json_read_file(golden_path(a, arena_printf(a, "tokenizers/%s/tokenizer.json", name)),
            &root));
    json_array_foreach(json_object_get(json_object_get(root, "pre_tokenizer"), "pretokenizers"), i,
            part) if (json_object_get(part, "use_regex"))
            json_object_set_new(part, "use_regex", json_boolean(pattern));
    OK(json_write_file(path, root));
    OK(tokenizer_open(a, path, &t));
    return t;
}

// A long text may be cut only where every rule and every merge allows it. The golden vocabulary of
// the sentencepiece style has entries with a space after a letter.
TEST(cuts) {
    const char *path = path_join(a, temporary_dir(a), "tokenizer.json");
    static const struct {
        const char *name;
        bool pattern, can_cut;
    } cases[] = {{"gpt2", true, true}, {"digits", true, true}, {"digits", false, false},
            {"llama3", false, true}, {"other", false, false}, {"sentencepiece", false, false},
            {"metaspace_split", false, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tokenizer *t = open_with_pattern(a, path, cases[i].name, cases[i].pattern);
        if (tokenizer_can_cut(t) != cases[i].can_cut)
            fail_msg("%s, pattern %d: can_cut is %d", cases[i].name, cases[i].pattern,
                    tokenizer_can_cut(t));
        tokenizer_close(t);
    }
}

TEST(invalid_utf8) {
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
