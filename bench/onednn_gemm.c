// Times the products of `drover bench gemm` by oneDNN 2 (Debian 12: libdnnl-dev), to compare. It
// reads that program's output, and prints the rows of its table again with oneDNN's GFLOP/s:
// forward y = x w', input dx = dy w, weight dw += dy' x, each the best of REPEATS (5).
// usage: cc -O2 bench/onednn_gemm.c -ldnnl -o build/onednn_gemm
//        build/drover bench gemm | OMP_NUM_THREADS=2 build/onednn_gemm [REPEATS]
#include <dnnl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if DNNL_VERSION_MAJOR != 2
#error "this program calls functions of oneDNN 2, which later versions do not have"
#endif

typedef struct product { // c [m,n] = a [m,k] b [k,n], or c += a b
    int64_t m, n, k;
    bool ta, tb, accumulate; // a is stored as [k,m], b as [n,k]
    dnnl_data_type_t in, out;
} product;

static void check(dnnl_status_t status, const char *what) {
    if (status == dnnl_success) return;
    fprintf(stderr, "oneDNN: %s failed with status %d\n", what, (int)status);
    exit(1);
}

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static dnnl_memory_desc_t matrix(int64_t rows, int64_t cols, bool transposed,
        dnnl_data_type_t type) {
    dnnl_memory_desc_t d;
    const dnnl_dims_t dims = {rows, cols}, strides = {transposed ? 1 : cols, transposed ? rows : 1};
    check(dnnl_memory_desc_init_by_strides(&d, 2, dims, type, strides), "a layout");
    return d;
}

static dnnl_primitive_t make(dnnl_engine_t engine, const product *p,
        const dnnl_memory_desc_t d[3]) {
    dnnl_matmul_desc_t matmul;
    dnnl_primitive_attr_t attr;
    dnnl_post_ops_t post;
    dnnl_primitive_desc_t chosen;
    dnnl_primitive_t made;
    check(dnnl_matmul_desc_init(&matmul, &d[0], &d[1], NULL, &d[2]), "matmul");
    check(dnnl_primitive_attr_create(&attr), "attributes");
    check(dnnl_post_ops_create(&post), "post-ops");
    if (p->accumulate) check(dnnl_post_ops_append_sum(post, 1), "a sum");
    check(dnnl_primitive_attr_set_post_ops(attr, post), "post-ops");
    check(dnnl_primitive_desc_create(&chosen, &matmul, attr, engine, NULL), "choosing a matmul");
    check(dnnl_primitive_create(&made, chosen), "creating a matmul");
    dnnl_primitive_desc_destroy(chosen);
    dnnl_post_ops_destroy(post);
    dnnl_primitive_attr_destroy(attr);
    return made;
}

static void fill_ones(dnnl_memory_t memory, dnnl_data_type_t type, int64_t n) {
    void *data;
    check(dnnl_memory_get_data_handle(memory, &data), "memory");
    for (int64_t i = 0; i < n; i++) {
        if (type == dnnl_bf16)
            ((uint16_t *)data)[i] = 0x3F80;
        else
            ((float *)data)[i] = 1;
    }
}

static double flops_per_s(dnnl_engine_t engine, dnnl_stream_t stream, const product *shape,
        int repeats) {
    const dnnl_memory_desc_t layouts[] = {matrix(shape->m, shape->k, shape->ta, shape->in),
            matrix(shape->k, shape->n, shape->tb, shape->in),
            matrix(shape->m, shape->n, false, shape->out)};
    static const int names[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    const dnnl_primitive_t matmul = make(engine, shape, layouts);
    dnnl_exec_arg_t args[3];
    for (int i = 0; i < 3; i++) {
        args[i].arg = names[i];
        check(dnnl_memory_create(&args[i].memory, &layouts[i], engine, DNNL_MEMORY_ALLOCATE),
                "memory");
        fill_ones(args[i].memory, i < 2 ? shape->in : shape->out,
                layouts[i].dims[0] * layouts[i].dims[1]);
    }
    double best = 1e30;
    for (int i = 0; i < repeats; i++) {
        const double begin = now_s();
        check(dnnl_primitive_execute(matmul, stream, 3, args), "a matmul");
        check(dnnl_stream_wait(stream), "a matmul");
        const double seconds = now_s() - begin;
        if (seconds < best) best = seconds;
    }
    for (int i = 0; i < 3; i++)
        dnnl_memory_destroy(args[i].memory);
    dnnl_primitive_destroy(matmul);
    return 2.0 * (double)shape->m * (double)shape->n * (double)shape->k / best;
}

int main(int argc, char **argv) {
    const int repeats = argc > 1 ? atoi(argv[1]) : 5;
    dnnl_data_type_t type = dnnl_data_type_undef; // until the head of the table names it
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    char line[512];
    const dnnl_version_t *version = dnnl_version();
    check(dnnl_engine_create(&engine, dnnl_cpu, 0), "an engine for this processor");
    check(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags), "a stream");
    while (fgets(line, sizeof line, stdin)) {
        enum {
            NAME = 14,
            HEAD = 36
        }; // characters of a row: the layer's name, and before the rates
        int64_t tokens, in, out;
        if (strncmp(line, "GFLOP/s, ", 9) == 0) {
            type = strncmp(line + 9, "bf16", 4) == 0 ? dnnl_bf16 : dnnl_f32;
            printf("GFLOP/s, %s by oneDNN %d.%d.%d\n", type == dnnl_bf16 ? "bf16" : "f32",
                    version->major, version->minor, version->patch);
            continue;
        }
        if (type == dnnl_data_type_undef || strlen(line) < HEAD ||
                sscanf(line + NAME, " %ld x %ld x %ld", &tokens, &in, &out) != 3)
            continue;
        const product products[] = {{tokens, out, in, false, true, false, type, type},
                {tokens, in, out, false, false, false, type, type},
                {out, in, tokens, true, false, true, type, dnnl_f32}};
        printf("%.*s ", HEAD, line);
        for (int i = 0; i < 3; i++)
            printf("  %8.1f", flops_per_s(engine, stream, &products[i], repeats) / 1e9);
        printf("\n");
        fflush(stdout);
    }
    return 0;
}
