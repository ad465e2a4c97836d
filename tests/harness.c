// What the tests share.
#include "harness.h"

#include <math.h>
#include <unistd.h>

#include "base/str.h"

enum { MAX_TESTS = 64 };
typedef struct test {
    const char *name;
    int line;
    test_function *run;
} test;
static test tests[MAX_TESTS];
static int n_tests;

void test_add(const char *name, int line, test_function *run) {
    if (n_tests == MAX_TESTS) {
        fprintf(stderr, "more than %d tests in one file\n", MAX_TESTS);
        exit(1);
    }
    int i = n_tests++; // constructors run in any order
    for (; i > 0 && tests[i - 1].line > line; i--)
        tests[i] = tests[i - 1];
    tests[i] = (test){name, line, run};
}

static void run_with_arena(void **state) {
    const test *t = *state;
    arena *a = arena_new(t->name);
    t->run(a);
    arena_free(a);
}

// Unsets the variables with these prefixes; NULL ends the list.
static void forget(const char *const *prefixes) {
    arena *a = arena_new("environment");
    for (int i = 0; environ[i];) {
        bool theirs = false;
        for (const char *const *prefix = prefixes; *prefix; prefix++)
            theirs |= str_starts(environ[i], *prefix);
        if (theirs && !str_starts(environ[i], "DROVER_PJRT_DIR="))
            unsetenv(arena_strndup(a, environ[i], strcspn(environ[i], "=")));
        else
            i++;
    }
    arena_free(a);
}

// Before main(), which sets those of its test: the user's variables of drover decide nothing here,
// but for the folder of the plug-ins. The peak is said, not measured in each test.
__attribute__((constructor)) static void forget_own(void) {
    forget((const char *const[]){"DROVER_", NULL});
    setenv("DROVER_PEAK_FLOPS", "1e11", 1);
}

int tests_run(void) {
    // Within a job of a scheduler drover would take the test for a rank of that job. Ranks of the
    // test's own do not come here.
    forget((const char *const[]){"OMPI_COMM_", "PMIX_", "PMI_", "PET_", "SLURM",
            "RANK=", "WORLD_SIZE=", "LOCAL_RANK=", "MASTER_", NULL});
    struct CMUnitTest list[MAX_TESTS];
    for (int i = 0; i < n_tests; i++)
        list[i] = (struct CMUnitTest){tests[i].name, run_with_arena, NULL, NULL, &tests[i]};
    if (n_tests == 0) fprintf(stderr, "there is no test in this file\n");
    return n_tests == 0 || _cmocka_run_group_tests("tests", list, (size_t)n_tests, NULL, NULL);
}

// splitmix64 (Steele, Lea and Flood, OOPSLA 2014): the generator of rng.h was a quarter of the time
// of the tests of attention.
static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

double noise(uint64_t seed, uint64_t index) {
    const uint64_t step = 0x9E3779B97F4A7C15u;
    return (double)(mix(mix(seed + step) + (index + 1) * step) >> 11) * 0x1p-52 - 1;
}

double relative_error(const double *a, const double *b, int64_t n) {
    double diff = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        diff += (a[i] - b[i]) * (a[i] - b[i]);
        size += b[i] * b[i];
    }
    return sqrt(diff / (size > 0 ? size : 1));
}

enum { MAX_DIRS = 64 };
static char dirs[MAX_DIRS][64];
static int n_dirs;

static void remove_dirs(void) {
    for (int i = 0; i < n_dirs; i++)
        if (dir_remove(dirs[i]) != DRV_OK) fprintf(stderr, "%s\n", drv_message());
}

const char *temporary_dir(arena *a) {
    (void)a;
    if (n_dirs == MAX_DIRS) fail_msg("more than %d temporary folders in one test", MAX_DIRS);
    char *dir = dirs[n_dirs];
    snprintf(dir, sizeof dirs[0], "/tmp/drover-test-XXXXXX");
    assert_non_null(mkdtemp(dir));
    if (n_dirs++ == 0) atexit(remove_dirs);
    return dir;
}

const char *outside_path(const char *path) {
    const bool there = file_exists(path);
    print_message(there ? "reads %s, outside the tree\n" : "skipped: %s is not here\n", path);
    if (!there) skip();
    return path;
}

const char *golden_path(arena *a, const char *name) {
    return path_join(a, TEST_DIR "/golden", name);
}

void files_copy(arena *a, const char *from, const char *to) {
    char **names, *bytes;
    int n;
    size_t n_bytes;
    OK(dir_list(a, from, &names, &n));
    for (int i = 0; i < n; i++) {
        if (file_is_dir(path_join(a, from, names[i]))) continue;
        OK(file_read(a, path_join(a, from, names[i]), &bytes, &n_bytes));
        OK(file_write_atomic(path_join(a, to, names[i]), bytes, n_bytes));
    }
}

void file_replace(arena *a, const char *file, const char *from, const char *to) {
    char *bytes;
    size_t n;
    str out = {0};
    OK(file_read(a, file, &bytes, &n));
    str_replace(&out, bytes, n, from, to);
    OK(file_write_atomic(file, out.p, out.n));
    str_free(&out);
}

const char *golden_with_head(arena *a, bool tied, bool has_embedding) {
    const char *dir = temporary_dir(a), *from = golden_path(a, "tied");
    static const char embedding[] = "model.embed_tokens.weight";
    model_source base;
    json_t *config;
    str file = {0}, values = {0};
    int n_tensors = 0;
    OK(model_source_open(a, from, &base));
    st_entry *list = ARENA_ARRAY(a, st_entry, base.n + 1);
    for (int i = 0; i <= base.n; i++) {
        const source_tensor *t =
                i < base.n ? &base.tensors[i] : model_source_find(&base, embedding);
        if (i < base.n && !has_embedding && strcmp(t->name, embedding) == 0) continue;
        list[n_tensors++] = (st_entry){i < base.n ? t->name : "lm_head.weight", t->n_dims,
                {t->dim[0], t->dim[1]}, t->type};
        const size_t bytes = (size_t)(t->rows * t->row_bytes);
        str_reserve(&values, bytes);
        OK(source_read_raw(&base, t, 0, t->rows, values.p + values.n));
        values.n += bytes;
    }
    st_header(list, n_tensors, &file);
    str_add(&file, values.p, values.n);
    OK(file_write_atomic(path_join(a, dir, "model.safetensors"), file.p, file.n));
    OK(json_read_file(path_join(a, from, "config.json"), &config));
    json_object_set_new(config, "tie_word_embeddings", json_boolean(tied));
    char *text = json_print(config, 0);
    OK(file_write_atomic(path_join(a, dir, "config.json"), text, strlen(text)));
    free(text);
    json_decref(config);
    str_free(&values);
    str_free(&file);
    model_source_close(&base);
    return dir;
}

typedef union element {
    float f32;
    uint16_t bf16;
    double f64;
    int32_t i32;
} element;

double element_read(backend *b, const tensor *t, int64_t k) {
    const int64_t bytes = dtype_bytes(t->dt);
    element x;
    OK(backend_read(b, tensor_root(t)->name, k * bytes, bytes, &x));
    switch (t->dt) {
    case DT_F32:
        return (double)x.f32;
    case DT_BF16:
        return (double)bf16_to_f32(x.bf16);
    case DT_F64:
        return x.f64;
    default:
        return x.i32;
    }
}

void element_write(backend *b, const tensor *t, int64_t k, double value) {
    const int64_t bytes = dtype_bytes(t->dt);
    element x;
    switch (t->dt) {
    case DT_F32:
        x.f32 = (float)value;
        break;
    case DT_BF16:
        x.bf16 = f32_to_bf16((float)value);
        break;
    case DT_F64:
        x.f64 = value;
        break;
    default:
        x.i32 = (int32_t)value;
    }
    OK(backend_write(b, tensor_root(t)->name, k * bytes, bytes, &x));
}

void example_fill(backend *b, const example *e) {
    for (int i = 0; i < e->n_inputs; i++) {
        const example_input *in = &e->input[i];
        for (int64_t k = 0; k < tensor_elements(in->t); k++)
            element_write(b, in->t, k, in->values ? in->values[k] : example_value(in, k));
    }
}

test_run *test_run_open(const char *const *sets, int n) {
    arena *a = arena_new("test run");
    test_run *r = ARENA_NEW(a, test_run);
    backend *b;
    r->a = a;
    OK(config_load(a, NULL, sets, n, &r->c));
    OK(backend_open_host(a, &b));
    OK(programs_build(a, &r->c, &r->p));
    OK(programs_load(a, b, &r->p));
    OK(held_init_weights(&r->p.held));
    return r;
}

void test_run_close(test_run *r) {
    r->p.held.b->v->close(r->p.held.b);
    arena_free(r->a);
}

static void put_i32(test_run *r, const char *name, const int32_t *x, int64_t n) {
    OK(backend_write(r->p.held.b, name, 0, 4 * n, x));
}

void test_run_batch(test_run *r, uint64_t seed, int document) {
    const int64_t seq = r->c.sequence_length, n = r->c.micro_batch_size * seq;
    int32_t *tokens = mem_alloc(4 * (size_t)n), *labels = mem_alloc(4 * (size_t)n),
            *position = mem_alloc(4 * (size_t)n);
    const rng_key key = {seed, RNG_TEST, 7};
    for (int64_t i = 0; i < n; i++) {
        tokens[i] = (int32_t)(rng_u64(&key, (uint64_t)i) % (uint64_t)r->c.model.vocab_size);
        position[i] = (int32_t)(i % seq % document);
    }
    for (int64_t i = 0; i < n; i++)
        labels[i] = (i + 1) % seq % document == 0 || (i + 1) % seq == 0 ? -1 : tokens[i + 1];
    put_i32(r, "tokens", tokens, n);
    put_i32(r, "labels", labels, n);
    put_i32(r, "position", position, n);
    free(tokens);
    free(labels);
    free(position);
}

double test_run_step(test_run *r, double dloss) {
    const int64_t n = run_layout_of(&r->c).partial_sums;
    double losses[16], sum = 0;
    assert_true(n <= 16);
    OK(programs_write_dloss(&r->p, dloss));
    OK(backend_run(r->p.held.b, r->p.step));
    OK(backend_read(r->p.held.b, "loss", 0, n * (int64_t)sizeof *losses, losses));
    for (int64_t i = 0; i < n; i++)
        sum += losses[i];
    return sum;
}

float *test_run_state(test_run *r, const char *prefix, int64_t *n) {
    int64_t total = 0;
    for (int i = 0; i < r->p.held.params.n; i++)
        total += param_elements(&r->p.held.params.p[i]);
    float *x = mem_alloc(sizeof *x * (size_t)total);
    *n = 0;
    for (int i = 0; i < r->p.held.params.n; i++) {
        const param *w = &r->p.held.params.p[i];
        const char *name = *prefix ? arena_printf(r->a, "%s%s", prefix, w->name)
                                   : held_master(r->a, &r->p.held, w);
        const int64_t k = param_elements(w);
        OK(backend_read(r->p.held.b, name, 0, 4 * k, x + *n));
        *n += k;
    }
    return x;
}
