// Rows of Parquet and Arrow with values of every type that JSON has, as JSON, against those that
// pyarrow has of the same files (tools/golden_json_rows.py).
#include "harness.h"

#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "data/read/record_source.h"

static const char *const fields[] = {"messages", "tools", NULL};

static void open_rows(arena *a, const char *name, record_source *out) {
    static const reader_opts opts = {.key = "text", .fields = fields};
    const char *path = arena_printf(a, "%s/%s", golden_path(a, "json_rows"), name);
    const input_kind kind = str_ends(name, ".parquet") ? INPUT_PARQUET : INPUT_ARROW;
    OK(record_source_open(&(input_file){.kind = kind, .path = path}, &opts, out));
}

static bool next_row(record_source *from, str *row, bool *cut) {
    bool done;
    record read = {0};
    str_clear(row);
    OK(record_source_next(from, row, &read, &done));
    assert_null(read.broken);
    *cut |= read.nulls_cut;
    return !done;
}

// Compares all rows, and returns whether nulls were said to be left out of calls and schemas.
static bool same_as_pyarrow(const char *name, const char *want) {
    arena *a = arena_new("rows");
    char *text;
    size_t n_text;
    record_source from;
    str row = {0};
    int n_rows = 0;
    bool cut = false;
    OK(file_read(a, arena_printf(a, "%s/%s", golden_path(a, "json_rows"), want), &text, &n_text));
    open_rows(a, name, &from);
    for (char *rest = text, *line; (line = strsep(&rest, "\n")) && *line; n_rows++) {
        if (!next_row(&from, &row, &cut)) fail_msg("%s ends after %d rows", name, n_rows);
        json_t *expected, *got;
        OK(json_parse(line, strlen(line), &expected));
        OK(json_parse(row.p, row.n, &got));
        if (!json_equal(expected, got))
            fail_msg("%s, row %d:\n%s\nexpected\n%s", name, n_rows, row.p, line);
        json_decref(expected);
        json_decref(got);
    }
    assert_true(n_rows > 10);
    assert_false(next_row(&from, &row, &cut));
    str_free(&row);
    record_source_close(&from);
    arena_free(a);
    return cut;
}

TEST(values_of_every_type) {
    static const char *const names[] = {"rows.arrow", "rows.parquet", "plain.parquet",
            "coded.parquet"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_true(same_as_pyarrow(names[i], "rows.jsonl"));
}

// NaN, infinities and whole numbers beyond 63 bits.
TEST(numbers_that_json_lacks) {
    same_as_pyarrow("odd.arrow", "odd.jsonl");
    same_as_pyarrow("odd.parquet", "odd.jsonl");
}

TEST(structs_without_members) {
    same_as_pyarrow("bare.arrow", "bare.jsonl");
}
