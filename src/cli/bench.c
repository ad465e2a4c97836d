// drover bench: speed against the physical limit of this machine, measured in the same run.
#include <stdio.h>

#include "backend/backend.h"
#include "base/parallel.h"
#include "base/str.h"
#include "cli/cli.h"
#include "setup/device.h"
#include "train/step_bench.h"

enum { LAYER_TRIES = 5 }; // runs of a product of the model

// --- GEMM
// A layer of x [tokens, in] and w [out, in] has three products: forward, y = x w'; the gradient of
// its input, dx = dy w; and that of its weight, dw += dy' x.
enum { N_PRODUCTS = 3 };
static drv_status bench_layer(backend *device, const char *name, dtype dt, int64_t tokens,
        int64_t in, int64_t out, int tries) {
    const backend_product forward =
                                  {.m = tokens, .n = out, .k = in, .tb = true, .in = dt, .out = dt},
                          input = {.m = tokens, .n = in, .k = out, .in = dt, .out = dt},
                          weight = {.m = out,
                                  .n = in,
                                  .k = tokens,
                                  .ta = true,
                                  .in = dt,
                                  .out = DT_F32,
                                  .accumulate = true},
                          *const products[N_PRODUCTS] = {&forward, &input, &weight};
    char shape[64];
    snprintf(shape, sizeof shape, "%lld x %lld x %lld", (long long)tokens, (long long)in,
            (long long)out);
    printf("%-14s %21s ", name, shape);
    for (int i = 0; i < N_PRODUCTS; i++) {
        double rate;
        const char *by;
        DRV_TRY(backend_time_product(device, products[i], tries, &rate, &by));
        printf("  %8.1f", rate / 1e9);
    }
    printf("\n");
    return DRV_OK;
}

static drv_status bench_layers(backend *device, const run_config *cfg, int tries) {
    const model_config *model = &cfg->model;
    const int64_t tokens = cfg->micro_batch_size * cfg->sequence_length, h = model->hidden_size;
    const int64_t q = model->num_attention_heads * model->head_dim, f = model->intermediate_size;
    const struct {
        const char *name;
        int64_t in, out;
    } layers[] = {{"qkv", h, q + 2 * model->num_key_value_heads * model->head_dim},
            {"attention out", q, h}, {"gate and up", h, 2 * f}, {"down", f, h},
            {"head", h, model->vocab_size}};
    const dtype dt = cfg->precision != PRECISION_F32 ? DT_BF16 : DT_F32;
    const backend_product small = {.m = 64, .n = 64, .k = 64, .in = dt, .out = dt};
    const char *by;
    double ignored;
    DRV_TRY(backend_time_product(device, &small, 1, &ignored, &by));
    printf("GFLOP/s, %s by %s\n%-14s %21s   %8s  %8s  %8s\n", dtype_name(dt), by, "layer",
            "tokens x in x out", "forward", "input", "weight");
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        DRV_TRY(bench_layer(device, layers[i].name, dt, tokens, layers[i].in, layers[i].out,
                tries));
    return DRV_OK;
}

static drv_status bench_gemm(arena *a, const cli_args *args) {
    run_config cfg;
    backend *device;
    product_peaks peak = {0, 0};
    int64_t repeats = 0; // not said
    DRV_TRY(bench_load(a, args, &cfg));
    DRV_TRY(cli_get_i64(args, "--repeats", 1, 1000, &repeats));
    DRV_TRY(device_open(a, &cfg, &device));
    if (!backend_times_products(device))
        return drv_fail(DRV_E_USAGE,
                "bench gemm: back end \"%s\" computes nothing that could be measured",
                backend_name(device));
    const int tries = repeats ? (int)repeats : PEAK_TRIES;
    DRV_TRY(product_peaks_raise(device, tries, &peak));
    if (cli_has(args, "--json")) {
        printf("{\"threads\": %d, \"gemm_peak_fp32\": %.4g, \"gemm_peak_bf16\": %.4g}\n",
                par_threads(), peak.f32, peak.bf16);
    } else {
        printf("%d thread%s of %s\npeak: fp32 %.1f GFLOP/s, bf16 %.1f GFLOP/s (0: none)\n",
                par_threads(), str_plural(par_threads()), backend_device(device), peak.f32 / 1e9,
                peak.bf16 / 1e9);
        DRV_TRY(bench_layers(device, &cfg, repeats ? (int)repeats : LAYER_TRIES));
    }
    backend_close(device);
    return DRV_OK;
}

// --- the verb
drv_status bench_load(arena *a, const cli_args *args, run_config *out) {
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

static const cli_option gemm_options[] = {
        CLI_SET,
        CLI_JSON,
        {"--repeats", "N", "runs of each product; the fastest counts (default 8; 5 for layers)"},
};
static const cli_option step_options[] = {
        CLI_SET,
        CLI_JSON,
        {"--repeats", "N",
                "steps to time; the fastest counts (default 3; with fewer, peaks are measured briefly)"},
        {"--profile", NULL,
                "also print the time of each op, and the least that the machine's peaks allow"},
        {"--out", "FILE", "draw the profile as FILE.svg"},
};
static const cli_rule step_rules[] = {
        {.option = "--out", .needs = "--profile"},
};
static const cli_option device_options[] = {
        CLI_SET,
        {"--repeats", "N", "steps to time; the fastest counts (default 3)"},
        {"--from", "RUN_DIR", "learn from the steps of a run instead of timing some"},
        {"--out", "FILE", "write the profile to FILE instead of printing it"},
};
static const cli_rule device_rules[] = {
        {.option = "--from", .excludes = "--set --repeats"},
};
static const cli_option tokenizer_options[] = {
        CLI_TOKENIZER,
        {"--input", "FILE", "the text"},
        CLI_JSON,
        {"--repeats", "N", "warm passes; the fastest counts (default 3)"},
        {"--threads", "N", "number of threads (default: all cores)"},
};
static const cli_option data_options[] = {
        CLI_TOKENIZER,
        {"--input", "FILE", "the text"},
        CLI_JSON,
        {"--json-key", "KEY", "key of the text in .jsonl, column in .parquet (default text)"},
        {"--threads", "N", "number of threads (default: all cores)"},
};

static const verb subverbs[] = {
        {
                .name = "gemm",
                .summary = "time matrix products: the peak, then a model's shapes",
                .usage = "[CONFIG] [--set KEY=VALUE]... [--repeats N] [--json]",
                .help = "Times square products for the peak (with AMX, the tile registers alone), and then products with\n"
                        "the layer shapes of the model, each as in a run. Without CONFIG it takes llama-135m.\n"
                        "bench/onednn_gemm.c of the sources times the same shapes with oneDNN.",
                CLI_OPTIONS(gemm_options),
                .max_positional = 1,
                .run = bench_gemm,
        },
        {
                .name = "step",
                .summary = "time training steps, and compare them with the GEMM peak",
                .usage =
                        "[CONFIG] [--set KEY=VALUE]... [--repeats N] [--profile [--out FILE.svg]] [--json]",
                .help = "Times training steps on random tokens: tokens/s, FLOP/s (with causal attention), and their ratio\n"
                        "to the higher of the fp32 and bf16 peaks of matrix products, measured in the same run. Without\n"
                        "CONFIG it takes llama-135m; --set model.preset=llama-15m --set data.sequence_length=512 chooses\n"
                        "a smaller model. --profile also shows where the time of the fastest step goes: the seconds,\n"
                        "FLOPs and bytes of each op, with the peak of products and the memory bandwidth measured in the\n"
                        "same run. `mpirun -n N drover bench step CONFIG` times N ranks; the profile is that of rank 0.",
                CLI_OPTIONS(step_options),
                CLI_RULES(step_rules),
                .max_positional = 1,
                .run = bench_step,
        },
        {
                .name = "device",
                .summary = "write the profile of this machine, for drover plan --device",
                .usage = "[CONFIG] [--set KEY=VALUE]... [--repeats N] [--out FILE]\n"
                         "--from RUN_DIR [--out FILE]",
                .help = "Times the ops of a training step and writes a profile with the shares of the peaks that this\n"
                        "machine reaches, so that a plan of the same step predicts its measured time. Without CONFIG it\n"
                        "takes llama-135m. Under mpirun the profile is that of one rank, and the links between data ranks\n"
                        "and between tensor ranks are measured too.\n"
                        "\n"
                        "--from adjusts the profile with which a run was planned (its key device) until the plan of its\n"
                        "steps predicts their measured time, term by term, and prints which fields that determines.\n"
                        "Example: drover bench device --out mine.yaml\n"
                        "         drover plan run.yaml --ranks 8 --device mine.yaml",
                CLI_OPTIONS(device_options),
                CLI_RULES(device_rules),
                .max_positional = 1,
                .run = bench_step,
        },
        {
                .name = "tokenizer",
                .summary = "time encoding, cold and warm",
                .usage = "--tokenizer PATH --input FILE [--json]",
                .help = "Prints the MB/s of the first pass in this process (cold) and of the fastest later one (warm).",
                CLI_OPTIONS(tokenizer_options),
                .run = bench_tokenizer,
        },
        {
                .name = "data",
                .summary = "time the build of a data set",
                .usage = "--tokenizer PATH --input FILE [--json]",
                .help = "Prints the speed of a whole build that writes its files, and of encoding alone, in MB/s of text.",
                CLI_OPTIONS(data_options),
                .run = bench_data,
        },
};

const verb verb_bench = {
        .name = "bench",
        .summary = "measure speed: GEMM, step, device, tokenizer, data set",
        .help = "gemm and step are compared with the peaks of this machine, measured in the same run.",
        CLI_SUBVERBS(subverbs),
};
