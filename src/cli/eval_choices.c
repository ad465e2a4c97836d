// eval --choices: accuracies of a model on a file of multiple choice.
#include "cli/eval_choices.h"

#include <math.h>
#include <stdio.h>

#include "base/log.h"
#include "base/parallel.h"
#include "train/choices.h"
#include "train/resolve.h"

// JSON has no word but null for the standard error of one record.
static void print_number(const char *name, double value) {
    if (isfinite(value))
        printf("\"%s\": %.9g, ", name, value);
    else
        printf("\"%s\": null, ", name);
}

static void print_result(const choices_result *r, bool json) {
    if (!json) {
        printf("acc %.4f (stderr %.4f)  acc_norm %.4f (stderr %.4f)  records %lld\n", r->acc,
                r->acc_err, r->acc_norm, r->acc_norm_err, (long long)r->n);
        return;
    }
    printf("{");
    print_number("acc", r->acc);
    print_number("acc_stderr", r->acc_err);
    print_number("acc_norm", r->acc_norm);
    print_number("acc_norm_stderr", r->acc_norm_err);
    printf("\"records\": %lld, \"truncated\": %lld}\n", (long long)r->n, (long long)r->n_cut);
}

drv_status eval_choices(arena *mem, const cli_args *args) {
    static const char *const others[] = {"--data", "--stride", "--set"};
    for (int i = 0; i < 3; i++)
        if (cli_has(args, others[i]))
            return drv_fail(DRV_E_USAGE, "eval: --choices and %s exclude each other", others[i]);
    choice_set set;
    model_ref model;
    generator *g = NULL;
    choices_result result;
    DRV_TRY(model_resolve(mem, args->n_positional ? args->positional[0] : NULL,
            cli_get(args, "--adapter", NULL), &model));
    DRV_TRY(choices_read(mem, cli_get(args, "--choices", NULL), &set));
    par_set_threads(0);
    const generator_opts opts = {.folder = model.folder, .adapter = model.adapter};
    drv_status status = generator_open(mem, &opts, &g);
    if (status == DRV_OK) status = choices_score(mem, g, &set, !cli_has(args, "--no-bos"), &result);
    if (status == DRV_OK) {
        if (result.n_cut)
            log_warn("%lld choices are longer than the model's context of %lld with their context: its left is cut",
                    (long long)result.n_cut, (long long)generator_context(g));
        print_result(&result, cli_has(args, "--json"));
    }
    generator_close(g);
    return status;
}
