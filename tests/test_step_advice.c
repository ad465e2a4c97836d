// Advice on the time of a step: whoever follows it has a config that is accepted, fits and is
// faster, in many layouts and on many devices; nothing is advised that a layout cannot do.
#include "harness.h"

#include <string.h>

#include "search/run_plan.h"
#include "search/step_advice.h"

enum { MAX_SETS = 16 };

typedef struct followed {
    run_config cfg;
    run_plan planned;
    step_cost cost;
} followed;

// Plans what a user would type: settings in one line.
static followed plan_of(arena *a, const char *sets, int64_t ranks, const device_profile *device) {
    const char *list[MAX_SETS];
    char *rest = arena_strdup(a, sets), *word;
    int n = 0;
    while ((word = strtok_r(rest, " ", &rest)))
        list[n++] = word;
    followed *out = ARENA_NEW(a, followed);
    OK(config_load(a, NULL, list, n, &out->cfg));
    OK(config_set_ranks(&out->cfg, ranks));
    OK(run_plan_make(a, &out->cfg, &out->planned));
    OK(run_plan_cost(a, &out->planned, device, &out->cost));
    return *out;
}

static double tokens_per_s(const followed *f) {
    return (double)(f->cfg.global_batch_size * f->cfg.sequence_length) / f->cost.seconds;
}

static int check_advice(const char *sets, int64_t ranks, const char *name) {
    arena *a = arena_new("advice");
    device_profile device;
    step_advice advice[MAX_ADVICE];
    OK(device_profile_read(a, name, &device));
    followed first = plan_of(a, sets, ranks, &device);
    const int n = step_advice_find(a, &first.cfg, &device, &first.cost, first.planned.memory.total,
            advice);
    for (int i = 0; i < n; i++) {
        const followed then =
                plan_of(a, arena_printf(a, "%s %s", sets, advice[i].setting), ranks, &device);
        const double faster = tokens_per_s(&then) / tokens_per_s(&first);
        const int64_t before = first.planned.memory.total, after = then.planned.memory.total;
        if (faster < 1.004 || faster / advice[i].faster - 1 > 1e-6 ||
                1 - faster / advice[i].faster > 1e-6)
            fail_msg("%s on %lld x %s: %s makes it %g times as fast, advised %g", sets,
                    (long long)ranks, name, advice[i].setting, faster, advice[i].faster);
        if (after > before && after > device.memory)
            fail_msg("%s on %lld x %s: %s does not fit", sets, (long long)ranks, name,
                    advice[i].setting);
        assert_true(i == 0 || advice[i].faster <= advice[i - 1].faster);
    }
    arena_free(a);
    return n;
}

#define SHAPE                                                                                      \
    "model.preset=llama-3.2-1b model.num_hidden_layers=4 data.sequence_length=2048 "               \
    "data.pack=stream training.global_batch_size=32 "

TEST(advice_holds_when_followed) {
    static const struct {
        const char *sets;
        int64_t ranks;
    } layouts[] = {{SHAPE, 1}, {SHAPE "parallel.zero=0", 8}, {SHAPE "parallel.zero=1", 8},
            {SHAPE "parallel.zero=3", 8}, {SHAPE "parallel.zero=3 parallel.zero_group=4", 8},
            {SHAPE "training.recompute=full training.micro_batch_size=4", 2},
            {SHAPE "training.precision=fp32", 4}, {SHAPE "parallel.tensor=8", 16},
            {SHAPE "parallel.tensor=2 parallel.sequence=false parallel.data=2", 4},
            {SHAPE "parallel.context=4", 8},
            {SHAPE "parallel.context=2 parallel.context_blocks=4", 2},
            {SHAPE "parallel.pipeline=4", 4},
            {SHAPE "parallel.pipeline=2 parallel.schedule=gpipe training.micro_batch_size=2", 4},
            {SHAPE "model.num_hidden_layers=8 parallel.pipeline=4 parallel.virtual_stages=2 "
                   "parallel.zero=0",
                    8},
            {SHAPE "parallel.pipeline=2 parallel.schedule=interleaved parallel.virtual_stages=2",
                    2},
            {SHAPE "parallel.pipeline=4 parallel.schedule=zb-h1 parallel.tensor=2", 8},
            {SHAPE "parallel.accumulation_groups=8 training.micro_batch_size=4", 8},
            {SHAPE "training.micro_batch_size=32", 1},
            {SHAPE "lora.rank=8 training.recompute=selective", 2},
            {SHAPE "parallel.zero=auto training.recompute=full", 4}};
    static const char *const devices[] = {"h100", "a100", "trn1", "gb200"};
    int n = 0;
    const size_t n_layouts = sizeof layouts / sizeof *layouts,
                 n_devices = sizeof devices / sizeof *devices;
    for (size_t i = 0; i < n_layouts; i++)
        n += check_advice(layouts[i].sets, layouts[i].ranks, devices[i % n_devices]);
    assert_true(n > (int)n_layouts);
}

// One device has nobody to share its optimizer with, whatever the update takes.
TEST(one_rank_shares_with_nobody) {
    device_profile device;
    step_advice advice[MAX_ADVICE];
    OK(device_profile_read(a, "h200", &device));
    const followed alone =
            plan_of(a, SHAPE "parallel.zero=0 training.global_batch_size=1", 1, &device);
    const int n = step_advice_find(a, &alone.cfg, &device, &alone.cost, alone.planned.memory.total,
            advice);
    assert_true(alone.cost.term[TERM_UPDATE] > 0.05 * alone.cost.seconds && n > 0);
    for (int i = 0; i < n; i++)
        assert_null(strstr(advice[i].setting, "parallel."));
    const followed many =
            plan_of(a, SHAPE "parallel.zero=0 training.global_batch_size=8", 8, &device);
    const int m =
            step_advice_find(a, &many.cfg, &device, &many.cost, many.planned.memory.total, advice);
    bool shares = false;
    for (int i = 0; i < m; i++)
        shares |= strcmp(advice[i].setting, "parallel.zero=1") == 0;
    assert_true(shares);
}
