// Chooses the kernel of a product, cuts the product into tiles, and distributes the tiles over the
// threads of the team.
#include "backend/cpu/gemm_internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/parallel.h"
#include "base/round.h"

// The arithmetic of products in this process.
typedef struct gemm_rule {
    const kernels *kernels, *kernels_bf16; // for fp32 and f64 operands; for bf16 operands
    bool dot;                              // kernels_bf16 takes the bf16 dot product
    const tile_kernels *tiles;             // multiply bf16; NULL: kernels_bf16 does
} gemm_rule;

struct gemm_machine {
    gemm_rule rule;
    kernels kernels_bf16; // those of the rule, with tile kernels where it has them
    gemm **made;          // one for each shape, since layers share them
    int n_made, cap_made;
};

// Requests permission to use the tile registers (Linux, Documentation/arch/x86/xstate.rst), once
// for all threads of the process; a sandbox may refuse.
static int amx_errno; // 0: they may be used

static void ask_for_amx(void) {
    amx_errno = ENODEV;
#ifdef __x86_64__
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    if (!cpu_has_amx_bf16()) return;
    amx_errno = syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 ? 0 : errno;
#endif
}

static bool may_use_amx(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, ask_for_amx);
    return amx_errno == 0;
}

const tile_kernels *gemm_amx(cpu_level level) {
    return level >= CPU_AVX512 && may_use_amx() ? tiles_by_instructions() : NULL;
}

// Fails with the requirement of the arithmetic that this process does not meet.
static drv_status check_choice(gemm_choice choice, cpu_level level) {
    if (choice == GEMM_BF16 && level < CPU_AVX512_BF16)
        return drv_fail(DRV_E_USAGE,
                "DROVER_GEMM is \"bf16\", but the kernels are %s, which have no bf16 dot product",
                cpu_level_name(level));
    if (choice != GEMM_AMX || gemm_amx(level)) return DRV_OK;
    if (level < CPU_AVX512)
        return drv_fail(DRV_E_USAGE,
                "DROVER_GEMM is \"amx\", but the kernels are %s, expected avx512 or higher; \"amx_emulated\" has the same bits anywhere, slowly",
                cpu_level_name(level));
    return drv_fail(DRV_E_USAGE,
            "DROVER_GEMM is \"amx\", but %s (%s); \"amx_emulated\" has the same bits anywhere, slowly",
            amx_errno == ENODEV ? "this processor has no amx_bf16"
                                : "the system refuses the registers of its tiles",
            strerror(amx_errno));
}

static drv_status choose(gemm_choice *choice, cpu_level level) {
    static const char *const names[] = {"", "bf16", "fp32", "amx", "amx_emulated"};
    const char *asked = getenv("DROVER_GEMM");
    if (*choice == GEMM_PORTABLE && level == CPU_REF)
        return drv_fail(DRV_E_USAGE,
                "DROVER_CPU is \"ref\", which computes in double, but training.arithmetic is portable; expected plain or higher");
    if (*choice == GEMM_PORTABLE && asked && strcmp(asked, "fp32") != 0)
        return drv_fail(DRV_E_USAGE,
                "DROVER_GEMM is \"%s\", but training.arithmetic is portable, expected fp32 or none",
                asked);
    for (gemm_choice i = GEMM_BF16; i <= GEMM_AMX_EMULATED && asked && *choice == GEMM_BY_RULE; i++)
        if (strcmp(asked, names[i]) == 0) *choice = i;
    if (asked && *choice == GEMM_BY_RULE)
        return drv_fail(DRV_E_USAGE,
                "DROVER_GEMM is \"%s\", expected fp32, bf16, amx or amx_emulated", asked);
    return check_choice(*choice, level);
}

static drv_status find_rule(gemm_choice choice, gemm_rule *rule) {
    cpu_level level;
    DRV_TRY(cpu_level_chosen(&level));
    DRV_TRY(choose(&choice, level));
    // Intel runs the bf16 dot product at no more than the fp32 rate (half on a measured Emerald
    // Rapids: 87 against 175 GFLOP/s a core), AMD at twice (Zen 4: 220 against 110).
    if (choice == GEMM_PORTABLE && level == CPU_AVX512_BF16) level = CPU_AVX512;
    rule->dot = level == CPU_AVX512_BF16 &&
                (choice == GEMM_BF16 || (choice != GEMM_FP32 && !cpu_is_intel()));
    rule->kernels = kernels_for(level);
    rule->kernels_bf16 =
            level == CPU_AVX512_BF16 && !rule->dot ? kernels_for(CPU_AVX512) : rule->kernels;
    if (choice == GEMM_AMX_EMULATED)
        rule->tiles = &tiles_amx_emulated;
    else
        rule->tiles = choice == GEMM_AMX || choice == GEMM_BY_RULE ? gemm_amx(level) : NULL;
    return DRV_OK;
}

drv_status gemm_machine_open(arena *a, gemm_choice choice, gemm_machine **out) {
    gemm_machine *machine = ARENA_NEW(a, gemm_machine);
    DRV_TRY(find_rule(choice, &machine->rule));
    const tile_kernels *tiles = machine->rule.tiles;
    machine->kernels_bf16 = *machine->rule.kernels_bf16;
    if (tiles) {
        machine->kernels_bf16.gemm = tiles->gemm;
        machine->kernels_bf16.attention = tiles->attention;
        machine->kernels_bf16.attention_grad = tiles->attention_grad;
        machine->kernels_bf16.attention_grad_sum = tiles->attention_grad_sum;
    }
    *out = machine;
    return DRV_OK;
}

void gemm_machine_close(gemm_machine *m) {
    free(m->made);
}

const char *gemm_arithmetic(const gemm_machine *m) {
    return m->rule.tiles ? m->rule.tiles->name : m->rule.dot ? "bf16 dot product" : "fp32";
}

bool gemm_widens(const gemm_machine *m) {
    return !m->rule.tiles && !m->rule.dot;
}

const kernels *gemm_kernels(const gemm_machine *m, dtype dt) {
    return dt == DT_BF16 ? &m->kernels_bf16 : m->rule.kernels;
}

// Returns the length of nearly equal pieces of n, a multiple of `unit`.
static int64_t piece(int64_t n, int64_t n_pieces, int64_t unit) {
    const int64_t size = round_up(div_up(n, n_pieces), unit);
    return size < n ? size : n;
}

// Returns the next number of pieces that makes them smaller; numbers in between give the same length.
static int64_t more_pieces(int64_t n, int64_t n_pieces, int64_t unit) {
    const int64_t size = round_up(div_up(n, n_pieces), unit);
    return size > unit ? div_up(n, size - unit) : n + 1;
}

// Returns the factor by which packing each operand again for each tile of the other slows a product.
static double packing_cost(int64_t tile_m, int64_t tile_n) {
    return 1 + 13 / (double)tile_m + 16 / (double)tile_n;
}

// Returns by which factor a grid of tiles is slower than a perfect product: because threads wait
// for the last tile, which may run 5 % slower on a busy core, and because of packing
// (bench/results/2026-11-27-products.md).
static double tiling_cost(int64_t m, int64_t n, int64_t tile_m, int64_t tile_n, int64_t threads) {
    const int64_t tiles = div_up(m, tile_m) * div_up(n, tile_n);
    const double tile = (double)tile_m * (double)tile_n / ((double)m * (double)n);
    const double wait = ((double)div_up(tiles, threads) + 0.05) * (double)threads * tile;
    return wait * packing_cost(tile_m, tile_n);
}

static int64_t partial_sums_of_tree(const gemm_tree *tree) {
    return tree->partial_sums > 1 ? tree->partial_sums : 1;
}

// Chooses the cheapest grid with tiles of 64 to 512 rows and 96 to 1024 columns. Sums of a tile
// that wait for others should stay in the cache, so the limits are half as many rows and a third of
// the columns. A tile to which several products are added should stay there too: half as many rows,
// except with AMX, which would pack b twice as often. Plans of large models call this thousands of
// times, so grids with the same tiles are tried once, and a search ends when packing alone costs
// more than the best grid: from there on tiles only get smaller.
static void choose_tiles(gemm *g, bool by_amx, int64_t threads) {
    const gemm_shape *s = &g->shape;
    const bool stays = tree_is_given(&g->tree) || (g->tree.partial_sums > 1 && !by_amx);
    const int64_t most_m = stays ? 256 : 512, most_n = tree_is_given(&g->tree) ? 336 : 1024;
    double best = 1e30;
    for (int64_t i = div_up(s->m, most_m); i <= div_up(s->m, 64); i = more_pieces(s->m, i, 16)) {
        const int64_t tile_m = piece(s->m, i, 16);
        if (packing_cost(tile_m, most_n + 48) >= best) break;
        for (int64_t j = div_up(s->n, most_n); j <= div_up(s->n, 96);
                j = more_pieces(s->n, j, 48)) {
            const int64_t tile_n = piece(s->n, j, 48);
            if (packing_cost(tile_m, tile_n) >= best) break;
            const double cost = tiling_cost(s->m, s->n, tile_m, tile_n, threads);
            if (cost < best) best = cost, g->tile_m = tile_m, g->tile_n = tile_n;
        }
    }
    g->n_m = div_up(s->m, g->tile_m);
    g->n_n = div_up(s->n, g->tile_n);
}

// Divides a product into tiles, for a plan or for a run. The bits do not depend on the tiles.
static gemm cut(const kernels *plain, bool by_amx, const gemm_shape *shape, const gemm_tree *tree,
        int64_t threads) {
    gemm g = {.shape = *shape, .plain = plain};
    if (tree) g.tree = *tree;
    choose_tiles(&g, by_amx && shape->in == DT_BF16, threads);
    return g;
}

static bool same_gemm(const gemm_shape *a, const gemm_shape *b) {
    return a->m == b->m && a->n == b->n && a->k == b->k && a->ta == b->ta && a->tb == b->tb &&
           a->lda == b->lda && a->ldb == b->ldb && a->ldc == b->ldc && a->in == b->in &&
           a->out == b->out && a->accumulate == b->accumulate && gemm_scale(a) == gemm_scale(b) &&
           block_matrix_same(a->blocks, b->blocks);
}

static gemm_shape tile_shape(const gemm *g, bool last_m, bool last_n) {
    gemm_shape t = g->shape;
    t.m = last_m ? t.m - (g->n_m - 1) * g->tile_m : g->tile_m;
    t.n = last_n ? t.n - (g->n_n - 1) * g->tile_n : g->tile_n;
    return t;
}

drv_status gemm_new(arena *a, gemm_machine *machine, const gemm_shape *shape, const gemm_tree *tree,
        gemm **out) {
    const gemm_rule *rule = &machine->rule;
    gemm made = cut(rule->kernels, rule->tiles != NULL, shape, tree, par_threads());
    made.multiply = gemm_kernels(machine, shape->in)->gemm;
    DRV_ASSERT(made.tree.partial_sums <= 1 || (shape->accumulate && shape->ta && !shape->tb),
            "a chain of products");
    for (int i = 0; i < machine->n_made; i++)
        if (same_gemm(&machine->made[i]->shape, shape) &&
                memcmp(&machine->made[i]->tree, &made.tree, sizeof made.tree) == 0) {
            *out = machine->made[i];
            return DRV_OK;
        }
    *out = ARENA_NEW(a, gemm);
    **out = made;
    MEM_GROW(machine->made, machine->n_made, machine->cap_made);
    machine->made[machine->n_made++] = *out;
    return DRV_OK;
}

// Returns the scratch of one thread, which is that of a tile.
static int64_t thread_bytes(const gemm *g) {
    const gemm_shape t = tile_shape(g, false, false); // no other tile is larger
    return round_up(tree_is_given(&g->tree) ? tree_scratch_bytes(g, &t) : gemm_scratch_bytes(&t),
            64);
}

int64_t gemm_workspace(const gemm_shape *s, const gemm_tree *tree, int threads) {
    // A refused level never opens a back end, and any level will do for a plan without one.
    cpu_level level;
    if (cpu_level_chosen(&level) != DRV_OK) level = CPU_REF;
    int64_t most = 0; // it is unknown, too, whether AMX will multiply bf16
    for (int by_amx = 0; by_amx <= (s->in == DT_BF16); by_amx++) {
        const gemm g = cut(kernels_for(level), by_amx, s, tree, threads);
        if (thread_bytes(&g) > most) most = thread_bytes(&g);
    }
    return threads * most;
}

int64_t gemm_bytes(const gemm *g) {
    return par_threads() * thread_bytes(g);
}

typedef struct gemm_call {
    const gemm *g;
    const char *a, *b;
    char *c, *workspace;
} gemm_call;

static void run_tile(void *arg, int64_t index) {
    const gemm_call *call = arg;
    const gemm *g = call->g;
    const gemm_shape *s = &g->shape;
    const int64_t i = index % g->n_m, j = index / g->n_m, row = i * g->tile_m, col = j * g->tile_n;
    const int64_t es = dtype_bytes(s->in), os = dtype_bytes(s->out);
    const char *a = call->a + es * (s->ta ? row : row * s->lda);
    gemm_shape t = tile_shape(g, i == g->n_m - 1, j == g->n_n - 1);
    const char *b = move_b(&t, call->b, s->tb ? col : 0, s->tb ? 0 : col);
    char *c = call->c + os * (row * s->ldc + col);
    char *scratch = call->workspace + par_thread() * thread_bytes(g);
    for (int64_t partial_sum = 0; partial_sum < partial_sums_of_tree(&g->tree); partial_sum++) {
        if (tree_is_given(&g->tree))
            tree_tile(g, &t, a, b, c, scratch);
        else
            g->multiply(&t, a, b, c, scratch);
        a += es * s->k * s->lda;
        b += es * s->k * s->ldb;
    }
}

void gemm_run(const gemm *g, const void *a, const void *b, void *c, void *workspace,
        int64_t bytes) {
    gemm_call call = {.g = g, .a = a, .b = b, .c = c, .workspace = workspace};
    DRV_ASSERT(bytes >= gemm_bytes(g), "%lld bytes were planned for %d threads, which need %lld",
            (long long)bytes, par_threads(), (long long)gemm_bytes(g));
    par_for(g->n_m * g->n_n, run_tile, &call);
}
