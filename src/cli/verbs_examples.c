// drover examples: the configs of examples/, which CMake puts into the program.
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

extern const char *const example_configs[][2]; // names and texts; the last one is NULL

// Prints the comment of an example's first line, which says what the example is for.
static void print_line(const char *name, const char *text) {
    text += strspn(text, "# ");
    printf("%-22s%.*s\n", name, (int)strcspn(text, "\n"), text);
}

static drv_status run(arena *a DRV_UNUSED, const cli_args *args) {
    str names = {0};
    const char *name = args->n_positional ? args->positional[0] : NULL;
    for (int i = 0; example_configs[i][0]; i++) {
        const char *its = example_configs[i][0], *text = example_configs[i][1];
        if (!name) print_line(its, text);
        if (name && strcmp(its, name) == 0) {
            fputs(text, stdout);
            str_free(&names);
            return DRV_OK;
        }
        str_printf(&names, "%s%s", names.n ? ", " : "", its);
    }
    drv_status status = DRV_OK;
    if (name)
        status = drv_fail(DRV_E_USAGE, "examples: \"%s\" is not an example, expected one of %s",
                name, names.p);
    str_free(&names);
    return status;
}

const verb verb_examples = {
        .name = "examples",
        .summary = "list example configs, or print one",
        .usage = "[NAME]",
        .help = "Without NAME, lists the examples with the purpose of each. With NAME, prints that config:\n"
                "\n"
                "    drover examples tiny > run.yaml\n"
                "\n"
                "The comments at its beginning list the commands that prepare its data. drover config FILE\n"
                "explains each key, drover plan FILE prints the memory and time of the run.",
        .max_positional = 1,
        .run = run,
};
