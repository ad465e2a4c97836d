// Expands the inputs of a command line to a list of files: files, folders (walked in the order of
// names), globs, and "-" for standard input.
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
    INPUT_BIN, // token ids as llm.c writes them
    INPUT_NPY, // token ids as OLMo or numpy.save writes them
    INPUT_MDS, // a shard of MosaicML's StreamingDataset
    INPUT_TAR  // samples of WebDataset
} input_kind;
typedef enum input_packing { PACKED_NOT, PACKED_GZIP, PACKED_ZSTD } input_packing;

typedef struct input_file {
    const char *path; // "-": standard input
    const char *name; // for messages: the path, or "standard input"
    int64_t bytes;    // size on disk; 0 for standard input
    input_kind kind;  // by its extension
    bool guessed;     // its extension is unknown: text, unless its content shows another format
    bool named;       // by its own path, not found in a folder or by a pattern
    input_packing packing;
    int64_t unpacked; // decompressed size and number of samples, by the index of its folder;
    int64_t samples;  // 0: not known
} input_file;

// Treatment of files with the extensions .csv and .tsv.
typedef enum input_tables {
    TABLES_NOT,   // as unknown extensions
    TABLES_NAMED, // as tables where the user named the file; in folders they are ignored
    TABLES_ALL    // as tables
} input_tables;

typedef struct inputs_opts {
    input_tables tables;
    const char *const *endings; // further extensions of text files in folders, such as "py"; NULL
                                // ends the list (NULL: no list)
    const char *others; // the option by which further extensions are given, such as "--ending", for
                        // the message about a folder without a usable file; NULL: none
} inputs_opts;

// Lists the files to read. In a folder only files with a known extension are taken; the number of
// others is logged by extension. Of a data set's folder from the hub only the training split is
// read (hub_folder.h); of a folder that datasets.save_to_disk wrote, the files that its state.json
// lists, in that order. DRV_E_IO: an input does not exist.
DRV_CHECKED drv_status inputs_list(arena *a, const char *const *inputs, int n,
        const inputs_opts *opts, input_file **files, int *n_files);
