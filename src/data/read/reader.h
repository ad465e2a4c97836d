// Records of text from files: .txt (a file is a document, or the parts between a separator),
// .jsonl, .ndjson and .json (an object per line, or one array of objects), .parquet and .arrow (a
// row), and on request .csv and .tsv (a row below the header row); .tar of WebDataset and .mds (a
// sample); .bin and .npy with token ids (a document). All but Parquet and Arrow may be compressed
// by gzip or zstd. The format of standard input and of files with other extensions is detected from
// their content.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"
#include "data/read/id_cutter.h"
#include "data/read/inputs.h"
#include "data/read/token_type.h"

// Records that are token ids already.
typedef struct id_opts {
    bool taken;      // they are used unchanged; false: a file that has only ids is refused
    int64_t n_vocab; // decides the integer type of an .npy file without a header
    token_type type; // of such a file, and of ids in a column of bytes; bytes 0: not given
    id_cut bin, npy; // how .bin and .npy are cut into documents
    id_cut rows;     // how the concatenated rows of other formats are cut; CUT_NOT: each row is a
                     // document
} id_opts;

typedef struct reader_opts {
    const char *key; // the key of the text in .jsonl, the column of tables; NULL: "text". If given,
                     // files with unknown extensions are JSON lines
    inputs_opts inputs; // which extensions are read; TABLES_ALL: files with unknown extensions are
                        // CSV, or TSV if the header row has a tab
    const char *conversations; // advice in the message about JSON that has conversations instead of
                               // the key; NULL: none
    const char *separator; // between documents of a text file, with \n, \t, \r and \\ as escapes;
                           // NULL: a file is one document
    bool strict;           // a broken record stops the run instead of being skipped
    bool lines;            // the text of a line of JSON is the line itself; `key` is ignored
    const char *const *fields; // with `lines`: a row of a table becomes an object of these columns,
                               // those that it has; ended by NULL
    id_opts ids;
    bool is_key_given; // set by reader_open
    bool whole;        // long texts are not cut into pieces
    bool as_is; // texts are read byte for byte, a byte order mark too; a known extension alone
                // decides whether a file is decompressed
} reader_opts;

typedef struct record {
    size_t at, n; // its bytes in the string that reader_next appends to: a line of JSON, or text in
                  // the file's encoding
    int file;     // index in the list of files
    int64_t number; // number of the line (for a row its first), element or document in the file,
                    // from 1
    int64_t passed; // ids of the same document in earlier pieces
    bool json;
    bool ids;          // int32_t each, in the machine's byte order
    bool labels;       // followed by a byte for each id: whether it has a label
    bool nulls_cut;    // null members of messages in this or an earlier row were left out, which a
                       // template would have printed
    int64_t bad;       // JSON escapes that are not characters, already replaced by U+FFFD
    bool begins, ends; // the first and the last piece of a text (split_cut); a whole record is both
    const char *broken; // the reason if there is no text, else NULL
} record;

typedef enum reader_event {
    READER_RECORD,
    READER_FILE_DONE, // the next record, if any, is from another file
    READER_END
} reader_event;

typedef struct reader reader; // single owner
// Logs which files of folders are ignored. DRV_E_USAGE: a separator that is empty or has an unknown
// escape, or an option that concerns none of the files.
DRV_CHECKED drv_status reader_open(arena *a, const char *const *inputs, int n_inputs,
        const reader_opts *opts, reader **out);
// Sets *labelled to whether the first file is Arrow or Parquet whose schema has token ids and labels.
DRV_CHECKED drv_status reader_starts_with_labels(reader *in, bool *labelled);
// Skips the first n files. Call it before the first reader_next.
void reader_skip_files(reader *in, int n);
// Appends the next record to `bytes` and describes it; *out is set only for READER_RECORD.
DRV_CHECKED drv_status reader_next(reader *in, str *bytes, record *out, reader_event *event);
void reader_close(reader *in);

int reader_files_done(
        const reader *in); // files read or skipped so far; call it after READER_FILE_DONE
const input_file *reader_files(const reader *in, int *n);
const reader_opts *reader_options(const reader *in);
// Returns the error for inputs without a document. It names the files, and says whether all their
// records were skipped.
DRV_CHECKED drv_status reader_no_document(const reader *in, int64_t skipped);
int64_t reader_bytes(const reader *in, int64_t *total); // bytes read so far, before decompression
