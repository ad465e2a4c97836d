// Any bytes as a script: refused by a message, or read to its end; nothing of it is run.
#include "fuzz.h"

#include "translate/shell.h"

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    shell_script script = {0};
    shell_set(&script, "GIVEN", "x y");
    if (shell_read(a, "script.sh", (const char *)bytes, n_bytes, &script) == DRV_OK)
        DRV_ASSERT(strcmp(shell_find(&script, "GIVEN")->value.text, "x y") == 0,
                "a script changed what was given");
    for (int i = 0; i < script.n_commands; i++)
        for (int k = 0; k < script.commands[i].n; k++)
            DRV_ASSERT(script.commands[i].words[k].text, "a word without text");
    shell_clear(&script);
}
