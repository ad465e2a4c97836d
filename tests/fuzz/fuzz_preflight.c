// Any bytes as what doctor --node prints: refused by one line, or results that can be judged.
#include <string.h>

#include "launch/preflight.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes) {
    arena *mem = arena_new("fuzz");
    node_result *results;
    preflight judged;
    int n_nodes;
    if (preflight_read(mem, "nodes", (const char *)bytes, n_bytes, &results, &n_nodes) == DRV_OK) {
        int *out = ARENA_ARRAY(mem, int, n_nodes);
        preflight_judge(mem, results, n_nodes, &judged);
        const int n_out = preflight_leave_out(&judged, n_nodes, out);
        DRV_ASSERT(n_out == judged.n_named && n_out <= n_nodes, "%d of %d", n_out, n_nodes);
        for (int i = 0; i < n_out; i++)
            DRV_ASSERT(out[i] >= 0 && out[i] < n_nodes && *judged.said[out[i]],
                    "a node that is none");
    }
    arena_free(mem);
    return 0;
}
