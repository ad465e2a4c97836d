// Any bytes as a model's config.json: refused by a message, or a model that can be written.
#include "base/file.h"
#include "config/model_config.h"

#include <stdio.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n) {
    static char path[64];
    if (!path[0]) snprintf(path, sizeof path, "/tmp/drover-fuzz-%d.json", (int)getpid());
    model_config m;
    if (file_write_atomic(path, p, n) == DRV_OK && model_config_read(path, &m) == DRV_OK)
        json_decref(model_config_json(&m));
    unlink(path);
    return 0;
}
