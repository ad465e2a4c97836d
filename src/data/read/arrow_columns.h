// The columns of the current Arrow record batch. arrow_columns_load checks that every offset points
// at existing values, so the functions that read values need no checks.
#pragma once
#include "data/read/arrow_stream.h"

typedef struct arrow_column {
    arrow_node node;
    arrow_buffer valid;    // one bit for each value; n 0: no value is null
    arrow_buffer offsets;  // of text and lists: length + 1
    arrow_buffer values;   // of text, views, numbers, bits, and numbers in a dictionary
    arrow_buffer *further; // [n_further]: the data buffers that views refer to
    int n_further, cap_further;
    struct arrow_column *words; // the values of its dictionary, as plain text; NULL: no dictionary
} arrow_column;

typedef struct arrow_columns {
    arrow_stream *stream;
    const char *path;
    arrow_column *of; // one for each field of the schema
    bool *wanted; // for each field: whether to load it; the caller sets it, for parents of a wanted
                  // field too
} arrow_columns;

// The lists live in `a`; arrow_columns_free frees the buffers.
void arrow_columns_init(arena *a, const char *path, arrow_stream *stream, arrow_columns *out);
void arrow_columns_free(arrow_columns *columns);
// Stores the values of a dictionary batch in the wanted columns that use that dictionary.
DRV_CHECKED drv_status arrow_columns_define(arrow_columns *columns, const arrow_batch *batch);
// Reads and checks the wanted columns of the current batch, which has `rows` rows.
DRV_CHECKED drv_status arrow_columns_load(arrow_columns *columns, int64_t rows);

bool arrow_is_null(const arrow_columns *columns, int field, int64_t i);
// Returns value i of a text column, which must not be null. The text is valid until the next batch.
const char *arrow_text(const arrow_columns *columns, int field, int64_t i, size_t *n);
// Finds where the elements of list i begin and end.
void arrow_range(const arrow_columns *columns, int field, int64_t i, int64_t *begin, int64_t *end);
int64_t arrow_number(const arrow_columns *columns, int field, int64_t i);
double arrow_real(const arrow_columns *columns, int field, int64_t i);
bool arrow_bool(const arrow_columns *columns, int field, int64_t i);
