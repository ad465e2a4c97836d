// One text column of a Parquet file, a row at a time.
#include "data/read/parquet.h"

#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "data/read/parquet_pages.h"

struct parquet_reader {
    arena *a;
    parquet_file file;
    parquet_column column;
    parquet_pages *pages;
};

static drv_status find_column(parquet_reader *reader, const char *name) {
    parquet_footer footer;
    const parquet_node *leaf;
    DRV_TRY(parquet_read_footer(reader->a, &reader->file, &footer));
    DRV_TRY(parquet_find_text(&reader->file, &footer.schema, name, &leaf));
    DRV_TRY(parquet_place_column(reader->a, &reader->file, &footer, leaf, &reader->column));
    reader->pages = parquet_pages_new(&reader->file, &reader->column);
    return DRV_OK;
}

drv_status parquet_open(const char *path, const char *column, parquet_reader **out) {
    int fd;
    int64_t size;
    DRV_TRY(file_open_regular(path, &fd, &size));
    arena *a = arena_new("parquet");
    parquet_reader *reader = ARENA_NEW(a, parquet_reader);
    *reader = (parquet_reader){.a = a, .file = {path, fd, size}};
    const drv_status status = find_column(reader, column);
    if (status == DRV_OK)
        *out = reader;
    else
        parquet_close(reader);
    return status;
}

void parquet_close(parquet_reader *reader) {
    if (!reader) return;
    close(reader->file.fd);
    parquet_pages_free(reader->pages);
    arena_free(reader->a);
}

int64_t parquet_where(const parquet_reader *reader) {
    return parquet_pages_where(reader->pages);
}

drv_status parquet_next(parquet_reader *reader, str *out, bool *null, bool *row) {
    parquet_slot slot;
    *null = false;
    DRV_TRY(parquet_pages_peek(reader->pages, &slot, row));
    if (!*row) return DRV_OK;
    *null = !slot.present;
    if (slot.present) str_add(out, slot.value.p, slot.value.n);
    parquet_pages_pass(reader->pages);
    return DRV_OK;
}
