// Options that only some kinds of files heed, and the check that one of the files does.
#include "data/read/reader_options.h"

#include "data/read/record_source.h"

// An option that only some kinds of files heed, and of those that may have ids only such as have
// these.
typedef struct input_option {
    const char *name, *expected; // "--separator", "a text (.txt, .md)"
    unsigned kinds;              // bits 1 << input_kind
    id_use least;                // IDS_NONE: the kind decides
} input_option;

static drv_status heeds(const reader_opts *opts, const input_file *file, const input_option *option,
        bool *out) {
    record_source source;
    *out = option->kinds >> file->kind & 1;
    if (!*out || option->least == IDS_NONE || !opts->ids.taken) return DRV_OK;
    DRV_TRY(record_source_open(file, file->path, opts, &source));
    *out = record_source_ids(&source) >= option->least;
    record_source_close(&source);
    return DRV_OK;
}

// Refuses an option that none of the files heeds. One whose content has yet to show its format may.
static drv_status check_option(const reader_opts *opts, const input_file *files, int n_files,
        const input_option *option) {
    for (int i = 0; i < n_files; i++) {
        bool heeded;
        const input_file *file = &files[i];
        if (file->guessed && file->kind == INPUT_TEXT) return DRV_OK;
        DRV_TRY(heeds(opts, file, option, &heeded));
        if (heeded) return DRV_OK;
    }
    return drv_fail(DRV_E_USAGE, "%s has no effect on \"%s\"%s: expected %s among the inputs",
            option->name, files[0].name, n_files > 1 ? " and the other inputs" : "",
            option->expected);
}

drv_status reader_check_options(const reader_opts *opts, const input_file *files, int n_files) {
    enum {
        IDS_AND_TEXT = 1 << INPUT_ARROW | 1 << INPUT_MDS | 1 << INPUT_TAR,
        KEYED = IDS_AND_TEXT | 1 << INPUT_JSONL | 1 << INPUT_PARQUET | 1 << INPUT_CSV |
                1 << INPUT_TSV
    };
    const struct {
        bool given;
        input_option option;
    } given[] = {{opts->is_key_given,
                         {opts->inputs.tables == TABLES_ALL ? "--text-column" : "--json-key",
                                 "JSON, CSV, Parquet, Arrow, .mds or .tar", KEYED, IDS_NONE}},
            {opts->separator != NULL,
                    {"--separator", "a text (.txt, .md)", 1 << INPUT_TEXT, IDS_NONE}},
            {opts->ids.type.bytes != 0,
                    {"--token-type", ".npy without a header, or .mds with ids in bytes,",
                            1 << INPUT_NPY | 1 << INPUT_MDS, IDS_UNTYPED}},
            {opts->ids.rows.where != CUT_NOT,
                    {opts->ids.rows.where == CUT_BEFORE ? "--cut-before" : "--cut-after",
                            "token ids (.bin, .npy, .mds, .tar, .arrow)",
                            IDS_AND_TEXT | 1 << INPUT_BIN | 1 << INPUT_NPY, IDS_TYPED}}};
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        if (given[i].given) DRV_TRY(check_option(opts, files, n_files, &given[i].option));
    return DRV_OK;
}
