// Reads the samples of one shard of a MosaicML StreamingDataset (MDS version 2): the text or the
// token ids of one column, or several columns as a JSON object. Holds one sample and the offsets in
// memory.
#pragma once
#include "base/arena.h"
#include "data/read/inputs.h"
#include "data/read/token_type.h"

typedef struct mds_opts {
    const char *column;        // the column with the text, or with ids
    bool is_named;             // the user named it: no other column is accepted
    const char *const *fields; // not NULL: samples are JSON objects of these columns, if present
    bool ids;                  // accept "tokens" or "input_ids" where there is no text
    token_type bytes_hold;     // the type of ids in a column of bytes; bytes 0: int64
} mds_opts;

typedef enum mds_gives { MDS_GIVES_TEXT, MDS_GIVES_JSON, MDS_GIVES_IDS } mds_gives;

typedef struct mds_shard mds_shard; // single owner
// `file` outlives the shard. DRV_E_DATA: the header is invalid, or there is no such column.
DRV_CHECKED drv_status mds_shard_open(const input_file *file, const mds_opts *opts,
        mds_shard **out);
mds_gives mds_shard_gives(const mds_shard *shard);
// Appends the value of the next sample. *broken: the reason if it has none, else NULL. *done is set
// after the last sample. DRV_E_DATA: the shard is truncated, or its sizes contradict each other.
DRV_CHECKED drv_status mds_shard_next(mds_shard *shard, str *out, const char **broken, bool *done);
int64_t mds_shard_where(const mds_shard *shard); // bytes read of the file
void mds_shard_close(mds_shard *shard);
