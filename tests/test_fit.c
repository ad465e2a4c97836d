// Before a run allocates: how much memory there is, on machines made of files, and what would fit
// into it.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory_limit.h"
#include "base/parallel.h"
#include "harness.h"
#include "programs/batch_feed.h"
#include "programs/fit.h"
#include "setup/process_bytes.h"

static const int64_t MIB = 1 << 20, GIB = 1 << 30;

// A machine: /proc/meminfo with these kB, and files of its control groups.
typedef struct machine {
    const char *total_kb, *available_kb;
    const char *groups; // /proc/self/cgroup
    const char *files[8][2];
    int64_t machine, free; // what is expected, in MiB
    const char *what;
} machine;

static void put(arena *a, const char *root, const char *path, const char *text) {
    const char *full = arena_printf(a, "%s/%s", root, path), *slash = strrchr(full, '/');
    OK(dir_make(arena_strndup(a, full, (size_t)(slash - full))));
    OK(file_write_atomic(full, text, strlen(text)));
}

static void check_machine(int number, const machine *m) {
    arena *a = arena_new("machine");
    const char *root = temporary_dir(a);
    put(a, root, "proc/meminfo",
            arena_printf(a, "MemTotal:  %s kB\nMemFree: 5 kB\nMemAvailable:  %s kB\n", m->total_kb,
                    m->available_kb));
    put(a, root, "proc/self/cgroup", m->groups);
    for (int k = 0; k < 8 && m->files[k][0]; k++)
        put(a, root, m->files[k][0], m->files[k][1]);
    const memory_limit limit = memory_limit_read(root);
    if (limit.machine != m->machine * MIB || limit.free != m->free * MIB ||
            strcmp(limit.what, m->what) != 0)
        fail_msg("case %d: %lld of %lld MiB %s, expected %lld of %lld %s", number,
                (long long)(limit.free / MIB), (long long)(limit.machine / MIB), limit.what,
                (long long)m->free, (long long)m->machine, m->what);
    arena_free(a);
}

TEST(the_least_limit_counts) {
#define V1   "sys/fs/cgroup/memory"
#define V2   "sys/fs/cgroup"
#define NONE "9223372036854771712\n"
    static const machine cases[] = {
            {"2097152", "1048576", "", {{NULL}}, 2048, 1024, "free on this machine"},
            {"2097152", "1048576", "0::/\n", {{NULL}}, 2048, 1024, "free on this machine"},
            // version 2: none, then one with pages of files among what is used
            {"2097152", "1048576", "0::/a\n", {{V2 "/a/memory.max", "max\n"}}, 2048, 1024,
                    "free on this machine"},
            {"2097152", "1048576", "0::/a\n",
                    {{V2 "/a/memory.max", "536870912\n"}, {V2 "/a/memory.current", "209715200\n"},
                            {V2 "/a/memory.stat", "anon 7\ninactive_file 104857600\n"}},
                    512, 412, "left in this control group"},
            // the limit of the group above counts too
            {"2097152", "1048576", "0::/a/b\n",
                    {{V2 "/a/b/memory.max", "536870912\n"}, {V2 "/a/memory.max", "268435456\n"},
                            {V2 "/a/memory.current", "0\n"}},
                    256, 256, "left in this control group"},
            // in a container the path of /proc is not below the mount
            {"2097152", "1048576", "0::/pod/x\n",
                    {{V2 "/memory.max", "104857600\n"}, {V2 "/memory.current", "0\n"}}, 100, 100,
                    "left in this control group"},
            // version 1, with other controllers beside it
            {"2097152", "1048576", "5:cpu:/q\n4:memory:/job\n0::/\n",
                    {{V1 "/job/memory.limit_in_bytes", "314572800\n"},
                            {V1 "/job/memory.usage_in_bytes", "104857600\n"},
                            {V1 "/memory.limit_in_bytes", NONE}},
                    300, 200, "left in this control group"},
            // used up: nothing is free, never less
            {"2097152", "1048576", "4:memory:/job\n",
                    {{V1 "/job/memory.limit_in_bytes", "104857600\n"},
                            {V1 "/job/memory.usage_in_bytes", "204857600\n"}},
                    100, 0, "left in this control group"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_machine((int)i, &cases[i]);
    const memory_limit unknown = memory_limit_read(temporary_dir(a));
    assert_true(unknown.free == INT64_MAX && unknown.machine == 0);
}

// This very machine, in a child whose address space may grow by 64 MiB.
TEST(ulimit_counts) {
    const memory_limit before = memory_limit_read("");
    assert_true(before.machine > 64 * MIB && before.free > 0 && before.free <= before.machine);
    const pid_t child = fork();
    if (child == 0) {
        long long pages = 0;
        FILE *f = fopen("/proc/self/statm", "r");
        if (!f || fscanf(f, "%lld", &pages) != 1) _exit(2);
        // Beside them a thread has its stack and 64 MiB for malloc: the team's one, and a helper.
        struct rlimit stack;
        par_set_threads(1);
        if (getrlimit(RLIMIT_STACK, &stack) != 0) _exit(5);
        const rlim_t mib = 1 << 20,
                     each = stack.rlim_cur == RLIM_INFINITY ? 8 * mib : stack.rlim_cur,
                     reserved = 2 * (each + 64 * mib) + 16 * mib,
                     bytes = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + (rlim_t)(64 * MIB) +
                             reserved;
        if (setrlimit(RLIMIT_AS, &(struct rlimit){bytes, bytes}) != 0) _exit(3);
        const memory_limit after = memory_limit_read("");
        _exit(after.free <= 64 * MIB && after.free > 32 * MIB &&
                                strcmp(after.what,
                                        "left under ulimit -v beside what threads reserve") == 0
                        ? 0
                        : 4);
    }
    int status;
    assert_true(waitpid(child, &status, 0) == child);
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int64_t needed(const run_config *cfg) {
    memory_plan planned;
    OK(fit_plan(cfg, &planned));
    return planned.total + process_bytes(cfg);
}

// A run that is out of memory is told what it does not do already.
TEST(less_is_what_is_not_done) {
    static const struct {
        const char *sets[4], *less;
    } cases[] = {{{"model.preset=tiny", "training.micro_batch_size=2", "training.precision=fp32",
                          "training.recompute=none"},
                         "a smaller training.micro_batch_size, a smaller data.sequence_length, "
                         "training.recompute full or training.precision bf16"},
            {{"model.preset=tiny", "training.micro_batch_size=1", "training.precision=bf16",
                     "training.recompute=selective"},
                    "a smaller data.sequence_length or training.recompute full"},
            {{"model.preset=tiny", "training.micro_batch_size=1", "training.precision=bf16",
                     "training.recompute=full"},
                    "a smaller data.sequence_length"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_config cfg;
        OK(config_load(a, NULL, cases[i].sets, 4, &cfg));
        assert_string_equal(fit_less(a, &cfg), cases[i].less);
    }
}

// What is suggested fits, and nothing that costs less time would have.
TEST(what_would_fit_is_really_planned) {
    const char *sets[] = {"model.preset=llama-15m", "training.micro_batch_size=8",
            "training.precision=fp32", "data.sequence_length=512"};
    run_config cfg, other;
    const char *keys;
    OK(config_load(a, NULL, sets, 4, &cfg));
    other = cfg;
    other.micro_batch_size = 4;
    const int64_t rows8 = needed(&cfg), rows4 = needed(&other);
    other.micro_batch_size = 1;
    const int64_t rows1 = needed(&other);
    other.recompute = RECOMPUTE_FULL;
    const int64_t full1 = needed(&other);
    other.precision = PRECISION_BF16;
    const int64_t bf16 = needed(&other);
    other.lora.rank = 16;
    other.lora.alpha = 16;
    const int64_t lora_bf16 = needed(&other);
    assert_true(rows8 > rows4 && rows4 > rows1 && rows1 > full1 && full1 != bf16);
    assert_true(lora_bf16 < full1 && lora_bf16 < bf16);
    const struct {
        int64_t free;
        const char *keys; // NULL: nothing fits
    } cases[] = {{rows8, ""}, {rows8 - 1, "--set training.micro_batch_size=4"},
            {rows4 - 1, "--set training.micro_batch_size=2"},
            {rows1, "--set training.micro_batch_size=1"},
            {full1, "--set training.micro_batch_size=1 --set training.recompute=full"},
            {lora_bf16,
                    "--set training.micro_batch_size=1 --set training.recompute=full --set "
                    "training.precision=bf16 --set lora.rank=16 (adapters for a model that model.from "
                    "loads)"},
            {20 * MIB, NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const memory_limit limit = {16 * GIB, cases[i].free, "free in this test"};
        OK(fit_suggest(a, &cfg, &limit, &keys));
        if (!keys != !cases[i].keys || (keys && strcmp(keys, cases[i].keys) != 0))
            fail_msg("case %d: \"%s\", expected \"%s\"", (int)i, keys ? keys : "nothing",
                    cases[i].keys ? cases[i].keys : "nothing");
    }
}

// Where rows and recomputation are not enough, data ranks share more: the lowest level that fits.
TEST(data_ranks_share_more) {
    const char *sets[] = {"model.preset=llama-15m", "training.micro_batch_size=1",
            "training.global_batch_size=8", "data.sequence_length=64", "training.recompute=full",
            "parallel.data=8"};
    static const char *const want[] = {"", "", "--set parallel.zero=2", "--set parallel.zero=3"};
    run_config cfg;
    OK(config_load(a, NULL, sets, sizeof sets / sizeof *sets, &cfg));
    for (int level = 2; level <= 3; level++) {
        run_config other = cfg;
        const char *keys;
        other.zero = level;
        OK(config_set_ranks(&other, 8));
        const memory_limit limit = {16 * GIB, needed(&other), "free in this test"};
        OK(fit_suggest(a, &cfg, &limit, &keys));
        if (!keys || strcmp(keys, want[level]) != 0)
            fail_msg("\"%s\", expected \"%s\"", keys ? keys : "nothing", want[level]);
    }
}

// parallel.zero: auto is the lowest level that fits, in which the memory decides no bit: whatever
// it is, the accumulation groups and partial sums are the same.
TEST(the_level_follows_from_the_memory) {
    const char *sets[] = {"model.preset=llama-15m", "training.micro_batch_size=2",
            "training.global_batch_size=16", "data.sequence_length=64", "parallel.data=8",
            "parallel.zero=auto"};
    run_config cfg;
    OK(config_load(a, NULL, sets, sizeof sets / sizeof *sets, &cfg));
    assert_int_equal(cfg.zero, 1);
    for (int level = 1; level <= 3; level++) {
        run_config other = cfg, chosen = cfg;
        const char *why, *zero = arena_printf(a, "zero %d: ", level);
        other.zero = level;
        OK(config_set_ranks(&other, 8));
        assert_int_equal(other.n_accum_groups, 8);
        assert_int_equal(config_partial_sum_rows(&other), 2);
        const int64_t process = process_bytes(&other);
        const memory_limit limit = {16 * GIB, needed(&other), "free in this test"},
                           less = {16 * GIB, needed(&other) - 1, "free in this test"};
        OK(fit_choose_zero(a, &chosen, &limit, process, &why));
        assert_int_equal(chosen.zero, level);
        assert_non_null(strstr(why, zero));
        assert_non_null(strstr(why, "free in this test"));
        chosen = cfg;
        OK(fit_choose_zero(a, &chosen, &less, process, &why));
        assert_int_equal(chosen.zero, level < 3 ? level + 1 : 3);
        assert_non_null(strstr(why, level < 3 ? "exceed" : "even so"));
    }
    const memory_limit large = {16 * GIB, 16 * GIB, "free in this test"};
    const char *why;
    cfg.accum_groups = 1; // which level 1 of 8 ranks cannot have
    OK(config_set_ranks(&cfg, 8));
    OK(fit_choose_zero(a, &cfg, &large, 0, &why));
    assert_int_equal(cfg.zero, 2);
    cfg.zero_group = 1;
    cfg.accum_groups = 0;
    OK(config_set_ranks(&cfg, 8));
    OK(fit_choose_zero(a, &cfg, &large, 0, &why));
    assert_int_equal(cfg.zero, 3);
}

TEST(a_run_that_does_not_fit_is_refused) {
    run_config cfg;
    OK(config_load(a, NULL,
            (const char *[]){"model.preset=llama-15m", "training.micro_batch_size=8"}, 2, &cfg));
    memory_limit limit = {16 * GIB, needed(&cfg), "free in this test"};
    OK(fit_check(&cfg, &limit));
    limit.free--;
    FAILS(fit_check(&cfg, &limit), DRV_E_DEVICE, "--set training.micro_batch_size=4");
    assert_non_null(strstr(drv_message(), "free in this test"));
    limit.free = 20 * MIB;
    FAILS(fit_check(&cfg, &limit), DRV_E_DEVICE, "expected a smaller model");
    // The largest preset: said in seconds, without a byte of it.
    OK(config_load(a, NULL, (const char *[]){"model.preset=llama-3.1-405b"}, 1, &cfg));
    limit.free = 23 * GIB;
    FAILS(fit_check(&cfg, &limit), DRV_E_DEVICE, "TiB");
}

static int64_t resident_bytes(void) {
    long long all, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lld %lld", &all, &resident), 2);
    fclose(f);
    return resident * sysconf(_SC_PAGESIZE);
}

// The rows of a large global batch, and those that are read ahead, are planned as what they take.
TEST(batches_are_planned) {
    const char *sets[] = {"model.preset=tiny", "data.sequence_length=512", NULL};
    run_config small, large;
    sets[2] = "training.global_batch_size=64";
    OK(config_load(a, NULL, sets, 3, &small));
    sets[2] = "training.global_batch_size=4096";
    OK(config_load(a, NULL, sets, 3, &large));
    const int64_t planned = needed(&large) - needed(&small);
    const int64_t before = resident_bytes();
    batch both[2];
    for (int i = 0; i < 2; i++) { // ARENA_ARRAY touches every page
        both[i] = batch_new(a, large.global_batch_size, large.sequence_length);
        assert_non_null(both[i].tokens);
    }
    const int64_t held = (resident_bytes() - before) * (4096 - 64) / 4096;
    if (llabs(planned - held) > 2 * MIB)
        fail_msg("%lld bytes are planned for batches that take %lld", (long long)planned,
                (long long)held);
}

// Llama 3.1 405B by the layout of NeMo's recipe for cards of 80 GB: its gradients in bf16 as there,
// or in fp32 with cheap values computed again. All chunks share the memory of their activations.
TEST(a_published_layout_fits) {
    static const char *const ways[][2] = {{"training.recompute=gathers",
                                                  "training.grad_dtype=bf16"},
            {"training.recompute=selective", "training.grad_dtype=fp32"}};
    for (int i = 0; i < 2; i++) {
        const char *sets[] = {"model.preset=llama-3.1-405b", "data.sequence_length=8192",
                "training.global_batch_size=256", "training.micro_batch_size=1",
                "parallel.tensor=8", "parallel.pipeline=8", "parallel.context=2",
                "parallel.schedule=interleaved", "parallel.virtual_stages=8", ways[i][0],
                ways[i][1]};
        run_config cfg;
        OK(config_load(a, NULL, sets, sizeof sets / sizeof *sets, &cfg));
        OK(config_set_ranks(&cfg, 512));
        cfg.rank = 64; // the second stage
        const int64_t bytes = needed(&cfg);
        if (bytes > 75 * (int64_t)1000000000)
            fail_msg("%s: %lld bytes, expected at most 75 GB", ways[i][0], (long long)bytes);
    }
}
