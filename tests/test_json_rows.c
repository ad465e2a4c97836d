// Rows of Parquet and Arrow with values of every type that JSON has, as JSON, against those that
// pyarrow has of the same files (tools/golden_json_rows.py).
#include "harness.h"

#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "data/read/arrow.h"
#include "data/read/parquet_rows.h"

static const char *const fields[] = {"messages", "tools", NULL};

typedef struct rows { // of one container
    parquet_rows *parquet;
    arrow_reader *arrow;
} rows;

static void open_rows(arena *a, const char *name, rows *out) {
    const char *path = arena_printf(a, "%s/%s", golden_path(a, "json_rows"), name);
    *out = (rows){0};
    if (str_ends(name, ".parquet"))
        OK(parquet_rows_open(path, fields, &out->parquet));
    else
        OK(arrow_open(path, &(arrow_opts){.column = "text", .fields = fields}, &out->arrow));
}

static bool next_row(rows *from, str *row) {
    bool more;
    const char *broken = NULL;
    str_clear(row);
    if (from->parquet)
        OK(parquet_rows_next(from->parquet, row, &more));
    else
        OK(arrow_next(from->arrow, row, &broken, &more));
    assert_null(broken);
    return more;
}

// Compares all rows, and returns whether nulls were said to be left out of calls and schemas.
static bool same_as_pyarrow(const char *name, const char *want) {
    arena *a = arena_new("rows");
    char *text;
    size_t n_text;
    rows from;
    str row = {0};
    int n_rows = 0;
    OK(file_read(a, arena_printf(a, "%s/%s", golden_path(a, "json_rows"), want), &text, &n_text));
    open_rows(a, name, &from);
    for (char *rest = text, *line; (line = strsep(&rest, "\n")) && *line; n_rows++) {
        if (!next_row(&from, &row)) fail_msg("%s ends after %d rows", name, n_rows);
        json_t *expected, *got;
        OK(json_parse(line, strlen(line), &expected));
        OK(json_parse(row.p, row.n, &got));
        if (!json_equal(expected, got))
            fail_msg("%s, row %d:\n%s\nexpected\n%s", name, n_rows, row.p, line);
        json_decref(expected);
        json_decref(got);
    }
    assert_true(n_rows > 10);
    assert_false(next_row(&from, &row));
    const bool cut =
            (from.parquet ? parquet_rows_notes(from.parquet) : arrow_notes(from.arrow))->nulls_cut;
    str_free(&row);
    parquet_rows_close(from.parquet);
    arrow_close(from.arrow);
    arena_free(a);
    return cut;
}

static void values_of_every_type(void **state) {
    (void)state;
    static const char *const names[] = {"rows.arrow", "rows.parquet", "plain.parquet",
            "coded.parquet"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_true(same_as_pyarrow(names[i], "rows.jsonl"));
}

// NaN, infinities and whole numbers beyond 63 bits.
static void numbers_that_json_lacks(void **state) {
    (void)state;
    same_as_pyarrow("odd.arrow", "odd.jsonl");
    same_as_pyarrow("odd.parquet", "odd.jsonl");
}

static void structs_without_members(void **state) {
    (void)state;
    same_as_pyarrow("bare.arrow", "bare.jsonl");
}

int main(void) {
    const struct CMUnitTest tests[] = {
            cmocka_unit_test(values_of_every_type),
            cmocka_unit_test(numbers_that_json_lacks),
            cmocka_unit_test(structs_without_members),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
