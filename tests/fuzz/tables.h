// Any bytes as a table of one kind: its rows, texts and ids up to a bound, or a message.
#pragma once
#include "fuzz.h"

#include "base/json_cursor.h"
#include "data/read/record_source.h"

// Whatever the columns hold, a row is an object.
static void read_rows(const char *path, input_kind kind, const reader_opts *opts) {
    enum { MAX_ROWS = 10000, MAX_BYTES = 1 << 24 };
    const input_file file = {.kind = kind, .path = path};
    record_source source;
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
        DRV_ASSERT(!row.json || (jc_peek(&c) == '{' && jc_skip(&c) && jc_peek(&c) == 0),
                "no object");
        DRV_ASSERT(!row.ids || value.n % (row.labels ? 5 : 4) == 0, "no ids, or no labels");
    }
    str_free(&value);
    record_source_close(&source);
}
