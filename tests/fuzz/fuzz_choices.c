// Any bytes as a file of multiple choice: whole records, or one line of refusal.
#include "fuzz.h"

#include "infer/choices.h"

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    choice_set set;
    const drv_status status = choices_parse(a, "FILE", (const char *)bytes, n_bytes, &set);
    DRV_ASSERT(status == DRV_OK || status == DRV_E_DATA, "%d: %s", status, drv_message());
    for (int64_t i = 0; status == DRV_OK && i < set.n; i++) {
        const choice_record *r = set.record + i;
        DRV_ASSERT(r->n_choices >= 2 && r->gold >= 0 && r->gold < r->n_choices, "gold %d of %d",
                r->gold, r->n_choices);
        DRV_ASSERT(r->n_stripped <= r->context.n && r->line > 0, "line %lld", (long long)r->line);
    }
}
