// Products as on a processor with AMX, on any: this program says that the processor has it, and has
// functions of its own in the place of oneDNN's, which multiply bf16 by plain loops. Checked: sums,
// the scratch that is planned for 1 to 16 threads, that each thread has one of its own, and that
// OpenMP was told to stay on the calling thread before a product is made.
#include <dnnl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/cpu/gemm.h"
#include "backend/cpu/onednn.h"
#include "harness.h"

// --- the processor (the linker puts these before the program's own: --wrap)
bool __wrap_cpu_has_amx_bf16(void);
drv_status __wrap_cpu_level_chosen(cpu_level *out);
const kernels *__wrap_kernels_for(cpu_level level);
const kernels *__real_kernels_for(cpu_level level);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);
long __real_syscall(long number, long a, long b, long c, long d, long e, long f);

bool __wrap_cpu_has_amx_bf16(void) {
    return true;
}

drv_status __wrap_cpu_level_chosen(cpu_level *out) {
    *out = CPU_AVX512_BF16;
    return DRV_OK;
}

const kernels *__wrap_kernels_for(cpu_level level) {
    return __real_kernels_for(level < cpu_detect() ? level : cpu_detect());
}

long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f) {
    return number == SYS_arch_prctl ? 0 : __real_syscall(number, a, b, c, d, e, f);
}

// --- oneDNN
enum { SCRATCH_WORDS = 1024, BEYOND_BYTES = 2 << 20 };
static _Thread_local int openmp_threads = 4;
static _Atomic int most_threads, n_made, n_run, n_disturbed;
static bool writes_beyond;

struct dnnl_post_ops {
    bool adds;
};
struct dnnl_primitive_attr {
    bool adds;
    float scale;
};
struct dnnl_memory {
    dnnl_memory_desc_t desc;
    void *at;
};
struct dnnl_primitive_desc {
    dnnl_memory_desc_t scratch;
    bool adds;
    float scale;
};
struct dnnl_primitive {
    struct dnnl_primitive_desc of;
};

void omp_set_num_threads(int n);
void omp_set_num_threads(int n) {
    openmp_threads = n;
}

static void look_at_openmp(_Atomic int *n) {
    int before = most_threads;
    while (openmp_threads > before &&
            !atomic_compare_exchange_weak(&most_threads, &before, openmp_threads)) {
    }
    atomic_fetch_add(n, 1);
}

const dnnl_version_t *dnnl_version(void) {
    static const dnnl_version_t version = {.major = 9, .cpu_runtime = DNNL_RUNTIME_OMP};
    return &version;
}

dnnl_status_t dnnl_engine_create(dnnl_engine_t *engine, dnnl_engine_kind_t kind, size_t index) {
    (void)kind, (void)index;
    *engine = NULL;
    return dnnl_success;
}

dnnl_status_t dnnl_engine_destroy(dnnl_engine_t engine) {
    (void)engine;
    return dnnl_success;
}

dnnl_status_t dnnl_stream_create(dnnl_stream_t *stream, dnnl_engine_t engine, unsigned flags) {
    (void)engine, (void)flags;
    *stream = NULL;
    return dnnl_success;
}

dnnl_status_t dnnl_stream_destroy(dnnl_stream_t stream) {
    (void)stream;
    return dnnl_success;
}

dnnl_status_t dnnl_memory_desc_init_by_strides(dnnl_memory_desc_t *desc, int n_dims,
        const dnnl_dims_t dims, dnnl_data_type_t type, const dnnl_dims_t strides) {
    *desc = (dnnl_memory_desc_t){.ndims = n_dims, .data_type = type};
    for (int i = 0; i < n_dims; i++) {
        desc->dims[i] = dims[i];
        desc->format_desc.blocking.strides[i] = strides[i];
    }
    return dnnl_success;
}

size_t dnnl_memory_desc_get_size(const dnnl_memory_desc_t *desc) {
    (void)desc; // asked of the scratch alone
    return SCRATCH_WORDS * sizeof(uintptr_t);
}

dnnl_status_t dnnl_memory_create(dnnl_memory_t *memory, const dnnl_memory_desc_t *desc,
        dnnl_engine_t engine, void *at) {
    (void)engine, (void)at;
    *memory = mem_zeroed(sizeof **memory);
    (*memory)->desc = *desc;
    return dnnl_success;
}

dnnl_status_t dnnl_memory_set_data_handle(dnnl_memory_t memory, void *at) {
    memory->at = at;
    return dnnl_success;
}

dnnl_status_t dnnl_memory_destroy(dnnl_memory_t memory) {
    free(memory);
    return dnnl_success;
}

dnnl_status_t dnnl_matmul_desc_init(dnnl_matmul_desc_t *desc, const dnnl_memory_desc_t *a,
        const dnnl_memory_desc_t *b, const dnnl_memory_desc_t *bias, const dnnl_memory_desc_t *c) {
    (void)a, (void)b, (void)bias, (void)c; // execution has them with the memory
    *desc = (dnnl_matmul_desc_t){.primitive_kind = dnnl_matmul};
    return dnnl_success;
}

dnnl_status_t dnnl_post_ops_create(dnnl_post_ops_t *post) {
    *post = mem_zeroed(sizeof **post);
    return dnnl_success;
}

dnnl_status_t dnnl_post_ops_append_sum(dnnl_post_ops_t post, float scale) {
    post->adds = scale == 1;
    return dnnl_success;
}

dnnl_status_t dnnl_post_ops_destroy(dnnl_post_ops_t post) {
    free(post);
    return dnnl_success;
}

dnnl_status_t dnnl_primitive_attr_create(dnnl_primitive_attr_t *attr) {
    *attr = mem_zeroed(sizeof **attr);
    (*attr)->scale = 1;
    return dnnl_success;
}

dnnl_status_t dnnl_primitive_attr_set_output_scales(dnnl_primitive_attr_t attr, dnnl_dim_t n,
        int mask, const float *scale) {
    (void)n, (void)mask;
    attr->scale = *scale;
    return dnnl_success;
}

dnnl_status_t dnnl_primitive_attr_set_post_ops(dnnl_primitive_attr_t attr,
        const_dnnl_post_ops_t post) {
    attr->adds = post->adds;
    return dnnl_success;
}

dnnl_status_t dnnl_primitive_attr_set_scratchpad_mode(dnnl_primitive_attr_t attr,
        dnnl_scratchpad_mode_t mode) {
    (void)attr;
    return mode == dnnl_scratchpad_mode_user ? dnnl_success : dnnl_invalid_arguments;
}

dnnl_status_t dnnl_primitive_attr_destroy(dnnl_primitive_attr_t attr) {
    free(attr);
    return dnnl_success;
}

dnnl_status_t dnnl_primitive_desc_create(dnnl_primitive_desc_t *desc, const_dnnl_op_desc_t op,
        const_dnnl_primitive_attr_t attr, dnnl_engine_t engine,
        const_dnnl_primitive_desc_t forward) {
    (void)op, (void)engine, (void)forward;
    look_at_openmp(&n_made);
    *desc = mem_zeroed(sizeof **desc);
    (*desc)->adds = attr->adds;
    (*desc)->scale = attr->scale;
    return dnnl_success;
}

const dnnl_memory_desc_t *dnnl_primitive_desc_query_md(const_dnnl_primitive_desc_t desc,
        dnnl_query_t what, int index) {
    (void)what, (void)index;
    return &desc->scratch;
}

dnnl_status_t dnnl_primitive_desc_destroy(dnnl_primitive_desc_t desc) {
    free(desc);
    return dnnl_success;
}

dnnl_status_t dnnl_primitive_create(dnnl_primitive_t *primitive, const_dnnl_primitive_desc_t desc) {
    look_at_openmp(&n_made);
    *primitive = mem_zeroed(sizeof **primitive);
    (*primitive)->of = *desc;
    return dnnl_success;
}

dnnl_status_t dnnl_primitive_destroy(dnnl_primitive_t primitive) {
    free(primitive);
    return dnnl_success;
}

static float read_at(const struct dnnl_memory *of, int64_t i, int64_t j) {
    const int64_t *strides = of->desc.format_desc.blocking.strides,
                  at = i * strides[0] + j * strides[1];
    return of->desc.data_type == dnnl_bf16 ? bf16_to_f32(((const uint16_t *)of->at)[at])
                                           : ((const float *)of->at)[at];
}

static void multiply_loops(const struct dnnl_primitive_desc *how, const struct dnnl_memory *a,
        const struct dnnl_memory *b, struct dnnl_memory *c) {
    const int64_t ld = c->desc.format_desc.blocking.strides[0];
    for (int64_t i = 0; i < c->desc.dims[0]; i++)
        for (int64_t j = 0; j < c->desc.dims[1]; j++) {
            float sum = 0;
            for (int64_t k = 0; k < a->desc.dims[1]; k++)
                sum += read_at(a, i, k) * read_at(b, k, j);
            sum = how->scale * sum + (how->adds ? read_at(c, i, j) : 0);
            if (c->desc.data_type == dnnl_bf16)
                ((uint16_t *)c->at)[i * ld + j] = f32_to_bf16(sum);
            else
                ((float *)c->at)[i * ld + j] = sum;
        }
    if (writes_beyond) memset((float *)c->at + c->desc.dims[0] * ld, 0, BEYOND_BYTES);
}

// Writes its whole scratch, and looks whether another thread did as well.
dnnl_status_t dnnl_primitive_execute(const_dnnl_primitive_t primitive, dnnl_stream_t stream,
        int n_args, const dnnl_exec_arg_t *args) {
    static _Thread_local char own;
    (void)stream, (void)n_args;
    look_at_openmp(&n_run);
    uintptr_t *scratch = args[3].memory->at;
    for (int i = 0; i < SCRATCH_WORDS; i++)
        scratch[i] = (uintptr_t)&own;
    multiply_loops(&primitive->of, args[0].memory, args[1].memory, args[2].memory);
    for (int i = 0; i < SCRATCH_WORDS; i++)
        if (scratch[i] != (uintptr_t)&own) atomic_fetch_add(&n_disturbed, 1);
    return dnnl_success;
}

// --- products of small whole numbers, which are exact in any order
enum { M = 150, N = 250, K = 24, AFTER = 64, UNTOUCHED = 0x5A };

static int whole(int64_t i, int seed) {
    return (int)((uint64_t)(i * 7919 + seed) * 2654435761u % 9) - 4;
}

static void *whole_array(dtype dt, int64_t n, int seed) {
    char *p = mem_alloc((size_t)(n * dtype_bytes(dt)));
    for (int64_t i = 0; i < n; i++) {
        const float x = (float)whole(i, seed);
        if (dt == DT_BF16)
            ((uint16_t *)(void *)p)[i] = f32_to_bf16(x);
        else
            ((float *)(void *)p)[i] = x;
    }
    return p;
}

// C_MN of `terms` products of K each: A is [M, k], or [k, M] where ta, B [k, N].
static const float *expected(bool ta, int64_t terms) {
    static float all[2][M * N];
    static bool there[2];
    float *c = all[ta];
    for (int64_t i = 0; i < M * N && !there[ta]; i++) {
        int sum = ta ? whole(i, 3) : 0;
        for (int64_t k = 0; k < terms; k++)
            sum += whole(ta ? k * M + i / N : i / N * terms + k, 1) * whole(k * N + i % N, 2);
        c[i] = (float)sum;
    }
    there[ta] = true;
    return c;
}

static const gemm_tree trees[] = {{0}, {.n_leaves = 8, .n_runs = 1, .each = {K / 8}},
        {.addends = 3}, {.n_leaves = 4, .n_runs = 1, .each = {K / 4}, .addends = 3}};
enum { N_TREES = sizeof trees / sizeof *trees };

static void run_in_plan(gemm_machine *m, arena *mem, dtype in, const gemm_tree *tree) {
    const bool adds = tree->addends > 0;
    const int64_t terms = adds ? K * tree->addends : K;
    const gemm_shape s = {.m = M,
            .n = N,
            .k = K,
            .ta = adds,
            .lda = adds ? M : K,
            .ldb = N,
            .ldc = N,
            .in = in,
            .out = DT_F32,
            .accumulate = adds};
    gemm *g;
    OK(gemm_new(mem, m, &s, tree, &g));
    const int64_t bytes = gemm_workspace(&s, tree, par_threads());
    void *a = whole_array(in, M * terms, 1), *b = whole_array(in, terms * N, 2);
    float *c = whole_array(DT_F32, M * N, 3);
    unsigned char *workspace =
            mem_alloc((size_t)bytes + (writes_beyond ? 2 * BEYOND_BYTES : AFTER));
    memset(workspace + bytes, UNTOUCHED, AFTER);
    gemm_run(g, a, b, c, workspace, bytes);
    for (int i = 0; i < AFTER; i++)
        assert_int_equal(workspace[bytes + i], UNTOUCHED);
    assert_memory_equal(c, expected(adds, terms), sizeof(float) * M * N);
    free(a), free(b), free(c), free(workspace);
}

static void open_machine(arena *mem, gemm_machine **out) {
    OK(gemm_machine_open(mem, GEMM_BY_RULE, out));
    assert_string_equal(gemm_arithmetic(*out), "AMX by oneDNN");
    assert_true(gemm_by_library(*out, DT_BF16));
}

static void any_number_of_threads(void **state) {
    (void)state;
    for (int threads = 1; threads <= 16; threads++) {
        arena *mem = arena_new("gemm");
        gemm_machine *m;
        par_set_threads(threads);
        open_machine(mem, &m);
        const int before = n_run;
        for (int i = 0; i < N_TREES; i++)
            run_in_plan(m, mem, DT_BF16, &trees[i]);
        assert_true(n_run > before);
        gemm_machine_close(m);
        arena_free(mem);
    }
    par_set_threads(2);
    assert_int_equal(n_disturbed, 0);
}

static void *multiply(void *unused) {
    arena *mem = arena_new("gemm");
    gemm_machine *m;
    open_machine(mem, &m);
    run_in_plan(m, mem, DT_BF16, &trees[1]);
    gemm_machine_close(m);
    arena_free(mem);
    return unused;
}

// Of ranks that are threads each makes its products; none has called the library before.
static void openmp_is_told_first(void **state) {
    (void)state;
    const int made = n_made;
    for (int i = 0; i < 3; i++) {
        pthread_t rank;
        assert_int_equal(pthread_create(&rank, NULL, multiply, NULL), 0);
        assert_int_equal(pthread_join(rank, NULL), 0);
    }
    assert_true(n_made > made);
    assert_int_equal(most_threads, 1);
}

static void a_guard_behind_the_scratch(void **state) {
    (void)state;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        close(STDERR_FILENO);
        par_set_threads(1);
        writes_beyond = true;
        multiply(NULL);
        _exit(0);
    }
    int ended;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGABRT);
}

static void same_bits_are_elsewhere(void **state) {
    (void)state;
    arena *mem = arena_new("gemm");
    gemm_machine *m;
    ask_for_same_bits(); // as the tests of layouts do
    OK(gemm_machine_open(mem, GEMM_BY_RULE, &m));
    assert_false(gemm_by_library(m, DT_BF16) || gemm_by_library(m, DT_F32));
    gemm_machine_close(m);
    unsetenv("DROVER_GEMM");
    arena_free(mem);
}

int main(void) {
    unsetenv("DROVER_GEMM");
    if (!onednn_can_run()) return 77; // the library is opened, though it is not called
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_guard_behind_the_scratch),
            cmocka_unit_test(openmp_is_told_first), cmocka_unit_test(any_number_of_threads),
            cmocka_unit_test(same_bits_are_elsewhere)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
