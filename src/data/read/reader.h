// Records of text from files: .txt (a file is a document, or the parts between a separator),
// .jsonl, .ndjson and .json (an object per line, or one array of objects), .parquet and .arrow (a
// row), and where they are asked for .csv and .tsv (a row below the header row), .tar of WebDataset
// and .mds (a sample), .bin and .npy of token ids (a document). All but Parquet and Arrow also as
// gzip or zstd. Standard input and files of another ending are recognised by
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
    bool taken;      // they are used unchanged; false: a file that has nothing else is refused
    int64_t n_vocab; // decides the type of an .npy file without a header
    token_type type; // of that file, and of ids in a column of bytes; bytes 0: not said
    id_cut bin, npy; // where documents of .bin and .npy begin or end
    id_cut rows;     // of other formats: rows are joined and cut; CUT_NOT: a row is a document
} id_opts;

typedef struct reader_opts {
    const char *key;    // of the text in .jsonl, the column of tables; NULL: "text".
                        // Given, what is not known by its ending is JSON lines
    inputs_opts inputs; // which endings count; TABLES_ALL: what is not known by its ending is
                        // CSV, or TSV if its header row has a tab
    const char
            *conversations; // said of JSON that has conversations instead of the key; NULL: nothing
    const char *separator; // of texts, with \n, \t, \r and \\ in it; NULL: the file is one document
    bool strict;           // a broken record stops the run instead of being skipped
    bool lines;            // the text of a line of JSON is the line itself; `key` is ignored
    const char *const *fields; // with `lines`: a row of a table is an object of those columns that
                               // it has of these, NULL at the end
    id_opts ids;
    bool is_key_given; // set by reader_open
    bool whole;        // long texts are not cut into pieces
    bool as_is; // texts are taken to the byte, no mark is dropped; of unknown ending, unpacked
} reader_opts;

typedef struct record {
    size_t at, n; // its bytes in what reader_next appended to: a line of JSON, or text as it lies,
                  // not yet UTF-8
    int file;     // number in the list
    int64_t number; // line (of a row: its first), element or document in the file, from 1
    int64_t passed; // ids of the same document in the pieces before this one
    bool json;
    bool ids;           // int32_t each, of the machine's byte order
    bool labels;        // then a byte for each: whether it has a label
    int64_t bad;        // escapes of JSON that are not characters, read as U+FFFD already
    bool begins, ends;  // pieces of one text, see split_cut; a record alone is both
    const char *broken; // why there is no text; NULL: there is
} record;

typedef enum reader_event {
    READER_RECORD,
    READER_FILE_DONE, // the next record, if there is one, is of another file
    READER_END
} reader_event;

typedef struct reader reader; // single owner
// Logs what was left out of folders. DRV_E_USAGE: a separator that is empty or has an unknown
// escape, or an option that none of the files heeds.
DRV_CHECKED drv_status reader_open(arena *a, const char *const *inputs, int n_inputs,
        const reader_opts *opts, reader **out);
// Finds out whether the first file is Arrow with token ids and labels, as its schema says.
DRV_CHECKED drv_status reader_starts_with_labels(const reader *in, bool *labelled);
// Passes over the first n files. Call it before the first reader_next.
void reader_skip_files(reader *in, int n);
// Appends the next record to `bytes` and describes it; *out is set for READER_RECORD alone.
DRV_CHECKED drv_status reader_next(reader *in, str *bytes, record *out, reader_event *event);
void reader_close(reader *in);

int reader_files_done(const reader *in); // after READER_FILE_DONE: passed and read
const input_file *reader_files(const reader *in, int *n);
const reader_opts *reader_options(const reader *in);
// Returns the failure of a reader that found no document: names the files, and says if all their
// records were skipped.
DRV_CHECKED drv_status reader_no_document(const reader *in, int64_t skipped);
int64_t reader_bytes(const reader *in, int64_t *total); // read, of the files as they lie
