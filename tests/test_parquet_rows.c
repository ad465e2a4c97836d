// Rows of Parquet as JSON against those that pyarrow was given (tools/golden_parquet.py): lists,
// structs and nulls at every level; old and foreign forms of lists; broken files.
#include "harness.h"

#include "base/json.h"
#include "base/log.h"
#include "data/read/record_source.h"
#include "data/read/parquet_schema.h"
#include "tok/tokenizer.h"

static const char *const fields[] = {"messages", "system", "tools", "instruction", "input",
        "output", NULL};

static drv_status rows_of(const char *path, const char *const *names, json_t **out) {
    const reader_opts opts = {.fields = names};
    record_source source;
    record row;
    *out = json_array();
    DRV_TRY(record_source_open(&(input_file){.kind = INPUT_PARQUET, .path = path}, &opts, &source));
    str text = {0};
    drv_status status = DRV_OK;
    for (bool done = false; status == DRV_OK && !done;) {
        str_clear(&text);
        status = record_source_next(&source, &text, &row, &done);
        if (status != DRV_OK || done) continue;
        str clean = {0}; // a broken file may hold any bytes in its strings
        utf8_sanitize(text.p, text.n, &clean);
        json_t *o = json_loadb(clean.p, clean.n, JSON_ALLOW_NUL, NULL);
        if (!o) fail_msg("not JSON: %s", clean.p);
        str_free(&clean);
        json_array_append_new(*out, o);
    }
    str_free(&text);
    record_source_close(&source);
    return status;
}

TEST(as_pyarrow_was_given) {
    static const char *const names[] = {"chat1.parquet", "chat2.parquet"};
    char *text;
    size_t n;
    OK(file_read(a, golden_path(a, "parquet/chat.jsonl"), &text, &n));
    json_t *want = json_array();
    for (char *rest = text, *line; (line = strsep(&rest, "\n")) && *line;)
        json_array_append_new(want, json_loads(line, 0, NULL));
    assert_int_equal(json_array_size(want), 300);
    for (int i = 0; i < 2; i++) {
        json_t *got;
        OK(rows_of(path_join(a, golden_path(a, "parquet"), names[i]), fields, &got));
        assert_int_equal(json_array_size(got), 300);
        for (size_t k = 0; k < 300; k++)
            if (!json_equal(json_array_get(got, k), json_array_get(want, k)))
                fail_msg("%s, row %zu: %s", names[i], k,
                        json_dumps(json_array_get(got, k), JSON_COMPACT));
        json_decref(got);
    }
    json_decref(want);
}

TEST(chosen_fields) {
    const char *dir = golden_path(a, "parquet");
    static const char *const few[] = {"tools", NULL}, *const none[] = {"id", "chat", NULL};
    json_t *got;
    OK(rows_of(path_join(a, dir, "chat1.parquet"), few, &got));
    for (size_t i = 0; i < json_array_size(got); i++)
        assert_int_equal(json_object_size(json_array_get(got, i)),
                json_object_get(json_array_get(got, i), "tools") != NULL);
    json_decref(got);
    FAILS(rows_of(path_join(a, dir, "chat1.parquet"), none, &got), DRV_E_DATA,
            "(id, chat); it has \"id\", \"messages\", \"system\", \"tools\"");
    json_decref(got);
}

// Any file cut short or with a wrong byte is refused or read, never more.
TEST(broken) {
    const char *path = path_join(a, temporary_dir(a), "x.parquet");
    static const char *const names[] = {"chat1.parquet", "chat2.parquet"};
    log_to_file_only(true);
    for (int f = 0; f < 2; f++) {
        char *good;
        size_t n;
        json_t *got;
        OK(file_read(a, path_join(a, golden_path(a, "parquet"), names[f]), &good, &n));
        char *bytes = arena_alloc(a, n);
        for (size_t i = 0; i < n; i += 29) {
            memcpy(bytes, good, n);
            bytes[i] ^= (char)(1 << i % 8);
            OK(file_write_atomic(path, bytes, n));
            if (rows_of(path, fields, &got) != DRV_OK)
                assert_non_null(strstr(drv_message(), "x.parquet"));
            json_decref(got);
        }
    }
    log_to_file_only(false);
}

// --- lists as other writers put them
// A schema element in Thrift's compact protocol: repetition, name, children, whether it is a LIST.
static void add_element(str *s, int repetition, const char *name, int children, bool is_list) {
    const bool leaf = children == 0;
    if (leaf) str_add(s, "\x15\x0C", 2); // type: BYTE_ARRAY
    if (repetition >= 0) {
        const char bytes[] = {leaf ? 0x25 : 0x35, (char)(2 * repetition)};
        str_add(s, bytes, 2);
    }
    const char head[] = {repetition >= 0 ? 0x18 : 0x48, (char)strlen(name)};
    str_add(s, head, 2);
    str_puts(s, name);
    const char more[] = {0x15, (char)(2 * children)};
    if (!leaf) str_add(s, more, 2);
    if (is_list) str_add(s, leaf ? "\x25\x06" : "\x15\x06", 2);
    str_add(s, "", 1);
}

// The forms of LogicalTypes.md, "Lists", and a list without any mark.
TEST(schemas) {
    enum { REQUIRED, OPTIONAL, REPEATED };
    const parquet_file file = {"x.parquet", -1, 100};
    parquet_schema schema;
    str bytes = {0};
    str_add(&bytes, "\x6C", 1); // a list of 6 structs
    add_element(&bytes, -1, "schema", 2, false);
    add_element(&bytes, OPTIONAL, "messages", 1, true);
    add_element(&bytes, REPEATED, "array", 2, false);
    add_element(&bytes, OPTIONAL, "role", 0, false);
    add_element(&bytes, REQUIRED, "content", 0, false);
    add_element(&bytes, REPEATED, "tags", 0, false);
    thrift in = {.p = (unsigned char *)bytes.p, .end = (unsigned char *)bytes.p + bytes.n};
    OK(parquet_read_schema(a, &file, &in, &schema));
    assert_int_equal(schema.n, 6);
    const parquet_node *nodes = schema.nodes;
    const struct {
        int n_nodes, leaf, definition, repetition;
        bool is_list, text;
    } want[] = {{6, -1, 0, 0, false, false}, {4, -1, 1, 0, true, false},
            {3, -1, 2, 1, false, false}, {1, 0, 3, 1, false, true}, {1, 1, 2, 1, false, true},
            {1, 2, 1, 1, false, true}};
    for (int i = 0; i < 6; i++) {
        assert_int_equal(nodes[i].n_nodes, want[i].n_nodes);
        assert_int_equal(nodes[i].leaf, want[i].leaf);
        assert_int_equal(nodes[i].definition, want[i].definition);
        assert_int_equal(nodes[i].repetition, want[i].repetition);
        assert_int_equal(nodes[i].is_list, want[i].is_list);
        assert_int_equal(nodes[i].kind == PARQUET_TEXT, want[i].text);
    }
    assert_null(parquet_find_text(&schema, "tags"));
    FAILS(parquet_no_text(&file, &schema, "tags", false), DRV_E_DATA,
            "none of its columns is one: \"messages\", \"tags\"");
    // Numbers of children that do not fit.
    bytes.p[3 + 7] = 14; // "schema" has 7
    in = (thrift){.p = (unsigned char *)bytes.p, .end = (unsigned char *)bytes.p + bytes.n};
    FAILS(parquet_read_schema(a, &file, &in, &schema), DRV_E_DATA, "children do not fit");
    str_free(&bytes);
}
