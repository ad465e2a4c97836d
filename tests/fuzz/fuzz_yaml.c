// Any bytes as a configuration: refused by a message, or a config that prints and reads back to the
// same text.
#include "base/file.h"
#include "config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static drv_status load_bytes(arena *a, const char *path, const void *p, size_t n, run_config *cfg) {
    DRV_TRY(file_write_atomic(path, p, n));
    return config_load(a, path, NULL, 0, cfg);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n) {
    static char path[64];
    if (!path[0]) snprintf(path, sizeof path, "/tmp/drover-fuzz-%d.yaml", (int)getpid());
    arena *a = arena_new("fuzz");
    run_config cfg, again;
    if (load_bytes(a, path, p, n, &cfg) == DRV_OK) {
        str text = {0}, second = {0};
        config_print(&cfg, true, &text);
        DRV_ASSERT(load_bytes(a, path, text.p, text.n, &again) == DRV_OK, "%s", drv_message());
        config_print(&again, true, &second);
        DRV_ASSERT(strcmp(text.p, second.p) == 0, "printed %s, read %s", text.p, second.p);
        str_free(&text);
        str_free(&second);
    }
    unlink(path);
    arena_free(a);
    return 0;
}
