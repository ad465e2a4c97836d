// Profiles of devices: those that ship, fields that are replaced, and what is refused.
#include "harness.h"

#include <math.h>

#include "launch/jobs/instance_types.h"
#include "search/device_learn.h"
#include "search/device_measure.h"

TEST(shipped_ones_are_read) {
    device_profile d;
    assert_true(device_profile_count() >= 9);
    for (int i = 0; i < device_profile_count(); i++) {
        OK(device_profile_read(a, device_profile_name(i), &d));
        assert_string_equal(d.name, device_profile_name(i));
        assert_non_null(d.source);
        assert_true(d.bf16_flops > 1e13 && d.bytes_per_s > 1e11 && d.memory >= 16000000000);
        assert_true(d.links.inside >= d.links.between);
    }
    OK(device_profile_read(a, "h100", &d));
    assert_true(d.bf16_flops == 989e12 && d.fp8_flops == 1979e12 && d.memory == 80000000000);
    assert_true(d.bytes_per_s == 3350e9 && d.links.between == 50e9 && d.launch_s == 3e-6);
    OK(device_profile_read(a, "h100,memory=96GiB,links.ranks_per_host=4,peak.bf16_tflops=500", &d));
    assert_true(d.memory == 96ll << 30 && d.links.ranks_per_host == 4 && d.bf16_flops == 500e12);
}

// Shares that are not given are those of all devices together, which the fit writes for trn2.
TEST(shares_not_given) {
    const char *path = path_join(a, temporary_dir(a), "sheet.yaml"),
               *sheet =
                       "{memory: 80GB, peak: {bf16_tflops: 312, fp8_tflops: 624}, memory_gb_s: 2039, "
                       "links: {inside_gb_s: 300, between_gb_s: 25, ranks_per_host: 8}}";
    device_profile d, usual;
    OK(file_write_atomic(path, sheet, strlen(sheet)));
    OK(device_profile_read(a, path, &d));
    OK(device_profile_read(a, "trn2", &usual));
    const double pairs[][2] = {{d.reached_products, usual.reached_products},
            {d.reached_fp8, usual.reached_fp8}, {d.reached_attention, usual.reached_attention},
            {d.reached_memory, usual.reached_memory}, {d.reached_inside, usual.reached_inside},
            {d.reached_between, usual.reached_between}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        assert_true(pairs[i][0] - pairs[i][1] < 0.006 && pairs[i][1] - pairs[i][0] < 0.006);
}

// The machines of drover launch --instance are those of the same profiles: figures from AWS's pages.
TEST(machines_have_profiles) {
    static const struct {
        const char *name;
        double flops, between;
        int64_t memory, ranks; // of a rank; ranks of a machine
    } machines[] = {{"trn1.32xlarge", 95e12, 3.125e9, 16ll << 30, 32},
            {"trn1n.32xlarge", 95e12, 6.25e9, 16ll << 30, 32},
            {"trn2.48xlarge", 667e12 / 4, 6.25e9, 24ll << 30, 64},
            {"p4d.24xlarge", 312e12, 6.25e9, 40000000000, 8},
            {"p4de.24xlarge", 312e12, 6.25e9, 80000000000, 8},
            {"p5.48xlarge", 989e12, 50e9, 80000000000, 8},
            {"p5e.48xlarge", 989e12, 50e9, 141000000000, 8},
            {"p5en.48xlarge", 989e12, 50e9, 141000000000, 8},
            {"p6-b200.48xlarge", 2250e12, 50e9, 180000000000, 8}};
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        device_profile d;
        const char *name = machines[i].name;
        OK(device_profile_read(a, name, &d));
        assert_string_equal(d.name, name);
        assert_int_equal(d.memory, machines[i].memory);
        assert_int_equal(d.links.ranks_per_host, machines[i].ranks);
        assert_int_equal(instance_ranks(instance_find(name)), machines[i].ranks);
        assert_true(d.bf16_flops == machines[i].flops && d.links.between == machines[i].between);
        OK(device_profile_read(a, arena_printf(a, "%s,memory=8GiB", name), &d));
        assert_true(d.memory == 8ll << 30 && d.bf16_flops == machines[i].flops);
    }
    device_profile d;
    FAILS(device_profile_read(a, "cpu", &d), DRV_E_USAGE, "no device profile \"cpu\"");
}

// The text of h100's file with one line replaced.
static const char *changed(arena *a, const char *line, const char *by) {
    int i = 0;
    while (strcmp(device_profile_name(i), "h100") != 0)
        i++;
    const char *text = device_profile_text(i), *begin = strstr(text, line);
    assert_non_null(begin);
    const char *path = path_join(a, temporary_dir(a), "mine.yaml"),
               *whole = arena_printf(a, "%.*s%s%s", (int)(begin - text), text, by,
                       strchr(begin, '\n'));
    OK(file_write_atomic(path, whole, strlen(whole)));
    return path;
}

TEST(what_is_refused) {
    static const struct {
        const char *text, *says;
    } refused[] = {{"h1000", "a100, b200, gb200, h100"}, {"", "no device profile \"\""},
            {"h100,memory", "FIELD=VALUE"}, {"h100,memory=96TFLOPS", "80GB or 96GiB"},
            {"h100,links.inside_gb_s=0",
                    "links.inside_gb_s is \"0\", expected a number from 1e-06"},
            {"h100,links.between_gb_s=0",
                    "links.between_gb_s is \"0\", expected a number from 1e-06"},
            {"h100,links.ranks_per_host=0",
                    "links.ranks_per_host is \"0\", expected a whole number from 1"},
            {"h100,reached.products=75",
                    "reached.products is \"75\", expected a number from 0.0001 to 1.5"},
            {"h100,peak.bf16_tflops=9.89e14", "expected a number from 1e-06 to 1e+06"},
            {"h100,launch_us=3us", "launch_us is \"3us\""},
            {"h100,links.ranks_per_host=1.5", "whole number"},
            {"h100,memory_gbs=1", "did you mean memory_gb_s?"}};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        device_profile d;
        FAILS(device_profile_read(a, refused[i].text, &d), DRV_E_USAGE, refused[i].says);
    }
}

TEST(files_that_are_refused) {
    device_profile d;
    FAILS(device_profile_read(a, "./no.yaml", &d), DRV_E_IO, "./no.yaml");
    FAILS(device_profile_read(a, changed(a, "memory:", ""), &d), DRV_E_USAGE,
            "mine.yaml: memory is missing, expected a size");
    FAILS(device_profile_read(a, changed(a, "peak:", ""), &d), DRV_E_USAGE,
            "mine.yaml: peak.bf16_tflops is missing, expected a number");
    FAILS(device_profile_read(a, changed(a, "links:", "links: {inside_gb_s: 450}"), &d),
            DRV_E_USAGE, "mine.yaml: links.between_gb_s is missing");
    FAILS(device_profile_read(a, changed(a, "memory:", "memory: [1]"), &d), DRV_E_USAGE,
            "mine.yaml:4: memory is a list of 1");
    FAILS(device_profile_read(a, changed(a, "memory_gb_s:", "memory_gb_s: 3350 GB/s"), &d),
            DRV_E_USAGE, "memory_gb_s is \"3350 GB/s\"");
    FAILS(device_profile_read(a, changed(a, "memory:", "memory: 80GB\nwatts: 700"), &d),
            DRV_E_USAGE, "watts is not a field of a device profile");
}

TEST(hosts_divide_the_ranks) {
    device_profile d;
    OK(device_profile_read(a, "h100", &d));
    OK(device_profile_check_ranks(&d, 4));
    OK(device_profile_check_ranks(&d, 64));
    FAILS(device_profile_check_ranks(&d, 12), DRV_E_USAGE,
            "h100: links.ranks_per_host is 8, expected a divisor of the 12 ranks");
}

// What a step's rows say, and the same after it was written and read.
TEST(of_a_measured_step) {
    const machine_roof roof = {.flops_per_s = 1e12, .bytes_per_s = 1e11};
    static step_profile step = {.step_s = 10, .outside_s = 0.5, .n_rows = 4};
    step.rows[0] = (profile_row){.program = PROFILE_FORWARD,
            .op = OP_matmul,
            .count = 40,
            .seconds = 4,
            .flops = 2e12};
    step.rows[1] = (profile_row){.program = PROFILE_BACKWARD,
            .op = OP_attention_grad,
            .count = 30,
            .seconds = 3,
            .flops = 6e11};
    step.rows[2] = (profile_row){.program = PROFILE_UPDATE,
            .op = OP_adamw,
            .count = 20,
            .seconds = 1,
            .bytes = 4e10};
    step.rows[3] = (profile_row){.program = PROFILE_BETWEEN_RANKS,
            .op = OP_all_gather,
            .count = 10,
            .seconds = 1.5,
            .sent = 3e9};
    const device_profile made = device_profile_of_step(&step, &roof, 1 << 30);
    str text = {0};
    device_profile_print(&made, "a test", &text);
    const char *path = path_join(a, temporary_dir(a), "mine.yaml");
    OK(file_write_atomic(path, text.p, text.n));
    str_free(&text);
    device_profile d;
    OK(device_profile_read(a, path, &d));
    const struct {
        double got, want;
    } all[] = {{d.bf16_flops, 1e12}, {d.bytes_per_s, 1e11}, {d.reached_products, 0.5},
            {d.reached_attention, 0.2}, {d.reached_memory, 0.4}, {d.links.inside, 2e9},
            {d.launch_s, 0.005}, {(double)d.memory, 1 << 30}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!(all[i].got > 0.999 * all[i].want && all[i].got < 1.001 * all[i].want))
            fail_msg("number %zu: %g, expected %g", i, all[i].got, all[i].want);
}

// A run on a device of known speeds, of which a plan for another device is learned: the second plan
// takes what the run took, term by term.
static void learn_from_a_run(const char *setting) {
    arena *a = arena_new("profiles");
    const char *sets[] = {"model.preset=tiny", "data.pack=stream", "training.global_batch_size=16",
            "parallel.data=2", "parallel.tensor=2", setting};
    run_config cfg;
    run_plan planned;
    device_profile truth, guess;
    step_cost took, again;
    const char *learned, *left;
    OK(config_load(a, NULL, sets, sizeof sets / sizeof *sets, &cfg));
    OK(config_set_ranks(&cfg, 4));
    OK(run_plan_make(a, &cfg, &planned));
    OK(device_profile_read(a,
            "h100,links.ranks_per_host=2,reached.products=0.31,reached.attention=0.07,"
            "reached.memory=0.5,launch_us=11,links.inside_gb_s=30,links.between_gb_s=0.5,"
            "reached.products_fp8=0.3",
            &truth));
    OK(device_profile_read(a, "h100,links.ranks_per_host=2", &guess));
    OK(run_plan_cost(a, &planned, &truth, &took));
    OK(device_profile_learn(a, &planned, took.term, &guess, &learned, &left));
    OK(run_plan_cost(a, &planned, &guess, &again));
    for (step_term t = 0; t < N_STEP_TERMS; t++)
        if (again.term[t] < 0.98 * took.term[t] || again.term[t] > 1.02 * took.term[t])
            fail_msg("%s: %g s, expected %g; learned: %s; left: %s", step_term_name(t),
                    again.term[t], took.term[t], learned, left);
    assert_non_null(
            strstr(learned, "reached.products, reached.attention, launch_us, reached.memory"));
    assert_non_null(strstr(learned, "reached.inside, reached.between"));
    // What was not measured stays as it was, and is named.
    double some[N_STEP_TERMS];
    for (int i = 0; i < N_STEP_TERMS; i++)
        some[i] = (double)NAN;
    some[TERM_ATTENTION] = 2 * took.term[TERM_ATTENTION];
    OK(device_profile_learn(a, &planned, some, &guess, &learned, &left));
    assert_string_equal(learned, "reached.attention");
    assert_non_null(strstr(left, "reached.products (not measured)"));
    arena_free(a);
}

TEST(of_a_finished_run) {
    learn_from_a_run("training.precision=bf16");
    learn_from_a_run("training.precision=fp8");
}

// Groups of data ranks, each on a host: one time for two links says neither speed; with that of the
// tensor ranks it says both.
TEST(of_a_run_with_groups) {
    const struct {
        const char *tensor, *device;
        int ranks;
        bool learns;
    } cases[] = {{"parallel.tensor=1", "h100,links.ranks_per_host=2", 4, false},
            {"parallel.tensor=2", "h100,links.ranks_per_host=4", 8, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *sets[] = {"model.preset=tiny", "data.pack=stream", "parallel.zero=3",
                "training.global_batch_size=16", "parallel.data=4", "parallel.zero_group=2",
                cases[i].tensor};
        run_config cfg;
        run_plan planned;
        device_profile truth, guess;
        step_cost took, again;
        const char *learned, *left;
        OK(config_load(a, NULL, sets, sizeof sets / sizeof *sets, &cfg));
        OK(config_set_ranks(&cfg, cases[i].ranks));
        OK(run_plan_make(a, &cfg, &planned));
        OK(device_profile_read(a,
                arena_printf(a, "%s,links.inside_gb_s=30,links.between_gb_s=0.5", cases[i].device),
                &truth));
        OK(device_profile_read(a, cases[i].device, &guess));
        const device_profile before = guess;
        OK(run_plan_cost(a, &planned, &truth, &took));
        OK(device_profile_learn(a, &planned, took.term, &guess, &learned, &left));
        OK(run_plan_cost(a, &planned, &guess, &again));
        if (cases[i].learns) {
            assert_non_null(strstr(learned, "reached.inside, reached.between"));
            assert_true(fabs(again.term[TERM_DATA] / took.term[TERM_DATA] - 1) < 0.02);
            continue;
        }
        assert_null(strstr(learned, "reached.inside"));
        assert_null(strstr(learned, "reached.between"));
        assert_non_null(strstr(left, "reached.inside (one time for both links), reached.between"));
        assert_true(guess.reached_inside == before.reached_inside &&
                    guess.reached_between == before.reached_between);
    }
}
