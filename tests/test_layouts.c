// The same steps on several ranks as on one: losses, norms, gradients and weights. Ranks are
// threads, each with its programs and its back end, as a process of a run has them.
#include "ranks.h"

#include <math.h>
#include <pthread.h>

#include "ckpt/pieces.h"
#include "train/state.h"
#include "train/step.h"

enum { STEPS = 3, MAX_SETS = 16 };

typedef struct layout_run { // what a run of STEPS steps came to
    const char *sets[MAX_SETS];
    int n_sets, ranks;
    double loss[STEPS], grad_norm[STEPS], param_norm[STEPS];
    int64_t optimizer_bytes, sent[N_AXES]; // of rank 0; of all ranks together, of the updates
    double wire[N_AXES];                   // of a rank, of an update, as planned
    float *weights;                        // of the whole model; free it
    int64_t n_weights;
} layout_run;

// Rows of random tokens with two documents each, and some labels that do not count.
static batch make_batch(arena *a, const run_config *cfg, int step) {
    batch b = batch_new(a, cfg->global_batch_size, cfg->sequence_length);
    const int64_t n = b.rows * b.row_tokens, half = b.row_tokens / 2 + 1;
    for (int64_t i = 0; i < n; i++) {
        const double x = 0.5 + 0.5 * noise((uint64_t)step + 5, (uint64_t)i);
        b.tokens[i] = (int32_t)(x * (double)cfg->model.vocab_size);
        const int64_t in_row = i % b.row_tokens;
        b.position[i] = (int32_t)(in_row < half ? in_row : in_row - half);
    }
    for (int64_t i = 0; i < n; i++) {
        b.labels[i] = i + 1 < n && b.position[i + 1] ? b.tokens[i + 1] : -1;
        if (i % 11 == 3) b.labels[i] = -1;
        b.counted += b.labels[i] >= 0;
    }
    b.filled = b.rows;
    return b;
}

static bool is_first_copy(const mesh *m, int rank, unsigned replicated) {
    for (int axis = 0; axis < N_AXES; axis++)
        if (replicated >> axis & 1 && mesh_place(m, rank, (mesh_axis)axis) > 0) return false;
    return true;
}

// This rank's pieces of all masters, at their places in the whole model: Hugging Face parameters
// one after the other. What several ranks hold alike, one writes.
static drv_status put_weights(comm *c, arena *a, const programs *p, const mesh *m, float *whole) {
    int n;
    const ckpt_tensor *list = state_model(a, p, false, &n);
    for (int i = 0; i < n; i++) {
        const int64_t columns = tensor_columns(&list[i].entry);
        for (int k = 0; k < list[i].n_pieces; k++) {
            const ckpt_piece *piece = &list[i].piece[k];
            const int64_t elements = piece_elements(piece);
            if (!is_first_copy(m, comm_rank(c), piece->replicated)) continue;
            float *values = ARENA_ARRAY(a, float, elements);
            DRV_TRY(backend_read(p->b, 0, piece->source, piece->offset, 4 * elements, values));
            for (int64_t e = 0, run; e < elements; e += run) {
                const int64_t place = piece_place(piece, columns, e, &run);
                if (run > elements - e) run = elements - e;
                memcpy(whole + place, values + e, sizeof *whole * (size_t)run);
            }
        }
        whole += st_entry_elements(&list[i].entry);
    }
    return DRV_OK;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // of a layout_run, which ranks share

static int64_t sent_along(comm *c, const mesh *m, mesh_axis axis) {
    return comm_sent(comm_axes(c, m, 1u << axis));
}

static drv_status one_rank(comm *self, arena *mem, layout_run *run) {
    run_config cfg;
    programs built;
    backend *device;
    DRV_TRY(config_from_sets(mem, run->sets, run->n_sets, &cfg));
    DRV_TRY(config_set_ranks(&cfg, comm_size(self)));
    cfg.rank = comm_rank(self);
    const mesh ranks = programs_mesh(&cfg);
    DRV_TRY(backend_open(mem, "cpu", &device));
    backend_join(device, self, &ranks);
    DRV_TRY(programs_build(mem, &cfg, &built));
    DRV_TRY(programs_load(mem, device, &built));
    DRV_TRY(programs_check_held(&built));
    DRV_TRY(programs_init_weights(&built));
    stepper stepping = stepper_new(mem, &built, self, &ranks);
    const double hyper[4] = {1e-3, 0.1, 0.05, 1};
    for (int step = 0; step < STEPS; step++) {
        const batch global = make_batch(mem, &cfg, step);
        double loss, grad_norm, param_norm;
        stepping.step = step + 1;
        DRV_TRY(stepper_gradients(&stepping, &global, NULL, NULL, &loss));
        const int64_t before[] = {sent_along(self, &ranks, AXIS_DATA),
                sent_along(self, &ranks, AXIS_TENSOR)};
        DRV_TRY(stepper_update(&stepping, hyper, &grad_norm, &param_norm));
        pthread_mutex_lock(&lock);
        run->sent[AXIS_DATA] += sent_along(self, &ranks, AXIS_DATA) - before[0];
        run->sent[AXIS_TENSOR] += sent_along(self, &ranks, AXIS_TENSOR) - before[1];
        pthread_mutex_unlock(&lock);
        if (comm_rank(self) != 0) continue;
        run->loss[step] = loss;
        run->grad_norm[step] = grad_norm;
        run->param_norm[step] = param_norm;
    }
    if (comm_rank(self) == 0) {
        run->optimizer_bytes = programs_memory(&built).optimizer;
        memcpy(run->wire, built.update_plan->wire_bytes, sizeof run->wire);
    }
    DRV_TRY(put_weights(self, mem, &built, &ranks, run->weights));
    backend_close(device);
    return DRV_OK;
}

static drv_status run_rank(comm *c, void *ctx) {
    arena *a = arena_new("layout");
    const drv_status status = one_rank(c, a, ctx);
    arena_free(a);
    return status;
}

static layout_run run_layout(int ranks, const char *const *sets, int n_sets) {
    layout_run r = {.ranks = ranks,
            .n_sets = 6,
            .sets = {"model.preset=tiny", "model.num_hidden_layers=2", "data.sequence_length=40",
                    "training.global_batch_size=8", "training.micro_batch_size=1",
                    "optimizer.clip_grad_norm=0.5"}};
    for (int i = 0; i < n_sets; i++)
        r.sets[r.n_sets++] = sets[i];
    arena *a = arena_new("cfg");
    run_config cfg;
    OK(config_from_sets(a, r.sets, r.n_sets, &cfg));
    r.n_weights = model_parameters(&cfg.model);
    r.weights = mem_zeroed(sizeof(float) * (size_t)r.n_weights);
    arena_free(a);
    OK(comm_run_threads(ranks, 1, NULL, run_rank, &r));
    return r;
}

static void expect_same_bits(const layout_run *got, const layout_run *want) {
    for (int step = 0; step < STEPS; step++)
        if (got->loss[step] != want->loss[step] || got->grad_norm[step] != want->grad_norm[step] ||
                got->param_norm[step] != want->param_norm[step])
            fail_msg("%d ranks, step %d: loss %.17g, norms %.17g %.17g; %d: %.17g, %.17g %.17g",
                    got->ranks, step, got->loss[step], got->grad_norm[step], got->param_norm[step],
                    want->ranks, want->loss[step], want->grad_norm[step], want->param_norm[step]);
    assert_int_equal(got->n_weights, want->n_weights);
    assert_memory_equal(got->weights, want->weights, sizeof(float) * (size_t)want->n_weights);
}

// --- data parallel
static void lanes_give_the_same_bits_on_any_ranks(void **state) {
    (void)state;
    static const char *const precisions[] = {"training.precision=fp32", "training.precision=bf16"};
    for (int p = 0; p < 2; p++) {
        const char *sets[] = {"parallel.lanes=8", precisions[p], NULL};
        layout_run one = run_layout(1, sets, 2);
        for (int ranks = 2; ranks <= 8; ranks *= 2)
            for (int zero = 0; zero < 2; zero++) {
                sets[2] = zero ? "parallel.zero=1" : "parallel.zero=0";
                layout_run several = run_layout(ranks, sets, 3);
                expect_same_bits(&several, &one);
                free(several.weights);
            }
        free(one.weights);
    }
}

// As many lanes as ranks, unless more are asked for; three leave a tree that is not full.
static void three_ranks_are_three_lanes(void **state) {
    (void)state;
    const char *sets[] = {"training.global_batch_size=12", "parallel.lanes=3"};
    layout_run one = run_layout(1, sets, 2), three = run_layout(3, sets, 1);
    expect_same_bits(&three, &one);
    free(one.weights);
    free(three.weights);
}

// --- ZeRO: the same bits, a part of the memory, and the bytes on the wire that a plan says
static void data_ranks_share_the_optimizer(void **state) {
    (void)state;
    static const struct {
        int ranks;
        const char *tensor, *precision, *tied;
    } cases[] = {{2, "1", "fp32", "true"}, {3, "1", "bf16", "false"}, {4, "2", "bf16", "true"},
            {4, "1", "fp32", "false"}, {8, "2", "fp32", "true"}, {8, "4", "bf16", "false"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        arena *mem = arena_new("sets");
        const char *sets[] = {"training.global_batch_size=12", "parallel.zero=0",
                arena_printf(mem, "parallel.tensor=%s", cases[i].tensor),
                arena_printf(mem, "training.precision=%s", cases[i].precision),
                arena_printf(mem, "model.tie_word_embeddings=%s", cases[i].tied)};
        layout_run whole = run_layout(cases[i].ranks, sets, 5);
        sets[1] = "parallel.zero=1";
        layout_run shards = run_layout(cases[i].ranks, sets, 5);
        expect_same_bits(&shards, &whole);
        const int data = cases[i].ranks / (cases[i].tensor[0] - '0');
        const double share = (double)shards.optimizer_bytes / (double)whole.optimizer_bytes;
        if (share > 1.0 / data + 0.1) fail_msg("case %zu: %g of the optimizer's memory", i, share);
        for (int axis = 0; axis < N_AXES; axis++)
            for (int k = 0; k < 2; k++) {
                const layout_run *r = k ? &shards : &whole;
                const double planned = STEPS * cases[i].ranks * r->wire[axis];
                if (axis != AXIS_DATA && axis != AXIS_TENSOR) continue;
                if (fabs((double)r->sent[axis] - planned) > 1e-9 * planned + 0.5)
                    fail_msg("case %zu, zero %d, axis %d: %lld bytes sent, %g planned", i, k, axis,
                            (long long)r->sent[axis], planned);
            }
        free(whole.weights);
        free(shards.weights);
        arena_free(mem);
    }
}

// --- tensor and sequence parallel
static double worst_difference(const layout_run *got, const layout_run *want) {
    double worst = 0;
    for (int64_t i = 0; i < want->n_weights; i++)
        worst = fmax(worst, fabs((double)got->weights[i] - (double)want->weights[i]));
    return worst;
}

// Adam's first steps move each weight by about the learning rate, whatever the size of its
// gradient: where that is a rounding error, its sign and so the step may differ.
static void expect_close(const layout_run *got, const layout_run *want, double bound) {
    for (int step = 0; step < STEPS; step++) {
        const double loss = fabs(got->loss[step] / want->loss[step] - 1),
                     norm = fabs(got->grad_norm[step] / want->grad_norm[step] - 1),
                     size = fabs(got->param_norm[step] / want->param_norm[step] - 1);
        if (!(loss < bound && norm < 20 * bound && size < bound))
            fail_msg("%d ranks, %s, step %d: loss %.9g, norms %.9g %.9g; one: %.9g, %.9g %.9g",
                    got->ranks, got->sets[got->n_sets - 1], step, got->loss[step],
                    got->grad_norm[step], got->param_norm[step], want->loss[step],
                    want->grad_norm[step], want->param_norm[step]);
    }
    const double worst = worst_difference(got, want);
    if (!(worst < STEPS * 2.1e-3)) fail_msg("a weight differs by %g", worst);
}

static void tensor_ranks_are_close_to_one(void **state) {
    (void)state;
    static const char *const tied[] = {"model.tie_word_embeddings=true",
            "model.tie_word_embeddings=false"};
    static const char *const degree[] = {"parallel.tensor=2", "parallel.tensor=4"};
    static const char *const sequence[] = {"parallel.sequence=false", "parallel.sequence=true"};
    static const char *const recompute[] = {"training.recompute=none", "training.recompute=full",
            "training.recompute=selective"};
    for (int k = 0; k < 3; k++) {
        const char *sets[] = {"training.precision=fp32", "training.global_batch_size=4",
                tied[k % 2], recompute[k], NULL, NULL};
        layout_run one = run_layout(1, sets, 4);
        for (int t = 0; t < 2; t++)
            for (int s = 0; s < 2; s++)
                for (int data = 1; data <= 2; data++) {
                    sets[4] = degree[t];
                    sets[5] = sequence[s];
                    layout_run several = run_layout(data * (2 << t), sets, 6);
                    expect_close(&several, &one, 2e-5);
                    free(several.weights);
                }
        free(one.weights);
    }
}

static void tensor_ranks_of_bf16(void **state) {
    (void)state;
    const char *sets[] = {"training.precision=bf16", "training.global_batch_size=4",
            "parallel.tensor=4"};
    layout_run one = run_layout(1, sets, 2), four = run_layout(4, sets, 3);
    expect_close(&four, &one, 2e-3);
    free(one.weights);
    free(four.weights);
}

// Fresh weights are those of one rank, to the bit.
static void a_split_model_begins_alike(void **state) {
    (void)state;
    const char *still[] = {"training.precision=fp32", "optimizer.eps=1.0", "parallel.tensor=4"};
    layout_run one = run_layout(1, still, 2), four = run_layout(4, still, 3);
    assert_true(worst_difference(&four, &one) < 1e-5); // steps of eps 1 hardly move it
    free(one.weights);
    free(four.weights);
}

static void heads_that_do_not_divide_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *set, *text;
    } cases[] = {{"parallel.tensor=3", "3, expected a divisor of model.num_attention_heads 8"},
            {"parallel.tensor=8", "8, expected a divisor of model.num_key_value_heads 4"},
            {"model.vocab_size=511", "2, expected a divisor of model.vocab_size 511"},
            {"data.sequence_length=41", "a divisor of the 41 tokens of a micro-batch"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        arena *a = arena_new("cfg");
        run_config cfg;
        programs p;
        const char *sets[] = {"model.preset=tiny", "training.micro_batch_size=1",
                "data.sequence_length=48", "parallel.tensor=2", cases[i].set};
        OK(config_from_sets(a, sets, 5, &cfg));
        FAILS(programs_build(a, &cfg, &p), DRV_E_USAGE, cases[i].text);
        arena_free(a);
    }
}

static void ranks_that_do_not_fit_are_refused(void **state) {
    (void)state;
    static const struct {
        int ranks;
        const char *set, *text;
    } cases[] = {
            {3, "parallel.data=auto", "a multiple of micro_batch_size 1 x data-parallel ranks 3"},
            {2, "parallel.data=4", "\"parallel.data\" is 4, but 2 ranks were started"},
            {4, "parallel.lanes=2", "\"parallel.lanes\" is 2, expected a divisor of the 8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        arena *a = arena_new("cfg");
        run_config cfg;
        const char *sets[] = {"model.preset=tiny", cases[i].set};
        OK(config_from_sets(a, sets, 2, &cfg));
        FAILS(config_set_ranks(&cfg, cases[i].ranks), DRV_E_USAGE, cases[i].text);
        arena_free(a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lanes_give_the_same_bits_on_any_ranks),
            cmocka_unit_test(three_ranks_are_three_lanes),
            cmocka_unit_test(data_ranks_share_the_optimizer),
            cmocka_unit_test(tensor_ranks_are_close_to_one), cmocka_unit_test(tensor_ranks_of_bf16),
            cmocka_unit_test(a_split_model_begins_alike),
            cmocka_unit_test(heads_that_do_not_divide_are_refused),
            cmocka_unit_test(ranks_that_do_not_fit_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
