// events.jsonl of a run: every line is an event, broken, unknown or torn; nothing is believed.
#include "fuzz.h"

#include <math.h>

#include "watch/files/run_events.h"

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    run_event_list list;
    int64_t lines = 0;
    for (size_t i = 0; i < n_bytes; i++)
        lines += bytes[i] == '\n';
    run_events_parse((const char *)bytes, n_bytes, &list);
    DRV_ASSERT(list.n + list.n_broken + list.n_unknown <= lines, "more events than lines");
    for (int64_t i = 0; i < list.n; i++) {
        const run_event *e = &list.events[i];
        DRV_ASSERT(e->attempt >= 1 && isfinite(e->time) && isfinite(e->mono), "an event");
        DRV_ASSERT(strcmp(run_event_text(e, "event"), run_event_name(e->kind)) == 0, "its kind");
        if (e->kind != EVENT_START && e->kind != EVENT_STRAGGLER)
            DRV_ASSERT(run_event_i64(e, "step", INT64_MIN) == run_event_i64(e, "step", 0),
                    "a step");
    }
    run_events_free(&list);
}
