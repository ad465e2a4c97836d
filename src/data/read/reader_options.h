// Refuses options that have no effect on any of the inputs.
#pragma once
#include "data/read/record_source.h"

// DRV_E_USAGE: an option was given that applies to none of the files. An option about ids applies
// to a file of a format that may have ids only if the file has them, so such files are opened, and
// their errors returned. *first: the source of the first file, which stays open once it is opened.
DRV_CHECKED drv_status reader_check_options(const reader_opts *opts, const input_file *files,
        int n_files, record_source *first);
