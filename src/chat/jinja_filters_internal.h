// Tables of filters, each at the end of the file that has them, and functions that filters share.
#pragma once
#include "chat/jinja_text_internal.h"

// Converts v to the text to which a filter of texts is applied.
DRV_CHECKED drv_status filter_text(jinja_context *c, const value *v, value *out);
// Finds an attribute by a dotted path, as map, selectattr, sort and join take it.
DRV_CHECKED drv_status filter_by_path(jinja_context *c, const value *v, const value *path,
        value *out);
// Copies a list.
DRV_CHECKED drv_status filter_new_list(jinja_context *c, const value_list *items, value *out);
// Lists the (key, value) pairs of a mapping.
DRV_CHECKED drv_status filter_pairs(jinja_context *c, const value *v, value *out);

typedef struct filter_row {
    const char *name; // in templates; NULL ends a table
    drv_status (*run)(jinja_context *c, const value *v, const call_args *args, value *out);
    int least, most;   // arguments
    const char *names; // of arguments, separated by spaces; NULL: the filter checks its own
} filter_row;

extern const filter_row filters_of_lists[], filters_of_order[], filters_of_text[];
