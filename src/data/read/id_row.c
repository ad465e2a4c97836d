// Chooses the columns of a table with token ids, and checks its rows.
#include "data/read/id_row.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/log.h"

enum { NO_LABEL = -100 }; // of a token without a loss, in PyTorch and transformers

const char id_row_null_list[] = "is null",
           id_row_null_element[] = "has an id, label or mask that is null";

row_form row_form_choose(const char *path, const reader_opts *opts, column_type_fn *type,
        const void *file, const char **ids) {
    const bool has_ids = opts->ids.taken && type(file, "input_ids") == COLUMN_IDS;
    *ids = "input_ids";
    if (opts->fields)
        return has_ids && type(file, "labels") == COLUMN_IDS ? FORM_LABELLED_IDS : FORM_JSON;
    const column_type keyed = type(file, opts->key);
    if (keyed == COLUMN_TEXT) {
        if (has_ids && !opts->is_key_given)
            log_info("%s: text is encoded; --json-key input_ids takes the token ids instead", path);
        return FORM_TEXT;
    }
    if (opts->ids.taken && keyed == COLUMN_IDS) {
        *ids = opts->key;
        return FORM_IDS;
    }
    return has_ids && !opts->is_key_given ? FORM_IDS : FORM_NONE;
}

drv_status id_row_find_mask(const char *path, column_type_fn *type, const void *file, bool *has) {
    const column_type mask = type(file, "attention_mask");
    *has = mask == COLUMN_IDS || mask == COLUMN_FLAGS;
    if (*has) log_info("%s: tokens whose attention_mask is 0 are padding and left out", path);
    if (*has || mask == COLUMN_NONE) return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "%s: column \"attention_mask\" does not say which ids are padding, expected lists of integers or booleans",
            path);
}

void id_row_clear(id_row *row) {
    for (int i = 0; i < N_ROW_LISTS; i++)
        row->n[i] = 0;
}

void id_row_push(id_row *row, row_list list, int64_t number) {
    MEM_GROW(row->numbers[list], row->n[list], row->cap[list]);
    row->numbers[list][row->n[list]++] = number;
}

static bool is_padding(const id_row *row, int64_t k) {
    return row->has[ROW_MASK] && row->numbers[ROW_MASK][k] == 0;
}

static const char *check(const id_row *row) {
    const int64_t *ids = row->numbers[ROW_IDS], *labels = row->numbers[ROW_LABELS],
                  n = row->n[ROW_IDS];
    for (int i = 0; i < N_ROW_LISTS; i++)
        if (row->has[i] && row->n[i] != n)
            return "has labels or a mask of another length than its ids";
    for (int64_t k = 0; k < n; k++)
        if (ids[k] < 0 || ids[k] > INT32_MAX) return "has an id below 0 or above 2147483647";
    for (int64_t k = 0; row->has[ROW_LABELS] && k < n; k++)
        if (labels[k] != NO_LABEL && labels[k] != ids[k] && !is_padding(row, k))
            return "has a label that is neither its id nor -100";
    return NULL;
}

const char *id_row_add(const id_row *row, str *out) {
    const char *why = check(row);
    if (why) return why;
    for (int64_t k = 0; k < row->n[ROW_IDS]; k++) {
        const int32_t id = (int32_t)row->numbers[ROW_IDS][k];
        if (!is_padding(row, k)) str_add(out, &id, sizeof id);
    }
    for (int64_t k = 0; row->has[ROW_LABELS] && k < row->n[ROW_LABELS]; k++)
        if (!is_padding(row, k)) str_add(out, &(char){row->numbers[ROW_LABELS][k] != NO_LABEL}, 1);
    return NULL;
}

void id_row_free(id_row *row) {
    for (int i = 0; i < N_ROW_LISTS; i++)
        free(row->numbers[i]);
    *row = (id_row){0};
}
