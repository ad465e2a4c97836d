// Loads columns of a record batch and checks lengths and offsets against each other.
#include "data/read/arrow_columns.h"

#include <stdlib.h>
#include <string.h>

void arrow_columns_init(arena *a, const char *path, arrow_stream *stream, arrow_columns *out) {
    const int n = arrow_stream_schema(stream)->n;
    *out = (arrow_columns){.stream = stream,
            .path = path,
            .of = ARENA_ARRAY(a, arrow_column, n),
            .wanted = ARENA_ARRAY(a, bool, n)};
    memset(out->of, 0, sizeof *out->of * (size_t)n);
    memset(out->wanted, 0, sizeof *out->wanted * (size_t)n);
}

void arrow_columns_free(arrow_columns *columns) {
    const int n = columns->stream ? arrow_stream_schema(columns->stream)->n : 0;
    for (int i = 0; i < n; i++) {
        free(columns->of[i].valid.p);
        free(columns->of[i].offsets.p);
        free(columns->of[i].values.p);
    }
}

static const arrow_field *field_of(const arrow_columns *columns, int i) {
    return &arrow_stream_schema(columns->stream)->fields[i];
}

static drv_status broken(const arrow_columns *columns, int i, const char *what) {
    return drv_fail(DRV_E_DATA, "%s: Arrow record batch %lld, column \"%s\": %s", columns->path,
            (long long)arrow_stream_batch(columns->stream), field_of(columns, i)->name, what);
}

static int64_t offset_at(const arrow_columns *columns, int field, int64_t i) {
    const arrow_buffer *buffer = &columns->of[field].offsets;
    const int width = field_of(columns, field)->width;
    return fb_number_at(&(flatbuffer){.p = buffer->p, .n = buffer->n}, (size_t)(i * width), width);
}

// They begin at zero or above and never fall; *last: the greatest.
static drv_status check_offsets(const arrow_columns *columns, int i, int64_t *last) {
    const arrow_column *column = &columns->of[i];
    const int width = field_of(columns, i)->width;
    *last = 0;
    if (column->node.length == 0) return DRV_OK;
    if (column->node.length >= (int64_t)column->offsets.n / width)
        return broken(columns, i, "fewer offsets than values");
    for (int64_t k = 0; k <= column->node.length; k++) {
        const int64_t offset = offset_at(columns, i, k);
        if (offset < *last) return broken(columns, i, "offsets that fall, or lie below zero");
        *last = offset;
    }
    return DRV_OK;
}

static drv_status load_column(arrow_columns *columns, int i, int64_t least);

static drv_status load_children(arrow_columns *columns, int i, int64_t least) {
    const arrow_field *field = field_of(columns, i);
    for (int k = i + 1; k < i + field->n_fields; k += field_of(columns, k)->n_fields)
        if (columns->wanted[k]) DRV_TRY(load_column(columns, k, least));
    return DRV_OK;
}

static drv_status load_values(arrow_columns *columns, int i) {
    const arrow_field *field = field_of(columns, i);
    arrow_column *column = &columns->of[i];
    const int64_t length = column->node.length;
    int64_t last;
    switch (field->type) {
    case ARROW_TEXT:
        DRV_TRY(arrow_stream_buffer(columns->stream, field->buffer + 1, &column->offsets));
        DRV_TRY(arrow_stream_buffer(columns->stream, field->buffer + 2, &column->values));
        DRV_TRY(check_offsets(columns, i, &last));
        return last <= (int64_t)column->values.n ? DRV_OK
                                                 : broken(columns, i, "text beyond its buffer");
    case ARROW_INT:
        DRV_TRY(arrow_stream_buffer(columns->stream, field->buffer + 1, &column->values));
        return length <= (int64_t)column->values.n / field->width
                       ? DRV_OK
                       : broken(columns, i, "numbers beyond their buffer");
    case ARROW_LIST:
        DRV_TRY(arrow_stream_buffer(columns->stream, field->buffer + 1, &column->offsets));
        DRV_TRY(check_offsets(columns, i, &last));
        return load_children(columns, i, last);
    case ARROW_FIXED_LIST:
        // Lists of nothing would let a batch of no bytes have any number of rows.
        if (field->list_size == 0) return broken(columns, i, "lists of no element");
        if (length > INT64_MAX / field->list_size) return broken(columns, i, "too many lists");
        return load_children(columns, i, length * field->list_size);
    case ARROW_STRUCT:
        return load_children(columns, i, length);
    case ARROW_OTHER:
        break;
    }
    return DRV_OK;
}

// A column that must have at least so many values.
static drv_status load_column(arrow_columns *columns, int i, int64_t least) {
    arrow_column *column = &columns->of[i];
    const arrow_field *field = field_of(columns, i);
    DRV_TRY(arrow_stream_node(columns->stream, field->node, &column->node));
    if (column->node.length < least) return broken(columns, i, "fewer values than its parent");
    column->valid.n = 0;
    if (column->node.nulls > 0) {
        DRV_TRY(arrow_stream_buffer(columns->stream, field->buffer, &column->valid));
        if ((int64_t)column->valid.n < column->node.length / 8 + (column->node.length % 8 != 0))
            return broken(columns, i, "fewer bits of validity than values");
    }
    return load_values(columns, i);
}

drv_status arrow_columns_load(arrow_columns *columns, int64_t rows) {
    return load_children(columns, 0, rows);
}

bool arrow_is_null(const arrow_columns *columns, int field, int64_t i) {
    const arrow_buffer *valid = &columns->of[field].valid;
    return valid->n > 0 && !(valid->p[i / 8] >> i % 8 & 1);
}

void arrow_range(const arrow_columns *columns, int field, int64_t i, int64_t *begin, int64_t *end) {
    const arrow_field *of = field_of(columns, field);
    if (of->type == ARROW_FIXED_LIST) {
        *begin = i * of->list_size;
        *end = *begin + of->list_size;
        return;
    }
    *begin = offset_at(columns, field, i);
    *end = offset_at(columns, field, i + 1);
}

int64_t arrow_number(const arrow_columns *columns, int field, int64_t i) {
    const arrow_field *of = field_of(columns, field);
    const arrow_buffer *values = &columns->of[field].values;
    const int64_t number = fb_number_at(&(flatbuffer){.p = values->p, .n = values->n},
            (size_t)(i * of->width), of->width);
    if (of->is_signed || of->width == 8) return number;
    return number & (int64_t)((UINT64_C(1) << 8 * of->width) - 1);
}
