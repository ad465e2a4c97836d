// GGUF files: what gguf-py wrote, types and values; and files that lie.
#include "harness.h"

#include <math.h>

#include "gguf/gguf_builder.h"

// --- what gguf-py wrote (tools/golden_gguf.py)
static void open_golden(arena *a, gguf_file *f) {
    OK(gguf_open(a, golden_path(a, "gguf/quants.gguf"), f));
}

// The same bits; any NaN is as good as another.
static bool same_bits(const float *x, const float *y, int64_t n, int64_t *at) {
    for (*at = 0; *at < n; ++*at)
        if (memcmp(&x[*at], &y[*at], 4) != 0 && !(isnan(x[*at]) && isnan(y[*at]))) return false;
    return true;
}

static float *read_all(arena *a, const gguf_file *f, const char *name, int64_t *n) {
    const gguf_tensor *t = gguf_find_tensor(f, name);
    if (!t) fail_msg("no tensor \"%s\"", name);
    float *values = ARENA_ARRAY(a, float, t->elements);
    *n = t->elements;
    for (int64_t row = 0; row < gguf_rows(t); row++) // one by one: rows are found in the middle too
        OK(gguf_read_f32(f, t, row, 1, values + row * gguf_cols(t)));
    return values;
}

TEST(blocks_are_those_of_gguf_py) {
    static const char *const types[] = {"F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1",
            "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"};
    gguf_file f;
    open_golden(a, &f);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        int64_t n, n_f32, at;
        const float *got = read_all(a, &f, types[i], &n);
        const float *expected = read_all(a, &f, arena_printf(a, "%s.f32", types[i]), &n_f32);
        assert_int_equal(n, n_f32);
        if (!same_bits(got, expected, n, &at))
            fail_msg("%s: element %lld is %.9g, expected %.9g", types[i], (long long)at,
                    (double)got[at], (double)expected[at]);
        if (!strstr(quant_types_read(), types[i])) fail_msg("%s is not named", types[i]);
    }
    gguf_close(&f);
}

TEST(numbers_are_written_as_gguf_py_does) {
    static const struct {
        const char *name;
        quant_id type;
    } cases[] = {{"Q8_0", QUANT_Q8_0}, {"BF16", QUANT_BF16}};
    gguf_file f;
    open_golden(a, &f);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const quant_type *type = quant_type_of(cases[i].type);
        int64_t n;
        const float *numbers = read_all(a, &f, arena_printf(a, "%s.numbers", cases[i].name), &n);
        const gguf_tensor *t = gguf_find_tensor(&f, arena_printf(a, "%s.written", cases[i].name));
        unsigned char *expected = arena_alloc(a, (size_t)t->bytes),
                      *got = arena_alloc(a, (size_t)t->bytes);
        OK(gguf_read_raw(&f, t, 0, gguf_rows(t), expected));
        type->from_f32(numbers, n / type->block, got);
        assert_memory_equal(got, expected, (size_t)t->bytes);
    }
    gguf_close(&f);
}

static void check_whole_numbers(const gguf_file *f) {
    static const struct {
        const char *key;
        int64_t x;
    } cases[] = {{"test.u8", 250}, {"test.i8", -100}, {"test.u16", 65000}, {"test.i16", -30000},
            {"test.u32", 4000000000}, {"test.i32", -2000000000}, {"test.i64", -(1ll << 62)}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t x = 0;
        OK(gguf_get_i64(f, cases[i].key, &x));
        assert_int_equal(x, cases[i].x);
    }
}

TEST(values_by_key_and_type) {
    gguf_file file;
    int64_t whole = 7, n_items;
    double real = 0;
    bool yes = false;
    const char *text = NULL;
    gguf_text *texts;
    int32_t *ints;
    float *floats;
    open_golden(a, &file);
    check_whole_numbers(&file);
    OK(gguf_get_i64(&file, "test.absent", &whole));
    assert_int_equal(whole, 7);
    FAILS(gguf_get_i64(&file, "test.u64", &whole), DRV_E_DATA,
            "\"test.u64\" is u64, expected a whole");
    FAILS(gguf_get_i64(&file, "test.f32", &whole), DRV_E_DATA, "is f32");
    FAILS(gguf_get_i64(&file, "test.i32s", &whole), DRV_E_DATA, "is an array of i32");
    OK(gguf_get_f64(&file, "test.f32", &real));
    assert_true(real == 1e-5); // the number that was meant, not the fp32 next to it
    OK(gguf_get_f64(&file, "test.f64", &real));
    assert_true(real == 1e-5);
    OK(gguf_get_bool(&file, "test.bool", &yes));
    assert_true(yes);
    OK(gguf_get_text(a, &file, "test.text", &text));
    assert_string_equal(text, "grüße");
    FAILS(gguf_get_text(a, &file, "test.texts", &text), DRV_E_DATA, "expected a text");
    OK(gguf_get_texts(a, &file, "test.texts", &texts, &n_items));
    assert_int_equal(n_items, 3);
    assert_int_equal(texts[1].n, 0);
    assert_memory_equal(texts[2].p, "ß", 2);
    OK(gguf_get_i32s(a, &file, "test.i32s", &ints, &n_items));
    assert_int_equal(n_items, 3);
    assert_int_equal(ints[1], -2);
    OK(gguf_get_f32s(a, &file, "test.f32s", &floats, &n_items));
    assert_true(n_items == 2 && floats[1] == -2.5f);
    OK(gguf_get_f32s(a, &file, "test.i32s", &floats, &n_items));
    assert_true(n_items == 3 && floats[1] == -2.0f);
    FAILS(gguf_get_f32s(a, &file, "test.texts", &floats, &n_items), DRV_E_DATA, "an array of f32");
    gguf_close(&file);
}

// --- files that lie: a small whole one, of which bytes are changed
enum { DATA_BYTES = 64 };

static void small_file(str *out) {
    static const char zeros[DATA_BYTES] = {0};
    gguf_builder b = {0};
    const int64_t dim[2] = {4, 2};
    gguf_put_text(&b, "general.architecture", "llama");
    gguf_put_u32(&b, "general.alignment", 32);
    gguf_put_array(&b, "tokens", GGUF_TEXT, 2);
    gguf_add_text(&b, "a", 1);
    gguf_add_text(&b, "bc", 2);
    gguf_put_bool(&b, "yes", true);
    gguf_put_tensor(&b, "first", QUANT_F32, dim, 2);
    gguf_put_tensor(&b, "second", QUANT_F16, dim, 2);
    gguf_builder_header(&b, out);
    str_add(out, zeros, DATA_BYTES);
    gguf_builder_free(&b);
}

// Bytes after `text` (and `skip` more) in the file.
static unsigned char *after(const str *file, const char *text, size_t skip) {
    char *at = memmem(file->p, file->n, text, strlen(text));
    assert_non_null(at);
    return (unsigned char *)at + strlen(text) + skip;
}

static void parse_says(const str *file, const char *says) {
    arena *a = arena_new("gguf");
    gguf_file f;
    if (says)
        FAILS(gguf_parse(a, "x.gguf", file->p, file->n, &f), DRV_E_DATA, says);
    else
        OK(gguf_parse(a, "x.gguf", file->p, file->n, &f));
    arena_free(a);
}

TEST(files_that_lie) {
    static const struct {
        const char *after; // text in the file; "" its beginning
        size_t skip;
        int n; // bytes that are replaced, by x
        uint64_t x;
        const char *says;
    } cases[] = {
            {"", 0, 1, 'H', "not a GGUF file"},
            {"", 4, 4, 1, "version 1, expected 2 or 3"},
            {"", 4, 4, 2, NULL},
            {"", 4, 4, 4, "version 4"},
            {"", 4, 4, 3u << 24, "big-endian"},
            {"", 8, 8, UINT64_MAX, "a tensor's name at byte"},
            {"", 8, 8, 1ull << 40, "a tensor's name at byte"},
            {"", 8, 8, 1, NULL},
            {"", 16, 8, UINT64_MAX, "bytes, expected 1 to 65535"},
            {"", 24, 8, 0, "a key at byte 24 has 0 bytes, expected 1 to 65535"},
            {"", 24, 8, UINT64_MAX, "expected 1 to 65535"},
            {"", 32, 1, 0, "has the byte 0x00, expected ASCII"},
            {"general.architecture", 0, 4, 13, "has type 13, expected 0 to 12"},
            {"general.architecture", 4, 8, UINT64_MAX, "is it truncated?"},
            {"general.alignment", 4, 4, 0, "general.alignment is 0"},
            {"general.alignment", 4, 4, 24, "general.alignment is 24, expected a power of two"},
            {"general.alignment", 4, 4, 1u << 31, "expected a power of two"},
            {"tokens", 4, 4, GGUF_ARRAY, "array of arrays"},
            {"tokens", 4, 4, 99, "has type 99"},
            {"tokens", 8, 8, UINT64_MAX, "is it truncated?"},
            {"tokens", 8, 8, 1ull << 60, "is it truncated?"},
            {"yes", 4, 1, 2, "a bool of 2"},
            {"first", 0, 4, 0, "has 0 dimensions, expected 1 to 4"},
            {"first", 0, 4, 5, "has 5 dimensions"},
            {"first", 4, 8, 0, "a dimension of 0"},
            {"first", 4, 8, UINT64_MAX, "too large"},
            {"first", 4, 8, 1ull << 50, "is it truncated?"},
            {"first", 20, 4, 4, "has type 4, which is unknown"},
            {"first", 20, 4, 1000, "has type 1000"},
            {"first", 20, 4, QUANT_Q8_0, "rows of 4 elements, expected a multiple of 32"},
            {"first", 24, 8, 32, "begins at byte 32 of the data, expected 0"},
            {"second", 24, 8, 0, "begins at byte 0 of the data, expected 32"},
            {"second", 24, 8, UINT64_MAX, "expected 32"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        str file = {0};
        small_file(&file);
        unsigned char *at = after(&file, cases[i].after, cases[i].skip);
        memcpy(at, &cases[i].x, (size_t)cases[i].n);
        parse_says(&file, cases[i].says);
        str_free(&file);
    }
}

TEST(names_that_are_there_twice) {
    static const struct {
        const char *from, *to, *says;
    } cases[] = {{"tokens", "yes", "key \"yes\" is there twice"},
            {"second", "first", "tensor \"first\" is there twice"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        str file = {0}, changed = {0}, from = {0}, to = {0};
        const uint64_t n_from = strlen(cases[i].from), n_to = strlen(cases[i].to);
        small_file(&file);
        str_add(&from, &n_from, 8);
        str_puts(&from, cases[i].from);
        str_add(&to, &n_to, 8);
        str_puts(&to, cases[i].to);
        char *at = memmem(file.p, file.n, from.p, from.n);
        assert_non_null(at);
        str_add(&changed, file.p, (size_t)(at - file.p));
        str_add(&changed, to.p, to.n);
        str_add(&changed, at + from.n, (size_t)(file.p + file.n - at) - from.n);
        parse_says(&changed, cases[i].says);
        str_free(&file);
        str_free(&changed);
        str_free(&from);
        str_free(&to);
    }
}

TEST(cut_anywhere) {
    str file = {0};
    small_file(&file);
    parse_says(&file, NULL);
    // The last tensor has 16 bytes, of which the padding may be missing.
    for (size_t n = 0; n < file.n - 16; n++)
        parse_says(&(str){file.p, n, 0}, n < 4 ? "not a GGUF file" : "is it truncated?");
    str_free(&file);
}

// A file whose header is longer than what is read first.
TEST(a_long_header) {
    enum { N = 400000 };
    gguf_builder header = {0};
    str file = {0};
    gguf_file f;
    gguf_text *texts;
    int64_t n;
    gguf_put_array(&header, "tokens", GGUF_TEXT, N);
    for (int i = 0; i < N; i++)
        gguf_add_text(&header, "token", (size_t)i % 6);
    gguf_builder_header(&header, &file);
    const char *path = path_join(a, temporary_dir(a), "long.gguf");
    OK(file_write_atomic(path, file.p, file.n));
    OK(gguf_open(a, path, &f));
    OK(gguf_get_texts(a, &f, "tokens", &texts, &n));
    assert_int_equal(n, N);
    assert_memory_equal(texts[N - 2].p, "token", (N - 2) % 6);
    gguf_close(&f);
    OK(file_write_atomic(path, file.p, file.n - 1 - 32));
    FAILS(gguf_open(a, path, &f), DRV_E_DATA, "is it truncated?");
    gguf_builder_free(&header);
    str_free(&file);
}

TEST(types_that_are_not_read) {
    gguf_builder b = {0};
    str file = {0};
    gguf_file f;
    float x[32];
    const int64_t dim = 32;
    gguf_put_tensor(&b, "odd", (quant_id)20, &dim, 1); // IQ4_NL
    gguf_builder_header(&b, &file);
    str_add(&file, (char[32]){0}, 32);
    OK(gguf_parse(a, "x.gguf", file.p, file.n, &f));
    FAILS(gguf_read_f32(&f, &f.tensors[0], 0, 1, x), DRV_E_DATA,
            "tensor \"odd\" is IQ4_NL, which is not read; expected one of F32, F16, Q4_0");
    gguf_builder_free(&b);
    str_free(&file);
}
