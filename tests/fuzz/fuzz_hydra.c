// Any bytes as YAML with ${...}: refused by a message, or a tree without any.
#include "fuzz.h"

#include "translate/hydra.h"

// Values that lists and maps hold are counted, so that a tree that grew without end is found.
static int64_t count(const value *v) {
    int64_t n = 1;
    for (int i = 0; i < v->n; i++)
        n += count(&v->items[i]);
    return n;
}

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    value root;
    drv_status status = yaml_read(a, "fuzz.yaml", (const char *)bytes, n_bytes, &root);
    if (status == DRV_OK)
        status = hydra_override(a, NULL, &root, "trainer.max_steps=${seed}", "fuzz");
    if (status == DRV_OK) status = hydra_interpolate(a, NULL, &root);
    if (status == DRV_OK) DRV_ASSERT(count(&root) <= 20000, "%lld values", (long long)count(&root));
    if (status != DRV_OK) DRV_ASSERT(*drv_message(), "no message");
}
