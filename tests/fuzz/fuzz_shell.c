// Any bytes as a script: refused by a message, or read to its end; nothing of it is run.
#include <string.h>

#include "translate/shell.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes) {
    arena *a = arena_new("fuzz");
    shell_script script = {0};
    shell_set(&script, "GIVEN", "x y");
    if (shell_read(a, "script.sh", (const char *)bytes, n_bytes, &script) == DRV_OK)
        DRV_ASSERT(strcmp(shell_find(&script, "GIVEN")->value.text, "x y") == 0,
                "a script changed what was given");
    for (int i = 0; i < script.n_commands; i++)
        for (int k = 0; k < script.commands[i].n; k++)
            DRV_ASSERT(script.commands[i].words[k].text, "a word without text");
    shell_clear(&script);
    arena_free(a);
    return 0;
}
