// The ledger of a journal and of steps that say anything: no class is below zero, the sum is exact.
// Bytes: a journal, a NUL, then doubles as they come, six for each step.
#include "fuzz.h"

#include <math.h>

#include "watch/views/ledger.h"

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    const uint8_t *nul = n_bytes ? memchr(bytes, 0, n_bytes) : NULL;
    const size_t journal = nul ? (size_t)(nul - bytes) : n_bytes;
    run_event_list events;
    run_events_parse((const char *)bytes, journal, &events);
    ledger *l = ledger_new(a, &events, 0.25);
    double x[6], sum = 0;
    for (size_t at = journal + 1; at + sizeof x <= n_bytes; at += sizeof x) {
        memcpy(x, bytes + at, sizeof x);
        int64_t step;
        memcpy(&step, &x[0], sizeof step);
        ledger_add(l, &(ledger_step){step, x[1], x[2], x[3], bytes[at] & 1, x[3], x[4], x[5]});
    }
    const ledger_sums s = ledger_close(a, l);
    for (int i = 0; i < N_LEDGER_CLASSES; i++) {
        DRV_ASSERT(s.seconds[i] >= -1e-9 * (1 + s.wall_s), "%s is %g s",
                ledger_name((ledger_class)i), s.seconds[i]);
        sum += s.seconds[i];
    }
    DRV_ASSERT(fabs(sum - s.wall_s) <= 1e-9 * (1 + s.wall_s) && !(s.goodput < -1e-9),
            "wall time %g s, its parts %g s", s.wall_s, sum);
    run_events_free(&events);
}
