// What the programs of schedulers print, any bytes of it: refused by one line, or a state whose
// words are printable. The first byte says which of them it is.
// Legend: a arena, n bytes.
#include "fuzz.h"

#include "launch/jobs/job_state.h"

static void check_text(const char *text) {
    for (; *text; text++)
        DRV_ASSERT((unsigned char)*text >= ' ' && *text != 0x7F, "a control character");
}

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    if (n_bytes < 1) return;
    const job_record record = {.kind = &job_kinds[1], .name = "run", .id = "12"};
    const char *text = arena_strndup(a, (const char *)bytes + 1, n_bytes - 1);
    const size_t n = n_bytes - 1;
    job_state state = job_state_new();
    int n_alive = 0;
    drv_status status;
    switch (bytes[0]) {
    case 'q':
        status = job_state_of_squeue(a, text, n, "12", &state);
        break;
    case 'o':
        status = job_state_of_object(a, text, n, &record, &state);
        break;
    default:
        status = job_state_add_pods(a, text, n, &state, &n_alive);
    }
    if (status != DRV_OK) DRV_ASSERT(*drv_message() && !strchr(drv_message(), '\n'), "no line");
    DRV_ASSERT(state.phase < N_JOB_PHASES && n_alive >= 0, "no state");
    check_text(state.why);
    check_text(state.where);
    check_text(state.id);
    check_text(state.pod);
}
