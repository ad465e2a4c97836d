// Knows the kinds of files that each option applies to, and refuses an option that applies to none.
#include "data/read/reader_options.h"

#include "base/file.h"

typedef struct input_option {
    const char *name, *expected; // "--separator", "a text (.txt, .md)"
    unsigned kinds;              // bits 1 << input_kind: the kinds of files that it applies to
    id_use least;                // of these, to files with at least such ids; IDS_NONE: to all
} input_option;

// Finds out whether the option applies to a file.
static drv_status applies(const reader_opts *opts, const input_file *file,
        const input_option *option, record_source *first, bool *out) {
    record_source other = {0}, *source = first ? first : &other;
    *out = option->kinds >> file->kind & 1;
    if (!*out || option->least == IDS_NONE || !opts->ids.taken) return DRV_OK;
    if (!first && file_odd_kind(file->path)) return DRV_OK; // a pipe can be read only once
    if (!source->ops) DRV_TRY(record_source_open(file, opts, source));
    *out = source->ids >= option->least;
    record_source_close(&other);
    return DRV_OK;
}

// Refuses an option that applies to none of the files. It may apply to a file whose format is not
// known yet.
static drv_status check_option(const reader_opts *opts, const input_file *files, int n_files,
        const input_option *option, record_source *first) {
    for (int i = 0; i < n_files; i++) {
        bool one_does;
        const input_file *file = &files[i];
        if (file->guessed && file->kind == INPUT_TEXT) return DRV_OK;
        DRV_TRY(applies(opts, file, option, i == 0 ? first : NULL, &one_does));
        if (one_does) return DRV_OK;
    }
    return drv_fail(DRV_E_USAGE, "%s has no effect on \"%s\"%s: expected %s among the inputs",
            option->name, files[0].name, n_files > 1 ? " and the other inputs" : "",
            option->expected);
}

drv_status reader_check_options(const reader_opts *opts, const input_file *files, int n_files,
        record_source *first) {
    enum {
        IDS_AND_TEXT = 1 << INPUT_ARROW | 1 << INPUT_PARQUET | 1 << INPUT_MDS | 1 << INPUT_TAR,
        KEYED = IDS_AND_TEXT | 1 << INPUT_JSONL | 1 << INPUT_CSV | 1 << INPUT_TSV
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
                            "token ids (.bin, .npy, .mds, .tar, .parquet, .arrow)",
                            IDS_AND_TEXT | 1 << INPUT_BIN | 1 << INPUT_NPY, IDS_TYPED}}};
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        if (given[i].given) DRV_TRY(check_option(opts, files, n_files, &given[i].option, first));
    return DRV_OK;
}
