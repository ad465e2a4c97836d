// drover bench step: training steps on random tokens, against the peak of products; with --profile
// each op against the roofline of the machine.
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/memory_limit.h"
#include "base/parallel.h"
#include "base/str.h"
#include "cli/cli.h"
#include "ir/op.h"
#include "plot/chart.h"
#include "search/device_measure.h"
#include "train/step_bench.h"
#include "train/train.h"

// Returns an amount per second; 0: the row took less time than the clock resolves.
static double a_second(double amount, const profile_row *row) {
    return row->seconds > 0 ? amount / row->seconds : 0;
}

// --- JSON
static json_t *row_json(const profile_row *row, double step_s, const machine_roof *roof) {
    bool by_memory;
    const double least = profile_least_s(row, roof, &by_memory);
    return json_pack("{ss ss sI sf sf sf sf sf sf sf ss sf sf}", "program",
            profile_program_name(row->program), "op", op_name(row->op), "count",
            (json_int_t)row->count, "seconds", row->seconds, "share", row->seconds / step_s,
            "flops", row->flops, "bytes", row->bytes, "sent_bytes", row->sent, "flops_per_s",
            a_second(row->flops, row), "bytes_per_s", a_second(row->bytes, row), "bound",
            by_memory ? "memory" : "compute", "bound_seconds", least, "of_bound",
            a_second(least, row));
}

static json_t *profile_json(const step_bench *r) {
    const step_profile *p = r->profile;
    json_t *list = json_array();
    for (int i = 0; i < p->n_rows; i++)
        json_array_append_new(list, row_json(&p->rows[i], p->step_s, &r->roof));
    return json_pack("{sf sf sf so sf}", "step_seconds", p->step_s, "peak_flops_per_s",
            r->roof.flops_per_s, "memory_bytes_per_s", r->roof.bytes_per_s, "rows", list,
            "outside_seconds", p->outside_s);
}

static void print_json(const step_bench *r) {
    const run_config *cfg = r->built->held.config;
    json_t *o = json_pack("{ss sI sI sI ss si si sf sf sf sf sf sf sf sI sI}", "model", r->model,
            "sequence", (json_int_t)cfg->sequence_length, "batch",
            (json_int_t)cfg->global_batch_size, "micro_batch", (json_int_t)cfg->micro_batch_size,
            "precision", precision_name(cfg->precision), "ranks", r->ranks, "threads",
            par_threads(), "tokens_per_s", r->tokens / r->times.best, "mean_tokens_per_s",
            r->tokens / r->times.mean, "flops_per_s", r->flops_per_s, "gemm_peak_fp32", r->peak.f32,
            "gemm_peak_bf16", r->peak.bf16, "ratio", r->ratio, "recomputing_ratio", r->all_ratio,
            "trainable_parameters", (json_int_t)held_trained(&r->built->held), "peak_rss",
            (json_int_t)r->peak_rss);
    if (r->profile) json_object_set_new(o, "profile", profile_json(r));
    cli_puts_json(o, json_dumps(o, JSON_REAL_PRECISION(6)));
}

// --- text
static void print_row(const profile_row *row, double step_s, const machine_roof *roof) {
    bool by_memory;
    const double least = profile_least_s(row, roof, &by_memory);
    printf("%-10s %-24s %6lld %9.2f %5.1f%% %8.1f %7.1f", profile_program_name(row->program),
            op_name(row->op), (long long)row->count, row->seconds * 1e3,
            100 * row->seconds / step_s, a_second(row->flops, row) / 1e9,
            a_second(row->bytes, row) / 1e9);
    if (least > 0) printf("  %-7s %5.2f", by_memory ? "memory" : "compute", a_second(least, row));
    printf("\n");
}

static void print_profile(const step_bench *r) {
    const step_profile *p = r->profile;
    printf("\n%-10s %-24s %6s %9s %6s %8s %7s  %-7s %s\n", "program", "op", "runs", "ms", "share",
            "GFLOP/s", "GB/s", "bound", "of bound");
    for (int i = 0; i < p->n_rows; i++)
        print_row(&p->rows[i], p->step_s, &r->roof);
    printf("%-10s %-24s %6s %9.2f %5.1f%%\n", "", "outside ops", "", p->outside_s * 1e3,
            100 * p->outside_s / p->step_s);
    printf("%-10s %-24s %6s %9.2f %5.1f%%\n", "", "the step", "", p->step_s * 1e3, 100.0);
    printf("bounds: products %.1f GFLOP/s, memory %.1f GB/s%s\n", r->roof.flops_per_s / 1e9,
            r->roof.bytes_per_s / 1e9, r->ranks > 1 ? "; of rank 0" : "");
}

static void print_text(const step_bench *r) {
    const run_config *cfg = r->built->held.config;
    char ranks[32] = "";
    if (r->ranks > 1) snprintf(ranks, sizeof ranks, "%d ranks of ", r->ranks);
    printf("%s, sequence %lld, batch %lld in micro-batches of %lld, %s, %s%d thread%s\n"
           "%.1f tokens/s, %.1f GFLOP/s; GEMM peak fp32 %.1f, bf16 %.1f; %.1f %% of the higher; peak memory %s\n",
            r->model, (long long)cfg->sequence_length, (long long)cfg->global_batch_size,
            (long long)cfg->micro_batch_size, precision_name(cfg->precision), ranks, par_threads(),
            str_plural(par_threads()), r->tokens / r->times.best, r->flops_per_s / 1e9,
            r->peak.f32 / 1e9, r->peak.bf16 / 1e9, 100 * r->ratio, str_bytes((double)r->peak_rss));
    if (r->all_flops_per_s > r->flops_per_s)
        printf("with recomputation %.1f GFLOP/s, %.1f %% of the peak\n", r->all_flops_per_s / 1e9,
                100 * r->all_ratio);
    if (r->profile) print_profile(r);
}

// --- a picture
static plot_bar bar_of(arena *a, const profile_row *row, const step_bench *r) {
    bool by_memory;
    const double least = profile_least_s(row, &r->roof, &by_memory);
    const char *share = arena_printf(a, "%.1f ms, %.1f %%", row->seconds * 1e3,
            100 * row->seconds / r->profile->step_s);
    return (plot_bar){.group = profile_program_name(row->program),
            .name = op_name(row->op),
            .value = row->seconds * 1e3,
            .least = least * 1e3,
            .note = least > 0 ? arena_printf(a, "%s, %.2f of %s", share, a_second(least, row),
                                        by_memory ? "memory" : "compute")
                              : share};
}

static drv_status draw(arena *a, const step_bench *r, const char *file) {
    const step_profile *p = r->profile;
    const run_config *cfg = r->built->held.config;
    plot_bar *bars = ARENA_ARRAY(a, plot_bar, p->n_rows + 1);
    for (int i = 0; i < p->n_rows; i++)
        bars[i] = bar_of(a, &p->rows[i], r);
    bars[p->n_rows] = (plot_bar){.group = "outside ops",
            .name = "outside ops",
            .value = p->outside_s * 1e3,
            .note = arena_printf(a, "%.1f ms", p->outside_s * 1e3)};
    const char *title = arena_printf(a,
            "%s, %s, a step of %.1f ms: time of each op, and darker the least time by its bound",
            r->model, precision_name(cfg->precision), p->step_s * 1e3);
    str out = {0};
    plot_bars_svg(title, "ms", bars, p->n_rows + 1, &out);
    return cli_write_text(file, &out);
}

// --- the profile of the device
static drv_status write_device(arena *a, const step_bench *r, const char *file) {
    const device_profile d =
            device_profile_of_step(r->profile, &r->roof, memory_limit_read("").free / r->ranks);
    const char *source =
            arena_printf(a, "drover bench device: a step of %s, %s, %d rank%s of %d thread%s",
                    r->model, precision_name(r->built->held.config->precision), r->ranks,
                    str_plural(r->ranks), par_threads(), str_plural(par_threads()));
    str out = {0};
    device_profile_print(&d, source, &out);
    return cli_write_text(file, &out);
}

static drv_status run_bench(this_rank *r, const cli_args *args, run_config *cfg) {
    int64_t repeats = 3;
    const char *file = cli_get(args, "--out", NULL);
    const bool of_device = strcmp(args->verb->name, "device") == 0;
    step_bench result;
    DRV_TRY(cli_get_i64(args, "--repeats", 1, 1000, &repeats));
    if (file && !of_device && !str_ends(file, ".svg"))
        return drv_fail(DRV_E_USAGE, "bench step: --out is \"%s\", expected a name ending in .svg",
                file);
    DRV_TRY(step_bench_run(r, cfg, repeats, of_device || cli_has(args, "--profile"), of_device,
            &result));
    if (!r->leads) return DRV_OK;
    if (of_device) return write_device(r->a, &result, file);
    if (cli_has(args, "--json"))
        print_json(&result);
    else
        print_text(&result);
    return file ? draw(r->a, &result, file) : DRV_OK;
}

drv_status bench_step(arena *a, const cli_args *args) {
    if (strcmp(args->verb->name, "device") == 0 && cli_has(args, "--from"))
        return bench_learn(a, args);
    run_config *cfg = ARENA_NEW(a, run_config);
    const drv_status loaded = bench_load(a, args, cfg);
    if (loaded != DRV_OK) return train_refuse(a, loaded);
    this_rank rank = {.a = a};
    DRV_TRY(comm_open(a, &(comm_opts){.give_up_s = cfg->give_up_s}, &rank.comm));
    drv_saved ended;
    drv_save(run_bench(&rank, args, cfg), &ended);
    if (rank.b) backend_close(rank.b);
    return ranks_leave(&rank, &ended);
}
