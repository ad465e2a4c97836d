// oneDNN computes on the thread that calls it: the OpenMP that it brings is told so before a
// product is made, which remembers for how many threads, and on each thread that runs one. Else
// each call starts a team of its own, whose threads spin beside ours. This program's functions
// stand before oneDNN's, look at the number in force, and go on to them.
#include <dlfcn.h>
#include <dnnl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "backend/cpu/gemm.h"
#include "backend/cpu/onednn.h"
#include "harness.h"

static _Atomic int most_when_made, most_when_run, n_made, n_run;

static void *symbol_of(void *from, const char *name) {
    void *found = dlsym(from, name);
    if (!found) fail_msg("no %s", name);
    return found;
}

static void look(_Atomic int *most, _Atomic int *n) {
    int (*threads)(void);
    void *symbol = symbol_of(RTLD_DEFAULT, "omp_get_max_threads");
    memcpy(&threads, &symbol, sizeof threads);
    const int now = threads();
    int before = *most;
    while (now > before && !atomic_compare_exchange_weak(most, &before, now)) {
    }
    atomic_fetch_add(n, 1);
}

dnnl_status_t dnnl_primitive_desc_create(dnnl_primitive_desc_t *out, const_dnnl_op_desc_t op,
        const_dnnl_primitive_attr_t attr, dnnl_engine_t engine,
        const_dnnl_primitive_desc_t forward) {
    __typeof__(dnnl_primitive_desc_create) *real;
    void *symbol = symbol_of(RTLD_NEXT, "dnnl_primitive_desc_create");
    memcpy(&real, &symbol, sizeof real);
    look(&most_when_made, &n_made);
    return real(out, op, attr, engine, forward);
}

dnnl_status_t dnnl_primitive_execute(const_dnnl_primitive_t primitive, dnnl_stream_t stream,
        int n_args, const dnnl_exec_arg_t *args) {
    __typeof__(dnnl_primitive_execute) *real;
    void *symbol = symbol_of(RTLD_NEXT, "dnnl_primitive_execute");
    memcpy(&real, &symbol, sizeof real);
    look(&most_when_run, &n_run);
    return real(primitive, stream, n_args, args);
}

static void *multiply(void *unused) {
    enum { N = 256 };
    const gemm_shape s = {N, N, N, false, true, N, N, N, DT_F32, DT_F32, true, 1};
    float *x = mem_alloc(sizeof *x * N * N), *y = mem_alloc(sizeof *y * N * N),
          *c = mem_alloc(sizeof *c * N * N);
    arena *a = arena_new("gemm");
    onednn_product *product;
    for (int i = 0; i < N * N; i++)
        x[i] = (float)(i % 7), y[i] = (float)(i % 5), c[i] = 1;
    OK(onednn_new(a, &s, &product));
    onednn_run(product, x, y, c);
    onednn_free(product);
    for (int at = 0; at < N * N; at += 997) { // whole numbers: exact in any order
        float sum = 1;
        for (int k = 0; k < N; k++)
            sum += x[at / N * N + k] * y[at % N * N + k];
        assert_true(c[at] == sum);
    }
    free(x), free(y), free(c);
    arena_free(a);
    return unused;
}

static void on_the_calling_thread_alone(void **state) {
    (void)state;
    if (!onednn_can_run() || !dlsym(RTLD_DEFAULT, "omp_get_max_threads")) skip();
    pthread_t ranks[2]; // threads that have not called it before, one after the other
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&ranks[i], NULL, multiply, NULL), 0);
        assert_int_equal(pthread_join(ranks[i], NULL), 0);
    }
    assert_true(n_made >= 2 && n_run >= 2);
    assert_int_equal(most_when_made, 1);
    assert_int_equal(most_when_run, 1);
}

int main(void) {
    setenv("OMP_NUM_THREADS", "4", 1); // before OpenMP is loaded: also on a processor of one core
    par_set_threads(2);
    const struct CMUnitTest tests[] = {cmocka_unit_test(on_the_calling_thread_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
