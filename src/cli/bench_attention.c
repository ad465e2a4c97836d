// drover bench attention: times attention and its gradient for rows of several lengths, against the
// peak of products.
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/log.h"
#include "base/parallel.h"
#include "base/rng.h"
#include "base/str.h"
#include "cli/bench.h"
#include "ir/op.h"
#include "setup/device.h"

// Lengths from 512 to 2^20 tokens, times 4: six of them.
enum { LONGEST = 32768, SHORTEST = 512, TRIES = 3, MAX_CASES = 6 * 2 * 2 };

// Rows of one length and kind of head, and their times.
typedef struct attention_case {
    int64_t tokens;
    int head_dim, n_heads, n_kv_heads, n_rows;
    bool documents;               // a row has many documents, which do not see each other; else one
    double forward_s, backward_s; // the fastest
    double forward, backward;     // FLOPs of the pairs that see each other
} attention_case;

// Few heads for long rows, and several short rows, so that each case takes some seconds at most.
static attention_case case_of(int64_t tokens, int head_dim, bool documents) {
    const bool is_long = tokens > 8192;
    return (attention_case){.tokens = tokens,
            .head_dim = head_dim,
            .documents = documents,
            .n_heads = is_long ? 2 : 8,
            .n_kv_heads = is_long ? 1 : 2,
            .n_rows = tokens < 2048 ? (int)(2048 / tokens) : 1};
}

// Sets how many tokens stand before each one in its document; returns the pairs of tokens of a row
// that see each other.
static double fill_positions(const attention_case *c, int32_t *position) {
    static const int lengths[] = {333, 1021, 64, 517, 1500, 190}; // of the documents, in turn
    double seen = 0;
    for (int64_t t = 0, at = 0, n = 0; t < c->tokens; t++, at++) {
        if (c->documents && at == lengths[n % 6]) at = 0, n++;
        position[t] = (int32_t)at;
        seen += (double)at + 1;
    }
    for (int64_t t = c->tokens; t < c->n_rows * c->tokens; t++)
        position[t] = position[t - c->tokens];
    return seen;
}

static drv_status write_noise(backend *b, const tensor *to, uint64_t seed) {
    const int64_t n = tensor_elements(to), bytes = tensor_bytes(to);
    const rng_key key = {seed, RNG_TEST, 0};
    char *values = mem_alloc((size_t)bytes);
    for (int64_t i = 0; i < n; i++) {
        const float x = (float)(rng_u64(&key, (uint64_t)i) >> 40) * 0x1p-23f - 1;
        if (to->dt == DT_BF16)
            ((uint16_t *)(void *)values)[i] = f32_to_bf16(x);
        else
            ((float *)(void *)values)[i] = x;
    }
    const drv_status status = backend_write(b, to->name, 0, bytes, values);
    free(values);
    return status;
}

static graph *build(arena *a, dtype dt, const attention_case *c) {
    const int64_t n = c->n_rows * c->tokens;
    graph *g = graph_new(a, "attention");
    tensor *qkv = graph_state(g, TENSOR_INPUT, "qkv", dt, 2,
                   (int64_t[]){n, (c->n_heads + 2 * c->n_kv_heads) * c->head_dim}),
           *d_o = graph_state(g, TENSOR_INPUT, "d_o", dt, 2,
                   (int64_t[]){n, c->n_heads * c->head_dim}),
           *position = graph_state(g, TENSOR_INPUT, "position", DT_I32, 1, &n);
    const op_attrs attrs = {.heads = {c->n_heads, c->n_kv_heads, c->head_dim},
            .attention.seq = (int)c->tokens};
    const node *forward = graph_add(g, OP_attention, 2, (tensor *[]){qkv, position}, &attrs);
    tensor *in[] = {d_o, qkv, forward->out[0], forward->out[1], position};
    graph_add(g, OP_attention_grad, 5, in, &attrs);
    return g;
}

static drv_status write_inputs(backend *b, const graph *g, attention_case *c) {
    const int64_t bytes = c->n_rows * c->tokens * (int64_t)sizeof(int32_t);
    int32_t *position = mem_alloc((size_t)bytes);
    const double tokens = (double)c->tokens,
                 share = fill_positions(c, position) / (tokens * (tokens + 1) / 2);
    c->forward = share * op_rows[OP_attention]->flops(g->nodes[0]);
    c->backward = share * op_rows[OP_attention_grad]->flops(g->nodes[1]);
    const drv_status status = backend_write(b, "position", 0, bytes, position);
    free(position);
    if (status != DRV_OK) return status;
    DRV_TRY(write_noise(b, graph_find(g, "qkv"), 1));
    return write_noise(b, graph_find(g, "d_o"), 2);
}

static drv_status time_case(arena *a, const run_config *cfg, int64_t repeats, attention_case *c) {
    backend *b;
    executable *program;
    graph *g = build(a, cfg->precision != PRECISION_F32 ? DT_BF16 : DT_F32, c);
    DRV_TRY(device_open(a, cfg, &b));
    drv_status status = backend_compile(a, b, g, NULL, &program);
    if (status == DRV_OK) status = write_inputs(b, g, c);
    for (int64_t i = 0; i <= repeats && status == DRV_OK; i++) { // the first one touches all memory
        int64_t n_runs;
        backend_time_nodes(b, true);
        status = backend_run(b, program);
        const double *seconds = backend_node_seconds(b, program, &n_runs);
        if (i == 1 || seconds[0] < c->forward_s) c->forward_s = seconds[0];
        if (i == 1 || seconds[1] < c->backward_s) c->backward_s = seconds[1];
    }
    backend_close(b);
    return status;
}

static void print_text(const attention_case *all, int n, double peak) {
    printf("%6s %7s %-10s %18s %18s %8s\n", "head", "tokens", "", "forward, GFLOP/s",
            "gradient, GFLOP/s", "of peak");
    for (int i = 0; i < n; i++) {
        const attention_case *c = &all[i];
        const double rate = (c->forward + c->backward) / (c->forward_s + c->backward_s);
        printf("%6d %7lld %-10s %18.1f %18.1f %8.3f\n", c->head_dim, (long long)c->tokens,
                c->documents ? "documents" : "", c->forward / c->forward_s / 1e9,
                c->backward / c->backward_s / 1e9, peak > 0 ? rate / peak : 0);
    }
    printf("peak of products %.1f GFLOP/s, %d thread%s\n", peak / 1e9, par_threads(),
            str_plural(par_threads()));
}

static void print_json(const attention_case *all, int n, double peak) {
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list,
                json_pack("{si sI sb sf sf sf sf}", "head_dim", all[i].head_dim, "tokens",
                        (json_int_t)all[i].tokens, "documents", all[i].documents, "forward_seconds",
                        all[i].forward_s, "gradient_seconds", all[i].backward_s, "forward_flops",
                        all[i].forward, "gradient_flops", all[i].backward));
    json_t *o = json_pack("{si sf so}", "threads", par_threads(), "peak_flops_per_s", peak, "cases",
            list);
    char *text = json_dumps(o, JSON_REAL_PRECISION(6));
    puts(text);
    free(text);
    json_decref(o);
}

// The cases run one after the other, each with its own memory.
static drv_status time_cases(const run_config *cfg, int64_t repeats, attention_case *all, int n) {
    for (int i = 0; i < n; i++) {
        arena *a = arena_new("attention");
        const drv_status status = time_case(a, cfg, repeats, &all[i]);
        arena_free(a);
        if (status != DRV_OK) return status;
        progress("attention: %d of %d", i + 1, n);
    }
    progress_end();
    return DRV_OK;
}

drv_status bench_attention(arena *a, const cli_args *args) {
    int64_t repeats = TRIES, longest = LONGEST;
    run_config cfg;
    backend *device;
    bench_peaks peak = {0, 0};
    attention_case *all = ARENA_ARRAY(a, attention_case, MAX_CASES);
    int n_cases = 0;
    DRV_TRY(cli_get_i64(args, "--repeats", 1, 1000, &repeats));
    DRV_TRY(cli_get_i64(args, "--tokens", SHORTEST, 1 << 20, &longest));
    DRV_TRY(bench_load(a, args, &cfg));
    DRV_TRY(device_open(a, &cfg, &device));
    if (!backend_times_nodes(device))
        return drv_fail(DRV_E_USAGE,
                "bench attention: expected backend cpu, which runs op by op, but %s is \"%s\"",
                config_where(&cfg, "backend"), cfg.backend);
    for (int64_t tokens = SHORTEST; tokens <= longest; tokens *= 4)
        for (int head_dim = 64; head_dim <= 128; head_dim += 64)
            for (int documents = 0; documents < 2; documents++)
                all[n_cases++] = case_of(tokens, head_dim, documents);
    const int tries = repeats < TRIES ? LOOK_TRIES : PEAK_TRIES;
    DRV_TRY(bench_raise_peaks(device, tries, &peak));
    DRV_TRY(time_cases(&cfg, repeats, all, n_cases));
    DRV_TRY(bench_raise_peaks(device, tries, &peak));
    backend_close(device);
    const bool wide = cfg.precision == PRECISION_F32 || peak.f32 > peak.bf16;
    (cli_has(args, "--json") ? print_json : print_text)(all, n_cases, wide ? peak.f32 : peak.bf16);
    return DRV_OK;
}
