// Lists the back ends that a config can name.
#include "backend/caps/backend_caps.h"

#include <string.h>

static const backend_caps backend_caps_cpu = {.name = "cpu",
        .orders_sums = true,
        .keeps_gradients = true,
        .sends_async = true,
        .widens_blocks = true,
        .uses_host_memory = true,
        .is_processor = true};
// The compiler orders sums and messages, and the step of a single device is one program.
const backend_caps backend_caps_pjrt = {.name = "pjrt", .has_devices = true};

const backend_caps *backend_caps_of(const char *name) {
    return strcmp(name, backend_caps_pjrt.name) == 0 ? &backend_caps_pjrt : &backend_caps_cpu;
}
