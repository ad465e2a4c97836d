// eval --choices: measures the accuracy of a model on a multiple choice file.
#include "cli/eval_parts.h"

#include <stdio.h>

#include "base/log.h"
#include "base/stop.h"
#include "infer/choices.h"

// The standard error of one record is null in JSON.
static void print_result(const choices_result *r, bool json, bool complete) {
    if (json) {
        json_t *o = json_pack("{so so so so sI sI sb}", "acc", json_of_f64(r->acc), "acc_stderr",
                json_of_f64(r->acc_err), "acc_norm", json_of_f64(r->acc_norm), "acc_norm_stderr",
                json_of_f64(r->acc_norm_err), "records", (json_int_t)r->n, "truncated",
                (json_int_t)r->n_cut, "complete", complete);
        cli_puts_json(o, json_dumps(o, JSON_REAL_PRECISION(9)));
    } else if (r->n > 1) {
        printf("acc %.4f (stderr %.4f)  acc_norm %.4f (stderr %.4f)  records %lld\n", r->acc,
                r->acc_err, r->acc_norm, r->acc_norm_err, (long long)r->n);
    } else {
        printf("acc %.4f  acc_norm %.4f  records %lld\n", r->acc, r->acc_norm, (long long)r->n);
    }
}

drv_status eval_choices(arena *a, const cli_args *args, const scorer_opts *model) {
    const choices_opts opts = {.model = *model, .specials = !cli_has(args, "--no-bos")};
    choice_set set;
    choices_result result;
    DRV_TRY(choices_read(a, cli_get(args, "--choices", NULL), &set));
    stop_listen();
    const drv_status status = choices_score(a, &opts, &set, &result);
    if (status != DRV_OK && (status != DRV_STOPPED || result.n == 0)) return status;
    if (result.n_cut)
        log_warn("%lld choice%s longer than the model's context with the preceding text, which is truncated on the left",
                (long long)result.n_cut, result.n_cut > 1 ? "s are" : " is");
    log_info("%lld tokens in %s, %s tokens/s", (long long)result.n_tokens,
            str_long_duration(result.seconds),
            str_si((double)result.n_tokens / (result.seconds > 0 ? result.seconds : 1)));
    print_result(&result, cli_has(args, "--json"), status == DRV_OK);
    if (status == DRV_OK) return DRV_OK;
    return drv_context(status, "%lld of %lld records are scored", (long long)result.n,
            (long long)set.n);
}
