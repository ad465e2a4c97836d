// Any bytes as what doctor --node prints: refused by one line, or results that can be judged.
#include "fuzz.h"

#include "launch/preflight.h"

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    node_result *results;
    preflight judged;
    int n_nodes;
    if (preflight_read(a, "nodes", (const char *)bytes, n_bytes, &results, &n_nodes) == DRV_OK) {
        int n_named = 0;
        preflight_judge(a, results, n_nodes, &judged);
        for (int i = 0; i < n_nodes; i++)
            n_named += *judged.said[i] != 0;
        DRV_ASSERT(n_named == judged.n_named, "%d of %d", n_named, judged.n_named);
    }
}
