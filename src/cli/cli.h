// The command line: a table of verbs, each with its help, options and function. Results go to
// standard output; progress, log and errors to standard error.
#pragma once
#include <stdbool.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/status.h"
#include "tok/tokenizer.h"

typedef struct cli_option {
    const char *name;  // "--steps"
    const char *value; // what follows in the help: "N", "PATH..." (one or more); NULL: a switch
    const char *help;  // one with "(repeatable" in it may be given more than once
} cli_option;

// A rule says which options of a verb go together. No option is ignored: cli_parse refuses one that
// would be.
typedef struct cli_rule {
    const char *option;
    const char *needs;    // "--text --choices": the option says nothing without one; NULL: it does
    const char *excludes; // "--data --stride": those say nothing beside the option; NULL: none
    bool may_be_empty;    // "" is a value, as of a text
} cli_rule;

typedef struct cli_args cli_args;
typedef struct verb verb;

// A row of the table. A verb has either subverbs or a function, options and positional arguments.
struct verb {
    const char *name, *summary; // summary NULL: a part of the machinery, which no help lists
    const char *usage;          // what follows "drover NAME"; one form on each line
    const char *help;           // paragraphs that teach, in lines as they print
    const cli_option *options;
    int n_options;
    const cli_rule *rules; // options without one stand alone and have a value
    int n_rules;
    int min_positional, max_positional;
    drv_status (*run)(arena *a, const cli_args *args);
    const verb *subverbs;
    int n_subverbs;
};

extern const verb verb_config, verb_graph, verb_plan, verb_train, verb_eval, verb_generate,
        verb_ckpt, verb_tokenizer, verb_data, verb_model, verb_bench, verb_doctor, verb_plot,
        verb_top, verb_report, verb_chat, verb_devices, verb_examples, verb_compile, verb_launch,
        verb_audit;

// All verbs, in the order of the help.
extern const verb *const cli_verbs[];
extern const int n_cli_verbs;

// The options and words with which a verb was called.
struct cli_args {
    const char *name;          // "train", "data build": begins each message
    const verb *verb, *parent; // parent: whose subverb this is; NULL for a verb of its own
    char **positional;
    int n_positional;
    int n_before; // of them, before "--"
    struct given_option {
        const char *name, *value; // value NULL: a switch
    } * option;
    int n_options;
    bool help; // --help was among the arguments: nothing else was checked
};

// Parses what follows the verb's name. Options that the verb does not have, options given twice,
// missing and empty values and options that say nothing beside the others are DRV_E_USAGE, with the
// nearest name or the subverbs that take the option.
DRV_CHECKED drv_status cli_parse(arena *a, const verb *parent, const verb *sought, int argc,
        char **argv, cli_args *out);
// Returns the value of an option, or `otherwise` when it was not given.
const char *cli_get(const cli_args *args, const char *name, const char *otherwise);
bool cli_has(const cli_args *args, const char *name);
// Read numbers: *inout keeps its value when the option was not given.
DRV_CHECKED drv_status cli_get_i64(const cli_args *args, const char *name, int64_t min, int64_t max,
        int64_t *inout);
DRV_CHECKED drv_status cli_get_f64(const cli_args *args, const char *name, double min, double max,
        double *inout);
// "512M", "4G", "1.5GiB" (by 1024), "5GB" (by 1000) or bytes.
DRV_CHECKED drv_status cli_get_bytes(const cli_args *args, const char *name, int64_t min,
        int64_t *inout);
// Returns all values of a repeatable option; the list lives in `a`.
const char **cli_get_all(arena *a, const cli_args *args, const char *name, int *n);
// Gives the value of an option that must be there.
DRV_CHECKED drv_status cli_need(const cli_args *args, const char *option, const char **out);

// Returns the status of a verb that reads files which drover has not made: one that is not what it
// should be is wrong usage, as a wrong config is (docs/adr/0006-exit-status.md).
drv_status cli_judge_input(drv_status status);

// Lets the first write to standard output that fails end the program from here on: exit status 1
// and "could not write to standard output: No space left on device".
void cli_open_stdout(void);
// Writes what is buffered; nothing is printed after it.
void cli_close_stdout(void);

// Prints the help of drover (`shown` NULL), of a verb (parent NULL) or of a subverb.
void cli_print_help(FILE *file, const verb *parent, const verb *shown);
// "[HELP|VERB [SUBVERB]]": the arguments of `drover help`.
DRV_CHECKED drv_status cli_help(int argc, char **argv);
// Finds the verb (subverb, when parent is given) of that name; a failure says which is near.
DRV_CHECKED drv_status cli_find_verb(const verb *parent, const char *name, const verb **out);

// Prints a line of ids, or a part of it: not `begins`, not `ends`.
void cli_print_ids(const id_list *ids, bool json, bool begins, bool ends);

#define CLI_SET                                                                                    \
    { "--set", "KEY=VALUE", "override a key of the config (repeatable)" }
#define CLI_ADAPTER                                                                                \
    { "--adapter", "DIR", "a LoRA adapter, used with MODEL or with the base that it names" }
// The options that say how many ranks and nodes a run expects (launch/expect.h).
#define CLI_EXPECT                                                                                 \
    {"--expect-ranks", "N", "refuse any other number of ranks (or DROVER_EXPECT_RANKS)"}, {        \
        "--expect-nodes", "N", "refuse any other number of hosts (or DROVER_EXPECT_NODES)"         \
    }
// Puts them into the environment, where they reach ranks too.
DRV_CHECKED drv_status cli_expect(const cli_args *args);

#define CLI_JSON                                                                                   \
    { "--json", NULL, "print one JSON object" }
