// oneDNN's matmul, one product a call on the calling thread.
#include "backend/cpu/onednn.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/onednn_calls.h"
#include "base/parallel.h"
#include "base/round.h"

enum { N_MEMORIES = 4 }; // a, b, c, scratch

struct onednn {
    dnnl_engine_t engine;
    dnnl_stream_t *stream; // by thread
    void **scratch;        // by thread
    int64_t scratch_bytes;
    onednn_product **products; // to destroy
    int n_products, cap_products;
};

struct onednn_product {
    const onednn *o;
    dnnl_primitive_t primitive;
    dnnl_memory_t (*memory)[N_MEMORIES]; // by thread
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

drv_status onednn_open(arena *a, onednn **out) {
    const char *why;
    if (!onednn_is_there(&why))
        return drv_fail(DRV_E_DEVICE,
                "oneDNN cannot be loaded: %s (on Debian: apt-get install libdnnl2); DROVER_GEMM=fp32 does without it",
                why);
    if (!onednn_can_run())
        return drv_fail(DRV_E_DEVICE,
                "oneDNN was built with threads of its own (runtime %u), expected OpenMP (%u) or none (%u); DROVER_GEMM=fp32 does without it",
                dnnl->version()->cpu_runtime, DNNL_RUNTIME_OMP, DNNL_RUNTIME_SEQ);
    onednn *o = ARENA_NEW(a, onednn);
    DRV_TRY(check(dnnl->engine_create(&o->engine, dnnl_cpu, 0), "an engine for this processor"));
    o->stream = ARENA_ARRAY(a, dnnl_stream_t, par_threads());
    o->scratch = ARENA_ARRAY(a, void *, par_threads());
    for (int i = 0; i < par_threads(); i++)
        DRV_TRY(check(dnnl->stream_create(&o->stream[i], o->engine, dnnl_stream_default_flags),
                "a stream"));
    *out = o;
    return DRV_OK;
}

void onednn_close(onednn *o) {
    for (int i = 0; i < o->n_products; i++) {
        for (int t = 0; t < par_threads(); t++)
            for (int j = 0; j < N_MEMORIES; j++)
                dnnl->memory_destroy(o->products[i]->memory[t][j]);
        dnnl->primitive_destroy(o->products[i]->primitive);
    }
    for (int i = 0; i < par_threads(); i++) {
        dnnl->stream_destroy(o->stream[i]);
        free(o->scratch[i]);
    }
    dnnl->engine_destroy(o->engine);
    free(o->products);
}

static drv_status describe(dnnl_memory_desc_t *d, int64_t rows, int64_t cols, bool transposed,
        int64_t ld, dtype dt) {
    dnnl_dims_t dims = {rows, cols}, strides = {transposed ? 1 : ld, transposed ? ld : 1};
    return check(dnnl->memory_desc_init_by_strides(d, 2, dims, dt == DT_BF16 ? dnnl_bf16 : dnnl_f32,
                         strides),
            "a layout");
}

// Also fills desc[3], the scratch.
static drv_status build(const onednn *self, const gemm_shape *shape, dnnl_memory_desc_t desc[4],
        dnnl_primitive_t *out) {
    dnnl_matmul_desc_t matmul;
    dnnl_primitive_desc_t chosen;
    dnnl_primitive_attr_t attr;
    dnnl_post_ops_t post;
    DRV_TRY(check(dnnl->matmul_desc_init(&matmul, &desc[0], &desc[1], NULL, &desc[2]), "matmul"));
    DRV_TRY(check(dnnl->primitive_attr_create(&attr), "attributes"));
    DRV_TRY(check(dnnl->post_ops_create(&post), "post-ops"));
    const float scale = (float)gemm_scale(shape);
    dnnl_status_t status = shape->accumulate ? dnnl->post_ops_append_sum(post, 1) : dnnl_success;
    if (status == dnnl_success && scale != 1)
        status = dnnl->primitive_attr_set_output_scales(attr, 1, 0, &scale);
    if (status == dnnl_success) status = dnnl->primitive_attr_set_post_ops(attr, post);
    if (status == dnnl_success)
        status = dnnl->primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (status == dnnl_success)
        status = dnnl->primitive_desc_create(&chosen, &matmul, attr, self->engine, NULL);
    if (status == dnnl_success) {
        desc[3] = *dnnl->primitive_desc_query_md(chosen, dnnl_query_scratchpad_md, 0);
        status = dnnl->primitive_create(out, chosen);
        dnnl->primitive_desc_destroy(chosen);
    }
    dnnl->post_ops_destroy(post);
    dnnl->primitive_attr_destroy(attr);
    return check(status, "creating a matmul");
}

// Every thread's scratch is at least `bytes` long.
static void grow_scratch(onednn *o, int64_t bytes) {
    if (bytes <= o->scratch_bytes) return;
    o->scratch_bytes = round_up(bytes, 64);
    for (int i = 0; i < par_threads(); i++) {
        free(o->scratch[i]);
        o->scratch[i] = mem_alloc_lines((size_t)o->scratch_bytes);
    }
}

drv_status onednn_new(arena *a, onednn *o, const gemm_shape *shape, onednn_product **out) {
    dnnl_memory_desc_t desc[N_MEMORIES];
    onednn_product *product = ARENA_NEW(a, onednn_product);
    product->o = o;
    keep_to_this_thread();
    DRV_TRY(describe(&desc[0], shape->m, shape->k, shape->ta, shape->lda, shape->in));
    DRV_TRY(describe(&desc[1], shape->k, shape->n, shape->tb, shape->ldb, shape->in));
    DRV_TRY(describe(&desc[2], shape->m, shape->n, false, shape->ldc, shape->out));
    DRV_TRY(build(o, shape, desc, &product->primitive));
    product->memory = arena_alloc(a, sizeof *product->memory * (size_t)par_threads());
    for (int i = 0; i < par_threads(); i++)
        for (int j = 0; j < N_MEMORIES; j++)
            DRV_TRY(check(dnnl->memory_create(&product->memory[i][j], &desc[j], o->engine,
                                  DNNL_MEMORY_NONE),
                    "a memory object"));
    MEM_GROW(o->products, o->n_products, o->cap_products);
    o->products[o->n_products++] = product;
    grow_scratch(o, (int64_t)dnnl->memory_desc_get_size(&desc[3]));
    *out = product;
    return DRV_OK;
}

void onednn_run(const onednn_product *p, int thread, const void *a, const void *b, void *c) {
    dnnl_memory_t *mem = p->memory[thread];
    keep_to_this_thread();
    dnnl->memory_set_data_handle(mem[0], (void *)(uintptr_t)a);
    dnnl->memory_set_data_handle(mem[1], (void *)(uintptr_t)b);
    dnnl->memory_set_data_handle(mem[2], c);
    dnnl->memory_set_data_handle(mem[3], p->o->scratch[thread]);
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, mem[0]}, {DNNL_ARG_WEIGHTS, mem[1]},
            {DNNL_ARG_DST, mem[2]}, {DNNL_ARG_SCRATCHPAD, mem[3]}};
    dnnl_status_t s = dnnl->primitive_execute(p->primitive, p->o->stream[thread], N_MEMORIES, args);
    DRV_ASSERT(s == dnnl_success, "oneDNN matmul failed with status %d", (int)s);
}
