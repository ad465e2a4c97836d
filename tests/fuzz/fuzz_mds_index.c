// Any bytes as the index.json of a data set of MosaicML, beside a shard of 372 bytes.
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "data/read/mds_index.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes) {
    char folder[64], path[96];
    arena *a = arena_new("fuzz");
    input_file *files;
    bool is_mds;
    int n_files;
    snprintf(folder, sizeof folder, "/tmp/drover-fuzz-%d", (int)getpid());
    snprintf(path, sizeof path, "%s/shard.00000.mds", folder);
    log_to_file_only(true);
    static const char zeros[372];
    if (file_exists(path) || (dir_make(folder) == DRV_OK &&
                                     file_write_atomic(path, zeros, sizeof zeros) == DRV_OK)) {
        snprintf(path, sizeof path, "%s/index.json", folder);
        if (file_write_atomic(path, bytes, n_bytes) == DRV_OK &&
                mds_index_files(a, folder, &is_mds, &files, &n_files) == DRV_OK && is_mds)
            for (int i = 0; i < n_files; i++)
                DRV_ASSERT(str_starts(files[i].path, folder) && files[i].bytes == sizeof zeros,
                        "a file elsewhere, or of another size");
        unlink(path);
    }
    arena_free(a);
    return 0;
}
