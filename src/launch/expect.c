// Reads the expected numbers of ranks and nodes from the environment.
#include "launch/expect.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/str.h"

// `option` of a verb sets the variable, which ranks on other nodes get.
static drv_status check(const char *option, const char *variable, const char *what, int found) {
    const char *text = getenv(variable);
    int64_t expected;
    if (!text || !*text) return DRV_OK;
    if (!str_to_i64(text, &expected) || expected < 1)
        return drv_fail(DRV_E_USAGE, "%s is \"%s\", expected a number of %ss", variable, text,
                what);
    if (expected == found) return DRV_OK;
    return drv_fail(DRV_E_USAGE, "this job has %d %s%s, but %lld %s expected (%s or %s)", found,
            what, str_plural(found), (long long)expected, expected > 1 ? "were" : "was", option,
            variable);
}

drv_status expect_check(int ranks, int nodes) {
    DRV_TRY(check("--expect-ranks", EXPECT_RANKS, "rank", ranks));
    return check("--expect-nodes", EXPECT_NODES, "node", nodes);
}
