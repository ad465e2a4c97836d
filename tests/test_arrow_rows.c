// Arrow streams against the rows that pyarrow and datasets were given (tools/golden_arrow.py):
// text, lists of ids, labels and masks, nested rows, each codec; broken files. Lists of ids in
// Parquet (tools/golden_parquet.py), which are read by the same rules.
#include "harness.h"

#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "data/read/record_source.h"
#include "tok/tokenizer.h"

static const char *folder = "arrow"; // of the golden files
static const char *const fields[] = {"messages", "system", NULL};

static json_t *wanted_rows(arena *a, const char *name) {
    char *text;
    size_t n;
    OK(file_read(a, golden_path(a, arena_printf(a, "%s/%s", folder, name)), &text, &n));
    json_t *want = json_array();
    for (char *rest = text, *line; (line = strsep(&rest, "\n")) && *line;)
        json_array_append_new(want, json_loads(line, 0, NULL));
    return want;
}

// A row as Python has it: {"text": ...}, {"input_ids": [...]} and perhaps labels, or an object; for
// broken ids {"broken": why}.
static json_t *as_python(const record *read, const str *row) {
    if (read->json) return json_loadb(row->p, row->n, JSON_ALLOW_NUL, NULL);
    if (!read->ids)
        return json_pack("{s: o}", "text",
                read->broken ? json_null() : json_stringn(row->p ? row->p : "", row->n));
    if (read->broken) return json_pack("{s: s}", "broken", read->broken);
    const bool labelled = read->labels;
    const size_t n = row->n / (sizeof(int32_t) + labelled);
    json_t *ids = json_array(), *labels = json_array();
    for (size_t i = 0; i < n; i++) {
        int32_t id;
        memcpy(&id, row->p + i * sizeof id, sizeof id);
        json_array_append_new(ids, json_integer(id));
        if (labelled)
            json_array_append_new(labels, json_integer(row->p[n * sizeof id + i] ? id : -100));
    }
    json_t *o = json_pack("{s: o}", "input_ids", ids);
    if (labelled) json_object_set(o, "labels", labels);
    json_decref(labels);
    return o;
}

static drv_status rows_of(const char *path, const reader_opts *opts, json_t *out) {
    record_source source;
    const input_kind kind = str_ends(path, ".parquet") ? INPUT_PARQUET : INPUT_ARROW;
    DRV_TRY(record_source_open(&(input_file){.kind = kind, .path = path}, opts, &source));
    str row = {0};
    drv_status status = DRV_OK;
    for (bool done = false; status == DRV_OK;) {
        record read = {0};
        str_clear(&row);
        status = record_source_next(&source, &row, &read, &done);
        if (status != DRV_OK || done) break;
        json_array_append_new(out, as_python(&read, &row));
    }
    str_free(&row);
    record_source_close(&source);
    return status;
}

static void check_rows(json_t *got, json_t *want, const char *name) {
    assert_int_equal(json_array_size(got), json_array_size(want));
    for (size_t i = 0; i < json_array_size(want); i++)
        if (!json_equal(json_array_get(got, i), json_array_get(want, i)))
            fail_msg("%s, row %zu: %s", name, i, json_dumps(json_array_get(got, i), JSON_COMPACT));
}

static void compare(const char *const *files, const char *want_file, const reader_opts *opts) {
    arena *a = arena_new("rows");
    json_t *got = json_array(), *want = wanted_rows(a, want_file);
    for (int i = 0; files[i]; i++)
        OK(rows_of(golden_path(a, arena_printf(a, "%s/%s", folder, files[i])), opts, got));
    check_rows(got, want, files[0]);
    json_decref(got);
    json_decref(want);
    arena_free(a);
}

TEST(text_in_each_codec) {
    static const char *const names[] = {"plain", "plain_large", "lz4", "lz4_large", "zstd",
            "zstd_large"};
    for (int i = 0; i < 6; i++) {
        char name[64];
        snprintf(name, sizeof name, "text_%s.arrow", names[i]);
        compare((const char *const[]){name, NULL}, "text.jsonl", &(reader_opts){.key = "text"});
    }
    // beside unions and runs, which have other buffers in metadata of version 4
    compare((const char *const[]){"odd_V4.arrow", NULL}, "text.jsonl",
            &(reader_opts){.key = "text"});
    compare((const char *const[]){"odd_V5.arrow", NULL}, "text.jsonl",
            &(reader_opts){.key = "text"});
}

TEST(ids_of_each_width) {
    static const char *const names[] = {"ids_i64.arrow", "ids_u16.arrow", "ids_i32.arrow"};
    const reader_opts opts = {.key = "text", .ids.taken = true};
    for (int i = 0; i < 3; i++)
        compare((const char *const[]){names[i], NULL}, "ids.jsonl", &opts);
    compare((const char *const[]){"fixed.arrow", NULL}, "fixed.jsonl", &opts);
    compare((const char *const[]){"saved_ids/data-00000-of-00002.arrow",
                    "saved_ids/data-00001-of-00002.arrow", NULL},
            "saved_ids.jsonl", &opts);
}

TEST(ids_in_parquet) {
    static const char *const names[] = {"ids_i32", "ids_i64", "ids_u16", "ids_u64", "labels"};
    folder = "parquet";
    for (int i = 0; i < 5; i++) {
        char file[32], want[32];
        snprintf(file, sizeof file, "%s.parquet", names[i]);
        snprintf(want, sizeof want, "%s.jsonl", names[i]);
        compare((const char *const[]){file, NULL}, want,
                &(reader_opts){.key = "text", .ids.taken = true, .fields = i == 4 ? fields : NULL});
    }
    folder = "arrow";
    json_t *got = json_array();
    const char *structs = golden_path(a, "parquet/structs.parquet"),
               *ids = golden_path(a, "parquet/ids_i32.parquet");
    FAILS(rows_of(structs, &(reader_opts){.key = "text", .ids.taken = true}, got), DRV_E_DATA,
            "no string column \"text\", nor \"input_ids\" of lists of integers");
    FAILS(rows_of(ids, &(reader_opts){.key = "text"}, got), DRV_E_DATA,
            "no string column \"text\"");
    FAILS(rows_of(ids, &(reader_opts){.key = "text", .fields = fields, .ids.taken = true}, got),
            DRV_E_DATA, "nor lists of integers named \"input_ids\" and \"labels\"");
    json_decref(got);
}

// Dictionaries, another one for the second batch, and such as grow; views, after a column of them
// that is not read.
TEST(coded_text) {
    const reader_opts opts = {.key = "text"};
    compare((const char *const[]){"dictionary_i8.arrow", NULL}, "dictionary.jsonl", &opts);
    compare((const char *const[]){"dictionary_i32_large.arrow", NULL}, "dictionary.jsonl", &opts);
    compare((const char *const[]){"views_plain.arrow", NULL}, "views.jsonl", &opts);
    compare((const char *const[]){"views_lz4.arrow", NULL}, "views.jsonl", &opts);
    compare((const char *const[]){"roles.arrow", NULL}, "roles.jsonl",
            &(reader_opts){.key = "text", .fields = fields});
    compare((const char *const[]){"deltas_i8.arrow", NULL}, "deltas.jsonl", &opts);
    compare((const char *const[]){"deltas_i32_large.arrow", NULL}, "deltas.jsonl", &opts);
}

// Checks that what the mask of a file calls padding is not there.
static void expect_no_padding(const char *file) {
    arena *a = arena_new("labels");
    json_t *got = json_array(), *want = wanted_rows(a, "saved_labels.jsonl"), *row;
    size_t i;
    OK(rows_of(golden_path(a, file),
            &(reader_opts){.key = "text", .fields = fields, .ids.taken = true}, got));
    json_array_foreach(want, i, row) {
        json_t *mask = json_object_get(row, "attention_mask");
        for (size_t k = json_array_size(mask); k-- > 0;) {
            if (json_integer_value(json_array_get(mask, k))) continue;
            json_array_remove(json_object_get(row, "input_ids"), k);
            json_array_remove(json_object_get(row, "labels"), k);
        }
        json_object_del(row, "attention_mask");
    }
    check_rows(got, want, file);
    json_decref(got);
    json_decref(want);
    arena_free(a);
}

TEST(labels_without_padding) {
    static const char *const others[] = {"arrow/marks.arrow", "parquet/reals.parquet"};
    const reader_opts opts = {.key = "text", .fields = fields, .ids.taken = true};
    expect_no_padding("arrow/saved_labels/data-00000-of-00001.arrow");
    expect_no_padding("arrow/flags.arrow"); // a mask of booleans
    folder = "parquet";
    compare((const char *const[]){"flags.parquet", NULL}, "labels.jsonl", &opts);
    folder = "arrow";
    for (int i = 0; i < 2; i++)
        FAILS(rows_of(golden_path(a, others[i]), &opts, NULL), DRV_E_DATA,
                "\"attention_mask\" does not say which ids are padding");
}

TEST(rows_from_the_third_on) {
    json_t *got = json_array(), *all = wanted_rows(a, "chat.jsonl"), *want = json_array();
    OK(rows_of(arena_printf(a, "%s/chat.arrow", golden_path(a, "arrow")),
            &(reader_opts){.key = "text", .fields = fields}, got));
    for (size_t i = 3; i < 53; i++)
        json_array_append(want, json_array_get(all, i));
    check_rows(got, want, "chat");
    json_decref(got);
    json_decref(want);
    json_decref(all);
}

TEST(what_is_not_there_is_named) {
    json_t *got = json_array();
    const char *ids = arena_printf(a, "%s/ids_i64.arrow", golden_path(a, "arrow")),
               *chat = arena_printf(a, "%s/chat.arrow", golden_path(a, "arrow"));
    FAILS(rows_of(ids, &(reader_opts){.key = "text"}, got), DRV_E_DATA,
            "no column \"text\" of text; it has \"input_ids\" (lists)");
    FAILS(rows_of(ids, &(reader_opts){.key = "text", .is_key_given = true, .ids.taken = true}, got),
            DRV_E_DATA, "no column \"text\" of text");
    FAILS(rows_of(ids, &(reader_opts){.key = "text", .fields = fields, .ids.taken = true}, got),
            DRV_E_DATA,
            "(messages, system), nor lists of integers named \"input_ids\" and \"labels\"");
    FAILS(rows_of(chat, &(reader_opts){.key = "text", .ids.taken = true}, got), DRV_E_DATA,
            "it has \"messages\" (lists), \"system\" (text)");
    json_decref(got);
}

// Any file cut short or with wrong bytes is refused or read, never more.
TEST(broken) {
    static const char *const names[] = {"arrow/chat.arrow", "arrow/text_zstd.arrow",
            "arrow/ids_u16.arrow", "arrow/saved_labels/data-00000-of-00001.arrow",
            "arrow/roles.arrow", "arrow/deltas_i8.arrow", "arrow/views_lz4.arrow",
            "parquet/ids_i64.parquet", "parquet/labels.parquet", "arrow/flags.arrow"};
    log_to_file_only(true);
    for (int of = 0; of < 10; of++) {
        char *good;
        size_t n;
        const char *path =
                path_join(a, temporary_dir(a), str_ends(names[of], "t") ? "x.parquet" : "x.arrow");
        OK(file_read(a, golden_path(a, names[of]), &good, &n));
        char *bytes = arena_alloc(a, n);
        for (size_t i = 0; i < 2 * n; i += 17) {
            json_t *got = json_array();
            memcpy(bytes, good, n);
            if (i < n) bytes[i] = (char)(bytes[i] + 1 + (char)(i % 251));
            FILE *file = fopen(path, "w"); // without the syncs of file_write_atomic
            assert_int_equal(fwrite(bytes, 1, i < n ? n : i - n, file), i < n ? n : i - n);
            assert_int_equal(fclose(file), 0);
            const reader_opts opts = {.key = "text",
                    .fields = of == 0 || of == 3 || of == 4 || of >= 8 ? fields : NULL,
                    .ids.taken = true};
            if (rows_of(path, &opts, got) != DRV_OK) assert_non_null(strstr(drv_message(), path));
            json_decref(got);
        }
    }
    log_to_file_only(false);
}
