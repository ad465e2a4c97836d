// Prints a line for each number of nodes: layout, speed, bits.
#include "cli/plan_parts.h"

#include <stdio.h>

#include "base/json.h"
#include "base/str.h"

enum { MOST_NODES = 1 << 16, MOST_RANKS = 1 << 20 };

drv_status elastic_job_read(const cli_args *args, const run_config *cfg, elastic_job *out) {
    int64_t n_nodes = 1, ranks = 1;
    run_config whole = *cfg;
    DRV_TRY(cli_get_i64(args, "--nodes", 1, MOST_NODES, &n_nodes));
    DRV_TRY(cli_get_i64(args, "--ranks-per-node", 1, MOST_RANKS, &ranks));
    if (n_nodes * ranks > MOST_RANKS)
        return drv_fail(DRV_E_USAGE,
                "%s: --nodes %lld of %lld ranks each, expected at most %d ranks", args->name,
                (long long)n_nodes, (long long)ranks, MOST_RANKS);
    DRV_TRY_CTX(config_set_ranks(&whole, n_nodes * ranks), "%s: --nodes %lld, of %lld rank%s each",
            args->name, (long long)n_nodes, (long long)ranks, str_plural(ranks));
    *out = (elastic_job){.cfg = cfg, .n_nodes = (int)n_nodes, .ranks = (int)ranks};
    return DRV_OK;
}

static json_t *row_as_json(const elastic_job *job, int n, const elastic_layout *l,
        const char *why) {
    json_t *row = json_pack("{s:i,s:i}", "nodes", n, "ranks", n * job->ranks);
    if (!l) {
        json_object_set_new(row, "not_possible", json_string(why));
        return row;
    }
    json_t *sets = json_array();
    for (int i = 0; i < l->n_sets; i++)
        json_array_append_new(sets, json_string(l->sets[i]));
    json_object_set_new(row, "layout", json_string(l->words));
    json_object_set_new(row, "tokens_per_s", json_real(l->tokens_per_s));
    json_object_set_new(row, "same_bits", json_boolean(l->same_bits));
    json_object_set_new(row, "settings", sets);
    return row;
}

static void print_row(const elastic_job *job, int n, const elastic_layout *l, const char *why) {
    if (l)
        printf("%6d %6d %10s  %-9s  %s\n", n, n * job->ranks, str_si(l->tokens_per_s),
                l->same_bits ? "same" : "other", l->words);
    else
        printf("%6d %6d %10s  %-9s  %s\n", n, n * job->ranks, "-", "-", why);
}

drv_status plan_elastic(arena *a, const cli_args *args, const run_config *cfg) {
    const bool as_json = cli_has(args, "--json");
    elastic_job job;
    drv_status status = DRV_OK;
    DRV_TRY(elastic_job_read(args, cfg, &job));
    DRV_TRY(plan_read_device(a, args, cfg, (int64_t)job.n_nodes * job.ranks, &job.device,
            &job.on_host));
    if (!as_json)
        printf("%6s %6s %10s  %-9s  %s\n", "nodes", "ranks", "tokens/s", "bits", "layout");
    json_t *list = json_array();
    for (int n = job.n_nodes; n > 0; n--) {
        elastic_layout found;
        const bool is = elastic_on(a, &job, n, &found) == DRV_OK;
        if (!is && n == job.n_nodes) {
            status = DRV_E_USAGE;
            break;
        }
        const char *why = is ? NULL : arena_strdup(a, drv_message());
        if (as_json)
            json_array_append_new(list, row_as_json(&job, n, is ? &found : NULL, why));
        else
            print_row(&job, n, is ? &found : NULL, why);
    }
    if (as_json && status == DRV_OK)
        cli_puts_json(list, json_print(list, 0));
    else
        json_decref(list);
    return status;
}
