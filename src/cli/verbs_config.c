// drover config and graph: print the options and the programs of a run before it starts.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "config/old_keys.h"
#include "programs/programs.h"
#include "train/run_inputs.h"
#include "translate/translate.h"

static const cli_option config_options[] = {
        CLI_SET,
        {"--from", "KIND", "the other trainer's format: nxdt, nemo-megatron, args or axolotl"},
        {"--accept", "NAME",
                "accept that this key may change the result; all: any key (repeatable)"},
        {"--ranks", "N", "ranks of the job, if the file does not say"},
        {"--data", "PREFIX", "the data set to train on, to turn epochs into steps"},
        {"--var", "NAME=VALUE", "a variable of the script's environment (repeatable)"},
        {"--reference", NULL, "print docs/keys.md: all keys with their defaults, as Markdown"},
};
static const cli_rule config_rules[] = {
        {.option = "--reference", .excludes = "--set --from"},
        {.option = "--accept", .needs = "--from"},
        {.option = "--ranks", .needs = "--from"},
        {.option = "--data", .needs = "--from"},
        {.option = "--var", .needs = "--from"},
};

static drv_status count_data(const char *const *sets, int n_sets, data_counts *out) {
    arena *a = arena_new("data of a translation");
    run_config cfg;
    rows *train = NULL, *valid = NULL;
    drv_status status = config_load(a, NULL, sets, n_sets, &cfg);
    if (status == DRV_OK) status = run_inputs_open(a, &cfg, false, &train, &valid);
    if (status == DRV_OK) {
        *out = (data_counts){.rows = rows_per_epoch(train)};
        for (int i = 0; i < rows_n_sources(train); i++)
            out->tokens += rows_source(train, i)->n_tokens;
    }
    if (train) rows_close(train);
    if (valid) rows_close(valid);
    arena_free(a);
    return status == DRV_OK ? status : drv_context(status, "config: --data");
}

// Loads the translated config like any other before it is printed, so that the output reads back.
// If a value is refused, the comment on its line says where it comes from.
static drv_status check_translation(arena *a, const str *text) {
    run_config cfg;
    const drv_status status = config_load_text(a, "translation", text->p, text->n, &cfg);
    const char *said = status == DRV_OK ? "" : arena_strdup(a, drv_message()),
               *number = "translation:";
    if (!str_starts(said, number)) return status;
    const char *line = arena_strndup(a, text->p, text->n);
    for (long n = strtol(said + strlen(number), NULL, 10); n > 1 && line; n--)
        line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL;
    const char *end = line ? line + strcspn(line, "\n") : NULL,
               *origin = line ? strstr(line, " # ") : NULL;
    if (!origin || origin > end) return status;
    origin += strlen(" # ");
    return drv_fail(status, "%s (%.*s)", said, (int)(end - origin), origin);
}

static drv_status print_translation(arena *a, const cli_args *args) {
    translate_opts opts = {.kind = cli_get(args, "--from", NULL),
            .files = (const char *const *)args->positional,
            .n_files = args->n_before,
            .words = (const char *const *)args->positional + args->n_before,
            .n_words = args->n_positional - args->n_before,
            .data = cli_get(args, "--data", NULL),
            .count_data = count_data};
    str text = {0}, report = {0};
    opts.sets = cli_get_all(a, args, "--set", &opts.n_sets);
    opts.variables = cli_get_all(a, args, "--var", &opts.n_variables);
    opts.accepts = cli_get_all(a, args, "--accept", &opts.n_accepts);
    DRV_TRY(cli_get_i64(args, "--ranks", 1, 1 << 20, &opts.ranks));
    drv_status status = translate(a, &opts, &text, &report);
    if (report.n) fputs(report.p, stderr);
    if (status == DRV_OK) status = check_translation(a, &text);
    if (status == DRV_OK) fputs(text.p, stdout);
    str_free(&text);
    str_free(&report);
    return status;
}

static drv_status run_config_verb(arena *a, const cli_args *args) {
    run_config cfg;
    str text = {0};
    if (cli_has(args, "--from")) return print_translation(a, args);
    if (args->n_positional > 1)
        return drv_fail(DRV_E_USAGE,
                "config: \"%s\" is one argument too many; see drover help config",
                args->positional[1]);
    if (cli_has(args, "--reference")) {
        if (args->n_positional)
            return drv_fail(DRV_E_USAGE,
                    "config: --reference lists all keys and takes no config, but \"%s\" is given",
                    args->positional[0]);
        config_print_reference(&text);
    } else {
        DRV_TRY(cli_load_config(a, args, &cfg));
        config_say_old_keys(&cfg);
        config_print(&cfg, true, &text);
    }
    return cli_write_text(NULL, &text);
}

const verb verb_config = {
        .name = "config",
        .summary = "print all keys of a config, or translate another trainer's",
        .usage = "[CONFIG|-] [--set KEY=VALUE]...\n"
                 "--from KIND FILE... [--accept NAME]... [-- WORD...]\n"
                 "--reference",
        .help = "Reads the YAML file, applies the overrides, checks everything, and prints every key with its\n"
                "value, its meaning and its default. The output is itself a valid config.\n"
                "Example: drover config --set model.preset=llama-3.1-8b\n"
                "\n"
                "--from KIND translates another trainer's run: nxdt reads a YAML file of NxD Training or its\n"
                "train.sh; nemo-megatron reads scripts of neuronx-nemo-megatron; args reads a command line of\n"
                "transformers, Optimum Neuron, TRL or NxD's scripts, in a file or after --; axolotl reads its\n"
                "YAML file. Scripts are read and never run. The report on standard error says what became of each\n"
                "key. A key that would change the result is refused until you accept it (docs/translate.md).\n"
                "Example: drover config --from nxdt hf_llama3_8B_config.yaml >run.yaml",
        CLI_OPTIONS(config_options),
        CLI_RULES(config_rules),
        .max_positional = 1000,
        .run = run_config_verb,
};

static const cli_option graph_options[] = {
        CLI_SET,
        {"--program", "NAME", "step (default), update or eval; in a pipeline stage0.forward, ..."},
};

static drv_status refuse_program(arena *a, const programs *p, const char *name) {
    const char *names = "";
    for (int i = 0; i < p->held.n_all; i++)
        names = arena_printf(a, "%s%s%s", names, i == 0 ? "" : ", ", p->held.all[i].graph->name);
    return drv_fail(DRV_E_USAGE, "graph: --program is \"%s\", expected one of %s", name, names);
}

static drv_status run_graph(arena *a, const cli_args *args) {
    run_config cfg;
    programs p;
    DRV_TRY(cli_load_config(a, args, &cfg));
    DRV_TRY(programs_build(a, &cfg, &p));
    const char *name = cli_get(args, "--program", p.held.all[0].graph->name);
    const built_program *found = held_find(&p.held, name);
    if (!found) return refuse_program(a, &p, name);
    str text = {0};
    graph_print(found->graph, &text);
    return cli_write_text(NULL, &text);
}

const verb verb_graph = {
        .name = "graph",
        .summary = "print a program of the run as text",
        .usage = "[CONFIG] [--program NAME] [--set KEY=VALUE]...",
        .help = "Prints one line for each node: outputs with their types, op, inputs, attributes. Nothing is\n"
                "allocated, so every preset up to llama-3.1-405b can be printed on a laptop.",
        CLI_OPTIONS(graph_options),
        .max_positional = 1,
        .run = run_graph,
};
