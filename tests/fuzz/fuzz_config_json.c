// Any bytes as a model's config.json: refused by a message, or a model that can be written.
#include "fuzz.h"

#include "config/model_config.h"

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    model_config m;
    if (model_config_read(fuzz_file(a, "config.json", bytes, n_bytes), &m) == DRV_OK)
        json_decref(model_config_json(&m));
}
