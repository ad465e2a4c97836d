// Any bytes as a file of the reference's log-probabilities: values of the key and the number of
// pairs that are asked for, or one line of refusal.
#include "fuzz.h"

#include "data/set/reference_file.h"

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    double values[4];
    const drv_status status =
            reference_file_parse("fuzz", bytes, n_bytes, "{\"model\":\"0123\"}", 2, values);
    DRV_ASSERT(status == DRV_OK || status == DRV_E_DATA, "%d: %s", status, drv_message());
    for (int i = 0; i < 4 && status == DRV_OK; i++)
        DRV_ASSERT(!(values[i] > 0), "value %d is %g", i, values[i]);
}
