// Steps of a small model on ranks that are threads, each with its programs and its back end, as a
// process of a run has them; what tests of layouts compare.
#pragma once
#include <math.h>
#include "ranks.h"

#include <pthread.h>
#include <string.h>

#include "ir/pair_word.h"
#include "ckpt/pieces.h"
#include "programs/step.h"
#include "weights/lora_state.h"
#include "setup/run_layout.h"
#include "weights/state.h"

// Two steps: the second has weights that were updated, and updates moments that are not zero.
enum { STEPS = 2, MAX_SETS = 32 };

typedef struct layout_run { // what a run of STEPS steps came to
    const char *sets[MAX_SETS];
    int n_sets, ranks;
    double loss[STEPS], grad_norm[STEPS], param_norm[STEPS];
    int64_t optimizer_bytes, gradient_bytes, weight_bytes; // of rank 0
    // Bytes along the data, tensor and context axes: of all ranks together, and as planned for
    // them; of a rank and step, as planned.
    int64_t sent[N_AXES];
    double planned[N_AXES], wire[N_AXES];
    // What is trained, of the whole model; of low-rank branches first moments behind it, which are
    // sums of gradients. Free it.
    float *weights;
    int64_t n_weights;
} layout_run;

// Where a run learns from pairs, the halves of each row are the responses of one, to what the row
// begins with.
static inline void make_pairs(arena *a, batch *made) {
    enum { PROMPT = 9 };
    const int64_t half = made->row_tokens / 2 + 1;
    bool head = false;
    batch_add_pairs(a, made);
    for (int64_t i = 0; i < made->rows * made->row_tokens; i++) {
        const int64_t in_row = i % made->row_tokens;
        const bool rejected = in_row >= half;
        head |= in_row == 0 || in_row == half;
        made->pair[i] = PAIR_NONE;
        if (rejected) {
            made->position[i] = (int32_t)(PROMPT + in_row - half);
            made->hidden[2 * i] = PROMPT;
            made->hidden[2 * i + 1] = (int32_t)half;
        }
        if (in_row < PROMPT) made->labels[i] = -1;
        if (made->labels[i] < 0) continue;
        made->pair[i] = pair_word(0, rejected, head);
        const double reference = -100 + noise(17, (uint64_t)i);
        if (head) memcpy(made->reference + 2 * i, &reference, sizeof reference);
        head = false;
    }
    made->pairs = made->rows;
}

// Rows of random tokens with two documents each, and some labels that do not count.
static inline batch make_batch(arena *a, const run_config *cfg, int step) {
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
    if (cfg->objective == OBJECTIVE_DPO) make_pairs(a, &b);
    b.filled = b.rows;
    b.rows_before = step * cfg->global_batch_size;
    return b;
}

// Initial weights by noise (CMakeLists.txt): normal numbers took a sixth of what these tests
// compute. The test of layouts draws them.
void __wrap_rng_normal_fill(const rng_key *k, uint64_t first, int64_t n, double sigma, float *out);
void __wrap_rng_normal_fill(const rng_key *k, uint64_t first, int64_t n, double sigma, float *out) {
    const double range = sqrt(3) * sigma; // of uniform numbers, so that sigma is theirs
    for (int64_t i = 0; i < n; i++)
        out[i] = (float)(range * noise(k->seed ^ k->step, first + (uint64_t)i));
}

// What this rank has of them.
static inline batch share_of_batch(arena *a, const run_config *cfg, const batch *whole) {
    const run_layout layout = run_layout_of(cfg);
    const int64_t micro = cfg->micro_batch_size;
    batch mine = batch_of_run(a, cfg, whole->rows / cfg->data_ranks);
    mine.first_micro = layout.first_micro;
    mine.every_micro = layout.every_micro;
    for (; mine.filled < mine.rows; mine.filled++) {
        const int64_t row = batch_index(&mine, mine.filled / micro) * micro + mine.filled % micro,
                      at = row * whole->row_tokens;
        const row_out one = {.tokens = whole->tokens + at,
                .position = whole->position + at,
                .labels = whole->labels + at,
                .pair = whole->pair ? whole->pair + at : NULL,
                .reference = whole->reference ? whole->reference + 2 * at : NULL,
                .hidden = whole->hidden ? whole->hidden + 2 * at : NULL};
        batch_put_row(&mine, &one);
    }
    mine.counted = whole->counted; // of all ranks, as a run finds it
    mine.pairs = whole->pairs;
    return mine;
}

static inline bool is_first_copy(const mesh *m, int rank, unsigned replicated) {
    for (int axis = 0; axis < N_AXES; axis++)
        if (replicated >> axis & 1 && mesh_place(m, rank, (mesh_axis)axis) > 0) return false;
    return true;
}

// Where a trained parameter begins in the whole model.
static inline int64_t place_of(const param_list *model, const char *hf_name) {
    int64_t at = 0;
    for (int i = 0; i < model->n; i++)
        for (int k = 0; k < model->p[i].n_parts && model->p[i].trainable; k++) {
            if (strcmp(model->p[i].part[k].hf_name, hf_name) == 0) return at;
            at += model->p[i].part[k].all_rows * model->p[i].all_columns;
        }
    fail_msg("no parameter %s", hf_name);
    return 0;
}

// This rank's pieces of tensors, at their places in the whole model: parameters one after the
// other, by their names after `prefix`. What several ranks hold alike, one writes.
static inline drv_status put_tensors(comm *self, arena *a, const programs *p, const mesh *ranks,
        const ckpt_tensor *list, int n_tensors, const char *prefix, float *whole) {
    const model_layout all = layout_of(p->held.params.layout.model);
    const param_list model = llama_params(a, &all, &p->held.lora);
    for (int i = 0; i < n_tensors; i++) {
        const int64_t columns = tensor_columns(&list[i].entry);
        const char *name = list[i].entry.name;
        if (strncmp(name, prefix, strlen(prefix)) != 0) continue;
        float *begin = whole + place_of(&model, name + strlen(prefix));
        for (int k = 0; k < list[i].n_pieces; k++) {
            const ckpt_piece *piece = &list[i].piece[k];
            const int64_t elements = piece_elements(piece);
            if (!is_first_copy(ranks, comm_rank(self), piece->replicated)) continue;
            float *values = ARENA_ARRAY(a, float, elements);
            DRV_TRY(state_read_f32((void *)(uintptr_t)&p->held, piece->source, piece->first,
                    elements, values));
            for (int64_t e = 0, run; e < elements; e += run) {
                const int64_t place = piece_index(piece, columns, e, &run);
                if (run > elements - e) run = elements - e;
                memcpy(begin + place, values + e, sizeof *whole * (size_t)run);
            }
        }
    }
    return DRV_OK;
}

static inline drv_status put_weights(comm *self, arena *a, const programs *p, const mesh *ranks,
        layout_run *run) {
    const bool branches = p->held.lora.n > 0;
    int n;
    const ckpt_tensor *list =
            branches ? state_adapter(a, &p->held, false, &n) : state_model(a, &p->held, false, &n);
    DRV_TRY(put_tensors(self, a, p, ranks, list, n, "", run->weights));
    if (!branches) return DRV_OK;
    list = state_optimizer(a, &p->held, &n);
    return put_tensors(self, a, p, ranks, list, n, "exp_avg.",
            run->weights + held_trained(&p->held));
}

// B of low-rank branches, which begin at zero: so that A has gradients from the first step on.
static inline drv_status fill_branches(arena *a, programs *p) {
    int n = 0;
    const ckpt_tensor *list = p->held.lora.n ? state_adapter(a, &p->held, true, &n) : NULL;
    const ckpt_sink sink = state_weight_sink(&p->held);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < list[i].n_pieces && strstr(list[i].entry.name, "lora_B"); k++) {
            const ckpt_piece *piece = &list[i].piece[k];
            for (int64_t e = 0, run; e < piece_elements(piece); e++) {
                const int64_t at = piece_index(piece, tensor_columns(&list[i].entry), e, &run);
                const float value = (float)noise((uint64_t)i + 9, (uint64_t)at) / 8;
                DRV_TRY(sink.write(sink.ctx, &list[i], piece, e, 1, &value));
            }
        }
    return DRV_OK;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // of a layout_run, which ranks share

static inline int64_t sent_along(comm *c, const mesh *m, mesh_axis axis) {
    if (axis == AXIS_DATA && m->groups)
        return comm_sent(comm_update_ranks(c, m)) + comm_sent(comm_owners(c, m)) +
               comm_sent(comm_weight_group(c, m)) + comm_sent(comm_same_shards(c, m));
    if (axis == AXIS_DATA && m->size[AXIS_CONTEXT] > 1) return comm_sent(comm_update_ranks(c, m));
    return comm_sent(comm_axes(c, m, 1u << axis));
}

// What a rank trains with: its programs, with initial weights, on a back end that the caller closes.
typedef struct rank_run {
    run_config cfg;
    mesh ranks;
    backend *device;
    programs built;
} rank_run;

static inline drv_status rank_run_open(comm *self, arena *a, const char *const *sets, int n_sets,
        const char *name, const backend_opts *opts, rank_run *out) {
    DRV_TRY(config_load(a, NULL, sets, n_sets, &out->cfg));
    DRV_TRY(config_set_ranks(&out->cfg, comm_size(self)));
    out->cfg.rank = comm_rank(self);
    out->ranks = run_mesh(&out->cfg);
    DRV_TRY(backend_open(a, name, opts ? opts : &(backend_opts){0}, &out->device));
    backend_join(out->device, self, &out->ranks);
    DRV_TRY(programs_build(a, &out->cfg, &out->built));
    out->built.held.comm = self;
    DRV_TRY(programs_load(a, out->device, &out->built));
    DRV_TRY(programs_check_held(&out->built));
    return held_init_weights(&out->built.held);
}

// Another base than initial weights, before the first step of every rank. NULL: none.
static drv_status (*before_steps)(comm *self, arena *a, const layout_run *run, programs *p);

static inline drv_status one_rank(comm *self, arena *a, layout_run *run) {
    rank_run mine;
    DRV_TRY(rank_run_open(self, a, run->sets, run->n_sets, "cpu", NULL, &mine));
    if (before_steps) DRV_TRY(before_steps(self, a, run, &mine.built));
    DRV_TRY(fill_branches(a, &mine.built));
    stepper steps = stepper_new(a, &mine.built, self, &mine.ranks);
    for (int step = 0; step < STEPS; step++) {
        const double hyper[N_HYPER] = {1e-3, 1 - pow(0.9, step + 1), 1 - pow(0.95, step + 1), 1, 1};
        const batch whole = make_batch(a, &mine.cfg, step),
                    global = share_of_batch(a, &mine.cfg, &whole);
        double loss, grad_norm, param_norm;
        steps.step = step + 1;
        DRV_TRY(stepper_gradients(&steps, &global, &loss));
        DRV_TRY(stepper_update(&steps, hyper, &grad_norm, &param_norm));
        if (comm_rank(self) != 0) continue;
        run->loss[step] = loss;
        run->grad_norm[step] = grad_norm;
        run->param_norm[step] = param_norm;
    }
    if (comm_rank(self) == 0) {
        run->optimizer_bytes = programs_memory(&mine.built).optimizer;
        run->gradient_bytes = programs_memory(&mine.built).gradients;
        run->weight_bytes = programs_memory(&mine.built).weights;
        programs_wire(&mine.built, run->wire);
    }
    DRV_TRY(put_weights(self, a, &mine.built, &mine.ranks, run));
    backend_close(mine.device); // all that was under way has been sent
    // Losses and figures of pairs, 8 bytes a partial sum and reduction block, are not planned.
    const int64_t places = (int64_t)mine.ranks.size[AXIS_DATA] * mine.ranks.size[AXIS_CONTEXT],
                  losses = STEPS * (places - 1) * steps.n_blocks * steps.n_losses * 8 *
                           steps.n_values;
    double wire[N_AXES];
    programs_wire(&mine.built, wire);
    pthread_mutex_lock(&lock);
    for (int axis = 0; axis < N_AXES; axis++)
        run->planned[axis] += STEPS * wire[axis];
    run->sent[AXIS_DATA] += sent_along(self, &mine.ranks, AXIS_DATA) - losses;
    run->sent[AXIS_TENSOR] += sent_along(self, &mine.ranks, AXIS_TENSOR);
    run->sent[AXIS_CONTEXT] += sent_along(self, &mine.ranks, AXIS_CONTEXT);
    pthread_mutex_unlock(&lock);
    return DRV_OK;
}

static inline drv_status run_rank(comm *c, void *ctx) {
    arena *a = arena_new("layout");
    const drv_status status = one_rank(c, a, ctx);
    arena_free(a);
    return status;
}

static inline layout_run train_layout(int ranks, const char *const *sets, int n_sets) {
    layout_run r = {.ranks = ranks,
            .n_sets = 6,
            .sets = {"model.preset=tiny", "model.num_hidden_layers=4", "data.sequence_length=40",
                    "training.global_batch_size=8", "training.micro_batch_size=1",
                    "optimizer.clip_grad_norm=0.5"}};
    for (int i = 0; i < n_sets; i++)
        r.sets[r.n_sets++] = sets[i];
    arena *a = arena_new("cfg");
    run_config cfg;
    OK(config_load(a, NULL, r.sets, r.n_sets, &cfg));
    lora_set branches;
    OK(lora_of_run(a, &cfg, &branches));
    r.n_weights =
            branches.n ? 2 * lora_parameters(&branches, &cfg.model) : model_parameters(&cfg.model);
    r.weights = mem_zeroed(sizeof(float) * (size_t)r.n_weights);
    arena_free(a);
    OK(comm_run_threads(ranks, 1, NULL, run_rank, &r));
    return r;
}

static inline void expect_same_bits(const layout_run *got, const layout_run *want) {
    for (int step = 0; step < STEPS; step++)
        if (got->loss[step] != want->loss[step] || got->grad_norm[step] != want->grad_norm[step] ||
                got->param_norm[step] != want->param_norm[step])
            fail_msg("%d ranks, step %d: loss %.17g, norms %.17g %.17g; %d: %.17g, %.17g %.17g",
                    got->ranks, step, got->loss[step], got->grad_norm[step], got->param_norm[step],
                    want->ranks, want->loss[step], want->grad_norm[step], want->param_norm[step]);
    assert_int_equal(got->n_weights, want->n_weights);
    assert_memory_equal(got->weights, want->weights, sizeof(float) * (size_t)want->n_weights);
}

// Losses within `bound` of each other, norms of gradients within twenty of it.
static inline void expect_close_numbers(const layout_run *got, const layout_run *want,
        double bound) {
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
}

// `tiny` with two keys is refused with these words.
static inline void expect_refused(const char *key1, const char *key2, const char *text) {
    arena *a = arena_new("cfg");
    run_config cfg;
    const char *sets[] = {"model.preset=tiny", key1, key2};
    FAILS(config_load(a, NULL, sets, 3, &cfg), DRV_E_USAGE, text);
    arena_free(a);
}
