// The command line: a table of verbs, each with its help, options and function. Results go to
// standard output; progress, log and errors to standard error.
#pragma once
#include <stdbool.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"
#include "base/str.h"
#include "config/config.h"
#include "tok/tokenizer.h"

typedef struct cli_option {
    const char *name;  // "--steps"
    const char *value; // what follows in the help: "N", "PATH..." (one or more); NULL: a switch
    const char *help;  // an option whose help has "(repeatable" may be given more than once
} cli_option;

// A rule says which options of a verb go together. No option is ignored: cli_parse refuses one that
// would have no effect.
typedef struct cli_rule {
    const char *option;
    const char *needs;    // "--text --choices": the option needs one of these; NULL: none
    const char *excludes; // "--data --stride": these have no effect with the option; NULL: none
    bool may_be_empty;    // "" is a valid value, such as an empty text
} cli_rule;

typedef struct cli_args cli_args;
typedef struct verb verb;

// A row of the table. A verb has either subverbs or a function, options and positional arguments.
struct verb {
    const char *name, *summary; // summary NULL: for internal use, not listed by help
    const char *usage;          // what follows "drover NAME"; one form on each line
    const char *help;           // paragraphs; help.c fills their lines
    const cli_option *options;
    int n_options;
    const cli_rule *rules; // an option without a rule goes with any other and needs a value
    int n_rules;
    int min_positional, max_positional;
    drv_status (*run)(arena *a, const cli_args *args);
    const verb *subverbs;
    int n_subverbs;
};

// Fields of a verb: the number of its words besides options, and its tables with their lengths.
#define CLI_WORDS(min, max) .min_positional = min, .max_positional = max
#define CLI_OPTIONS(table)  .options = table, .n_options = sizeof table / sizeof *table
#define CLI_RULES(table)    .rules = table, .n_rules = sizeof table / sizeof *table
#define CLI_SUBVERBS(table) .subverbs = table, .n_subverbs = sizeof table / sizeof *table

extern const verb verb_config, verb_graph, verb_plan, verb_train, verb_eval, verb_generate,
        verb_ckpt, verb_tokenizer, verb_data, verb_model, verb_bench, verb_doctor, verb_plot,
        verb_top, verb_report, verb_page, verb_chat, verb_devices, verb_examples, verb_compile,
        verb_launch, verb_audit;

// All verbs, in the order of the help.
extern const verb *const cli_verbs[];
extern const int n_cli_verbs;

// The options and words with which a verb was called.
struct cli_args {
    const char *name;          // "train", "data build": begins each message
    const verb *verb, *parent; // parent: the verb of a subverb; NULL for a verb
    char **positional;
    int n_positional;
    int n_before; // those before "--"
    struct given_option {
        const char *name, *value; // value NULL: a switch
    } * option;
    int n_options;
    bool help; // --help was among the arguments: nothing else was checked
};

// Parses the arguments after the verb's name. DRV_E_USAGE: an option that the verb does not have
// (the message has the nearest name or the subverbs that take it), an option given twice, a missing
// or empty value, or an option that has no effect with the others.
DRV_CHECKED drv_status cli_parse(arena *a, const verb *parent, const verb *sought, int argc,
        char **argv, cli_args *out);
// Returns the option of that name which a verb takes; NULL: it takes none.
const cli_option *cli_find_option(const verb *v, const char *name);
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
// A time that str_to_seconds reads; a number without a unit is refused.
DRV_CHECKED drv_status cli_get_seconds(const cli_args *args, const char *name, double min,
        double max, double *inout);
// Reads one of several words: *inout is its index in `words`, as "train, compile or data".
DRV_CHECKED drv_status cli_get_choice(const cli_args *args, const char *name, const char *words,
        int *inout);
// Returns all values of a repeatable option; the list lives in `a`.
const char **cli_get_all(arena *a, const cli_args *args, const char *name, int *n);
// Loads the config that the first argument names, or the default one, with the values of --set.
DRV_CHECKED drv_status cli_load_config(arena *a, const cli_args *args, run_config *out);
// Sets the threads of this process by --threads; 0 or not given: all cores.
DRV_CHECKED drv_status cli_set_threads(const cli_args *args);
// Returns the value of an option that must be given.
DRV_CHECKED drv_status cli_need(const cli_args *args, const char *option, const char **out);

// Returns the status of a verb that reads files which drover did not write: a malformed one is
// wrong usage, as a wrong config is (docs/adr/0006-exit-status.md).
drv_status cli_judge_input(drv_status status);

// From here on the first failed write to standard output ends the program with exit status 1 and
// "could not write to standard output: No space left on device".
void cli_open_stdout(void);
// Flushes the buffer; nothing may be printed afterwards.
void cli_close_stdout(void);

// Prints the text of a JSON value on a line, and frees both.
void cli_puts_json(json_t *value, char *text);
// Writes a text to a file, or to standard output where `file` is NULL, and frees it.
DRV_CHECKED drv_status cli_write_text(const char *file, str *text);
// Returns the columns of the terminal, or of COLUMNS; `otherwise` where neither is known.
int cli_columns(int otherwise);

// Prints the help of drover (`shown` NULL), of a verb (parent NULL) or of a subverb.
void cli_print_help(FILE *file, const verb *parent, const verb *shown);
// "[HELP|VERB [SUBVERB]]": the arguments of `drover help`.
DRV_CHECKED drv_status cli_help(int argc, char **argv);
// Finds the verb of that name, or the subverb of `parent`; a failure names the nearest one.
DRV_CHECKED drv_status cli_find_verb(const verb *parent, const char *name, const verb **out);

// Prints a line of ids, or a part of it without its beginning (not `begins`) or its end (not `ends`).
void cli_print_ids(const id_list *ids, bool json, bool begins, bool ends);

// Loads the config of a benchmark, and sets the threads. Without a file: llama-135m, unless --set
// says otherwise.
DRV_CHECKED drv_status bench_load(arena *a, const cli_args *args, run_config *out);

// Verbs with a file of their own, whose options are in the table of another file.
DRV_CHECKED drv_status bench_step(arena *a, const cli_args *args);
DRV_CHECKED drv_status bench_learn(arena *a, const cli_args *args); // bench device --from
DRV_CHECKED drv_status bench_tokenizer(arena *a, const cli_args *args);
DRV_CHECKED drv_status bench_data(arena *a, const cli_args *args);
DRV_CHECKED drv_status ckpt_import(arena *a, const cli_args *args);
DRV_CHECKED drv_status ckpt_show(arena *a, const cli_args *args);
DRV_CHECKED drv_status ckpt_export(arena *a, const cli_args *args);
DRV_CHECKED drv_status ckpt_merge(arena *a, const cli_args *args);
DRV_CHECKED drv_status ckpt_consolidate_verb(arena *a, const cli_args *args);
DRV_CHECKED drv_status ckpt_compare(arena *a, const cli_args *args); // ckpt verify A B
DRV_CHECKED drv_status data_look(arena *a, const cli_args *args);    // data info, show, verify
DRV_CHECKED drv_status doctor_node(arena *a, const cli_args *args);  // doctor --node
DRV_CHECKED drv_status kept_evict(arena *a, const cli_args *args);   // compile --evict
DRV_CHECKED drv_status kept_list(arena *a, const cli_args *args);    // compile --list
DRV_CHECKED drv_status model_push(arena *a, const cli_args *args);
DRV_CHECKED drv_status tokenizer_train(arena *a, const cli_args *args);

#define CLI_SET                                                                                    \
    { "--set", "KEY=VALUE", "override a key of the config (repeatable)" }
#define CLI_ADAPTER                                                                                \
    { "--adapter", "DIR", "a LoRA adapter, used with MODEL or with the base that it names" }
// The options for the number of ranks and nodes that a run expects (launch/expect.h).
#define CLI_EXPECT                                                                                 \
    {"--expect-ranks", "N", "refuse any other number of ranks (also DROVER_EXPECT_RANKS)"}, {      \
        "--expect-nodes", "N", "refuse any other number of hosts (also DROVER_EXPECT_NODES)"       \
    }
// Puts them into the environment, so that ranks get them too.
DRV_CHECKED drv_status cli_expect(const cli_args *args);

#define CLI_JSON                                                                                   \
    { "--json", NULL, "print the result as JSON" }
#define CLI_TOKENIZER                                                                                         \
    {                                                                                                         \
        "--tokenizer", "PATH",                                                                                \
                "tokenizer.json, tokenizer.model (SentencePiece, tiktoken), *.tiktoken, or a folder with one" \
    }
