// Refuses options that have no effect on any of the inputs.
#pragma once
#include "data/read/reader.h"

// DRV_E_USAGE: no file heeds an option that was given. Files of formats that may have ids are
// opened where the option is about ids, and their errors are returned.
DRV_CHECKED drv_status reader_check_options(const reader_opts *opts, const input_file *files,
        int n_files);
