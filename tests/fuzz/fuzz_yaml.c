// Any bytes as a configuration: refused by a message, or a config that prints and reads back to the
// same text.
#include "fuzz.h"

#include "config/config.h"

static drv_status load_bytes(arena *a, const void *p, size_t n, run_config *cfg) {
    return config_load(a, fuzz_file(a, "run.yaml", p, n), NULL, 0, cfg);
}

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    run_config cfg, again;
    if (load_bytes(a, bytes, n_bytes, &cfg) == DRV_OK) {
        str text = {0}, second = {0};
        config_print(&cfg, true, &text);
        DRV_ASSERT(load_bytes(a, text.p, text.n, &again) == DRV_OK, "%s", drv_message());
        config_print(&again, true, &second);
        DRV_ASSERT(strcmp(text.p, second.p) == 0, "printed %s, read %s", text.p, second.p);
        str_free(&text);
        str_free(&second);
    }
}
