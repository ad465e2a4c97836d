// manifest.json of a checkpoint, beside files that stay the same: whatever it says, verification
// ends with a verdict; what it accepts names these files as they are, so that a changed byte is
// seen.
#include "fuzz.h"

#include "ckpt/ckpt.h"

static const char *const names[] = {"config.json", "trainer.json", "optimizer.safetensors",
        "model.safetensors"};
enum { N_NAMES = sizeof names / sizeof *names };

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    static bool made;
    for (int i = 0; i < N_NAMES && !made; i++) // each holds its own name
        fuzz_file(a, names[i], names[i], strlen(names[i]));
    made = true;
    fuzz_file(a, "manifest.json", bytes, n_bytes);
    if (ckpt_verify(fuzz_folder()) != DRV_OK) return;
    fuzz_file(a, names[2], "optimizer.safetensorS", strlen(names[2]));
    if (ckpt_verify(fuzz_folder()) == DRV_OK) abort();
    fuzz_file(a, names[2], names[2], strlen(names[2]));
}
