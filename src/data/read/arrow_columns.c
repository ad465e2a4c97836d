// Loads columns of a record batch and checks lengths and offsets against each other.
#include "data/read/arrow_columns.h"

#include <stdlib.h>
#include <string.h>

void arrow_columns_init(arena *a, const char *path, arrow_stream *stream, arrow_columns *out) {
    const arrow_schema *schema = arrow_stream_schema(stream);
    const int n = schema->n;
    *out = (arrow_columns){.stream = stream,
            .path = path,
            .of = ARENA_ARRAY(a, arrow_column, n),
            .wanted = ARENA_ARRAY(a, bool, n)};
    memset(out->of, 0, sizeof *out->of * (size_t)n);
    memset(out->wanted, 0, sizeof *out->wanted * (size_t)n);
    for (int i = 0; i < n; i++) {
        if (schema->fields[i].coding != ARROW_DICTIONARY) continue;
        out->of[i].words = ARENA_NEW(a, arrow_column);
        *out->of[i].words = (arrow_column){0};
    }
}

static void free_buffers(arrow_column *column) {
    free(column->valid.p);
    free(column->offsets.p);
    free(column->values.p);
    for (int k = 0; k < column->cap_further; k++)
        free(column->further[k].p);
    free(column->further);
}

void arrow_columns_free(arrow_columns *columns) {
    const int n = columns->stream ? arrow_stream_schema(columns->stream)->n : 0;
    for (int i = 0; i < n; i++) {
        free_buffers(&columns->of[i]);
        if (columns->of[i].words) free_buffers(columns->of[i].words);
    }
}

static const arrow_field *field_of(const arrow_columns *columns, int i) {
    return &arrow_stream_schema(columns->stream)->fields[i];
}

static drv_status broken(const arrow_columns *columns, int i, const char *what) {
    return drv_fail(DRV_E_DATA, "%s: Arrow record batch %lld, column \"%s\": %s", columns->path,
            (long long)arrow_stream_batch(columns->stream), field_of(columns, i)->name, what);
}

static int64_t number_at(const arrow_buffer *buffer, int width, bool is_signed, int64_t i) {
    const int64_t number =
            fb_number_at(&(flatbuffer){.p = buffer->p, .n = buffer->n}, (size_t)(i * width), width);
    if (is_signed || width == 8) return number;
    return number & (int64_t)((UINT64_C(1) << 8 * width) - 1);
}

static bool is_null(const arrow_column *column, int64_t i) {
    return column->valid.n > 0 && !(column->valid.p[i / 8] >> i % 8 & 1);
}

// Checks that offsets are not negative and never decrease. *last: the largest.
static drv_status check_offsets(const arrow_columns *columns, int i, const arrow_column *column,
        int64_t *last) {
    const int width = field_of(columns, i)->width;
    *last = 0;
    if (column->node.length == 0) return DRV_OK;
    if (column->node.length >= (int64_t)column->offsets.n / width)
        return broken(columns, i, "fewer offsets than values");
    for (int64_t k = 0; k <= column->node.length; k++) {
        const int64_t offset = number_at(&column->offsets, width, true, k);
        if (offset < *last) return broken(columns, i, "offsets that decrease, or are negative");
        *last = offset;
    }
    return DRV_OK;
}

// --- text
static drv_status load_plain(arrow_columns *columns, int i, arrow_column *column, int first) {
    int64_t last;
    DRV_TRY(arrow_stream_buffer(columns->stream, first + 1, &column->offsets));
    DRV_TRY(arrow_stream_buffer(columns->stream, first + 2, &column->values));
    DRV_TRY(check_offsets(columns, i, column, &last));
    return last <= (int64_t)column->values.n ? DRV_OK
                                             : broken(columns, i, "text beyond its buffer");
}

// A view: the length, then up to 12 bytes of text; of a longer text its first four bytes, the index
// of a data buffer and the offset in it.
enum { VIEW_BYTES = 16, VIEW_TEXT = 4, VIEW_SHORT = 12, VIEW_BUFFER = 8, VIEW_AT = 12 };

typedef struct view {
    int64_t n, buffer, at;
} view;

static view view_at(const arrow_column *column, int64_t i) {
    const flatbuffer views = {.p = column->values.p, .n = column->values.n};
    const size_t at = (size_t)i * VIEW_BYTES;
    return (view){fb_number_at(&views, at, 4), fb_number_at(&views, at + VIEW_BUFFER, 4),
            fb_number_at(&views, at + VIEW_AT, 4)};
}

static bool is_inside(const arrow_column *column, const view *v) {
    if (v->n <= VIEW_SHORT) return v->n >= 0;
    return v->buffer >= 0 && v->buffer < column->n_further && v->at >= 0 &&
           v->at + v->n <= (int64_t)column->further[v->buffer].n;
}

static drv_status load_views(arrow_columns *columns, int i, int first, int n_further) {
    arrow_column *column = &columns->of[i];
    DRV_TRY(arrow_stream_buffer(columns->stream, first + 1, &column->values));
    if (column->node.length > (int64_t)column->values.n / VIEW_BYTES)
        return broken(columns, i, "fewer views than values");
    if (n_further > column->cap_further) {
        const size_t size = sizeof *column->further, cap = (size_t)column->cap_further;
        column->further = mem_realloc(column->further, size * (size_t)n_further);
        memset(column->further + cap, 0, size * ((size_t)n_further - cap));
        column->cap_further = n_further;
    }
    column->n_further = n_further;
    for (int k = 0; k < n_further; k++)
        DRV_TRY(arrow_stream_buffer(columns->stream, first + 2 + k, &column->further[k]));
    for (int64_t k = 0; k < column->node.length; k++) {
        const view v = view_at(column, k);
        if (!is_null(column, k) && !is_inside(column, &v))
            return broken(columns, i, "a view of text beyond its buffers");
    }
    return DRV_OK;
}

static int64_t index_at(const arrow_columns *columns, int field, int64_t i) {
    const arrow_field *of = field_of(columns, field);
    return number_at(&columns->of[field].values, of->index_width, of->index_signed, i);
}

static drv_status load_indices(arrow_columns *columns, int i, int first) {
    arrow_column *column = &columns->of[i];
    DRV_TRY(arrow_stream_buffer(columns->stream, first + 1, &column->values));
    if (column->node.length > (int64_t)column->values.n / field_of(columns, i)->index_width)
        return broken(columns, i, "numbers beyond their buffer");
    for (int64_t k = 0; k < column->node.length; k++) {
        if (is_null(column, k)) continue;
        const int64_t index = index_at(columns, i, k);
        if (index < 0 || index >= column->words->node.length)
            return broken(columns, i, "a number that its dictionary does not have");
    }
    return DRV_OK;
}

// --- all columns
static drv_status load_column(arrow_columns *columns, int i, int64_t least);

static drv_status load_children(arrow_columns *columns, int i, int64_t least) {
    const arrow_field *field = field_of(columns, i);
    for (int k = i + 1; k < i + field->n_fields; k += field_of(columns, k)->n_fields)
        if (columns->wanted[k]) DRV_TRY(load_column(columns, k, least));
    return DRV_OK;
}

static drv_status load_values(arrow_columns *columns, int i, int first, int n_further) {
    const arrow_field *field = field_of(columns, i);
    arrow_column *column = &columns->of[i];
    const int64_t length = column->node.length;
    int64_t last;
    switch (field->type) {
    case ARROW_TEXT:
        if (field->coding == ARROW_VIEWS) return load_views(columns, i, first, n_further);
        if (field->coding == ARROW_DICTIONARY) return load_indices(columns, i, first);
        return load_plain(columns, i, column, first);
    case ARROW_BOOL:
        DRV_TRY(arrow_stream_buffer(columns->stream, first + 1, &column->values));
        return length / 8 + (length % 8 != 0) <= (int64_t)column->values.n
                       ? DRV_OK
                       : broken(columns, i, "bits beyond their buffer");
    case ARROW_INT:
    case ARROW_REAL:
        DRV_TRY(arrow_stream_buffer(columns->stream, first + 1, &column->values));
        return length <= (int64_t)column->values.n / field->width
                       ? DRV_OK
                       : broken(columns, i, "numbers beyond their buffer");
    case ARROW_LIST:
        DRV_TRY(arrow_stream_buffer(columns->stream, first + 1, &column->offsets));
        DRV_TRY(check_offsets(columns, i, column, &last));
        return load_children(columns, i, last);
    case ARROW_FIXED_LIST:
        // Lists of nothing would let a batch of no bytes have any number of rows.
        if (field->list_size == 0) return broken(columns, i, "lists of no element");
        if (length > INT64_MAX / field->list_size) return broken(columns, i, "too many lists");
        return load_children(columns, i, length * field->list_size);
    case ARROW_STRUCT:
        return load_children(columns, i, length);
    case ARROW_NULL:
    case ARROW_OTHER:
        break;
    }
    return DRV_OK;
}

// Loads the length of a column and the bits that say which of its values are null.
static drv_status load_validity(arrow_columns *columns, int i, int node, int buffer,
        arrow_column *column) {
    DRV_TRY(arrow_stream_node(columns->stream, node, &column->node));
    column->valid.n = 0;
    if (column->node.nulls == 0 || field_of(columns, i)->type == ARROW_NULL) return DRV_OK;
    DRV_TRY(arrow_stream_buffer(columns->stream, buffer, &column->valid));
    const int64_t n_bytes = column->node.length / 8 + (column->node.length % 8 != 0);
    return (int64_t)column->valid.n >= n_bytes
                   ? DRV_OK
                   : broken(columns, i, "fewer bits of validity than values");
}

// Loads a column that must have at least `least` values.
static drv_status load_column(arrow_columns *columns, int i, int64_t least) {
    int n_further;
    const int first = arrow_stream_first_buffer(columns->stream, i, &n_further);
    DRV_TRY(load_validity(columns, i, field_of(columns, i)->node, first, &columns->of[i]));
    if (columns->of[i].node.length < least)
        return broken(columns, i, "fewer values than its parent");
    return load_values(columns, i, first, n_further);
}

drv_status arrow_columns_load(arrow_columns *columns, int64_t rows) {
    return load_children(columns, 0, rows);
}

// --- dictionaries
static unsigned char *room_behind(arrow_buffer *buffer, size_t used, size_t more) {
    buffer->n = used + more;
    if (buffer->n > buffer->cap) {
        buffer->cap = 2 * buffer->n;
        buffer->p = mem_realloc(buffer->p, buffer->cap);
    }
    return buffer->p + used;
}

static void join_validity(arrow_column *words, const arrow_column *more) {
    const int64_t before = words->node.length, n = before + more->node.length;
    if (words->valid.n == 0 && more->valid.n == 0) return;
    arrow_buffer joined = {0};
    memset(room_behind(&joined, 0, (size_t)(n / 8 + 1)), 0, (size_t)(n / 8 + 1));
    for (int64_t k = 0; k < n; k++)
        if (!(k < before ? is_null(words, k) : is_null(more, k - before)))
            joined.p[k / 8] |= (unsigned char)(1 << k % 8);
    free(words->valid.p);
    words->valid = joined;
}

// Appends the values of `more` to the dictionary.
static drv_status join_words(const arrow_columns *columns, int i, arrow_column *words,
        const arrow_column *more) {
    const int width = field_of(columns, i)->width;
    const int64_t before = words->node.length, n = more->node.length;
    if (n == 0) return DRV_OK;
    const int64_t text = before ? number_at(&words->offsets, width, true, before) : 0,
                  first = number_at(&more->offsets, width, true, 0),
                  added = number_at(&more->offsets, width, true, n) - first;
    if (width == 4 && text + added > INT32_MAX)
        return broken(columns, i, "a dictionary of more text than its offsets can count");
    join_validity(words, more);
    unsigned char *to =
            room_behind(&words->offsets, (size_t)(before * width), (size_t)((n + 1) * width));
    for (int64_t k = 0; k <= n; k++) {
        const int64_t at = text + number_at(&more->offsets, width, true, k) - first;
        memcpy(to + k * width, &at, (size_t)width); // little-endian, as Arrow's are
    }
    to = room_behind(&words->values, (size_t)text, (size_t)added);
    if (added) memcpy(to, more->values.p + first, (size_t)added);
    words->node.length += n;
    words->node.nulls += more->node.nulls;
    return DRV_OK;
}

static drv_status define(arrow_columns *columns, int i, arrow_column *words) {
    DRV_TRY(load_validity(columns, i, 0, 0, words));
    return load_plain(columns, i, words, 0);
}

drv_status arrow_columns_define(arrow_columns *columns, const arrow_batch *batch) {
    const int n = arrow_stream_schema(columns->stream)->n;
    for (int i = 1; i < n; i++) {
        const arrow_field *field = field_of(columns, i);
        if (!columns->wanted[i] || field->coding != ARROW_DICTIONARY ||
                field->dictionary != batch->dictionary)
            continue;
        arrow_column more = {0};
        drv_status status = define(columns, i, batch->is_delta ? &more : columns->of[i].words);
        if (status == DRV_OK && batch->is_delta)
            status = join_words(columns, i, columns->of[i].words, &more);
        free_buffers(&more);
        if (status != DRV_OK) return status;
    }
    return DRV_OK;
}

bool arrow_is_null(const arrow_columns *columns, int field, int64_t i) {
    const arrow_column *column = &columns->of[field];
    if (field_of(columns, field)->type == ARROW_NULL || is_null(column, i)) return true;
    return column->words && is_null(column->words, index_at(columns, field, i));
}

const char *arrow_text(const arrow_columns *columns, int field, int64_t i, size_t *n) {
    const arrow_column *column = &columns->of[field];
    const arrow_field *of = field_of(columns, field);
    if (of->coding == ARROW_VIEWS) {
        const view v = view_at(column, i);
        *n = (size_t)v.n;
        if (v.n > VIEW_SHORT) return (const char *)column->further[v.buffer].p + v.at;
        return (const char *)column->values.p + i * VIEW_BYTES + VIEW_TEXT;
    }
    if (column->words) {
        i = index_at(columns, field, i);
        column = column->words;
    }
    const int64_t begin = number_at(&column->offsets, of->width, true, i),
                  end = number_at(&column->offsets, of->width, true, i + 1);
    *n = (size_t)(end - begin);
    return column->values.p ? (const char *)column->values.p + begin : "";
}

void arrow_range(const arrow_columns *columns, int field, int64_t i, int64_t *begin, int64_t *end) {
    const arrow_field *of = field_of(columns, field);
    if (of->type == ARROW_FIXED_LIST) {
        *begin = i * of->list_size;
        *end = *begin + of->list_size;
        return;
    }
    *begin = number_at(&columns->of[field].offsets, of->width, true, i);
    *end = number_at(&columns->of[field].offsets, of->width, true, i + 1);
}

int64_t arrow_number(const arrow_columns *columns, int field, int64_t i) {
    const arrow_field *of = field_of(columns, field);
    return number_at(&columns->of[field].values, of->width, of->is_signed, i);
}

double arrow_real(const arrow_columns *columns, int field, int64_t i) {
    const int64_t bits = arrow_number(columns, field, i);
    float single;
    double real;
    if (field_of(columns, field)->width == sizeof single) {
        const uint32_t low = (uint32_t)bits;
        memcpy(&single, &low, sizeof single);
        return (double)single;
    }
    memcpy(&real, &bits, sizeof real);
    return real;
}

bool arrow_bool(const arrow_columns *columns, int field, int64_t i) {
    return columns->of[field].values.p[i / 8] >> i % 8 & 1;
}
