// What the tests share: a program on a back end, inputs by name, comparisons.
#pragma once
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/backend.h"
#include "base/file.h"
#include "base/parallel.h"
#include "base/rng.h"
#include "ir/op.h"
#include "programs/programs.h"
#include "weights/state.h"

#define OK(expr)                                                                                   \
    do {                                                                                           \
        drv_status ok_ = (expr);                                                                   \
        if (ok_ != DRV_OK) fail_msg("%s", drv_message());                                          \
    } while (0)
// Fails with a message that holds `text`.
#define FAILS(expr, code, text)                                                                    \
    do {                                                                                           \
        drv_status ok_ = (expr);                                                                   \
        if (ok_ != (code)) fail_msg("status %d, expected %d: %s", ok_, (code), drv_message());     \
        if (!strstr(drv_message(), (text)))                                                        \
            fail_msg("\"%s\" does not say \"%s\"", drv_message(), (text));                         \
    } while (0)

// TEST(short_rows_are_padded) { ... } is a test. It gets an arena `a`, which is freed after it.
// tests_run runs all tests of a file in its order; a file without a main function has that of
// run_tests.c, which does nothing else.
typedef void test_function(arena *a);
void test_add(const char *name, int line, test_function *run);
int tests_run(void); // the exit status; a file without a test fails
#define TEST(name)                                                                                 \
    static test_function name;                                                                     \
    __attribute__((constructor)) static void test_add_##name(void) {                               \
        test_add(#name, __LINE__, name);                                                           \
    }                                                                                              \
    static void name(arena *a)

// Before main(): signals that whoever started the test had ignored or blocked (nohup, the
// background of a shell, a daemon) do what they do by default. Handlers, a sanitizer's, stay.
__attribute__((constructor)) static void reset_signals(void) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int i = 1; i < NSIG; i++) {
        struct sigaction was;
        if (sigaction(i, NULL, &was) == 0 && was.sa_handler == SIG_IGN) signal(i, SIG_DFL);
    }
}

// Uniform in [-1, 1), a function of seed and index.
double noise(uint64_t seed, uint64_t index);
// |a - b| over the root mean square of b.
double relative_error(const double *a, const double *b, int64_t n);
const char *temporary_dir(arena *a); // fresh, in /tmp, removed at exit
const char *golden_path(arena *a, const char *name);
// Copies the files of a folder, without its folders, to one that exists.
void files_copy(arena *a, const char *from, const char *to);
// Replaces the text `from` in a file by `to` wherever it stands.
void file_replace(arena *a, const char *file, const char *from, const char *to);
// A folder with the golden model "tied" and its embedding stored as lm_head.weight too, as in the
// files of Qwen3, or as that alone; `tied`: what config.json says.
const char *golden_with_head(arena *a, bool tied, bool has_embedding);
// A file or folder outside the tree: says that the test reads it, or leaves the test out and says so.
const char *outside_path(const char *path);

// Element k of the storage that a tensor of state is in, whatever its type.
double element_read(backend *b, const tensor *t, int64_t k);
void element_write(backend *b, const tensor *t, int64_t k, double value);
// Writes all inputs of an example.
void example_fill(backend *b, const example *e);

// A run from overrides like "model.preset=tiny": programs loaded, weights drawn.
typedef struct test_run {
    arena *a;
    run_config c;
    programs p;
} test_run;
test_run *test_run_open(const char *const *sets, int n);
void test_run_close(test_run *r);
// Random tokens, next-token labels and positions with document starts every `document` tokens.
void test_run_batch(test_run *r, uint64_t seed, int document);
double test_run_step(test_run *r, double dloss); // forward and backward; the summed loss
// All gradients (or another state with this prefix) one after the other, as fp32.
float *test_run_state(test_run *r, const char *prefix, int64_t *n);

// --- examples of ops (op_examples.c)
// Adds an input to an example. Its values follow from its name.
tensor *example_add(example *e, const example_input *in);

int n_examples(op_kind op);
// Adds the inputs and nodes of an example of `op` to e->g.
void example_make(example *e, op_kind op, int which);

// Element k of a real input: a function of its name and k, and a number that bf16 holds, so that an
// example has the same inputs in every type.
double example_value(const example_input *input, int64_t k);
