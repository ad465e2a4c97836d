// Any words as a command line of another trainer: refused by a message, or a config.
#include "fuzz.h"

#include "translate/translate.h"

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    enum { MOST = 200 };
    const char *words[MOST] = {"torchrun", "--nproc_per_node=4", "train.py"};
    const char *const sets[] = {"model.preset=tiny"};
    int n_words = 3;
    for (char *rest = arena_strndup(a, (const char *)bytes, n_bytes), *word;
            n_words < MOST && (word = strsep(&rest, " \n"));)
        words[n_words++] = word;
    const translate_opts opts = {.kind = "args",
            .words = words,
            .n_words = n_words,
            .sets = sets,
            .n_sets = 1};
    str config = {0}, report = {0};
    const drv_status status = translate(a, &opts, &config, &report);
    DRV_ASSERT((status == DRV_OK) == (config.n > 0), "a config and a refusal: %s", drv_message());
    str_free(&config);
    str_free(&report);
}
