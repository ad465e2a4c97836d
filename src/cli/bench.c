// drover bench: speed against the physical limit of this machine, measured in the same run.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/gemm.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/parallel.h"
#include "base/rng.h"
#include "base/str.h"
#include "cli/bench.h"
#include "cli/cli.h"
#include "config/config.h"
#include "ir/op.h"
#include "train/programs.h"

// --- GEMM
static drv_status bench_gemm(arena *a, const cli_args *c, const run_config *cfg) {
    double peak32, peak16;
    DRV_TRY(gemm_peak(DT_F32, 8, &peak32));
    DRV_TRY(gemm_peak(DT_BF16, 8, &peak16));
    if (cli_has(c, "--json")) {
        printf("{\"threads\": %d, \"gemm_peak_fp32\": %.4g, \"gemm_peak_bf16\": %.4g}\n",
                par_threads(), peak32, peak16);
        return DRV_OK;
    }
    printf("%d threads of %s\npeak: fp32 %.1f GFLOP/s, bf16 %.1f GFLOP/s\n", par_threads(),
            cpu_model_name(), peak32 / 1e9, peak16 / 1e9);
    gemm_machine *m, *other; // as a run would choose, and oneDNN beside it
    DRV_TRY(gemm_machine_open(a, GEMM_BY_RULE, &m));
    DRV_TRY(gemm_machine_open(a, GEMM_ONEDNN, &other));
    const model_config *mc = &cfg->model;
    const int64_t n = cfg->micro_batch_size * cfg->sequence_length, h = mc->hidden_size;
    const int64_t q = mc->num_attention_heads * mc->head_dim, f = mc->intermediate_size;
    const struct {
        const char *name;
        int64_t in, out;
    } layers[] = {{"qkv", h, q + 2 * mc->num_key_value_heads * mc->head_dim},
            {"attention out", q, h}, {"gate and up", h, 2 * f}, {"down", f, h},
            {"head", h, mc->vocab_size}};
    const dtype dt = cfg->precision == PRECISION_BF16 ? DT_BF16 : DT_F32;
    const bool bf16 = dt == DT_BF16;
    printf("GFLOP/s, %s by %s / by %s\n%-14s %21s  %15s %15s %15s\n", dtype_name(dt),
            bf16 ? gemm_arithmetic(m) : "fp32", bf16 ? gemm_arithmetic(other) : "oneDNN", "layer",
            "tokens x in x out", "forward", "input", "weight");
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        const int64_t in = layers[i].in, out = layers[i].out;
        gemm_shape s[] = {{n, out, in, false, true, in, in, out, dt, dt, false},
                {n, in, out, false, false, out, in, in, dt, dt, false},
                {out, in, n, true, false, out, in, in, dt, DT_F32, true}};
        char shape[64];
        snprintf(shape, sizeof shape, "%lld x %lld x %lld", (long long)n, (long long)in,
                (long long)out);
        printf("%-14s %21s ", layers[i].name, shape);
        for (int k = 0; k < 3; k++) {
            double ours, theirs;
            DRV_TRY(gemm_time(a, m, &s[k], 5, &ours));
            DRV_TRY(gemm_time(a, other, &s[k], 5, &theirs));
            printf("   %5.1f / %5.1f", ours / 1e9, theirs / 1e9);
        }
        printf("\n");
    }
    gemm_machine_close(other);
    gemm_machine_close(m);
    return DRV_OK;
}

// --- step
static drv_status random_batch(programs *p, uint64_t index) {
    const run_config *c = p->c;
    const int64_t n = c->micro_batch_size * c->sequence_length;
    int32_t *x = mem_alloc(sizeof *x * (size_t)n);
    const rng_key key = {1, RNG_TEST, index};
    drv_status s = DRV_OK;
    for (int64_t i = 0; i < n; i++)
        x[i] = (int32_t)(rng_u64(&key, (uint64_t)i) % (uint64_t)c->model.vocab_size);
    s = backend_write(p->b, 0, "tokens", 0, n * 4, x);
    if (s == DRV_OK) s = backend_write(p->b, 0, "labels", 0, n * 4, x);
    for (int64_t i = 0; i < n; i++)
        x[i] = (int32_t)(i % c->sequence_length);
    if (s == DRV_OK) s = backend_write(p->b, 0, "position", 0, n * 4, x);
    free(x);
    return s;
}

static drv_status one_step(programs *p, uint64_t index) {
    const run_config *c = p->c;
    const double dloss = 1.0 / (double)(c->global_batch_size * c->sequence_length);
    const double hyper[4] = {1e-5, 0.1, 0.05, 1};
    DRV_TRY(backend_write(p->b, 0, "dloss", 0, sizeof dloss, &dloss));
    DRV_TRY(backend_write(p->b, 0, "hyper", 0, sizeof hyper, hyper));
    for (int64_t i = 0; i < c->global_batch_size / c->micro_batch_size; i++) {
        DRV_TRY(random_batch(p, index * 1000 + (uint64_t)i));
        DRV_TRY(backend_run(p->b, p->step));
    }
    return backend_run(p->b, p->update);
}

static void print_profile(const double s[N_OPS], double total, const double flops[N_OPS]) {
    fprintf(stderr, "%-28s %8s %7s %9s\n", "op", "ms", "share", "GFLOP/s");
    for (int i = 0; i < N_OPS; i++)
        if (s[i] > 0)
            fprintf(stderr, "%-28s %8.1f %6.1f%% %9.1f\n", op_rows[i]->name, s[i] * 1e3,
                    100 * s[i] / total, flops[i] / s[i] / 1e9);
}

static drv_status bench_step(arena *a, const cli_args *c, const run_config *cfg) {
    int64_t repeats = 3;
    DRV_TRY(cli_get_i64(c, "--repeats", 1, 1000, &repeats));
    double peak32, peak16, again;
    DRV_TRY(gemm_peak(DT_F32, 8, &peak32));
    DRV_TRY(gemm_peak(DT_BF16, 8, &peak16));
    backend *b;
    programs p;
    DRV_TRY(backend_open(a, cfg->backend, &b));
    DRV_TRY(programs_build(a, cfg, &p));
    DRV_TRY(programs_load(a, b, &p));
    DRV_TRY(programs_init_weights(&p));
    DRV_TRY(one_step(&p, 0)); // the first touches all memory
    double op_s[N_OPS], op_flops[N_OPS] = {0}, best = 1e30, all = 0;
    for (int64_t i = 0; i < repeats; i++) {
        double discard[N_OPS];
        backend_profile(b, discard);
        double t = clock_s();
        DRV_TRY(one_step(&p, 1 + (uint64_t)i));
        t = clock_s() - t;
        all += t;
        progress("step %lld of %lld: %.2f s", (long long)i + 1, (long long)repeats, t);
        if (t < best) {
            best = t;
            backend_profile(b, op_s);
        }
    }
    progress_end();
    // The peaks again: a quiet spell must not flatter either side.
    DRV_TRY(gemm_peak(DT_F32, 8, &again));
    if (again > peak32) peak32 = again;
    DRV_TRY(gemm_peak(DT_BF16, 8, &again));
    if (again > peak16) peak16 = again;
    const double tokens = (double)(cfg->global_batch_size * cfg->sequence_length);
    const double flops = tokens * model_flops_per_token(&cfg->model, cfg->sequence_length);
    const double peak = peak32 > peak16 ? peak32 : peak16;
    for (int i = 0; i < p.step_graph->n_nodes; i++) {
        const op_row *row = op_rows[p.step_graph->nodes[i]->op];
        if (row->flops)
            op_flops[p.step_graph->nodes[i]->op] +=
                    row->flops(p.step_graph->nodes[i]) *
                    (double)(cfg->global_batch_size / cfg->micro_batch_size);
    }
    if (cli_has(c, "--profile")) print_profile(op_s, best, op_flops);
    const char *model = *cfg->preset ? cfg->preset : *cfg->from ? cfg->from : "custom";
    const char *type = cfg->precision == PRECISION_BF16 ? "bf16" : "fp32";
    if (cli_has(c, "--json"))
        printf("{\"model\": \"%s\", \"sequence\": %lld, \"batch\": %lld, \"micro_batch\": %lld, "
               "\"precision\": \"%s\", "
               "\"threads\": %d, \"tokens_per_s\": %.2f, \"mean_tokens_per_s\": %.2f, \"flops_per_s\": %.5g, "
               "\"gemm_peak_fp32\": %.5g, "
               "\"gemm_peak_bf16\": %.5g, \"ratio\": %.4f, \"peak_rss\": %lld}\n",
                model, (long long)cfg->sequence_length, (long long)cfg->global_batch_size,
                (long long)cfg->micro_batch_size, type, par_threads(), tokens / best,
                tokens * (double)repeats / all, flops / best, peak32, peak16, flops / best / peak,
                (long long)memory_peak_bytes());
    else
        printf("%s, sequence %lld, batch %lld in micro-batches of %lld, %s, %d threads\n"
               "%.1f tokens/s, %.1f GFLOP/s; GEMM peak fp32 %.1f, bf16 %.1f; %.1f %% of the higher; peak memory %s\n",
                model, (long long)cfg->sequence_length, (long long)cfg->global_batch_size,
                (long long)cfg->micro_batch_size, type, par_threads(), tokens / best,
                flops / best / 1e9, peak32 / 1e9, peak16 / 1e9, 100 * flops / best / peak,
                str_bytes((double)memory_peak_bytes()));
    backend_close(b);
    return DRV_OK;
}

// --- the verb
// Without a file: llama-135m, unless --set says otherwise.
static drv_status load(arena *a, const cli_args *args, run_config *out) {
    int n_sets;
    const char **sets = cli_get_all(a, args, "--set", &n_sets);
    const char *file = args->n_positional > 0 ? args->positional[0] : NULL;
    const char **all = ARENA_ARRAY(a, const char *, n_sets + 1);
    all[0] = "model.preset=llama-135m";
    for (int i = 0; i < n_sets; i++)
        all[i + 1] = sets[i];
    DRV_TRY(config_load(a, file, file ? sets : all, file ? n_sets : n_sets + 1, out));
    par_set_threads((int)out->threads);
    return DRV_OK;
}

static drv_status run_gemm(arena *a, const cli_args *args) {
    run_config cfg;
    DRV_TRY(load(a, args, &cfg));
    return bench_gemm(a, args, &cfg);
}

static drv_status run_step(arena *a, const cli_args *args) {
    run_config cfg;
    DRV_TRY(load(a, args, &cfg));
    return bench_step(a, args, &cfg);
}

static const cli_option gemm_options[] = {CLI_SET, CLI_JSON};
static const cli_option step_options[] = {CLI_SET, CLI_JSON,
        {"--repeats", "N", "steps to time; the fastest counts (default 3)"},
        {"--profile", NULL, "also print the time of each op"}};
static const cli_option tokenizer_options[] = {{"--tokenizer", "DIR", "folder of tokenizer.json"},
        {"--input", "FILE", "the text"}, CLI_JSON,
        {"--repeats", "N", "warm passes; the fastest counts (default 3)"},
        {"--threads", "N", "how many (default: all cores)"}};
static const cli_option data_options[] = {{"--tokenizer", "DIR", "folder of tokenizer.json"},
        {"--input", "FILE", "what is built"}, CLI_JSON,
        {"--json-key", "KEY", "of the text in .jsonl, column in .parquet (default text)"},
        {"--threads", "N", "how many (default: all cores)"}};

static const verb subverbs[] = {
        {
                .name = "gemm",
                .summary = "products of matrices: the peak, then a model's shapes",
                .usage = "[CONFIG] [--set KEY=VALUE]... [--json]",
                .help = "The peak of square products, then the layer shapes of the model.\n"
                        "Without CONFIG: llama-135m.",
                .options = gemm_options,
                .n_options = sizeof gemm_options / sizeof *gemm_options,
                .max_positional = 1,
                .run = run_gemm,
        },
        {
                .name = "step",
                .summary = "training steps against the GEMM peak",
                .usage = "[CONFIG] [--set KEY=VALUE]... [--repeats N] [--profile] [--json]",
                .help = "Training steps on random tokens: tokens/s, FLOP/s (causal attention) and their ratio to\n"
                        "the higher of the fp32 and bf16 GEMM peaks measured in the same run. Without CONFIG:\n"
                        "llama-135m, e.g. --set model.preset=llama-15m --set data.sequence_length=512.",
                .options = step_options,
                .n_options = sizeof step_options / sizeof *step_options,
                .max_positional = 1,
                .run = run_step,
        },
        {
                .name = "tokenizer",
                .summary = "encoding, cold and warm",
                .usage = "--tokenizer DIR --input FILE [--json]",
                .help = "MB/s of a first pass in this process (cold) and of the best later one (warm).",
                .options = tokenizer_options,
                .n_options = sizeof tokenizer_options / sizeof *tokenizer_options,
                .run = bench_tokenizer,
        },
        {
                .name = "data",
                .summary = "building a data set",
                .usage = "--tokenizer DIR --input FILE [--json]",
                .help = "MB/s of text of a build with its files written, beside the encoding alone.",
                .options = data_options,
                .n_options = sizeof data_options / sizeof *data_options,
                .run = bench_data,
        },
};

const verb verb_bench = {
        .name = "bench",
        .summary = "measure speed: GEMM, training step, tokenizer, data set",
        .help = "Each is measured against the physical limit of this machine in the same run.",
        .subverbs = subverbs,
        .n_subverbs = sizeof subverbs / sizeof *subverbs,
};
