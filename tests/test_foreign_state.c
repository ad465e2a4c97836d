// The optimizer's state in checkpoints of other trainers, against the tensors that they were made
// from (tools/golden_foreign.py, midrun), and what is wrong with it.
//
// Legend: s a source, p where a run stood
#include "harness.h"

#include <math.h>

#include "ckpt/ckpt.h"
#include "source/foreign_state.h"

static const char *golden(arena *a, const char *name) {
    return golden_path(a, arena_printf(a, "foreign/midrun/%s", name));
}

static void check_values(arena *a, const model_source *s, const char *name,
        const model_source *expected, const source_tensor *e) {
    const source_tensor *t = model_source_find(s, name);
    if (!t) fail_msg("%s has no %s", s->path, name);
    assert_int_equal(t->n_dims, e->n_dims);
    assert_memory_equal(t->dim, e->dim, sizeof *t->dim * (size_t)t->n_dims);
    const size_t n = sizeof(float) * (size_t)(t->rows * t->cols);
    float *x = arena_alloc(a, n), *y = arena_alloc(a, n);
    OK(source_read_f32(expected, e, 0, e->rows, y));
    for (int64_t n_rows = 1; n_rows <= 3; n_rows++) { // by pieces that fit no shard
        for (int64_t row = 0, k; row < t->rows; row += k) {
            k = t->rows - row < n_rows ? t->rows - row : n_rows;
            OK(source_read_f32(s, t, row, k, x + row * t->cols));
        }
        if (memcmp(x, y, n) != 0) fail_msg("%s: %s differs", s->path, name);
    }
}

// `masters`: the run has them, beside weights in bf16.
static void check_state(const char *name, int64_t samples, double rate, bool masters) {
    arena *a = arena_new("state");
    model_source s, moments, model, weights;
    foreign_progress p;
    OK(model_source_open_folder(a, golden(a, "own"), "optimizer", &moments));
    OK(model_source_open_folder(a, golden(a, "own"), "model", &model));
    OK(model_source_open_optimizer(a, golden(a, name), NULL, &s, &p));
    OK(model_source_open_resumed(a, golden(a, name), &weights));
    assert_int_equal(s.n, moments.n + (masters ? model.n : 0));
    for (int i = 0; i < moments.n; i++)
        check_values(a, &s, moments.tensors[i].name, &moments, &moments.tensors[i]);
    for (int i = 0; i < model.n; i++) {
        const source_tensor *t = &model.tensors[i];
        if (masters) check_values(a, &s, arena_printf(a, CKPT_MASTER "%s", t->name), &model, t);
        check_values(a, &weights, t->name, &model, t);
    }
    assert_int_equal(p.step, 5);
    assert_int_equal(p.updates, 5);
    assert_int_equal(p.samples, samples);
    assert_true(isnan(rate) ? isnan(p.learning_rate) : fabs(p.learning_rate - rate) < 1e-12);
    model_source_close(&weights);
    model_source_close(&s);
    model_source_close(&model);
    model_source_close(&moments);
    arena_free(a);
}

TEST(states_are_the_same) {
    check_state("own", 20, (double)NAN, false);
    check_state("titan", -1, 0.0075, false);
    check_state("flattened", 20, 0.0075, true);
}

// --- copies
static const char *copy_of(arena *a, const char *name) {
    const char *dir = temporary_dir(a);
    files_copy(a, golden(a, name), dir);
    return dir;
}

// Opens it, and holds the tensors against those that a run has.
static drv_status open_whole(arena *a, const char *dir, model_source *s) {
    model_source moments;
    foreign_progress p;
    OK(model_source_open_folder(a, golden(a, "own"), "optimizer", &moments));
    ckpt_tensor *list = ARENA_ARRAY(a, ckpt_tensor, moments.n);
    for (int i = 0; i < moments.n; i++) {
        const source_tensor *t = &moments.tensors[i];
        list[i].entry = (st_entry){t->name, t->n_dims, {t->dim[0], t->dim[1]}, ST_F32};
    }
    drv_status status = model_source_open_optimizer(a, dir, NULL, s, &p);
    if (status == DRV_OK) status = ckpt_check(s, list, moments.n);
    model_source_close(&moments);
    return status;
}

TEST(harm_is_named) {
    static const struct {
        const char *name, *file, *from, *to, *error;
    } cases[] = {
            {"titan", ".metadata", "optimizer.state.norm.weight.exp_avg_sq",
                    "otherizer.state.norm.weight.exp_avg_sq",
                    "has no tensor \"exp_avg_sq.model.norm.weight\""},
            {"titan", ".metadata", "optimizer.state.norm.weight.exp_avg",
                    "optimizer.state.morn.weight.exp_avg",
                    "\"optimizer.state.morn.weight.exp_avg\" is of a parameter that is none of a "
                    "Llama's"},
            {"titan", ".metadata", "optimizer.state.layers.1.", "optimizer.state.layers.2.",
                    "is of a weight that is not there"},
            {"titan", ".metadata", "norm.weight.exp_avg_sq", "norm.weight.momentum_b",
                    "is state of another optimizer than AdamW"},
            {"titan", ".metadata", "optimizer.state.", "optimizer.stale.",
                    "has no optimizer's state"},
            {"titan", "__1_0.distcp", "\xA0\x40", "\xA0\xC0", "expected a whole number from 0"},
            {"flattened", ".metadata", "optimizer.state.exp_avg.decoder.final_layernorm.weight",
                    "optimizer.distributed.dp_group_idx_0.gbuf_idx_0.bfloat",
                    "is a bucket of Megatron's distributed optimizer"},
            {"own", "trainer.json", "\"step\": 5", "\"step\": -7", "the step is -7, expected 0 to"},
            {"own", "trainer.json", "\"updates\": 5", "\"updates\": 6",
                    "the optimizer counts 6 steps, expected at most 5"},
            {"own", "trainer.json", "\"step\": 5, \"updates\": 5, ", "",
                    "does not say at which step it was written"},
            {"own", "optimizer.safetensors", "\"shape\":[24,16]", "\"shape\":[16,24]",
                    "has shape [16, 24], expected [24, 16]"},
            {"own", "trainer.json", "", NULL, "but no trainer.json"},
            {"own", "optimizer.safetensors", "", NULL, "has weights, but no optimizer's state"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *dir = copy_of(a, cases[i].name), *file = path_join(a, dir, cases[i].file);
        model_source s;
        if (cases[i].to)
            file_replace(a, file, cases[i].from, cases[i].to);
        else
            OK(dir_remove(file));
        FAILS(open_whole(a, dir, &s), DRV_E_DATA, cases[i].error);
        model_source_close(&s);
    }
}

// NeMo 2: the newest checkpoint of an experiment, and what Lightning keeps beside it.
TEST(experiments_of_nemo) {
    static const char *const names[] = {"llama--step=9-consumed_samples=12.0",
            "llama--step=10-consumed_samples=20.0", "llama--step=90-consumed_samples=40.0"};
    const char *dir = temporary_dir(a);
    char *bytes;
    size_t n_bytes;
    model_source s;
    foreign_progress p;
    OK(dir_make(path_join(a, dir, "checkpoints")));
    for (int i = 0; i < 3; i++) {
        const char *one = arena_printf(a, "%s/checkpoints/%s", dir, names[i]);
        OK(dir_make(one));
        OK(dir_make(path_join(a, one, "weights")));
        OK(file_write_atomic(path_join(a, one, "weights/.metadata"), "", 0)); // harmed
    }
    OK(file_write_atomic(arena_printf(a, "%s/checkpoints/%s-unfinished", dir, names[2]), "", 0));
    const char *weights = arena_printf(a, "%s/checkpoints/%s/weights", dir, names[1]);
    files_copy(a, golden(a, "flattened"), weights);
    OK(file_read(a, golden(a, "nemo.pt"), &bytes, &n_bytes));
    OK(file_write_atomic(path_join(a, weights, "common.pt"), bytes, n_bytes));
    OK(model_source_open_optimizer(a, dir, golden(a, "own/config.json"), &s, &p));
    assert_non_null(model_source_find(&s, "master.model.layers.1.mlp.up_proj.weight"));
    assert_int_equal(p.step, 5);
    assert_int_equal(p.updates, 5);
    assert_int_equal(p.samples, 20);
    assert_true(fabs(p.learning_rate - 0.0075) < 1e-12);
    model_source_close(&s);
}

TEST(state_without_names) {
    model_source s;
    foreign_progress p;
    FAILS(model_source_open_optimizer(a, golden(a, "nemo.pt"), NULL, &s, &p), DRV_E_DATA,
            "numbers parameters instead of naming them");
}
