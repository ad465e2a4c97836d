// trainer.json of a checkpoint: what is accepted fits together, and is written and read again alike.
#include "fuzz.h"

#include "train/trainer_json.h"

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    json_t *root, *again;
    run_state state, back;
    if (json_read_bytes("fuzz", bytes, n_bytes, &root) != DRV_OK) return;
    if (trainer_json_check("fuzz", -1, root, &state) == DRV_OK) {
        DRV_ASSERT(state.step >= 0 && state.updates <= state.step, "counters");
        char *text = trainer_json_text(&state, root);
        if (json_read_bytes("fuzz", text, strlen(text), &again) != DRV_OK) abort();
        json_decref(again);
        free(text);
        // The counters alone, without what the sums are held against.
        json_t *none = json_object();
        text = trainer_json_text(&state, none);
        if (json_read_bytes("fuzz", text, strlen(text), &again) != DRV_OK) abort();
        if (trainer_json_check("fuzz", -1, again, &back) != DRV_OK || back.step != state.step)
            abort();
        json_decref(again);
        json_decref(none);
        free(text);
    }
    json_decref(root);
}
