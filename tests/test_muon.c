// Muon's update without a model around it: gradients come from a formula. Twenty steps against
// torch.optim.Muon (tools/golden_muon.py), and on ranks of every kind the bits of one rank.
#include "layout_run.h"

#include "source/safetensors.h"

enum { MUON_STEPS = 20, N_MATRICES = 7 };

static const char *const matrices[N_MATRICES] = {"self_attn.q_proj", "self_attn.k_proj",
        "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"};

// In [-1, 1): a hash of the element, the step and the matrix, as golden_muon.py has it.
static float number(int matrix, int step, int64_t element) {
    uint32_t h = (uint32_t)((uint64_t)element * 2654435761u + (uint64_t)step * 40503 +
                            (uint64_t)matrix * 97531);
    h = (h ^ (h >> 15)) * 2246822519u;
    h = (h ^ (h >> 13)) * 3266489917u;
    h ^= h >> 16;
    return (float)((double)h / 0x1p31 - 1);
}

// Which of the matrices a Hugging Face parameter is; -1: none.
static int matrix_of(const char *hf_name) {
    for (int k = 0; k < N_MATRICES; k++)
        if (strstr(hf_name, matrices[k])) return k;
    return -1;
}

static drv_status fill_weights(arena *a, programs *p) {
    int n;
    const ckpt_tensor *list = state_model(a, &p->held, true, &n);
    const ckpt_sink sink = state_weight_sink(&p->held);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < list[i].n_pieces && matrix_of(list[i].entry.name) >= 0; k++) {
            const ckpt_piece *piece = &list[i].piece[k];
            for (int64_t e = 0, run; e < piece_elements(piece); e++) {
                const int64_t at = piece_index(piece, tensor_columns(&list[i].entry), e, &run);
                const float value = 0.1f * number(matrix_of(list[i].entry.name), 0, at);
                DRV_TRY(sink.write(sink.ctx, &list[i], piece, e, 1, &value));
            }
        }
    return DRV_OK;
}

// Sums of gradients of this rank: the first of those that add them up has all of each.
static drv_status fill_gradients(arena *a, programs *p, int step) {
    const run_config *cfg = p->held.config;
    const mesh ranks = run_mesh(cfg);
    if (mesh_place_in_update(&ranks, (int)cfg->rank) > 0) return DRV_OK;
    for (int i = 0; i < p->held.params.n; i++) {
        const param *w = &p->held.params.p[i];
        if (!held_by_muon(&p->held, w)) continue;
        float *values = ARENA_ARRAY(a, float, param_elements(w));
        for (int k = 0; k < w->n_parts; k++)
            for (int64_t row = 0; row < w->part[k].rows; row++)
                for (int64_t column = 0; column < w->dim[1]; column++)
                    values[(w->part[k].row + row) * w->dim[1] + column] =
                            number(matrix_of(w->part[k].hf_name), step,
                                    (w->part[k].first_row + row) * w->all_columns +
                                            w->first_column + column);
        DRV_TRY(backend_write(p->held.b, arena_printf(a, "grad.%s", w->name), 0,
                4 * param_elements(w), values));
    }
    return DRV_OK;
}

static drv_status muon_steps(comm *self, arena *a, layout_run *run) {
    rank_run mine;
    DRV_TRY(rank_run_open(self, a, run->sets, run->n_sets, "cpu", NULL, &mine));
    DRV_TRY(fill_weights(a, &mine.built));
    stepper steps = stepper_new(a, &mine.built, self, &mine.ranks);
    for (int step = 1; step <= MUON_STEPS; step++) {
        const double hyper[N_HYPER] = {1e-3, 1 - pow(0.9, step), 1 - pow(0.95, step), 0, step};
        double grad_norm, param_norm;
        DRV_TRY(fill_gradients(a, &mine.built, step));
        DRV_TRY(stepper_update(&steps, hyper, &grad_norm, &param_norm));
    }
    DRV_TRY(put_weights(self, a, &mine.built, &mine.ranks, run));
    backend_close(mine.device);
    return DRV_OK;
}

static drv_status muon_rank(comm *c, void *ctx) {
    arena *a = arena_new("muon");
    const drv_status status = muon_steps(c, a, ctx);
    arena_free(a);
    return status;
}

// A model of one layer with the matrices of golden_muon.py.
static layout_run train_muon(const char *const *sets, int n_sets, int ranks) {
    layout_run r = {.ranks = ranks,
            .n_sets = 11,
            .sets = {"optimizer.type=muon", "model.vocab_size=64", "model.hidden_size=32",
                    "model.intermediate_size=80", "model.num_hidden_layers=1",
                    "model.num_attention_heads=4", "model.num_key_value_heads=2",
                    "data.sequence_length=32", "training.global_batch_size=4",
                    "training.micro_batch_size=1", "parallel.overlap=false"}};
    for (int i = 0; i < n_sets; i++)
        r.sets[r.n_sets++] = sets[i];
    arena *a = arena_new("cfg");
    run_config cfg;
    OK(config_load(a, NULL, r.sets, r.n_sets, &cfg));
    r.n_weights = model_parameters(&cfg.model);
    r.weights = mem_zeroed(sizeof(float) * (size_t)r.n_weights);
    OK(comm_run_threads(ranks, 1, NULL, muon_rank, &r));
    arena_free(a);
    return r;
}

// --- torch.optim.Muon
static const float *weight_of(arena *a, const layout_run *run, const char *name) {
    run_config cfg;
    OK(config_load(a, NULL, run->sets, run->n_sets, &cfg));
    const model_layout all = layout_of(&cfg.model);
    const param_list model = llama_params(a, &all, NULL);
    return run->weights + place_of(&model, name);
}

// The difference from the golden values of a tensor, relative to their norm.
static double difference(arena *a, const st_file *file, const char *name, const float *got) {
    const st_tensor *t = st_find(file, name);
    if (!t) fail_msg("no \"%s\" in the golden file", name);
    float *want = ARENA_ARRAY(a, float, t->elements);
    OK(st_read_f32(file, t, 0, t->elements, want));
    double squares = 0, all = 0;
    for (int64_t i = 0; i < t->elements; i++) {
        squares += pow((double)got[i] - (double)want[i], 2);
        all += pow((double)want[i], 2);
    }
    return sqrt(squares / all);
}

static void expect_golden(const char *optimizer, const char *type, const char *kind, double most) {
    arena *a = arena_new("golden");
    const char *sets[] = {arena_printf(a, "training.precision=%s", type),
            arena_printf(a, "optimizer.type=%s", optimizer)};
    layout_run run = train_muon(sets, 2, 1);
    st_file file;
    OK(st_open(a, golden_path(a, "muon.safetensors"), &file));
    for (int k = 0; k < N_MATRICES; k++) {
        const char *name = arena_printf(a, "model.layers.0.%s.weight", matrices[k]);
        const double is = difference(a, &file, arena_printf(a, "%s.%s", kind, name),
                weight_of(a, &run, name));
        if (!(is <= most))
            fail_msg("%s of %s differs by %.3g of its norm, expected at most %.3g", kind, name, is,
                    most);
    }
    st_close(&file);
    arena_free(a);
    free(run.weights);
}

TEST(twenty_steps_are_those_of_torch) {
    expect_golden("muon", "fp32", "f32", 2e-6); // measured: 5e-7
    // 4.4e-5: of 10,000 roundings a step a few fall otherwise.
    expect_golden("muon", "bf16", "bf16", 1e-4);
    expect_golden("normuon", "fp32", "normuon", 2e-6);
}

// --- ranks
#define MAX_KEYS 4
static const struct {
    int ranks;
    const char *sets[MAX_KEYS];
} layouts[] = {{2, {"parallel.zero=0"}}, {2, {"parallel.zero=1"}},
        {3, {"training.global_batch_size=6"}}, {2, {"parallel.tensor=2"}},
        {4, {"parallel.tensor=4"}}, {2, {"parallel.context=2"}},
        {4, {"parallel.tensor=2", "parallel.zero=1"}},
        {4, {"parallel.tensor=2", "parallel.context=2", "parallel.zero=0"}}};

TEST(ranks_have_the_bits_of_one) {
    static const char *const types[][2] = {{"training.precision=fp32", "optimizer.type=normuon"},
            {"training.precision=bf16", "optimizer.type=muon"}};
    for (int k = 0; k < 2; k++) {
        layout_run one = train_muon(types[k], 2, 1);
        for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
            const char *sets[MAX_KEYS + 2] = {types[k][0], types[k][1]};
            int n = 2;
            for (int key = 0; key < MAX_KEYS && layouts[i].sets[key]; key++)
                sets[n++] = layouts[i].sets[key];
            layout_run several = train_muon(sets, n, layouts[i].ranks);
            for (int64_t j = 0; j < one.n_weights; j++)
                if (several.weights[j] != one.weights[j])
                    fail_msg("%d ranks, %s: weight %lld is %.9g, not %.9g", several.ranks,
                            layouts[i].sets[0], (long long)j, (double)several.weights[j],
                            (double)one.weights[j]);
            free(several.weights);
        }
        free(one.weights);
    }
}

// Biases and norms of heads are AdamW's, on ranks as on one, where sums of gradients travel beside
// the backward pass, or in shards after each micro-batch.
TEST(other_families_have_the_bits_of_one) {
    static const char *const families[] = {"model.qkv_bias=true", "model.qk_norm=true"};
    for (int k = 0; k < 2; k++) {
        const char *sets[] = {"optimizer.type=normuon", families[k],
                "parallel.accumulation_groups=2", "parallel.partial_sum_rows=1",
                "parallel.tensor=2", "parallel.zero=2"};
        layout_run one = train_layout(1, sets, 4), four = train_layout(4, sets, 5),
                   shards = train_layout(4, sets, 6);
        expect_same_bits(&four, &one);
        expect_same_bits(&shards, &one);
        free(one.weights), free(four.weights), free(shards.weights);
    }
}

// What is sent is what was planned, and the state of a matrix is one moment beside its master.
TEST(traffic_and_state_are_as_planned) {
    const char *sets[] = {"optimizer.type=muon", "parallel.tensor=2", "training.precision=bf16"};
    layout_run run = train_layout(4, sets, 3), one = train_layout(1, sets, 1);
    const char *adamw[] = {"optimizer.type=adamw"};
    layout_run other = train_layout(1, adamw, 1);
    for (int axis = AXIS_DATA; axis < N_AXES; axis++)
        if (fabs((double)run.sent[axis] - run.planned[axis]) > 1e-9 * run.planned[axis] + 0.5)
            fail_msg("%s ranks sent %lld bytes, planned %.17g", mesh_axis_name((mesh_axis)axis),
                    (long long)run.sent[axis], run.planned[axis]);
    run_config cfg;
    OK(config_load(a, NULL, one.sets, one.n_sets, &cfg));
    int64_t n_elements =
            model_parameters(&cfg.model) - cfg.model.vocab_size * cfg.model.hidden_size;
    n_elements -= (2 * cfg.model.num_hidden_layers + 1) * cfg.model.hidden_size; // norms
    assert_int_equal(other.optimizer_bytes - one.optimizer_bytes, 4 * n_elements);
    free(run.weights), free(one.weights), free(other.weights);
}
