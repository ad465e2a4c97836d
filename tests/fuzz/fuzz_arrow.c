// Any bytes as an Arrow file: texts, rows and ids up to a bound, or a message.
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json_cursor.h"
#include "base/log.h"
#include "data/read/arrow.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

enum { MAX_ROWS = 10000, MAX_BYTES = 1 << 24 };

static void read_rows(const char *path, const arrow_opts *opts) {
    arrow_reader *reader;
    if (arrow_open(path, opts, &reader) != DRV_OK) return;
    const arrow_gives gives = arrow_reader_gives(reader);
    str value = {0};
    const char *why;
    bool row = true;
    int64_t bytes = 0;
    for (int i = 0; i < MAX_ROWS && bytes < MAX_BYTES; i++) {
        str_clear(&value);
        if (arrow_next(reader, &value, &why, &row) != DRV_OK || !row) break;
        bytes += (int64_t)value.n;
        const char *text = value.p ? value.p : "";
        json_cursor c = {.p = text, .end = text + value.n};
        DRV_ASSERT(gives != ARROW_GIVES_JSON || (jc_peek(&c) == '{' && jc_skip(&c)), "no object");
        DRV_ASSERT(gives != ARROW_GIVES_IDS || value.n % 4 == 0, "no ids");
        DRV_ASSERT(gives != ARROW_GIVES_LABELLED_IDS || value.n % 5 == 0, "no ids with labels");
    }
    str_free(&value);
    arrow_close(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n) {
    static const char *const fields[] = {"messages", "system", "text", NULL};
    char path[64];
    snprintf(path, sizeof path, "/tmp/drover-fuzz-%d.arrow", (int)getpid());
    log_to_file_only(true);
    if (file_write_atomic(path, p, n) == DRV_OK) {
        read_rows(path, &(arrow_opts){.column = "text", .ids = true});
        read_rows(path, &(arrow_opts){.column = "text", .fields = fields, .ids = true});
    }
    unlink(path);
    return 0;
}
