// PREFIX.idx.json of a set of 2 documents and 7 tokens: what is believed is in range.
#include "fuzz.h"

#include "data/set/dataset.h"

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    const dataset d = {.prefix = "set", .n_documents = 2, .n_tokens = 7, .idx_hash = 0x1f};
    dataset_about x;
    if (dataset_about_parse(a, &d, "set.idx.json", bytes, n_bytes, &x) == DRV_OK) {
        DRV_ASSERT(x.known, "believed");
        DRV_ASSERT(x.eod >= -1 && x.eod <= INT32_MAX, "eod");
        DRV_ASSERT(x.largest_id < 0 || (x.largest_at >= 0 && x.largest_at < 7), "largest");
        DRV_ASSERT(!x.eod_text || strlen(x.eod_text) <= n_bytes, "text");
    } else {
        DRV_ASSERT(!x.known && strstr(drv_message(), "set.idx.json"), "refused by name");
    }
}
