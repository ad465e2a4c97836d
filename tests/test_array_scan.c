// Files that are one JSON array: elements found whatever the window, broken arrays refused with the
// element, files recognised by their content.
#include "harness.h"

#include <zlib.h>

#include "base/json.h"
#include "data/read/content.h"
#include "data/read/array_scan.h"
#include "data/read/reader.h"

// The elements of a text as the reader would ask for them, `step` more bytes at a time, one a line;
// in the end what ended it.
static char *elements(arena *a, const char *text, size_t step) {
    const size_t n_text = strlen(text);
    array_scan scan = {0};
    str out = {0};
    for (size_t at = 0, n = 0; at <= n_text;) {
        // A window of its own size: a read past its end is seen by the sanitizer.
        char *window = mem_alloc(n + 1);
        memcpy(window, text + at, n);
        const array_event e = array_scan_next(&scan, window, n, at + n == n_text);
        if (e == ARRAY_ELEMENT) {
            str_add(&out, window + scan.begin, scan.end - scan.begin);
            str_puts(&out, "\n");
            at += scan.end;
            n -= scan.end;
        }
        free(window);
        if (e == ARRAY_END || e == ARRAY_BROKEN) {
            str_puts(&out, e == ARRAY_END ? "end" : scan.why);
            break;
        }
        if (e == ARRAY_MORE) n = n + step < n_text - at ? n + step : n_text - at;
    }
    char *copy = arena_strdup(a, out.p ? out.p : "");
    str_free(&out);
    return copy;
}

TEST(by_hand) {
    const struct {
        const char *text, *want;
    } cases[] = {{"[]", "end"}, {" [ ] \n", "end"}, {"[{\"a\": 1}]", "{\"a\": 1}\nend"},
            {"[\n  {\"a\": [1, {}]},\n  {}\n]\n", "{\"a\": [1, {}]}\n{}\nend"},
            {"[{\"]},{\": \"\\\"]}\\\\\"},2 , \"x,]\",[[]]]",
                    "{\"]},{\": \"\\\"]}\\\\\"}\n2\n\"x,]\"\n[[]]\nend"},
            {"[{} {}]", "{}\nno comma after it"}, {"[,]", "no value where one is expected"},
            {"[{},]", "{}\nno value where one is expected"},
            {"{}", "no value where one is expected"}, {"[{}", "{}\nthe file ends within the array"},
            {"", "the file ends within the array"},
            {"[{\"a\": \"]", "the file ends within the array"},
            {"[{}] x", "{}\nthere is more text after the array"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t step = 1; step < 40; step++)
            assert_string_equal(elements(a, cases[i].text, step), cases[i].want);
}

// Any JSON that jansson writes comes apart into what it was made of.
static json_t *random_value(uint64_t seed, uint64_t *i, int depth) {
    const rng_key key = {seed, RNG_TEST, 0};
    const uint64_t r = rng_u64(&key, (*i)++);
    static const char *const texts[] = {"", "a", "\"]", "{\\", "\\\"", "\xC3\xA9,", "[[{\n"};
    if (depth > 3 || r % 4 == 0) return json_string(texts[r / 4 % 7]);
    if (r % 4 == 1) return json_integer((json_int_t)(r >> 50));
    json_t *v = r % 4 == 2 ? json_array() : json_object();
    for (uint64_t k = 0; k < r / 4 % 4; k++) {
        json_t *x = random_value(seed, i, depth + 1);
        if (r % 4 == 2)
            json_array_append_new(v, x);
        else
            json_object_set_new(v, texts[k], x);
    }
    return v;
}

TEST(by_chance) {
    for (uint64_t seed = 0; seed < 200; seed++) {
        uint64_t drawn = 0;
        json_t *array = json_array();
        for (uint64_t k = 0; k < seed % 6; k++)
            json_array_append_new(array, random_value(seed, &drawn, 0));
        char *text = json_dumps(array, (seed & 1 ? JSON_INDENT(2) : JSON_COMPACT));
        const char *got = elements(a, text, 1 + seed % 13), *line = got;
        for (size_t k = 0; k < json_array_size(array); k++) {
            char *element = json_dumps(json_array_get(array, k),
                    JSON_ENCODE_ANY | (seed & 1 ? JSON_INDENT(2) : JSON_COMPACT));
            json_t *x = json_loads(element, JSON_DECODE_ANY, NULL);
            json_error_t error;
            json_t *y = json_loads(line, JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK, &error);
            if (!json_equal(x, y)) fail_msg("seed %llu: %s", (unsigned long long)seed, text);
            line += error.position + 1;
            json_decref(x);
            json_decref(y);
            free(element);
        }
        if (strcmp(line, "end") != 0)
            fail_msg("seed %llu: \"%s\" of %s", (unsigned long long)seed, line, text);
        json_decref(array);
        free(text);
    }
}

TEST(by_content) {
    const struct {
        const char *text;
        bool is;
    } cases[] = {{"[{\"a\": 1}]", true}, {" \r\n[\n\t{ \"", true}, {"[ {}]", true}, {"[{", true},
            {"[1]", false}, {"[]", false}, {"{}", false}, {"[[{\"a\"", false}, {"[{x", false},
            {"[see {1}]", false}, {"", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(content_is_json_array(cases[i].text, strlen(cases[i].text)), cases[i].is);
}

// Records of a file under any name, numbered by element; blanks and lines play no part.
static int64_t count(arena *a, const char *path, const reader_opts *o, drv_status *status) {
    reader *r;
    const char *inputs[] = {path};
    str bytes = {0};
    int64_t n = 0;
    OK(reader_open(a, inputs, 1, o, &r));
    for (reader_event event = READER_RECORD; event != READER_END;) {
        record x;
        *status = reader_next(r, &bytes, &x, &event);
        if (*status != DRV_OK) break;
        if (event != READER_RECORD) continue;
        assert_int_equal(x.number, ++n);
        assert_true(x.json && x.begins && x.ends && bytes.p[x.at] == '{');
    }
    str_free(&bytes);
    reader_close(r);
    return n;
}

TEST(files) {
    const char *dir = temporary_dir(a);
    str text = {0};
    str_puts(&text, "\xEF\xBB\xBF [");
    for (int i = 0; i < 9000; i++) // several reads long
        str_printf(&text, "%s{\"text\": \"%d %0300d\"}", i ? ",\n" : "\n", i, i);
    str_puts(&text, "\n]\n");
    static const char *const names[] = {"a.json", "a.jsonl", "unnamed"};
    drv_status status;
    for (int i = 0; i < 3; i++) {
        const char *path = path_join(a, dir, names[i]);
        OK(file_write_atomic(path, text.p, text.n));
        assert_int_equal(count(a, path, &(reader_opts){0}, &status), 9000);
        OK(status);
        assert_int_equal(count(a, path, &(reader_opts){.lines = true}, &status), 9000);
        OK(status);
    }
    const char *gz = path_join(a, dir, "a.json.gz");
    gzFile z = gzopen(gz, "wb");
    gzwrite(z, text.p, (unsigned)text.n);
    gzclose(z);
    assert_int_equal(count(a, gz, &(reader_opts){0}, &status), 9000);
    OK(status);
    const char *cut = path_join(a, dir, "cut.json");
    OK(file_write_atomic(cut, text.p, text.n - 4));
    assert_int_equal(count(a, cut, &(reader_opts){0}, &status), 8999);
    FAILS(status, DRV_E_DATA, "cut.json: a broken JSON array: after element 8999: the file ends");
    str_free(&text);
}
