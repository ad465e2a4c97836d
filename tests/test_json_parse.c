// Odd JSON, valid and not, by every reader of records, against Python's json
// (tools/golden_json.py): the cursor of texts, the parser of conversations, pairs and choices, and
// files that a user names; the values as templates print them.
#include "harness.h"

#include "base/json.h"
#include "base/json_cursor.h"
#include "chat/jinja_value.h"

static bool cursor_reads(const char *text, size_t n) {
    json_cursor c = {.p = text, .end = text + n};
    return jc_skip(&c) && jc_at_end(&c);
}

static void check_value(const json_t *got, const char *text, const char *want) {
    arena *a = arena_new("value");
    value_memory m = {.a = a, .max_bytes = 1 << 20, .max_steps = 1 << 20};
    const tojson_opts opts = {.indent = -1,
            .item_separator = value_text(", "),
            .key_separator = value_text(": ")};
    value v;
    str out = {0};
    OK(value_from_json(&m, got, 0, &v));
    OK(value_tojson(&v, &opts, 0, &out));
    if (strcmp(out.p, want) != 0) fail_msg("%s is %s, expected %s", text, out.p, want);
    str_free(&out);
    arena_free(a);
}

static void check_text(const char *path, const json_t *test) {
    const json_t *text = json_object_get(test, "text");
    const char *p = json_string_value(text),
               *want = json_string_value(json_object_get(test, "dumps"));
    const size_t n = json_string_length(text);
    json_t *parsed, *read;
    const bool parses = json_parse(p, n, &parsed) == DRV_OK;
    if (parses != (want != NULL) || cursor_reads(p, n) != parses)
        fail_msg("%s: %s", p, parses ? "is read" : drv_message());
    OK(file_write_atomic(path, p, n));
    assert_int_equal(json_read_any(path, &read) == DRV_OK, parses);
    if (parses) {
        check_value(parsed, p, want);
        check_value(read, p, want);
        json_decref(parsed);
        json_decref(read);
    }
}

TEST(what_is_wrong_is_said) {
    static const struct {
        const char *text, *says;
    } cases[] = {{"{\"text\": \"b\"", "ends within an object"}, {"{", "ends within an object"},
            {"[1, 2", "ends within an array"}, {"{\"a\":", "ends where a value was expected"},
            {"{\"a\": 1 \"b\": 2}", "expected a comma after a value"},
            {"{a: 1}", "expected a key in double quotes"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_cursor c = {.p = cases[i].text, .end = cases[i].text + strlen(cases[i].text)};
        assert_false(jc_skip(&c));
        assert_string_equal(c.error, cases[i].says);
    }
}

TEST(as_python_reads_it) {
    const char *path = path_join(a, temporary_dir(a), "x.json");
    char *rest;
    size_t n;
    int n_cases = 0;
    OK(file_read(a, golden_path(a, "json.jsonl"), &rest, &n));
    for (char *line; (line = strsep(&rest, "\n")) && *line; n_cases++) {
        json_t *test = json_loads(line, JSON_ALLOW_NUL, NULL);
        assert_non_null(test);
        check_text(path, test);
        json_decref(test);
    }
    assert_true(n_cases > 300);
}
