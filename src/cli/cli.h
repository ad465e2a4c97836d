// Verbs of the command line. Data goes to stdout, messages to stderr.
#pragma once
#include <stdbool.h>

#include "base/arena.h"
#include "base/status.h"
#include "tok/tokenizer.h"

typedef struct cli_option {
    const char *name;  // "--steps"
    const char *value; // what follows in the help, "N"; NULL: a switch
    const char *help;
} cli_option;

typedef struct verb {
    const char *name, *summary;
    const char *usage; // after "drover NAME"
    const char *help;  // a paragraph that teaches
    const cli_option *options;
    int n_options;
    drv_status (*run)(arena *a, int argc, char **argv); // argv[0] is the verb
} verb;

extern const verb verb_config, verb_graph, verb_plan, verb_train, verb_eval, verb_generate,
        verb_ckpt, verb_tokenizer, verb_data, verb_bench, verb_doctor;

// Parsed arguments: positional ones in order, options by name.
typedef struct cli_args {
    const verb *v;
    char **positional;
    int n_positional;
    struct {
        const char *name, *value;
    } option[256];
    int n_options;
} cli_args;

// Unknown options and missing values are DRV_E_USAGE with the nearest name.
DRV_CHECKED drv_status cli_parse(arena *a, const verb *v, int argc, char **argv, int min_positional,
        int max_positional, cli_args *out);
const char *cli_get(const cli_args *c, const char *name, const char *otherwise); // last one given
bool cli_has(const cli_args *c, const char *name);
DRV_CHECKED drv_status cli_get_i64(const cli_args *c, const char *name, int64_t min, int64_t max,
        int64_t *inout);
DRV_CHECKED drv_status cli_get_f64(const cli_args *c, const char *name, double min, double max,
        double *inout);
// "512M", "4G", "1.5G" or bytes.
DRV_CHECKED drv_status cli_get_bytes(const cli_args *c, const char *name, int64_t min,
        int64_t *inout);
// All values of a repeatable option.
const char **cli_get_all(arena *a, const cli_args *c, const char *name, int *n);

// The option must be there.
DRV_CHECKED drv_status cli_need(const cli_args *c, const char *option, const char **out);
// positional[0] is none of those that are expected.
drv_status cli_unknown_verb(const cli_args *c, const char *expected);
// A line of ids, or a part of it: not `begins`, not `ends`.
void cli_print_ids(const id_list *ids, bool json, bool begins, bool ends);

#define CLI_SET                                                                                    \
    { "--set", "KEY=VALUE", "override a key of the config (repeatable)" }
#define CLI_JSON                                                                                   \
    { "--json", NULL, "print one JSON object" }
