// ranks/status: whatever it holds, each row is either not known or within the bounds of its columns.
#include "fuzz.h"

#include "watch/files/rank_table.h"

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    rank_table t;
    if (rank_table_parse(a, "status", (const char *)bytes, n_bytes, &t) == DRV_OK) {
        int torn = 0;
        for (int i = 0; i < t.n; i++) {
            const rank_row *r = &t.rows[i];
            torn += !r->known;
            DRV_ASSERT(r->compute_s >= 0 && r->since_s >= 0 && r->sent >= 0, "row %d", i);
        }
        DRV_ASSERT(torn == t.n_torn, "%d torn rows, said to be %d", torn, t.n_torn);
    }
}
