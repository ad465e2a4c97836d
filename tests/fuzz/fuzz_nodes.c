// Any bytes as an environment, a variable a line: a placement whose numbers fit each other, or one
// line of refusal.
#include "fuzz.h"

#include "launch/nodes.h"

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    enum { MOST = 64 };
    const char *variables[MOST + 1] = {NULL};
    char *text = arena_strndup(a, (const char *)bytes, n_bytes), *rest = text, *line;
    for (int n = 0; n < MOST && (line = strsep(&rest, "\n"));)
        variables[n++] = line;
    node_placement w = {0};
    const drv_status status = nodes_discover(a, variables, &w);
    DRV_ASSERT(status == DRV_OK || status == DRV_E_USAGE, "%d: %s", status, drv_message());
    if (status == DRV_OK) {
        DRV_ASSERT(nodes_count(&w) >= 1 && w.node_rank.value >= 0, "%d nodes", nodes_count(&w));
        DRV_ASSERT(!w.nodes.by || !w.node_rank.by || w.node_rank.value < w.nodes.value, "rank %d",
                w.node_rank.value);
        DRV_ASSERT(*nodes_words(a, &w, 0) && w.master.value && w.job.value, "words");
    }
    const drv_status alone = nodes_check_alone(variables, "FILE");
    DRV_ASSERT(alone == DRV_OK || alone == DRV_E_USAGE, "%d: %s", alone, drv_message());
    DRV_ASSERT(alone != DRV_OK || status == DRV_OK, "refused, but alone it may train");
}
