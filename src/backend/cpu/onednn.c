// oneDNN's matmul, each slab of a product on the thread that takes it.
#include "backend/cpu/onednn.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/onednn_calls.h"
#include "base/parallel.h"
#include "base/round.h"

enum { N_MEMORIES = 4 }; // a, b, c, scratch

// A part of the result, as many rows or columns as the others, but the last.
typedef struct slab {
    int64_t a, b, c; // bytes from the operands' and the result's begin
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    dnnl_memory_t memory[N_MEMORIES];
    void *scratch;
} slab;

struct onednn_product {
    dnnl_engine_t engine;
    slab *slabs;
    int n_slabs;
};

static drv_status check(dnnl_status_t status, const char *what) {
    if (status == dnnl_success) return DRV_OK;
    return drv_fail(DRV_E_DEVICE, "oneDNN: %s failed with status %d", what, (int)status);
}

// A oneDNN that was built with OpenMP (Debian's) starts a team of its own for each thread that calls
// it, unless OpenMP is told otherwise by that thread: when it runs a product, and before it makes
// one, which remembers how many threads there were. We do not link OpenMP; the library brings it.
typedef void omp_set_num_threads_fn(int n);

static omp_set_num_threads_fn *openmp_of_library(void) {
    omp_set_num_threads_fn *fn = NULL;
    void *symbol = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    memcpy(&fn, &symbol, sizeof fn); // ISO C has no cast from an object to a function
    return fn;
}

bool onednn_can_run(void) {
    if (!onednn_is_there(NULL)) return false;
    const unsigned runtime = dnnl->version()->cpu_runtime;
    return runtime == DNNL_RUNTIME_SEQ || (runtime == DNNL_RUNTIME_OMP && openmp_of_library());
}

static void keep_to_this_thread(void) {
    static _Thread_local bool done;
    if (done) return;
    omp_set_num_threads_fn *set = openmp_of_library();
    if (set) set(1);
    done = true;
}

const char *onednn_version(arena *a) {
    if (!onednn_is_there(NULL)) return "not there";
    const dnnl_version_t *v = dnnl->version();
    return arena_printf(a, "%d.%d.%d", v->major, v->minor, v->patch);
}

static drv_status describe(dnnl_memory_desc_t *d, int64_t rows, int64_t cols, bool transposed,
        int64_t ld, dtype dt) {
    dnnl_dims_t dims = {rows, cols}, strides = {transposed ? 1 : ld, transposed ? ld : 1};
    return check(dnnl->memory_desc_init_by_strides(d, 2, dims, dt == DT_BF16 ? dnnl_bf16 : dnnl_f32,
                         strides),
            "a layout");
}

// Also fills desc[3], the scratch.
static drv_status build(dnnl_engine_t engine, const gemm_shape *shape, dnnl_memory_desc_t desc[4],
        dnnl_primitive_t *out) {
    dnnl_matmul_desc_t matmul;
    dnnl_primitive_desc_t chosen;
    dnnl_primitive_attr_t attr;
    dnnl_post_ops_t post;
    DRV_TRY(check(dnnl->matmul_desc_init(&matmul, &desc[0], &desc[1], NULL, &desc[2]), "matmul"));
    DRV_TRY(check(dnnl->primitive_attr_create(&attr), "attributes"));
    DRV_TRY(check(dnnl->post_ops_create(&post), "post-ops"));
    dnnl_status_t status = shape->accumulate ? dnnl->post_ops_append_sum(post, 1) : dnnl_success;
    if (status == dnnl_success) status = dnnl->primitive_attr_set_post_ops(attr, post);
    if (status == dnnl_success)
        status = dnnl->primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (status == dnnl_success)
        status = dnnl->primitive_desc_create(&chosen, &matmul, attr, engine, NULL);
    if (status == dnnl_success) {
        desc[3] = *dnnl->primitive_desc_query_md(chosen, dnnl_query_scratchpad_md, 0);
        status = dnnl->primitive_create(out, chosen);
        dnnl->primitive_desc_destroy(chosen);
    }
    dnnl->post_ops_destroy(post);
    dnnl->primitive_attr_destroy(attr);
    return check(status, "creating a matmul");
}

// Makes a product; `out` holds what was made of it so far when this fails.
static drv_status make_slab(dnnl_engine_t engine, const gemm_shape *shape, slab *out) {
    dnnl_memory_desc_t desc[N_MEMORIES];
    keep_to_this_thread();
    DRV_TRY(describe(&desc[0], shape->m, shape->k, shape->ta, shape->lda, shape->in));
    DRV_TRY(describe(&desc[1], shape->k, shape->n, shape->tb, shape->ldb, shape->in));
    DRV_TRY(describe(&desc[2], shape->m, shape->n, false, shape->ldc, shape->out));
    DRV_TRY(check(dnnl->stream_create(&out->stream, engine, dnnl_stream_default_flags),
            "a stream"));
    DRV_TRY(build(engine, shape, desc, &out->primitive));
    for (int i = 0; i < N_MEMORIES; i++)
        DRV_TRY(check(dnnl->memory_create(&out->memory[i], &desc[i], engine, DNNL_MEMORY_NONE),
                "memory"));
    out->scratch = mem_alloc_lines(
            (size_t)round_up((int64_t)dnnl->memory_desc_get_size(&desc[3]) + 1, 64));
    return DRV_OK;
}

// Slabs of rows, or of columns where there are more of these.
static drv_status make_slabs(arena *a, const gemm_shape *shape, onednn_product *p) {
    enum { UNIT = 16 };
    const bool by_rows = shape->m > shape->n;
    const int64_t all = by_rows ? shape->m : shape->n,
                  each = round_up(div_up(all, par_threads()), UNIT);
    const int64_t in = dtype_bytes(shape->in), out = dtype_bytes(shape->out);
    p->slabs = ARENA_ARRAY(a, slab, div_up(all, each));
    for (int64_t at = 0; at < all; at += each) {
        gemm_shape part = *shape;
        slab *s = &p->slabs[p->n_slabs++];
        *(by_rows ? &part.m : &part.n) = all - at < each ? all - at : each;
        if (by_rows)
            s->a = in * at * (shape->ta ? 1 : shape->lda);
        else
            s->b = in * at * (shape->tb ? shape->ldb : 1);
        s->c = out * at * (by_rows ? shape->ldc : 1);
        DRV_TRY(make_slab(p->engine, &part, s));
    }
    return DRV_OK;
}

drv_status onednn_new(arena *a, const gemm_shape *shape, onednn_product **out) {
    onednn_product *p = ARENA_NEW(a, onednn_product);
    *out = p;
    DRV_TRY(check(dnnl->engine_create(&p->engine, dnnl_cpu, 0), "an engine for this processor"));
    return make_slabs(a, shape, p);
}

void onednn_free(onednn_product *p) {
    for (int i = 0; p && i < p->n_slabs; i++) {
        slab *s = &p->slabs[i];
        for (int j = 0; j < N_MEMORIES; j++)
            if (s->memory[j]) dnnl->memory_destroy(s->memory[j]);
        if (s->primitive) dnnl->primitive_destroy(s->primitive);
        if (s->stream) dnnl->stream_destroy(s->stream);
        free(s->scratch);
    }
    if (p && p->engine) dnnl->engine_destroy(p->engine);
}

typedef struct run_call {
    const onednn_product *p;
    const char *a, *b;
    char *c;
} run_call;

static void run_slab(void *arg, int64_t index, int thread) {
    (void)thread;
    const run_call *call = arg;
    const slab *s = &call->p->slabs[index];
    keep_to_this_thread();
    dnnl->memory_set_data_handle(s->memory[0], (void *)(uintptr_t)(call->a + s->a));
    dnnl->memory_set_data_handle(s->memory[1], (void *)(uintptr_t)(call->b + s->b));
    dnnl->memory_set_data_handle(s->memory[2], call->c + s->c);
    dnnl->memory_set_data_handle(s->memory[3], s->scratch);
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, s->memory[0]}, {DNNL_ARG_WEIGHTS, s->memory[1]},
            {DNNL_ARG_DST, s->memory[2]}, {DNNL_ARG_SCRATCHPAD, s->memory[3]}};
    const dnnl_status_t status = dnnl->primitive_execute(s->primitive, s->stream, N_MEMORIES, args);
    DRV_ASSERT(status == dnnl_success, "oneDNN matmul failed with status %d", (int)status);
}

void onednn_run(const onednn_product *p, const void *a, const void *b, void *c) {
    run_call call = {p, a, b, c};
    par_for(p->n_slabs, run_slab, &call);
}
