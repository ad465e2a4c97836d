// The files that inputs name: files, folders (walked in name order), globs, "-" for standard input.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

typedef enum input_kind {
    INPUT_TEXT,
    INPUT_JSONL,
    INPUT_PARQUET,
    INPUT_ARROW,
    INPUT_CSV,
    INPUT_TSV,
    INPUT_BIN, // token ids of llm.c
    INPUT_NPY, // token ids of OLMo or of numpy.save
    INPUT_MDS, // a shard of MosaicML's StreamingDataset
    INPUT_TAR  // samples of WebDataset
} input_kind;
typedef enum input_packing { PACKED_NOT, PACKED_GZIP, PACKED_ZSTD } input_packing;

typedef struct input_file {
    const char *path; // "-": standard input
    const char *name; // for messages: the path, or "standard input"
    int64_t bytes;    // on the disk; 0 for standard input
    input_kind kind;  // by its ending
    bool guessed;     // its ending is unknown: text, unless its content shows another format
    input_packing packing;
    int64_t unpacked; // bytes when unpacked, and samples, as the index of its folder says;
    int64_t samples;  // 0: it has none
} input_file;

// The meaning of the endings .csv and .tsv.
typedef enum input_tables {
    TABLES_NOT,   // nothing
    TABLES_NAMED, // a table, where the file is named; in a folder the file does not count
    TABLES_ALL    // a table
} input_tables;

typedef struct inputs_opts {
    input_tables tables;
    const char *const *endings; // of further files in folders that are texts: "py"; NULL at the end
                                // (or there are none)
    const char *others;         // how other endings are taken, for a folder without a file that
                                // counts, as "--ending"; NULL: they are not
} inputs_opts;

// Lists the files to read. In a folder only files with a known ending count; the others are counted
// by ending and logged. From a data set's folder of the hub only the training split is read
// (hub_folder.h), from one that datasets.save_to_disk made the files that its state.json lists, in
// that order. DRV_E_IO: an input does not exist.
DRV_CHECKED drv_status inputs_list(arena *a, const char *const *inputs, int n,
        const inputs_opts *opts, input_file **files, int *n_files);

// An option that only some kinds of files heed.
typedef struct input_option {
    const char *name, *expected; // "--separator", "a text (.txt, .md)"
    unsigned kinds;              // bits 1 << input_kind
} input_option;
// DRV_E_USAGE: none of the files heeds the option. One that its content has yet to show may.
DRV_CHECKED drv_status inputs_check_option(const input_file *files, int n,
        const input_option *option);
