// drover examples: the configs of examples/, which CMake puts into the program.
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

typedef struct example {
    const char *name, *text;
} example;
extern const example example_configs[]; // by name; the last one is empty

// Prints the comment of an example's first line, which says what the example is for.
static void print_line(const example *e) {
    const char *text = e->text + strspn(e->text, "# ");
    printf("%-22s%.*s\n", e->name, (int)strcspn(text, "\n"), text);
}

static drv_status run(arena *a, const cli_args *args) {
    str names = {0};
    (void)a;
    const char *name = args->n_positional ? args->positional[0] : NULL;
    for (const example *e = example_configs; e->name; e++) {
        if (!name) print_line(e);
        if (name && strcmp(e->name, name) == 0) {
            fputs(e->text, stdout);
            return DRV_OK;
        }
        str_printf(&names, "%s%s", names.n ? ", " : "", e->name);
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
        .summary = "list configs to begin with, or print one",
        .usage = "[NAME]",
        .help = "Without NAME, lists the examples, one a line, with what each is for. With NAME, prints that config:\n"
                "\n"
                "    drover examples tiny > run.yaml\n"
                "\n"
                "The comments at its top say which commands make its data. drover config FILE explains each key,\n"
                "drover plan FILE says what the run takes.",
        .max_positional = 1,
        .run = run,
};
