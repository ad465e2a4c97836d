// status.json of a run: what is accepted is of this version and fits together.
#include "fuzz.h"

#include <math.h>

#include "watch/files/run_status.h"

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    run_status read;
    if (run_status_parse(a, "fuzz", (const char *)bytes, n_bytes, &read) == DRV_OK) {
        DRV_ASSERT((read.state == RUN_ENDED) == (read.end != RUN_GOES_ON), "its end");
        DRV_ASSERT(read.step >= 0 && read.steps >= 0 && read.failed_rank >= -1, "its numbers");
        DRV_ASSERT(!isnan(read.time) && strlen(read.message) <= n_bytes, "its texts");
    }
}
