// The columns of an MDS shard: their encodings, and the ids in one value.
#pragma once
#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "data/read/token_type.h"

typedef enum mds_kind { MDS_TEXT, MDS_JSON, MDS_BYTES, MDS_ARRAY, MDS_OTHER } mds_kind;

typedef struct mds_column {
    const char *name, *encoding;
    mds_kind kind;
    uint32_t fixed;   // bytes of each value; 0: each sample stores the size of its value
    token_type type;  // of an array's elements, or of ids in bytes; bytes 0: in each value
    bool has_type;    // the encoding names the type of an array's elements
    int64_t n_values; // elements of an array whose encoding names its shape; 0: each value has its
                      // own shape
    bool wanted;
    str_view value; // in the current sample
} mds_column;

// Reads the columns from the JSON in a shard's header; `file` is for messages.
DRV_CHECKED drv_status mds_columns_parse(arena *a, const char *file, const json_t *root,
        mds_column **out, int *n_columns);
bool mds_column_may_hold_ids(const mds_column *column);
// Appends the ids of the current value. Returns the reason if it has none, else NULL.
const char *mds_column_add_ids(const mds_column *column, str *out);
