// Any bytes as the marks of two pairs, with the hash that they have: numbers of tokens, or one line
// of refusal.
#include "fuzz.h"

#include <xxhash.h>

#include "data/set/pair_marks.h"

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    enum { PAIRS = 2 };
    char hash[17];
    pair_mark marks[PAIRS];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)XXH3_64bits(bytes, n_bytes));
    const drv_status status = pair_marks_parse("set.pairs", bytes, n_bytes, hash, PAIRS, marks);
    DRV_ASSERT(status == DRV_OK ||
                       (status == DRV_E_DATA && strncmp(drv_message(), "set.pairs: ", 11) == 0),
            "%d: %s", status, drv_message());
    for (int i = 0; i < PAIRS && status == DRV_OK; i++)
        DRV_ASSERT(marks[i].apart >= 0 && marks[i].answer[0] >= 0 && marks[i].answer[1] >= 0,
                "pair %d", i);
}
