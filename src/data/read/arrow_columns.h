// The columns of the Arrow record batch at hand, checked: after arrow_columns_load every offset
// points at existing values, so the functions that read them check nothing.
#pragma once
#include "data/read/arrow_stream.h"

typedef struct arrow_column {
    arrow_node node;
    arrow_buffer valid;    // a bit a value; n 0: none is null
    arrow_buffer offsets;  // of text and lists: length + 1
    arrow_buffer values;   // of text, views, numbers, bits, and numbers in a dictionary
    arrow_buffer *further; // [n_further]: what views lead to
    int n_further, cap_further;
    struct arrow_column *words; // the values of its dictionary, plain text; NULL: it has none
} arrow_column;

typedef struct arrow_columns {
    arrow_stream *stream;
    const char *path;
    arrow_column *of; // by field of the schema
    bool *wanted;     // by field: it is loaded; set by the caller, parents too
} arrow_columns;

// `a`: of the lists; the buffers are freed by arrow_columns_free.
void arrow_columns_init(arena *a, const char *path, arrow_stream *stream, arrow_columns *out);
void arrow_columns_free(arrow_columns *columns);
// Takes the values of a dictionary for the wanted columns that have it.
DRV_CHECKED drv_status arrow_columns_define(arrow_columns *columns, const arrow_batch *batch);
// Reads and checks the wanted columns of the batch, which has so many rows.
DRV_CHECKED drv_status arrow_columns_load(arrow_columns *columns, int64_t rows);

bool arrow_is_null(const arrow_columns *columns, int field, int64_t i);
// Value i of a column of text, which is not null; it lives until the next batch.
const char *arrow_text(const arrow_columns *columns, int field, int64_t i, size_t *n);
// Finds where the elements of list i begin and end.
void arrow_range(const arrow_columns *columns, int field, int64_t i, int64_t *begin, int64_t *end);
int64_t arrow_number(const arrow_columns *columns, int field, int64_t i);
double arrow_real(const arrow_columns *columns, int field, int64_t i);
bool arrow_bool(const arrow_columns *columns, int field, int64_t i);
