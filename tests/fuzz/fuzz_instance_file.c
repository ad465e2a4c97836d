// Any bytes as a type of machine: refused by one line, or a type whose figures hold together.
#include "fuzz.h"

#include "launch/jobs/instance_types.h"

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    instance_type t;
    const drv_status status = instance_read(a, "i.yaml", (const char *)bytes, n_bytes, &t);
    DRV_ASSERT(status == DRV_OK || status == DRV_E_USAGE, "status %d", status);
    if (status != DRV_OK) DRV_ASSERT(*drv_message() && !strchr(drv_message(), '\n'), "no line");
    if (status == DRV_OK)
        DRV_ASSERT(t.cpus > 0 && t.pod_memory > 0 && instance_ranks(&t) > 0 && *t.name &&
                           !t.resource == (t.family == DEVICE_NONE),
                "a type that is none");
}
