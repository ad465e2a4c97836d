// One text column of a Parquet file, a row at a time.
#include "data/read/parquet.h"

#include <unistd.h>

#include "base/file.h"
#include "data/read/parquet_pages.h"

typedef struct parquet_reader {
    arena *a;
    parquet_file file;
    parquet_column column;
    parquet_pages *pages;
} parquet_reader;

static drv_status find_column(parquet_reader *self, const char *name) {
    parquet_footer footer;
    const parquet_node *leaf;
    DRV_TRY(parquet_read_footer(self->a, &self->file, &footer));
    DRV_TRY(parquet_find_text(&self->file, &footer.schema, name, &leaf));
    DRV_TRY(parquet_place_column(self->a, &self->file, &footer, leaf, &self->column));
    self->pages = parquet_pages_new(&self->file, &self->column);
    return DRV_OK;
}

static drv_status next(void *state, str *out, record *to, bool *done) {
    const parquet_reader *self = state;
    parquet_slot slot;
    bool row;
    DRV_TRY(parquet_pages_peek(self->pages, &slot, &row));
    *done = !row;
    if (*done) return DRV_OK;
    if (slot.present)
        str_add(out, slot.value.p, slot.value.n);
    else
        to->broken = "is null";
    parquet_pages_pass(self->pages);
    return DRV_OK;
}

static int64_t where(const void *state) {
    return parquet_pages_where(((const parquet_reader *)state)->pages);
}

static void close_reader(void *state) {
    parquet_reader *self = state;
    close(self->file.fd);
    parquet_pages_free(self->pages);
    arena_free(self->a);
}

drv_status parquet_open(const source_job *job, record_source *out) {
    static const record_source_ops ops = {.next = next, .where = where, .close = close_reader};
    arena *a = arena_new("parquet");
    parquet_reader *self = ARENA_NEW(a, parquet_reader);
    *self = (parquet_reader){.a = a, .file.path = job->path};
    *out = (record_source){&ops, self};
    DRV_TRY(file_open_regular(job->path, &self->file.fd, &self->file.size));
    return find_column(self, job->o->key);
}
