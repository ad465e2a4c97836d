// Rows of evaluation and splits, what is said of a data set beside it, and the check of its tokens:
// every token once, nothing silently empty, nothing outside the vocabulary unnoticed.
#include "harness.h"

#include <unistd.h>

#include "data/set/dataset_writer.h"
#include "data/set/vocab_check.h"
#include "read_row.h"

enum { WIDTH = 8, VOCAB = 60000 };

// A data set whose tokens count up from `first`, n_vocab as for the writer.
static const char *write_set(arena *a, const char *name, const int *sizes, int n, int32_t first,
        int64_t n_vocab) {
    const char *prefix = path_join(a, temporary_dir(a), name);
    dataset_writer *w;
    int32_t next = first;
    OK(dataset_writer_open(a, prefix, n_vocab, 0, 0, false, &w));
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < sizes[i]; k++, next++)
            OK(dataset_writer_add(w, &next, 1));
        OK(dataset_writer_end_document(w));
    }
    OK(dataset_writer_finish(w));
    return prefix;
}

static rows *open_rows(arena *a, const row_source_spec *s, int n, rows_opts o) {
    rows *r;
    o.sources = s;
    o.n_sources = n;
    o.row_tokens = WIDTH;
    o.n_vocab = VOCAB;
    OK(rows_open(a, &o, &r));
    return r;
}

// --- in order
// Three sets of unequal sizes and weights: in rows_per_epoch rows each token once, and each
// predicted once but for the first ones of documents; a second epoch gives the same again; any seek
// goes on with the same.
TEST(evaluation_sees_every_token_once) {
    const row_source_spec spec[] = {{write_set(a, "one", (int[]){13, 1, 40, 0, 7}, 5, 100, VOCAB),
                                            0.1},
            {write_set(a, "two", (int[]){90, 2}, 2, 300, VOCAB), 7},
            {write_set(a, "skipped", (int[]){5}, 1, 500, VOCAB), 0},
            {write_set(a, "three", (int[]){33}, 1, 600, VOCAB), 1}};
    enum { N = (61 + 6) / WIDTH + (92 + 6) / WIDTH + (33 + 6) / WIDTH, TOKENS = 61 + 92 + 33 };
    rows *stream = open_rows(a, spec, 4, (rows_opts){.packing = PACKING_DOCUMENTS});
    assert_int_equal(rows_per_epoch(stream), N);
    int32_t first[N][WIDTH], tokens[WIDTH], position[WIDTH], labels[WIDTH];
    static int seen[1000], predicted[1000];
    int all = 0;
    int64_t counted = 0;
    for (int i = 0; i < 2 * N; i++) {
        OK(read_row(stream, tokens, position, labels, &counted));
        if (i >= N) {
            assert_memory_equal(tokens, first[i - N], sizeof tokens);
            continue;
        }
        memcpy(first[i], tokens, sizeof tokens);
        for (int k = 0; k < WIDTH; k++) {
            seen[tokens[k]]++;
            if (labels[k] >= 0) predicted[labels[k]]++;
        }
    }
    for (int i = 100; i < 1000; i++) {
        all += seen[i];
        assert_true(seen[i] <= 1 && predicted[i] <= 1);
    }
    assert_int_equal(all,
            TOKENS - 1); // the last one of `three` is only predicted: it would begin a row
    assert_int_equal(counted, 2 * (TOKENS - 7));
    for (int i = 0; i < 2 * N; i++) {
        rows_seek(stream, i);
        OK(read_row(stream, tokens, position, labels, &counted));
        assert_memory_equal(tokens, first[i % N], sizeof tokens);
    }
    rows_close(stream);
}

// --- splits
TEST(one_document_is_split_by_tokens) {
    const row_source_spec spec = {write_set(a, "one", (int[]){1000}, 1, 0, VOCAB), 1},
                          pair = {write_set(a, "pair", (int[]){700, 300}, 2, 0, VOCAB), 1};
    const struct {
        const row_source_spec *spec;
        rows_part part;
        int first, tokens;
    } cases[] = {{&spec, PART_TRAIN, 0, 969}, {&spec, PART_VALID, 969, 30},
            {&pair, PART_TRAIN, 0, 969}, {&pair, PART_VALID, 969, 30}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rows *r = open_rows(a, cases[i].spec, 1,
                (rows_opts){.packing = PACKING_DOCUMENTS,
                        .split = {969, 30, 1},
                        .part = cases[i].part});
        int32_t tokens[WIDTH], position[WIDTH], labels[WIDTH];
        int64_t counted = 0;
        assert_int_equal(rows_per_epoch(r), (cases[i].tokens - 2) / WIDTH + 1);
        for (int64_t k = 0; k < rows_per_epoch(r); k++) {
            OK(read_row(r, tokens, position, labels, &counted));
            if (k == 0) assert_int_equal(tokens[0], cases[i].first);
            for (int j = 0; j < WIDTH; j++)
                assert_true(labels[j] < cases[i].first + cases[i].tokens);
        }
        // All but the first one of each document in the part.
        const bool crosses = cases[i].spec == &pair && cases[i].part == PART_TRAIN;
        assert_int_equal(counted, cases[i].tokens - 1 - crosses);
        rows_close(r);
    }
    // Enough documents: between them, as ever.
    const row_source_spec two = {write_set(a, "two", (int[]){700, 300}, 2, 0, VOCAB), 1};
    rows *r = open_rows(a, &two, 1, (rows_opts){.packing = PACKING_DOCUMENTS, .split = {1, 1}});
    assert_int_equal(rows_per_epoch(r), (700 - 2) / WIDTH + 1);
    rows_close(r);
}

TEST(nothing_to_predict_is_refused) {
    const row_source_spec lone = {write_set(a, "lone", (int[]){1, 1, 0, 1, 1}, 5, 0, VOCAB), 1},
                          empty = {write_set(a, "empty", (int[]){0}, 0, 0, VOCAB), 1},
                          small = {write_set(a, "small", (int[]){9}, 1, 0, VOCAB), 1};
    const struct {
        const row_source_spec *s;
        rows_opts o;
        const char *says;
    } cases[] = {{&lone, {.packing = PACKING_DOCUMENTS},
                         "lone: nothing to predict: none of its documents"},
            {&empty, {0}, "empty: nothing to predict"},
            {&small, {.packing = PACKING_DOCUMENTS, .split = {90, 10}, .part = PART_VALID},
                    "data.split leaves 1 of 9 tokens for validation"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rows *r;
        rows_opts o = cases[i].o;
        o.sources = cases[i].s;
        o.n_sources = 1;
        o.row_tokens = WIDTH;
        o.n_vocab = VOCAB;
        FAILS(rows_open(a, &o, &r), DRV_E_DATA, cases[i].says);
    }
    // As one stream the same documents predict each other.
    rows *r = open_rows(a, &lone, 1, (rows_opts){.packing = PACKING_STREAM});
    int32_t tokens[WIDTH], position[WIDTH], labels[WIDTH];
    int64_t counted = 0;
    OK(read_row(r, tokens, position, labels, &counted));
    assert_int_equal(counted, 3);
    rows_close(r);
}

// --- PREFIX.idx.json
static void about(const char *prefix, const dataset_about *x) {
    arena *a = arena_new("about");
    dataset *d;
    OK(dataset_open(a, prefix, &d));
    OK(dataset_about_write(d, x));
    dataset_close(d);
    arena_free(a);
}

static const dataset_about said = {.drover = "1.2",
        .tokenizer = "tok/tokenizer.json",
        .tokenizer_hash = "00ff",
        .n_vocab = 50,
        .eod = 0,
        .eod_text = "<|end|>",
        .largest_id = 16,
        .largest_at = 6};

TEST(what_is_said_comes_back) {
    const char *prefix = write_set(a, "set", (int[]){3, 4}, 2, 10, VOCAB);
    dataset *d;
    OK(dataset_open(a, prefix, &d));
    assert_false(d->about.known);
    dataset_close(d);
    about(prefix, &said);
    OK(dataset_open(a, prefix, &d));
    assert_true(d->about.known);
    assert_string_equal(d->about.drover, "1.2");
    assert_string_equal(d->about.tokenizer, "tok/tokenizer.json");
    assert_string_equal(d->about.tokenizer_hash, "00ff");
    assert_string_equal(d->about.eod_text, "<|end|>");
    assert_int_equal(d->about.n_vocab, 50);
    assert_int_equal(d->about.eod, 0);
    assert_int_equal(d->about.largest_id, 16);
    dataset_close(d);
}

// What is wrong is named and not believed.
TEST(what_is_wrong_is_not_believed) {
    static const struct {
        const char *from, *to, *says;
    } cases[] = {{"{", "[", "not valid JSON"},
            {"\"tokens\": 7", "\"tokens\": 8", "\"tokens\" is 8, expected 7"},
            {"\"documents\": 2", "\"x\": 2", "\"documents\" is -1, expected 2"},
            {"\"idx_xxh3\": \"", "\"idx_xxh3\": \"0", "\"idx_xxh3\""},
            {"\"vocab_size\": 50", "\"vocab_size\": \"50\"", "\"vocab_size\" is \"50\""},
            {"\"id\": 0", "\"id\": 4294967296", "end_of_document.id"},
            {"\"token\": 6", "\"token\": 7", "\"largest.token\" is 7, expected 0 to 6"},
            {"\"largest\": {", "\"largest\": 3, \"x\": {", "\"largest\" is not an object"}};
    const char *prefix = write_set(a, "set", (int[]){3, 4}, 2, 10, VOCAB),
               *path = arena_printf(a, "%s.idx.json", prefix);
    dataset *d;
    char *good;
    size_t n;
    about(prefix, &said);
    OK(dataset_open(a, prefix, &d));
    OK(file_read(a, path, &good, &n));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        str bad = {0};
        dataset_about x;
        str_replace(&bad, good, n, cases[i].from, cases[i].to);
        assert_false(bad.n == n && memcmp(bad.p, good, n) == 0);
        FAILS(dataset_about_parse(a, d, path, bad.p, bad.n, &x), DRV_E_DATA, cases[i].says);
        assert_false(x.known);
        str_free(&bad);
    }
    dataset_close(d);
}

// --- the vocabulary
TEST(tokens_outside_are_found) {
    // 3 MB of u16 and i32: more than a piece of the reader; the bad token is the last one.
    static int sizes[3];
    sizes[0] = 40000, sizes[1] = 0, sizes[2] = 10000;
    for (int wide = 0; wide < 2; wide++) {
        const char *prefix =
                write_set(a, wide ? "wide" : "narrow", sizes, 3, 0, wide ? 70000 : 60000);
        const row_source_spec s = {prefix, 1};
        for (int known = 0; known < 2; known++) {
            const dataset_about x = {.eod = -1, .largest_id = 49999, .largest_at = 49999};
            if (known) about(prefix, &x);
            rows *r = open_rows(a, &s, 1, (rows_opts){.packing = PACKING_DOCUMENTS});
            const dataset *d = rows_source(r, 0);
            assert_int_equal(dataset_knows_largest(d), known);
            OK(dataset_check_vocab(d, 50000, NULL));
            FAILS(dataset_check_vocab(d, 49999, NULL), DRV_E_DATA,
                    ".bin: token 49999 (in document 2) is 49999, expected 0 to 49998: the "
                    "vocabulary has 49999 entries");
            FAILS(dataset_check_vocab(d, 40000, NULL), DRV_E_DATA,
                    known ? "token 49999" : "token 40000 (in document 2) is 40000");
            rows_close(r);
        }
    }
}

// What is said of other tokens than those that lie there is not believed.
TEST(a_wrong_largest_id_is_not_believed) {
    const char *prefix = write_set(a, "set", (int[]){9}, 1, 100, VOCAB);
    about(prefix, &(dataset_about){.eod = -1, .largest_id = 50, .largest_at = 3});
    dataset *d;
    OK(dataset_open(a, prefix, &d));
    assert_true(d->about.known);
    assert_false(dataset_knows_largest(d));
    FAILS(dataset_check_vocab(d, 60, NULL), DRV_E_DATA, "token 0 (in document 0) is 100");
    dataset_close(d);
}

TEST(checked_beside_the_caller) {
    const row_source_spec spec[] = {{write_set(a, "good", (int[]){500}, 1, 0, VOCAB), 1},
            {write_set(a, "bad", (int[]){500}, 1, VOCAB - 100, VOCAB + 6000), 1}};
    rows *good = open_rows(a, spec, 1, (rows_opts){.packing = PACKING_STREAM}),
         *both = open_rows(a, spec, 2, (rows_opts){.packing = PACKING_STREAM});
    const rows *list[] = {good, both};
    vocab_check check;
    OK(vocab_check_start(a, list, 1, &check));
    OK(vocab_check_wait(&check));
    assert_true(vocab_check_done(&check));
    OK(vocab_check_start(a, list, 2, &check));
    assert_int_equal(check.n_slow, 2); // `good` is shared
    FAILS(vocab_check_wait(&check), DRV_E_DATA, "bad.bin: token 100 (in document 0) is 60000");
    OK(vocab_check_start(a, list, 2, &check));
    vocab_check_cancel(&check);
    atomic_bool stop = true;
    OK(dataset_check_vocab(rows_source(both, 1), VOCAB, &stop));
    rows_close(good);
    // What is known costs no thread, and is refused at once.
    about(spec[0].prefix, &(dataset_about){.eod = -1, .largest_id = 499, .largest_at = 499});
    about(spec[1].prefix,
            &(dataset_about){.eod = -1, .largest_id = VOCAB + 399, .largest_at = 499});
    good = open_rows(a, spec, 1, (rows_opts){.packing = PACKING_STREAM});
    list[0] = good;
    OK(vocab_check_start(a, list, 1, &check));
    assert_true(vocab_check_done(&check) && check.n_slow == 0);
    OK(vocab_check_wait(&check));
    rows_close(both);
    both = open_rows(a, spec, 2, (rows_opts){.packing = PACKING_STREAM});
    list[1] = both;
    FAILS(vocab_check_start(a, list, 2, &check), DRV_E_DATA, "token 499 (in document 0) is 60399");
    rows_close(good);
    rows_close(both);
}

// --- the fingerprint
TEST(fingerprints_tell_rows_apart) {
    const row_source_spec spec[] = {{write_set(a, "one", (int[]){50, 60, 70}, 3, 0, VOCAB), 3},
            {write_set(a, "two", (int[]){50, 70, 60}, 3, 0, VOCAB), 1}};
    const rows_opts base = {.shuffle = true,
            .packing = PACKING_DOCUMENTS,
            .seed = 7,
            .split = {5, 3}};
    rows_opts other = base;
    about(spec[0].prefix, &(dataset_about){.tokenizer_hash = "00ff", .eod = -1, .largest_id = -1});
    rows *stream = open_rows(a, spec, 2, base);
    json_t *print = rows_fingerprint(stream);
    // All of it; the paths and the hashes of the indexes are looked at apart.
    static const char want[] =
            "{\"part\":\"train\",\"row_tokens\":8,\"seed\":7,\"shuffle\":true,\"sources\":["
            "{\"documents\":3,\"idx_xxh3\":\"\",\"long\":null,\"loss\":\"all\",\"packing\":\"documents\","
            "\"prefix\":\"\",\"roles_xxh3\":null,\"split_by\":\"documents\",\"tokenizer_xxh3\":\"00ff\","
            "\"tokens\":180,\"weight\":0.75},"
            "{\"documents\":3,\"idx_xxh3\":\"\",\"long\":null,\"loss\":\"all\",\"packing\":\"documents\","
            "\"prefix\":\"\",\"roles_xxh3\":null,\"split_by\":\"documents\",\"tokenizer_xxh3\":null,"
            "\"tokens\":180,\"weight\":0.25}],\"split\":[0.625,0.375,0.0]}";
    json_t *rest = json_deep_copy(print), *source, *hash[2];
    for (int i = 0; i < 2; i++) {
        source = json_array_get(json_object_get(rest, "sources"), (size_t)i);
        assert_string_equal(json_string_value(json_object_get(source, "prefix")), spec[i].prefix);
        hash[i] = json_incref(json_object_get(source, "idx_xxh3"));
        json_object_set_new(source, "prefix", json_string(""));
        json_object_set_new(source, "idx_xxh3", json_string(""));
    }
    char *text = json_dumps(rest, JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(text, want);
    // Equal sizes but other documents: another hash.
    assert_false(json_equal(hash[0], hash[1]));
    json_decref(hash[0]);
    json_decref(hash[1]);
    json_decref(rest);
    free(text);
    rows_close(stream);
    stream = open_rows(a, spec, 2, base);
    json_t *again = rows_fingerprint(stream);
    assert_true(json_equal(print, again));
    json_decref(again);
    rows_close(stream);
    other.split[1] = 2;
    stream = open_rows(a, spec, 2, other);
    again = rows_fingerprint(stream);
    assert_false(json_equal(print, again));
    json_decref(again);
    rows_close(stream);
    json_decref(print);
}

// Documents that begin in a row, those that fill it up among them.
static int64_t most_begun(rows *r) {
    int64_t most = 0, counted = 0;
    for (int64_t row = 0; row < rows_per_epoch(r); row++) {
        int32_t tokens[WIDTH], position[WIDTH], labels[WIDTH];
        int64_t n = 0;
        OK(read_row(r, tokens, position, labels, &counted));
        for (int k = 0; k < WIDTH; k++)
            n += position[k] == 0;
        if (n > most) most = n;
    }
    return most;
}

// Random lengths, also of nothing and of several rows: no row has more than is told, and one has as
// many where no document is empty.
TEST(documents_of_a_row_are_bounded) {
    static const rows_packing packings[] = {PACKING_DOCUMENTS, PACKING_STREAM, PACKING_EXAMPLES};
    for (uint64_t seed = 0; seed < 20; seed++) {
        const rng_key key = {seed, RNG_TEST, 9};
        int sizes[12];
        bool has_empty = false;
        for (int i = 0; i < 12; i++) {
            sizes[i] = (int)(rng_u64(&key, (uint64_t)i) % (i % 3 ? 4 : 20));
            has_empty |= sizes[i] == 0;
        }
        sizes[0] += 2; // something to predict
        const row_source_spec spec[] = {{write_set(a, "set", sizes, 12, 1, VOCAB), 1}};
        for (size_t i = 0; i < sizeof packings / sizeof *packings; i++) {
            rows *r = open_rows(a, spec, 1, (rows_opts){.packing = packings[i]});
            const int64_t bound = rows_most_documents(r), most = most_begun(r);
            if (most > bound || (!has_empty && most < bound))
                fail_msg("seed %llu, packing %zu: %lld documents, told %lld",
                        (unsigned long long)seed, i, (long long)most, (long long)bound);
            rows_close(r);
        }
    }
}

int main(void) {
    par_set_threads(2);
    return tests_run();
}
