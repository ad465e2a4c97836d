// Any bytes as a Parquet file: texts and rows up to a bound, or a message.
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json_cursor.h"
#include "data/read/parquet.h"
#include "data/read/parquet_rows.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

enum { MAX_ROWS = 10000 };

static void read_column(const char *path) {
    parquet_reader *r;
    if (parquet_open(path, "text", &r) != DRV_OK) return;
    str value = {0};
    bool null, row = true;
    for (int i = 0; i < MAX_ROWS && row; i++) {
        str_clear(&value);
        if (parquet_next(r, &value, &null, &row) != DRV_OK) break;
    }
    str_free(&value);
    parquet_close(r);
}

// Whatever the columns hold, a row is an object.
static void read_rows(const char *path) {
    static const char *const fields[] = {"text", "tags", "page", "messages", "tools", NULL};
    parquet_rows *r;
    if (parquet_rows_open(path, fields, &r) != DRV_OK) return;
    str value = {0};
    bool row = true;
    for (int i = 0; i < MAX_ROWS && row; i++) {
        str_clear(&value);
        if (parquet_rows_next(r, &value, &row) != DRV_OK) break;
        if (!row) break;
        json_cursor c = {.p = value.p, .end = value.p + value.n};
        DRV_ASSERT(jc_peek(&c) == '{' && jc_skip(&c) && jc_peek(&c) == 0, "no object");
    }
    str_free(&value);
    parquet_rows_close(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/drover-fuzz-%d.parquet", (int)getpid());
    if (file_write_atomic(path, p, n) == DRV_OK) {
        read_column(path);
        read_rows(path);
    }
    unlink(path);
    return 0;
}
