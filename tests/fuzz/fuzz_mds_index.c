// Any bytes as the index.json of a data set of MosaicML, beside a shard of 372 bytes.
#include "fuzz.h"

#include "base/str.h"
#include "data/read/mds_index.h"

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    input_file *files;
    bool is_mds;
    int n_files;
    static const char zeros[372];
    log_to_file_only(true);
    fuzz_file(a, "shard.00000.mds", zeros, sizeof zeros);
    fuzz_file(a, "index.json", bytes, n_bytes);
    if (mds_index_files(a, fuzz_folder(), &is_mds, &files, &n_files) == DRV_OK && is_mds)
        for (int i = 0; i < n_files; i++)
            DRV_ASSERT(str_starts(files[i].path, fuzz_folder()) && files[i].bytes == sizeof zeros,
                    "a file elsewhere, or of another size");
}
