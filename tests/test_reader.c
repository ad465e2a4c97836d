// Documents from files: Parquet against rows that pyarrow wrote (tools/golden_parquet.py), JSON
// lines against jansson, packed files, globs, long texts in pieces; and word counts that spill.
#include "harness.h"

#include <openssl/evp.h>
#include <zlib.h>

#include "base/json.h"
#include "base/json_cursor.h"
#include "base/rng.h"
#include "data/read/long_json.h"
#include "data/read/record_source.h"
#include "data/read/text_batch.h"
#include "tok/train_words.h"

static drv_status column(const char *path, const char *name, json_t **out) {
    const reader_opts opts = {.key = name};
    record_source source;
    *out = json_array();
    DRV_TRY(record_source_open(&(input_file){.kind = INPUT_PARQUET, .path = path}, &opts, &source));
    str value = {0};
    bool done = false;
    drv_status s = DRV_OK;
    while (s == DRV_OK && !done) {
        record row = {0};
        str_clear(&value);
        s = record_source_next(&source, &value, &row, &done);
        if (s == DRV_OK && !done)
            json_array_append_new(*out,
                    row.broken ? json_null()
                               : json_stringn_nocheck(value.p ? value.p : "", value.n));
    }
    str_free(&value);
    record_source_close(&source);
    return s;
}

static json_t *golden_rows(arena *a) {
    json_t *rows = json_array();
    char *text;
    size_t n;
    OK(file_read(a, golden_path(a, "parquet/rows.jsonl"), &text, &n));
    for (char *rest = text, *line; (line = strsep(&rest, "\n")) && *line;) {
        json_t *o = json_loads(line, 0, NULL);
        json_array_append(rows, json_object_get(o, "text"));
        json_decref(o);
    }
    return rows;
}

TEST(parquet_rows) {
    json_t *want = golden_rows(a), *got;
    const char *dir = golden_path(a, "parquet");
    char **names;
    int n_records, read = 0;
    OK(dir_list(a, dir, &names, &n_records));
    for (int i = 0; i < n_records; i++) {
        const char *path = path_join(a, dir, names[i]);
        if (!strstr(names[i], "_v") && strcmp(names[i], "nested.parquet") != 0) continue;
        OK(column(path, "text", &got));
        if (!json_equal(got, want)) fail_msg("%s: other rows", names[i]);
        json_decref(got);
        read++;
    }
    assert_int_equal(read, 17);
    OK(column(path_join(a, dir, "nested.parquet"), "page.title", &got));
    for (size_t i = 0; i < json_array_size(want); i++)
        assert_true(json_equal(json_array_get(got, i),
                i % 5 ? json_array_get(want, i) : json_array_get(want, 2)));
    json_decref(got);
    OK(column(path_join(a, dir, "empty.parquet"), "text", &got));
    assert_int_equal(json_array_size(got), 0);
    json_decref(got);
    OK(column(path_join(a, dir, "required.parquet"), "text", &got));
    assert_string_equal(json_string_value(json_array_get(got, 0)), "-");
    json_decref(got);
    const struct {
        const char *file, *column, *says;
    } bad[] = {{"numbers.parquet", "text", "none of its columns is one: "},
            {"nested.parquet", "txt", "it has \"text\", \"page.title\", \"page.body\""},
            {"nested.parquet", "tags", "no string column \"tags\""},
            {"brotli.parquet", "text", "brotli is not supported"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        FAILS(column(path_join(a, dir, bad[i].file), bad[i].column, &got), DRV_E_DATA, bad[i].says);
        json_decref(got);
    }
    json_decref(want);
}

// Any file cut short or with a wrong byte is refused or read, never more.
TEST(parquet_broken) {
    static const char *const files[] = {"none_dict_v1", "zstd_DELTA_BYTE_ARRAY_v2", "nested"};
    const char *path = path_join(a, temporary_dir(a), "x.parquet");
    json_t *got;
    for (int f = 0; f < 3; f++) {
        char *good;
        size_t n;
        OK(file_read(a, golden_path(a, arena_printf(a, "parquet/%s.parquet", files[f])), &good,
                &n));
        char *bytes = arena_alloc(a, n);
        for (size_t i = 0; i < n; i += 7) {
            OK(file_write_atomic(path, good, i));
            assert_int_not_equal(column(path, "text", &got), DRV_OK);
            json_decref(got);
            memcpy(bytes, good, n);
            bytes[i] ^= (char)(1 << i % 8);
            OK(file_write_atomic(path, bytes, n));
            drv_status s = column(path, "text", &got);
            if (s != DRV_OK) assert_non_null(strstr(drv_message(), "x.parquet"));
            json_decref(got);
        }
    }
}

// The files of ../shared, by the digests that their makers gave.
TEST(parquet_of_others) {
    const char *dir = outside_path(TEST_DIR "/../../shared/data/parquet/made");
    json_t *list;
    OK(json_read_file(path_join(a, dir, "expectations.json"), &list));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *event = json_array_get(list, i);
        const char *file = json_string_value(json_object_get(event, "file"));
        json_t *got;
        OK(column(path_join(a, dir, file), "text", &got));
        assert_int_equal(json_array_size(got), json_integer_value(json_object_get(event, "rows")));
        EVP_MD_CTX *c = EVP_MD_CTX_new();
        EVP_DigestInit_ex(c, EVP_sha256(), NULL);
        for (size_t k = 0; k < json_array_size(got); k++) {
            const json_t *v = json_array_get(got, k);
            const uint64_t n = json_string_length(v);
            EVP_DigestUpdate(c, json_is_null(v) ? "\0" : "\1", 1);
            if (json_is_null(v)) continue;
            EVP_DigestUpdate(c, &n, 8);
            EVP_DigestUpdate(c, json_string_value(v), n);
        }
        unsigned char sum[32];
        char text[65];
        EVP_DigestFinal_ex(c, sum, NULL);
        EVP_MD_CTX_free(c);
        for (int k = 0; k < 32; k++)
            snprintf(text + 2 * k, 3, "%02x", sum[k]);
        if (strcmp(text, json_string_value(json_object_get(event, "sha256"))) != 0)
            fail_msg("%s: other texts", file);
        json_decref(got);
    }
    json_decref(list);
}

// --- JSON lines and text
typedef struct texts {
    str joined; // documents, each after a 0x1E
    int documents;
    int64_t pieces, skipped, replaced;
} texts;

static texts read_all(arena *a, const char *const *inputs, int n_records, const reader_opts *opts) {
    texts t = {{0}, 0, 0, 0, 0};
    reader *r;
    text_batch *b = text_batch_new();
    OK(reader_open(a, inputs, n_records, opts, &r));
    while (b->more) {
        OK(text_batch_read(b, r));
        OK(text_batch_decode(b, r, NULL, NULL));
        for (int i = 0; i < b->n; i++) {
            if (!b->pieces[i].p) continue;
            t.pieces++;
            if (b->pieces[i].begins) str_add(&t.joined, "\x1E", 1);
            str_add(&t.joined, b->pieces[i].p, b->pieces[i].n);
            t.documents += b->pieces[i].ends;
        }
        t.skipped += b->skipped;
        t.replaced += b->replaced;
    }
    text_batch_free(b);
    reader_close(r);
    return t;
}

TEST(json_lines) {
    static const char *const lines[] = {"{\"text\": \"a\"}",
            "{\"text\":\"\\u00e9\\ud83d\\ude00\\n\"}",
            " { \"x\" : [1, {\"text\": \"no\"}, null, -1.5e+3, true], \"text\" : \"yes\" } ",
            "{\"text\": \"first\", \"text\": \"second\"}", "{\"te\\u0078t\": \"escaped key\"}",
            "{\"text\": 1}", "{\"text\": null}", "{}", "[]", "\"text\"", "{\"text\": \"a\"} x",
            "{\"text\": \"a\",}", "{\"text\": \"a\\x\"}", "{\"text\": \"tab\there\"}",
            "{\"text\": \"a", "{\"text\" \"a\"}", "{\"n\": 01, \"text\": \"a\"}",
            "{\"n\": 1., \"text\": \"a\"}", "{\"n\": -, \"text\": \"a\"}",
            "{\"n\": 1e, \"text\": \"a\"}", "{\"n\": tru, \"text\": \"a\"}",
            "{\"text\": \"\\u0000\"}", "{'text': 'a'}", "{\"text\": \"\\ud83d\\u0041\"}",
            "{\"n\": [[[[]]]], \"text\": \"12345678\\\\\\\"90\"}", "{\"text\": \"\"}"};
    const int n = sizeof lines / sizeof *lines;
    const char *path = path_join(a, temporary_dir(a), "x.jsonl"), *inputs[] = {path};
    for (int i = 0; i < n; i++) {
        OK(file_write_atomic(path, lines[i], strlen(lines[i])));
        texts t = read_all(a, inputs, 1, &(reader_opts){0});
        json_t *o = json_loads(lines[i], JSON_ALLOW_NUL, NULL), *want = json_object_get(o, "text");
        const bool half = strstr(lines[i], "ud83d\\u0041"); // jansson refuses half a pair
        if (t.documents != (json_is_string(want) || half))
            fail_msg("%s: %d documents", lines[i], t.documents);
        if (half)
            assert_string_equal(t.joined.p, "\x1E\xEF\xBF\xBD"
                                            "A");
        else if (t.documents)
            assert_memory_equal(t.joined.p + 1, json_string_value(want),
                    json_string_length(want) + 1);
        assert_int_equal(t.skipped, t.documents ? 0 : 1);
        json_decref(o);
        str_free(&t.joined);
    }
}

// A long document comes in pieces that are the whole; separators are found at any place.
TEST(pieces) {
    const char *dir = temporary_dir(a), *path = path_join(a, dir, "x.txt"), *inputs[] = {path};
    str text = {0}, want = {0};
    for (uint64_t i = 0; text.n < (5 << 20) + 12345; i++) {
        const rng_key key = {1, RNG_TEST, 9};
        str_printf(&text, "word%llu %s", (unsigned long long)(rng_u64(&key, i) % 1000),
                i % 130000 == 129999 ? "<end of doc>" : "x and \xC3\xA9 ");
    }
    OK(file_write_atomic(path, text.p, text.n));
    texts t = read_all(a, inputs, 1, &(reader_opts){0});
    assert_int_equal(t.documents, 1);
    assert_true(t.pieces >= 4);
    assert_int_equal(t.joined.n, text.n + 1);
    assert_memory_equal(t.joined.p + 1, text.p, text.n);
    str_free(&t.joined);
    t = read_all(a, inputs, 1, &(reader_opts){.whole = true});
    assert_int_equal(t.pieces, 1);
    str_free(&t.joined);
    t = read_all(a, inputs, 1, &(reader_opts){.separator = "<end of doc>"});
    str_add(&want, "\x1E", 1);
    str_replace(&want, text.p, text.n, "<end of doc>", "\x1E");
    assert_int_equal(t.joined.n, want.n);
    assert_memory_equal(t.joined.p, want.p, want.n);
    assert_true(t.documents > 2 && t.pieces > t.documents);
    str_free(&t.joined);
    str_free(&want);
    str_free(&text);
}

TEST(packed_and_globbed) {
    const char *dir = temporary_dir(a);
    const char *text = "one\xFF two";
    OK(file_write_atomic(path_join(a, dir, "a.txt"), text, strlen(text)));
    gzFile packed = gzopen(path_join(a, dir, "b.jsonl.gz"), "wb");
    gzputs(packed, "{\"text\": \"three\"}\n");
    gzclose(packed);
    packed = gzopen(path_join(a, dir, "b.jsonl.gz"), "ab"); // a second member
    gzputs(packed, "{\"text\": \"four\"}\n\n");
    gzclose(packed);
    OK(file_write_atomic(path_join(a, dir, "c.jpg"), "no", 2));
    const char *folder[] = {dir},
               *glob[] = {path_join(a, dir, "*.jsonl*"), path_join(a, dir, "a.txt")};
    texts found = read_all(a, folder, 1, &(reader_opts){0});
    assert_string_equal(found.joined.p, "\x1Eone\xEF\xBF\xBD two\x1Ethree\x1E"
                                        "four");
    assert_int_equal(found.replaced, 1);
    str_free(&found.joined);
    found = read_all(a, glob, 2, &(reader_opts){0});
    assert_string_equal(found.joined.p, "\x1Ethree\x1E"
                                        "four\x1Eone\xEF\xBF\xBD two");
    str_free(&found.joined);
    reader *r;
    const char *none[] = {path_join(a, dir, "*.md")};
    FAILS(reader_open(a, none, 1, &(reader_opts){0}, &r), DRV_E_IO, "no file matches");
    // Cut short it is an error, not an end.
    char *bytes;
    size_t n;
    const char *gz[] = {path_join(a, dir, "b.jsonl.gz")};
    OK(file_read(a, gz[0], &bytes, &n));
    OK(file_write_atomic(gz[0], bytes, n - 9));
    text_batch *b = text_batch_new();
    OK(reader_open(a, gz, 1, &(reader_opts){0}, &r));
    FAILS(text_batch_read(b, r), DRV_E_DATA, "cut short");
    reader_close(r);
    text_batch_free(b);
}

// An option that only some kinds of files heed is refused where there is none of them.
TEST(options_that_no_file_heeds) {
    const char *dir = temporary_dir(a);
    static const char *const endings[] = {"py", NULL};
    static const id_cut cut = {CUT_BEFORE, 1};
    const struct {
        const char *file;
        reader_opts opts;
        const char *says; // NULL: it is heeded
    } cases[] = {{"a.txt", {.separator = "x"}, NULL},
            {"a.jsonl", {.separator = "x"}, "--separator has no effect on \"/"},
            {"a.jsonl", {.key = "body"}, NULL},
            {"a.txt", {.key = "body"}, "--json-key has no effect on \"/"},
            {"a.npy", {.key = "body", .inputs.tables = TABLES_ALL}, "--text-column has no effect"},
            {"a.unknown", {.key = "body"}, NULL}, {"a.npy", {.ids.type = {2, false}}, NULL},
            {"a.bin", {.ids.type = {2, false}},
                    "a.bin\": expected .npy without a header, or .mds with ids in bytes, among"},
            {"a.txt", {.ids.type = {2, false}}, "--token-type has no effect on"},
            {"a.unknown", {.ids.type = {2, false}}, NULL}, {"a.bin", {.ids.rows = cut}, NULL},
            {"a.jsonl", {.ids.rows = cut}, "--cut-before has no effect on"},
            {"a.txt", {.inputs = {.endings = endings, .others = "--ending"}},
                    "--ending has no effect on \"/"},
            {".", {.inputs = {.endings = endings, .others = "--ending"}}, NULL}};
    OK(file_write_atomic(path_join(a, dir, "b.py"), "x", 1));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        reader *r;
        const char *path = path_join(a, dir, cases[i].file);
        if (*cases[i].file != '.') OK(file_write_atomic(path, "", 0));
        if (cases[i].says) {
            FAILS(reader_open(a, &path, 1, &cases[i].opts, &r), DRV_E_USAGE, cases[i].says);
            continue;
        }
        OK(reader_open(a, &path, 1, &cases[i].opts, &r));
        reader_close(r);
    }
}

// --- word counts
static int by_text(const void *x, const void *y) {
    return strcmp(*(char *const *)x, *(char *const *)y);
}

// "word count", sorted.
static char **counts(arena *a, int64_t memory, int64_t a_word, word_counts *w) {
    word_counter *c = word_counter_new(memory, a_word, 0);
    for (int i = 0; i < 60000; i++) {
        char text[16];
        const int n = snprintf(text, sizeof text, "w%lld", (long long)i * i % 7001);
        word_counter_add(c, i % par_threads(),
                (const unsigned char *[]){(unsigned char *)text, (unsigned char *)text + n}, 1);
        if (i % 100 == 0) OK(word_counter_relieve(c));
    }
    OK(word_counter_finish(c, w));
    word_counter_free(c);
    char **out = ARENA_ARRAY(a, char *, w->n);
    for (int64_t i = 0; i < w->n; i++)
        out[i] = arena_printf(a, "%.*s %lld", (int)w->words[i].n, w->text.p + w->words[i].at,
                (long long)w->words[i].count);
    qsort(out, (size_t)w->n, sizeof *out, by_text);
    return out;
}

TEST(counts_spill) {
    word_counts all, spilled, few;
    char **x = counts(a, 1 << 30, 0, &all), **y = counts(a, 100000, 0, &spilled);
    assert_true(all.n > 3000);
    assert_int_equal(all.n, spilled.n);
    for (int64_t i = 0; i < all.n; i++)
        assert_string_equal(x[i], y[i]);
    // What does not fit is left out, the rarest first, all of one count together.
    counts(a, 100000, 100, &few);
    assert_true(few.n <= 1000 && few.n > 0 && few.left_out == all.n - few.n);
    for (int64_t i = 0; i < few.n; i++)
        assert_true(few.words[i].count >= few.least);
    word_counts_free(&all);
    word_counts_free(&spilled);
    word_counts_free(&few);
}

static void check_pieces(const str *line, const str *whole, int64_t bad, size_t piece, str *out) {
    long_json j = {0};
    int64_t sum = 0, more;
    assert_true(long_json_open(&j, line->p, line->n, "text"));
    for (bool last = false; !last; sum += more) {
        const size_t before = out->n;
        last = long_json_next(&j, piece, out, &more);
        assert_true(last || out->n > before);
        assert_true(last || out->p[out->n - 1] != ' ');
    }
    assert_int_equal(out->n, whole->n);
    assert_memory_equal(out->p, whole->p, whole->n);
    assert_int_equal(sum, bad);
    long_json_free(&j);
    assert_false(long_json_open(&j, line->p, line->n - 1, "text"));
    assert_false(long_json_open(&j, line->p, line->n, "x"));
    long_json_free(&j);
}

// The pieces of a string, of any size and with any escapes, are what jc_string reads of the whole.
TEST(long_json_pieces) {
    static const char *const parts[] = {" ", " ", "a", "bc ", "Z z", "\\n", "\\\"", "\\\\",
            "\\u00fc", "\\ud83d\\ude00", "\\ud83d", "\xc3\xbc", "\xff", "  x", "\\u0020y"};
    enum { N_PARTS = sizeof parts / sizeof *parts, N_CASES = 600 };
    const rng_key key = {.seed = 5, .purpose = RNG_TEST};
    uint64_t drawn = 0;
    for (int c = 0; c < N_CASES; c++) {
        str line = {0}, whole = {0}, pieced = {0};
        const int n = (int)(rng_u64(&key, drawn++) % 80);
        str_puts(&line, "{\"text\": \"first\", \"text\": \"");
        for (int i = 0; i < n; i++)
            str_puts(&line, parts[rng_u64(&key, drawn++) % N_PARTS]);
        str_puts(&line, "\", \"x\": [1]}");
        json_cursor at = {.p = line.p + strlen("{\"text\": \"first\", \"text\": "),
                .end = line.p + line.n};
        assert_true(jc_string(&at, &whole));
        check_pieces(&line, &whole, at.bad_surrogates, 1 + rng_u64(&key, drawn++) % 50, &pieced);
        str_free(&line), str_free(&whole), str_free(&pieced);
    }
}

int main(void) {
    par_set_threads(2);
    return tests_run();
}
