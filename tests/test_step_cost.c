// The terms of a step's time against numbers worked out by hand from the model's shape.
#include "harness.h"

#include <math.h>

#include "search/step_cost.h"

static void near(double x, double expected) {
    if (fabs(x - expected) > 1e-9 * fabs(expected)) fail_msg("%.17g, expected %.17g", x, expected);
}

// A device of which everything is reached and nothing overlaps.
static device_profile plain_device(void) {
    return (device_profile){.name = "plain",
            .bf16_flops = 1e12,
            .fp8_flops = 2e12,
            .bytes_per_s = 1e11,
            .links = {.inside = 1e10, .between = 1e9, .ranks_per_host = 2},
            .reached_products = 1,
            .reached_fp8 = 1,
            .reached_attention = 1,
            .reached_memory = 1,
            .reached_inside = 1,
            .reached_between = 1};
}

static run_config config_of(arena *a, const char *const *sets, int n, int64_t ranks) {
    run_config cfg;
    OK(config_load(a, NULL, sets, n, &cfg));
    OK(config_set_ranks(&cfg, ranks));
    return cfg;
}

static step_cost cost_of(arena *a, run_config *cfg, const device_profile *d) {
    step_cost out;
    if (cfg->pipeline_parallel > 1) {
        stage_plans *stages = ARENA_NEW(a, stage_plans);
        OK(stage_plans_make(a, false, cfg, stages));
        OK(step_cost_make(a, cfg, &stages->work, &stages->shape, d, &out));
        return out;
    }
    programs p;
    step_work w = step_work_new(a, cfg);
    OK(programs_build(a, cfg, &p));
    step_work_take(&p, &w);
    OK(step_cost_make(a, cfg, &w, NULL, d, &out));
    return out;
}

// llama-15m: 6 layers of width 288 with 768 in the middle, 6 heads of 48, 32,000 tokens; rows of
// 256. Products cost 6 FLOPs a weight and token, causal attention 12 a pair and number of a head.
static const double layer_weights = 4.0 * 288 * 288 + 3.0 * 288 * 768, tokens = 8 * 256,
                    pairs = 8 * 256 * 257 / 2.0;
#define SHAPE                                                                                      \
    "model.preset=llama-15m", "data.sequence_length=256", "training.global_batch_size=8",          \
            "training.micro_batch_size=2", "data.pack=stream"

TEST(one_rank) {
    const char *sets[] = {SHAPE, "training.precision=bf16"},
               *fp8[] = {SHAPE, "training.precision=fp8"};
    run_config cfg = config_of(a, sets, 6, 1);
    device_profile device = plain_device();
    step_cost cost = cost_of(a, &cfg, &device);
    const double products = 6 * 6 * layer_weights * tokens / 1e12;
    near(cost.term[TERM_PRODUCTS], products);
    near(cost.term[TERM_HEAD], 6 * 288.0 * 32000 * tokens / 1e12);
    near(cost.term[TERM_ATTENTION], 6 * 12 * pairs * 288 / 1e12);
    assert_true(cost.term[TERM_TENSOR] + cost.term[TERM_CONTEXT] + cost.term[TERM_BUBBLE] +
                        cost.term[TERM_DATA] + cost.term[TERM_LAUNCHES] ==
                0);
    double sum = 0;
    for (int i = 0; i < N_STEP_TERMS; i++)
        sum += cost.term[i];
    near(cost.seconds, sum);
    device.reached_products = 0.5;
    near(cost_of(a, &cfg, &device).term[TERM_PRODUCTS], 2 * products);
    run_config narrow = config_of(a, fp8, 6, 1);
    device.bytes_per_s = HUGE_VAL;
    near(cost_of(a, &narrow, &device).term[TERM_PRODUCTS], products / 2);
    device.fp8_flops = 0;
    programs p;
    step_work w = step_work_new(a, &narrow);
    OK(programs_build(a, &narrow, &p));
    step_work_take(&p, &w);
    FAILS(step_cost_make(a, &narrow, &w, NULL, &device, &cost), DRV_E_USAGE,
            "plain has no peak.fp8_tflops");
}

// A product of M x N x K takes 1 + s (1/M + 1/N + 1/K) as long.
TEST(small_products) {
    const char *sets[] = {SHAPE};
    run_config cfg = config_of(a, sets, 5, 1);
    device_profile d = plain_device();
    d.small_product = 100;
    const double m = 512; // tokens of a micro-batch
    const double shapes[][2] = {{3 * 288, 288}, {288, 288}, {2 * 768, 288}, {288, 768}};
    double expected = 0;
    for (int i = 0; i < 4; i++)
        expected += 6 * 6 * shapes[i][0] * shapes[i][1] * tokens / 1e12 *
                    (1 + 100 * (1 / m + 1 / shapes[i][0] + 1 / shapes[i][1]));
    near(cost_of(a, &cfg, &d).term[TERM_PRODUCTS], expected);
}

// In fp8 each of the three products of a weight M x K by K x N rounds two of the operands M x K,
// K x N and M x N: it reads their bf16 numbers twice and writes them once.
TEST(rounding_to_fp8) {
    const char *sets[] = {SHAPE, "training.precision=fp8"};
    run_config cfg = config_of(a, sets, 6, 1);
    device_profile slow = plain_device(), fast = slow;
    fast.bytes_per_s = HUGE_VAL;
    const double m = 512, shapes[][2] = {{3 * 288, 288}, {288, 288}, {2 * 768, 288}, {288, 768}};
    double numbers = 0;
    for (int i = 0; i < 4; i++)
        numbers += 2 * (m * shapes[i][0] + m * shapes[i][1] + shapes[i][0] * shapes[i][1]);
    const step_cost with = cost_of(a, &cfg, &slow), without = cost_of(a, &cfg, &fast);
    near(with.term[TERM_PRODUCTS] - without.term[TERM_PRODUCTS],
            6 * 4 * numbers * (2 + 2 + 1) / slow.bytes_per_s);
    near(with.term[TERM_HEAD], without.term[TERM_HEAD]);
}

// Two context ranks of a host: in the forward pass each sends its keys and values to the other one,
// in the backward pass also fp32 gradients of those that it received.
TEST(context_ranks) {
    const char *sets[] = {SHAPE, "training.precision=bf16", "parallel.context=2"};
    run_config cfg = config_of(a, sets, 7, 2);
    device_profile d = plain_device();
    const double numbers = 2 * tokens / 2 * 288, attention = 6 * 4 * pairs / 2 * 288 / 1e12,
                 forward = 6 * 2 * numbers / d.links.inside,
                 backward = 6 * (2 + 4) * numbers / d.links.inside;
    near(cost_of(a, &cfg, &d).term[TERM_CONTEXT], forward + backward);
    d.overlap_context = 1;
    near(cost_of(a, &cfg, &d).term[TERM_CONTEXT],
            fmax(forward - attention, 0) + fmax(backward - 2 * attention, 0));
}

// Four data ranks, two to a host: each sums fp32 gradients of all weights and gathers bf16 ones.
TEST(data_ranks) {
    const char *sets[] = {SHAPE, "model.tie_word_embeddings=false"};
    run_config cfg = config_of(a, sets, 6, 4);
    device_profile d = plain_device();
    const double weights = 2 * 32000 * 288 + 6 * (layer_weights + 2 * 288) + 288,
                 wire = weights * (4 + 2) * 3 / 4, between = wire / 2 / 1e9;
    const double got = cost_of(a, &cfg, &d).term[TERM_DATA];
    if (fabs(got - between) > 0.01 * between) fail_msg("%g s, expected %g", got, between);
}

// Three quarters of the traffic cost nothing beside a micro-batch that takes longer, and of traffic
// that takes longer than the micro-batch three quarters of the micro-batch's time.
TEST(overlap_of_data_ranks) {
    const char *sets[] = {SHAPE};
    run_config cfg = config_of(a, sets, 5, 4);
    device_profile d = plain_device();
    for (int slow = 0; slow < 2; slow++) {
        d.links.between = slow ? 1e8 : 1e10;
        d.overlap_data = 0;
        const step_cost all = cost_of(a, &cfg, &d);
        const double traffic = all.term[TERM_DATA],
                     computing = all.seconds - traffic - all.term[TERM_UPDATE];
        if ((traffic > computing) != slow) fail_msg("%g s beside %g s", traffic, computing);
        d.overlap_data = 0.75;
        near(cost_of(a, &cfg, &d).term[TERM_DATA], traffic - 0.75 * fmin(traffic, computing));
    }
}

// Two stages of alike work and M micro-batches: one of M + 1 turns is spent waiting.
TEST(a_pipeline) {
    const char *sets[] = {"model.preset=llama-15m", "model.vocab_size=48",
            "data.sequence_length=256", "training.global_batch_size=8",
            "training.micro_batch_size=2", "data.pack=stream", "parallel.pipeline=2",
            "model.num_hidden_layers=16"};
    run_config cfg = config_of(a, sets, 8, 2);
    device_profile d = plain_device();
    d.links.inside = d.links.between = 1e15;
    const step_cost c = cost_of(a, &cfg, &d);
    const double compute = c.seconds - c.term[TERM_BUBBLE] - c.term[TERM_UPDATE];
    if (fabs(c.term[TERM_BUBBLE] / compute - 1 / 4.0) > 0.01)
        fail_msg("bubble of %g beside %g", c.term[TERM_BUBBLE], compute);
}
