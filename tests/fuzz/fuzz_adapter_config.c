// Any bytes as PEFT's adapter_config.json: refused by a message, or written and read again as the
// same.
#include "fuzz.h"

#include "ckpt/adapter_config.h"

// What was read is written and read again as the same.
static void read_again(arena *a, const adapter_config *c) {
    json_t *written = adapter_config_json(c);
    adapter_config again;
    DRV_ASSERT(written, "a config that cannot be written");
    const drv_status status = adapter_config_parse(a, "again", written, &again);
    DRV_ASSERT(status == DRV_OK && again.rank == c->rank && again.n_targets == c->n_targets,
            "written and read again: %s", drv_message());
    adapter_choice before, after;
    static const char module[] = "model.layers.0.self_attn.q_proj";
    if (adapter_choose(c, module, &before) == DRV_OK)
        DRV_ASSERT(adapter_choose(&again, module, &after) == DRV_OK &&
                           after.scale == before.scale && after.rank == before.rank,
                "another branch");
    json_decref(written);
}

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    json_t *root;
    adapter_config c;
    if (json_read_bytes("fuzz", bytes, n_bytes, &root) == DRV_OK) {
        if (adapter_config_parse(a, "fuzz", root, &c) == DRV_OK) read_again(a, &c);
        json_decref(root);
    }
}
