// Files of the compile cache: what passes the check is hashed, so damage never reaches a plugin.
#include "fuzz.h"

#include "backend/pjrt/runtime/program_file.h"

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    program_about about;
    const unsigned char *payload;
    size_t n;
    if (program_file_check(bytes, n_bytes, &about, &payload, &n) != DRV_OK) return;
    DRV_ASSERT(payload + n == bytes + n_bytes, "%zu bytes of %zu", n, n_bytes);
    DRV_ASSERT(strlen(about.program) < ABOUT_TEXT && strlen(about.drover) < ABOUT_TEXT,
            "texts without an end");
}
