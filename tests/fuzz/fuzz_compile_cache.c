// Files of the compile cache: what passes the check is hashed, so damage never reaches a plugin.
#include <stddef.h>
#include <stdint.h>

#include "backend/pjrt/compile_cache.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const unsigned char *payload;
    size_t n;
    if (compile_cache_check(data, size, &payload, &n) != DRV_OK) return 0;
    DRV_ASSERT(payload + n == data + size, "%zu bytes of %zu", n, size);
    return 0;
}
