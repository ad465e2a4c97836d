// Any bytes as an Arrow file: texts, rows and ids up to a bound, or a message.
#include "fuzz.h"

#include "base/json_cursor.h"
#include "data/read/record_source.h"

enum { MAX_ROWS = 10000, MAX_BYTES = 1 << 24 };

static void read_rows(const char *path, const reader_opts *opts) {
    record_source source;
    const input_file file = {.kind = INPUT_ARROW, .path = path};
    if (record_source_open(&file, opts, &source) != DRV_OK) return;
    str value = {0};
    bool done;
    int64_t bytes = 0;
    for (int i = 0; i < MAX_ROWS && bytes < MAX_BYTES; i++) {
        record row = {0};
        str_clear(&value);
        if (record_source_next(&source, &value, &row, &done) != DRV_OK || done) break;
        bytes += (int64_t)value.n;
        const char *text = value.p ? value.p : "";
        json_cursor c = {.p = text, .end = text + value.n};
        DRV_ASSERT(!row.json || (jc_peek(&c) == '{' && jc_skip(&c)), "no object");
        DRV_ASSERT(!row.ids || value.n % (row.labels ? 5 : 4) == 0, "no ids, or no labels");
    }
    str_free(&value);
    record_source_close(&source);
}

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    static const char *const fields[] = {"messages", "system", "text", NULL};
    const char *path = fuzz_file(a, "rows.arrow", bytes, n_bytes);
    log_to_file_only(true);
    read_rows(path, &(reader_opts){.key = "text", .ids.taken = true});
    read_rows(path, &(reader_opts){.key = "text", .fields = fields, .ids.taken = true});
}
