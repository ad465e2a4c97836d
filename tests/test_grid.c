// Every layout that fits in 8 ranks gives the bits of one rank: losses, norms, gradients before
// clipping and weights of each step. Run without arguments it tries so few cases that each pair of
// values of any two axes is among them; bench/grid.sh runs all, also over mpirun.
// usage: test_grid all|pairs [--list] [--match GLOB] [--sample N] [--seed N] [--done FILE]
// [--seconds N]
//        pairs: so few of those that match; --sample N: these and random others, one in N of all
//        that match
#include "layout_run.h"

#include <fnmatch.h>
#include <time.h>

#include "base/clock.h"
#include "base/rng.h"
#include "weights/hashes.h"

// --- cases
typedef enum axis_of_grid {
    G_TENSOR,
    G_PIPELINE,
    G_CONTEXT,
    G_DATA,
    G_ZERO,
    G_ZERO_GROUP,
    G_SEQUENCE,
    G_SCHEDULE,
    G_RECOMPUTE,
    G_TIED,
    G_PRECISION,
    G_FAMILY,
    G_OPTIMIZER,
    N_GRID
} axis_of_grid;

enum { MAX_VALUES = 5, MAX_CASES = 65536, MAX_RANKS = 8 };

typedef struct grid_axis {
    const char *key;
    int n;
    const char *value[MAX_VALUES];
} grid_axis;

static const grid_axis grid[N_GRID] = {
        [G_TENSOR] = {"parallel.tensor", 3, {"1", "2", "4"}},
        [G_PIPELINE] = {"parallel.pipeline", 3, {"1", "2", "4"}},
        [G_CONTEXT] = {"parallel.context", 2, {"1", "2"}},
        [G_DATA] = {"parallel.data", 3, {"1", "2", "4"}},
        [G_ZERO] = {"parallel.zero", 3, {"1", "0", "3"}},
        [G_ZERO_GROUP] = {"parallel.zero_group", 2, {"auto", "2"}},
        [G_SEQUENCE] = {"parallel.sequence", 2, {"true", "false"}},
        [G_SCHEDULE] = {"parallel.schedule", 4, {"1f1b", "gpipe", "interleaved", "zb-h1"}},
        [G_RECOMPUTE] = {"training.recompute", 4, {"none", "gathers", "selective", "full"}},
        [G_TIED] = {"model.tie_word_embeddings", 2, {"true", "false"}},
        [G_PRECISION] = {"training.precision", 3, {"bf16", "fp32", "fp8"}},
        [G_FAMILY] = {"model", 5,
                {"qk_norm=false", "qk_norm=true", "qkv_bias=true", "sliding_window=7",
                        "no_rope_layer_interval=3"}}, // what it adds
        [G_OPTIMIZER] = {"optimizer.type", 2, {"adamw", "muon"}},
};

// The same for every case, the one rank included: heads that share 2 of keys and values, a
// vocabulary that nothing divides, documents and labels that do not count (make_batch).
static const char *const model[] = {"model.vocab_size=263", "model.hidden_size=32",
        "model.intermediate_size=64", "model.num_hidden_layers=8", "model.num_attention_heads=8",
        "model.num_key_value_heads=2", "data.sequence_length=32", "training.global_batch_size=8",
        "training.micro_batch_size=1", "training.hash_every=1", "optimizer.clip_grad_norm=0.5",
        "parallel.accumulation_groups=4", "parallel.context_blocks=2"};
enum { N_MODEL = sizeof model / sizeof *model, CASE_SETS = N_MODEL + N_GRID + 1 };

typedef struct grid_case {
    int at[N_GRID]; // values, by axis
    bool taken;
} grid_case;

static int degree(const grid_case *c, axis_of_grid axis) {
    return (int)strtol(grid[axis].value[c->at[axis]], NULL, 10);
}

static int ranks_of(const grid_case *c) {
    return degree(c, G_TENSOR) * degree(c, G_PIPELINE) * degree(c, G_CONTEXT) * degree(c, G_DATA);
}

// What does nothing is tried once: ZeRO without ranks that share, groups of all those ranks,
// sharing of tokens without tensor ranks and gathers again without it, the schedule of no pipeline.
static bool is_case(const grid_case *c) {
    if (ranks_of(c) > MAX_RANKS) return false;
    if (c->at[G_ZERO] && degree(c, G_DATA) * degree(c, G_CONTEXT) == 1) return false;
    if (c->at[G_ZERO_GROUP] && (degree(c, G_ZERO) < 3 || degree(c, G_DATA) <= 2)) return false;
    if (c->at[G_SEQUENCE] && degree(c, G_TENSOR) == 1) return false;
    const bool gathers = strcmp(grid[G_RECOMPUTE].value[c->at[G_RECOMPUTE]], "gathers") == 0;
    if (gathers && (c->at[G_SEQUENCE] || degree(c, G_TENSOR) == 1)) return false;
    return degree(c, G_PIPELINE) > 1 || !c->at[G_SCHEDULE];
}

static int list_cases(grid_case *list) {
    int n = 0;
    grid_case c = {.taken = false};
    for (int axis = 0; axis < N_GRID;) {
        if (n == MAX_CASES) fail_msg("more than %d cases", MAX_CASES);
        if (is_case(&c)) list[n++] = c;
        for (axis = 0; axis < N_GRID && ++c.at[axis] == grid[axis].n; axis++)
            c.at[axis] = 0;
    }
    return n;
}

static int add_sets(arena *a, const grid_case *c, const char **sets) {
    int n = 0;
    for (int axis = 0; axis < N_GRID; axis++)
        if (axis != G_SCHEDULE || degree(c, G_PIPELINE) > 1)
            sets[n++] = arena_printf(a, axis == G_FAMILY ? "%s.%s" : "%s=%s", grid[axis].key,
                    grid[axis].value[c->at[axis]]);
    if (degree(c, G_PIPELINE) > 1 &&
            strcmp(grid[G_SCHEDULE].value[c->at[G_SCHEDULE]], "interleaved") == 0)
        sets[n++] = "parallel.virtual_stages=2";
    return n;
}

// "2 parallel.tensor=2 parallel.pipeline=1 ...": the ranks, then the keys.
static const char *name_of(arena *a, const grid_case *c) {
    const char *sets[CASE_SETS], *name = arena_printf(a, "%d", ranks_of(c));
    const int n = add_sets(a, c, sets);
    for (int i = 0; i < n; i++)
        name = arena_printf(a, "%s %s", name, sets[i]);
    return name;
}

// --- each pair of values of two axes
typedef bool pair_table[N_GRID][MAX_VALUES][N_GRID][MAX_VALUES];

static int count_new(const grid_case *c, pair_table seen, bool mark) {
    int n = 0;
    for (int x = 0; x < N_GRID; x++)
        for (int y = x + 1; y < N_GRID; y++) {
            bool *pair = &seen[x][c->at[x]][y][c->at[y]];
            n += !*pair;
            *pair |= mark;
        }
    return n;
}

// Moves cases that have all pairs to the front, greedily, and returns how many.
static int choose_pairs(grid_case *list, int n) {
    pair_table seen;
    memset(seen, 0, sizeof seen);
    int chosen = 0;
    while (true) {
        int best = -1, most = 0;
        for (int i = chosen; i < n; i++) {
            const int new = count_new(&list[i], seen, false);
            if (new > most) best = i;
            if (new > most) most = new;
        }
        if (best < 0) return chosen;
        const grid_case taken = list[best];
        count_new(&taken, seen, true);
        list[best] = list[chosen];
        list[chosen++] = taken;
    }
}

// --- one case
enum { MAX_STEPS = 10 };

typedef struct case_run {
    const char *sets[CASE_SETS];
    int n_sets, n_steps;
    double number[MAX_STEPS][3]; // loss, norms of gradients and weights
    arena *a;                    // of the hashes, of rank 0
    state_hashes hashes[MAX_STEPS];
} case_run;

static const char *const number_names[] = {"loss", "gradient norm", "parameter norm"};

static drv_status steps_of_rank(comm *self, arena *a, case_run *run) {
    rank_run mine;
    DRV_TRY(rank_run_open(self, a, run->sets, run->n_sets, "cpu", NULL, &mine));
    stepper steps = stepper_new(a, &mine.built, self, &mine.ranks);
    for (int step = 0; step < run->n_steps; step++) {
        const batch whole = make_batch(a, &mine.cfg, step),
                    share = share_of_batch(a, &mine.cfg, &whole);
        const double hyper[N_HYPER] = {1e-2, 1 - pow(0.9, step + 1), 1 - pow(0.95, step + 1),
                mine.cfg.clip_grad_norm, step + 1};
        double number[3];
        state_hashes hashes;
        steps.step = step + 1;
        DRV_TRY(stepper_gradients(&steps, &share, &number[0]));
        DRV_TRY(stepper_update(&steps, hyper, &number[1], &number[2]));
        DRV_TRY(hashes_take(comm_rank(self) == 0 ? run->a : a, &mine.built.held, &hashes));
        if (comm_rank(self) != 0) continue;
        memcpy(run->number[step], number, sizeof number);
        run->hashes[step] = hashes;
    }
    backend_close(mine.device);
    return DRV_OK;
}

static drv_status grid_rank(comm *c, void *ctx) {
    case_run *run = ctx;
    arena *a = comm_rank(c) == 0 ? run->a : arena_new("grid");
    const drv_status status = steps_of_rank(c, a, run);
    if (a != run->a) arena_free(a);
    return status;
}

static drv_status run_grid_case(const grid_case *c, int n_steps, case_run *run) {
    *run = (case_run){.n_steps = n_steps, .a = arena_new("case")};
    for (; run->n_sets < N_MODEL; run->n_sets++)
        run->sets[run->n_sets] = model[run->n_sets];
    run->n_sets += add_sets(run->a, c, run->sets + run->n_sets);
    return comm_run_threads(ranks_of(c), 1, NULL, grid_rank, run);
}

// The first of `got` that is not in `want`, which may list the tensors in another order; NULL: none.
static const char *first_other(const tensor_hashes *got, const tensor_hashes *want) {
    for (int i = 0; i < got->n; i++)
        for (int k = 0; k < want->n; k++)
            if (strcmp(got->list[i].entry.name, want->list[k].entry.name) == 0 &&
                    got->of[i] != want->of[k])
                return got->list[i].entry.name;
    return got->all != want->all ? "(the names of the tensors)" : NULL;
}

// What differs first, in the order in which a step makes it; NULL: nothing.
static const char *difference(arena *a, const case_run *got, const case_run *want) {
    for (int step = 0; step < got->n_steps; step++) {
        const double *x = got->number[step], *y = want->number[step];
        const char *at = arena_printf(a, "step %d", step + 1), *other;
        if (memcmp(&x[0], &y[0], sizeof *x) != 0)
            return arena_printf(a, "%s: loss %.17g, not %.17g", at, x[0], y[0]);
        other = first_other(&got->hashes[step].gradients, &want->hashes[step].gradients);
        if (other) return arena_printf(a, "%s: gradient of %s", at, other);
        for (int i = 1; i < 3; i++)
            if (memcmp(&x[i], &y[i], sizeof *x) != 0)
                return arena_printf(a, "%s: %s %.17g, not %.17g", at, number_names[i], x[i], y[i]);
        other = first_other(&got->hashes[step].weights, &want->hashes[step].weights);
        if (other) return arena_printf(a, "%s: weight %s", at, other);
    }
    return NULL;
}

// --- one rank, once for each model
// By tied, precision, family, optimizer.
static case_run alone[MAX_VALUES][MAX_VALUES][MAX_VALUES][MAX_VALUES];

static drv_status one_rank_of(const grid_case *c, int n_steps, const case_run **out) {
    case_run *run = &alone[c->at[G_TIED]][c->at[G_PRECISION]][c->at[G_FAMILY]][c->at[G_OPTIMIZER]];
    const grid_case one = {.at = {[G_TIED] = c->at[G_TIED],
                                   [G_PRECISION] = c->at[G_PRECISION],
                                   [G_FAMILY] = c->at[G_FAMILY],
                                   [G_OPTIMIZER] = c->at[G_OPTIMIZER]}};
    *out = run;
    return run->a ? DRV_OK : run_grid_case(&one, n_steps, run);
}

static void forget_runs_of_one(void) {
    case_run *list = &alone[0][0][0][0];
    for (size_t i = 0; i < sizeof alone / sizeof *list; i++) {
        arena_free(list[i].a);
        list[i].a = NULL;
    }
}

// What is wrong with a case; NULL: nothing.
static const char *try_case(arena *a, const grid_case *c, int n_steps) {
    const case_run *one;
    case_run run = {.n_sets = 0};
    const char *wrong = NULL;
    if (one_rank_of(c, n_steps, &one) != DRV_OK || run_grid_case(c, n_steps, &run) != DRV_OK)
        wrong = arena_printf(a, "did not run: %s", drv_message());
    if (!wrong) wrong = difference(a, &run, one);
    arena_free(run.a);
    return wrong;
}

// --- the test
TEST(each_pair_of_choices_gives_the_bits_of_one_rank) {
    enum { FEW = 2 };
    grid_case *list = mem_zeroed(sizeof *list * MAX_CASES);
    const int n = choose_pairs(list, list_cases(list));
    for (int i = 0; i < n; i++) {
        const char *wrong = try_case(a, &list[i], FEW);
        if (wrong) fail_msg("%s: %s", name_of(a, &list[i]), wrong);
    }
    forget_runs_of_one();
    free(list);
}

// --- by hand
typedef struct grid_args {
    bool pairs, list;
    const char *match, *done;
    int sample; // one case in so many; 1: all
    uint64_t seed;
    double seconds;
} grid_args;

static bool is_done(const char *done, const char *name) {
    char line[1024];
    bool found = false;
    FILE *f = done ? fopen(done, "r") : NULL;
    while (f && !found && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n|")] = 0;
        found = strcmp(line, name) == 0;
    }
    if (f) fclose(f);
    return found;
}

static void note_done(const char *done, const char *name, const char *wrong) {
    FILE *f = done ? fopen(done, "a") : NULL;
    if (!f) return;
    fprintf(f, "%s|%s\n", name, wrong ? wrong : "same");
    fclose(f);
}

static int run_cases(const grid_args *args, const grid_case *list, int n_cases) {
    arena *a = arena_new("grid");
    int n_tried = 0, n_wrong = 0, left = 0;
    for (int i = 0; i < n_cases; i++)
        left += list[i].taken;
    const int all = left;
    const double begin = clock_s();
    for (int i = 0; i < n_cases && (args->seconds == 0 || clock_s() - begin < args->seconds); i++) {
        if (!list[i].taken) continue;
        const char *name = name_of(a, &list[i]), *wrong = try_case(a, &list[i], MAX_STEPS);
        n_wrong += wrong != NULL;
        left--;
        if (wrong) printf("DIFFERS %s: %s\n", name, wrong);
        note_done(args->done, name, wrong);
        if (++n_tried % 20 == 0 || left == 0)
            printf("%d of %d cases, %d differ; %.0f s to go\n", n_tried, all, n_wrong,
                    (clock_s() - begin) / n_tried * left);
        fflush(stdout);
    }
    printf("%d cases tried, %d differ, %d left\n", n_tried, n_wrong, left);
    forget_runs_of_one();
    arena_free(a);
    return n_wrong ? 1 : left ? 3 : 0;
}

// Moves random cases of those from `chosen` on to their front, until there are n.
static int choose_more(grid_case *list, int n_cases, int chosen, int n, uint64_t seed) {
    const rng_key key = {.seed = seed, .purpose = RNG_TEST};
    for (; chosen < n; chosen++) {
        const uint64_t left = (uint64_t)(n_cases - chosen);
        const int other = chosen + (int)(rng_u64(&key, (uint64_t)chosen) % left);
        const grid_case taken = list[other];
        list[other] = list[chosen];
        list[chosen] = taken;
    }
    return chosen;
}

// Moves the cases whose names match to the front and returns how many.
static int choose_matches(arena *a, grid_case *list, int n_cases, const char *match) {
    int n = 0;
    for (int i = 0; i < n_cases; i++)
        if (fnmatch(match, name_of(a, &list[i]), 0) == 0) list[n++] = list[i];
    return n;
}

static int by_hand(const grid_args *args) {
    arena *a = arena_new("cases");
    grid_case *list = mem_zeroed(sizeof *list * MAX_CASES);
    const int all = choose_matches(a, list, list_cases(list), args->match);
    int n_cases = all, status = 0;
    if (args->pairs || args->sample > 1) n_cases = choose_pairs(list, all);
    if (args->sample > 1) {
        n_cases = choose_more(list, all, n_cases, all / args->sample, args->seed);
        fprintf(stderr, "%d of %d cases, seed %llu\n", n_cases, all,
                (unsigned long long)args->seed);
    }
    for (int i = 0; i < n_cases; i++) {
        const char *name = name_of(a, &list[i]);
        list[i].taken = !is_done(args->done, name);
        if (list[i].taken && args->list) puts(name);
    }
    if (!args->list) status = run_cases(args, list, n_cases);
    arena_free(a);
    free(list);
    return status;
}

int main(int argc, char **argv) {
    grid_args args = {.match = "*", .sample = 1, .seed = (uint64_t)time(NULL)};
    if (argc == 1) return tests_run();
    args.pairs = strcmp(argv[1], "pairs") == 0;
    for (int i = 2; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--list") == 0) args.list = true;
        if (strcmp(argv[i], "--match") == 0) args.match = next;
        if (strcmp(argv[i], "--done") == 0) args.done = next;
        if (strcmp(argv[i], "--sample") == 0) args.sample = (int)strtol(next, NULL, 10);
        if (strcmp(argv[i], "--seed") == 0) args.seed = strtoull(next, NULL, 10);
        if (strcmp(argv[i], "--seconds") == 0) args.seconds = strtod(next, NULL);
    }
    return by_hand(&args);
}
