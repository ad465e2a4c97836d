// The records of tables that may hold token ids, the same for Arrow and Parquet: by which columns a
// file is read, and the checks of the ids, labels and mask of a row.
#pragma once
#include "data/read/reader.h"

// The records of a file. FORM_LABELLED_IDS: after the ids a byte for each of them, 1 if its label
// is the id itself, 0 if it is -100.
typedef enum row_form { FORM_NONE, FORM_TEXT, FORM_JSON, FORM_IDS, FORM_LABELLED_IDS } row_form;

// IDS: lists of integers; FLAGS: lists of booleans.
typedef enum column_type {
    COLUMN_NONE,
    COLUMN_OTHER,
    COLUMN_TEXT,
    COLUMN_IDS,
    COLUMN_FLAGS
} column_type;
// Returns the type of the column of a file; COLUMN_NONE: it has none of that name.
typedef column_type column_type_fn(const void *file, const char *name);

// Chooses the form by the options and the columns that a file has, and sets *ids to the name of the
// column of ids for forms that have them. FORM_JSON needs a column of text, FORM_NONE says that
// the file has neither text nor ids.
row_form row_form_choose(const char *path, const reader_opts *opts, column_type_fn *type,
        const void *file, const char **ids);

// Sets *has: the file has the column "attention_mask", whose zeros are padding; logs that it is
// used. DRV_E_DATA: the column has other values than integers and booleans.
DRV_CHECKED drv_status id_row_find_mask(const char *path, column_type_fn *type, const void *file,
        bool *has);

typedef enum row_list { ROW_IDS, ROW_LABELS, ROW_MASK, N_ROW_LISTS } row_list;

typedef struct id_row { // zero-initialise but for `has`; id_row_free
    bool has[N_ROW_LISTS];
    int64_t *numbers[N_ROW_LISTS], n[N_ROW_LISTS], cap[N_ROW_LISTS];
} id_row;

void id_row_clear(id_row *row);
void id_row_push(id_row *row, row_list list, int64_t number);
// Appends the ids that are not padding, each as int32_t, and then the bytes of their labels if
// there are labels. Returns what is wrong with the row, or NULL.
const char *id_row_add(const id_row *row, str *out);
void id_row_free(id_row *row);
// The reasons for a list of the row, or an element, that is null.
extern const char id_row_null_list[], id_row_null_element[];
