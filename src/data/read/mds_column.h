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
    uint32_t fixed;   // bytes of each value; 0: each sample has its size
    token_type type;  // of an array's values, or of ids in bytes; bytes 0: each value says it
    bool has_type;    // the encoding says the type of an array's values
    int64_t n_values; // of an array whose encoding says its shape; 0: each value says it
    bool wanted;
    str_view value; // in the sample at hand
} mds_column;

// Takes the columns from the JSON in a shard's header; `file` is for messages.
DRV_CHECKED drv_status mds_columns_parse(arena *a, const char *file, const json_t *root,
        mds_column **out, int *n_columns);
bool mds_column_may_hold_ids(const mds_column *column);
// Appends the ids of the value at hand. Returns why it has none, else NULL.
const char *mds_column_add_ids(const mds_column *column, str *out);
