// Reads records of formats that define record boundaries themselves, by a table with one row for
// each format. The other formats (text, JSON lines, CSV) are streams that reader.c splits.
#pragma once
#include "data/read/reader.h"

// The token ids of a file. IDS_UNTYPED: the options may name their type, which the file does not.
typedef enum id_use { IDS_NONE, IDS_TYPED, IDS_UNTYPED } id_use;

// The functions of a format. `next` sets members of *out (the flags of its bytes, `broken` and
// `nulls_cut`), and *done after the last record.
typedef struct record_source_ops {
    drv_status (*next)(void *state, str *bytes, record *out, bool *done);
    int64_t (*where)(const void *state); // bytes of the file read so far
    void (*close)(void *state);
} record_source_ops;

typedef struct record_source { // single owner; zero: none is open
    const record_source_ops *ops;
    void *state;
    id_use ids;  // IDS_TYPED too where only a record says whether it has any
    bool labels; // its records are ids with labels
} record_source;

// Returns the name of the format of files of this kind; NULL: it has no source.
const char *record_source_format(input_kind kind);
// Returns whether such a file is read by random access, so that it can be neither compressed nor a
// pipe.
bool record_source_seeks(input_kind kind);
// `file` and `opts` outlive the source.
DRV_CHECKED drv_status record_source_open(const input_file *file, const reader_opts *opts,
        record_source *out);
// Appends the next record.
DRV_CHECKED drv_status record_source_next(record_source *source, str *bytes, record *out,
        bool *done);
void record_source_close(record_source *source); // and zeroes it

// --- the openers of the formats, for record_source_open, which closes *out if one fails: an opener
// sets *out before it opens anything. DRV_E_DATA: the header is broken, or the file has none of the
// columns that the options name; the message lists its columns.

// The rows of an Arrow file or stream, as Hugging Face datasets writes them
// (datasets.save_to_disk): the column that the options name, of text or of ids, or rows of their
// fields as JSON. If the options take ids, "input_ids" is read where there is no text, with
// "labels" where rows are wanted (id_row.h). Holds the wanted columns of one record batch in memory.
DRV_CHECKED drv_status arrow_open(const input_file *file, const reader_opts *opts,
        record_source *out);
// The rows of a Parquet file: the string column at the path that the options name ("a.b" in a
// struct), token ids by the rules of Arrow, or rows of their fields as JSON with nested lists and
// structs. Of rows, maps, decimals, dates, times and null members are left out, which is logged.
// Bytes that are not UTF-8 stay in strings. Holds one page of each wanted column in memory.
DRV_CHECKED drv_status parquet_open(const input_file *file, const reader_opts *opts,
        record_source *out);
// The samples of one shard of a MosaicML StreamingDataset (MDS version 2): the text or the token
// ids of one column, or the fields of the options as JSON. Holds one sample and the offsets in
// memory.
DRV_CHECKED drv_status mds_shard_open(const input_file *file, const reader_opts *opts,
        record_source *out);
// Files that contain only token ids: .bin of llm.c and modded-nanogpt, .npy of OLMo (no header) and
// of numpy.save (with one). docs/formats.md has the layouts. The options say the type of ids in an
// .npy file without a header; where they do not, a file of uint16 must not look like uint32.
DRV_CHECKED drv_status token_shard_open(const input_file *file, const reader_opts *opts,
        record_source *out);
// The samples of a WebDataset archive. A sample is a sequence of consecutive members whose names
// are equal up to the first dot. KEY.txt is a text, KEY.json an object with a text or, if the
// options take ids, an array of token ids; both may end in .gz. KEY.json is preferred to KEY.txt if
// the user named a key, and is read alone if lines of JSON are wanted.
DRV_CHECKED drv_status webdataset_open(const input_file *file, const reader_opts *opts,
        record_source *out);
