// Files of the compile cache: what passes the check is hashed, so damage never reaches a plugin.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "backend/pjrt/runtime/program_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    program_about about;
    const unsigned char *payload;
    size_t n;
    if (program_file_check(data, size, &about, &payload, &n) != DRV_OK) return 0;
    DRV_ASSERT(payload + n == data + size, "%zu bytes of %zu", n, size);
    DRV_ASSERT(strlen(about.program) < ABOUT_TEXT && strlen(about.drover) < ABOUT_TEXT,
            "texts without an end");
    return 0;
}
