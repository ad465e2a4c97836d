// audit: replays steps of a run and says where it went another way.
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "cli/cli.h"
#include "train/audit.h"

// "A:B", "A:", ":B" or "A", one step.
static drv_status read_steps(const char *text, int64_t *first, int64_t *last) {
    char copy[64];
    if (!text) return DRV_OK;
    snprintf(copy, sizeof copy, "%s", text);
    char *colon = strchr(copy, ':');
    if (colon) *colon = 0;
    const char *end = colon ? colon + 1 : copy;
    const bool good = strlen(text) < sizeof copy && (*copy || *end) &&
                      (!*copy || (str_to_i64(copy, first) && *first > 0)) &&
                      (!*end || (str_to_i64(end, last) && *last > 0));
    if (good) return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "audit: --steps is \"%.40s\", expected A:B, steps from 1 on (A: and :B leave an end open)",
            text);
}

static json_t *hash(const audit_result *x, uint64_t value) {
    char text[17];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)value);
    return x->recorded || x->replayed ? json_string(text) : json_null();
}

static void print_json(const audit_result *result, const char *message) {
    json_t *found = json_null();
    if (result->kind != AUDIT_EQUAL)
        found = json_pack("{sI ss so sI so so so so so sI so}", "step", (json_int_t)result->step,
                "what", audit_kind_name(result->kind), "tensor", json_of_text(result->tensor),
                "tensors", (json_int_t)result->n_tensors, "op", json_of_text(result->op), "element",
                json_of_count(result->element), "bit",
                json_of_count(result->element < 0 ? -1 : result->bit), "recorded",
                hash(result, result->recorded), "replayed", hash(result, result->replayed),
                "equal_to_step", (json_int_t)result->equal_to, "message", json_of_text(message));
    json_t *all = json_pack("{sb so so sI sI sI sI so}", "equal", result->kind == AUDIT_EQUAL,
            "checkpoint", json_of_text(result->checkpoint), "arithmetic",
            json_of_text(result->arithmetic), "first_step", (json_int_t)result->first, "last_step",
            (json_int_t)result->last, "compared", (json_int_t)result->compared, "ranks",
            (json_int_t)result->ranks, "difference", found);
    cli_puts_json(all, json_print(all, JSON_COMPACT | JSON_ENSURE_ASCII));
}

static void print_text(const audit_result *x, const char *message) {
    if (x->kind == AUDIT_EQUAL)
        printf("equal: %lld of the steps %lld to %lld were recorded, and are what this machine computes: batches, "
               "weights, losses, gradients and norms, to the bit\n",
                (long long)x->compared, (long long)x->first, (long long)x->last);
    else
        printf("%s\n", message);
    printf("replayed from %s on %lld rank%s, %s\n", x->checkpoint ? x->checkpoint : "the beginning",
            (long long)x->ranks, x->ranks > 1 ? "s" : "", x->arithmetic);
}

static drv_status run_audit(arena *a, const cli_args *args) {
    audit_opts opts = {.run_dir = args->positional[0], .out_dir = cli_get(args, "--out", NULL)};
    audit_result result;
    drv_saved ended;
    DRV_TRY(read_steps(cli_get(args, "--steps", NULL), &opts.first, &opts.last));
    opts.sets = cli_get_all(a, args, "--set", &opts.n_sets);
    drv_save(audit_run(a, &opts, &result), &ended);
    const bool told = result.kind != AUDIT_EQUAL || (ended.status == DRV_OK && result.leads);
    if (told && result.leads && cli_has(args, "--json"))
        print_json(&result, ended.message);
    else if (told && result.leads)
        print_text(&result, ended.message);
    return drv_restore(&ended);
}

static const cli_option options[] = {
        {"--steps", "A:B", "the steps to replay (default: all that were recorded)"},
        {"--out", "DIR", "folder for the logs of the replay (default RUN_DIR/audit)"},
        {"--set", "KEY=VALUE",
                "change layout, threads or paths of data for the replay (repeatable)"},
        CLI_JSON,
};

const verb verb_audit = {
        .name = "audit",
        .summary = "replay steps of a run and find the first that differs",
        .usage = "RUN_DIR [--steps A:B] [--out DIR] [--set KEY=VALUE]... [--json]",
        .help = "Checks that a run computed what its configuration and data determine, or finds where it did not:\n"
                "because a bit flipped in memory, a machine multiplied wrongly, or data changed. It takes the\n"
                "newest checkpoint before step A (or begins at step 0, if there is none), trains again up to step\n"
                "B on this machine, and compares with the hashes that the run recorded: of the batch, of the\n"
                "weights that a step used, of loss, gradients and norms, and of the weights after the update. It\n"
                "prints the first difference: step, tensor, op, and, if a single bit explains it, element and\n"
                "bit.\n"
                "\n"
                "The run must have been trained with training.hash_every. With training.arithmetic: portable any\n"
                "processor can replay it; with fastest only the same kind of processor can. The layout may\n"
                "differ: `mpirun -n 4 drover audit runs/a --set parallel.tensor=2` audits a run of one process,\n"
                "and one process audits a run of several. The audit writes only to RUN_DIR/audit (or --out).\n"
                "Start it in the directory in which the run was started, so that relative paths are valid.\n"
                "\n"
                "Example: drover audit runs/a --steps 900:1000\n"
                "\n"
                "Exit status: 0 all steps are equal, 1 a step differs, 2 the run cannot be audited here.",
        CLI_OPTIONS(options),
        CLI_WORDS(1, 1),
        .run = run_audit,
};
