#include "base/file.h"
#include "config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n) {
    static char path[64];
    if (!path[0]) snprintf(path, sizeof path, "/tmp/drover-fuzz-%d.yaml", (int)getpid());
    arena *a = arena_new("fuzz");
    run_config c;
    if (file_write_atomic(path, p, n) == DRV_OK && config_load(a, path, NULL, 0, &c) == DRV_OK) {
        str text = {0};
        config_print(&c, true, &text);
        str_free(&text);
    }
    unlink(path);
    arena_free(a);
    return 0;
}
