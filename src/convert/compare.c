// Compares the logits of two models piece by piece of the vocabulary, with running maxima, so that
// memory does not grow with the vocabulary.
#include "convert/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "convert/weights.h"

// --- bounds
// If a matrix is rounded with relative errors of at most u, evenly distributed, the error of its
// products is u / sqrt(3) of their root mean square. The errors of two blocks in each of L layers
// and of the head are independent: u sqrt((2 L + 1) / 3) of the logits' spread, times a factor from
// norms and softmax. For correct conversions to bf16 and f16 that factor was 1.1 to 2.4 with 2
// layers and 1.4 with 30 (docs/proof.md); for a wrong rotation or a lost matrix 30 and more. The
// largest of ten million differences was 6 to 10.5 times their root mean square.
#define GAIN               3.0
#define EXTREME            12.0
// Rounding took the same share of the decrease of the loss as of the effect on the logits, within 8
// points, from nine adapters that lost 0.5 to 90 %: bench/results/2026-11-30-merge-rounding.md.
#define MOST_ROUNDED_SHARE 0.25

static void set_bounds(comparison *c, const model *a, double u, double logit_rms) {
    if (strcmp(c->hash_a, c->hash_b) == 0 && !a->adapter) return;
    c->bound_rms = GAIN * u * sqrt((2.0 * (double)a->config.num_hidden_layers + 1) / 3);
    c->bound_max_abs = EXTREME * c->bound_rms * logit_rms;
}

// --- statistics
// The statistics of one token over the pieces of the vocabulary compared so far.
typedef struct token_stat {
    double max_a, max_b; // of the logits
    double sum_a, sum_b; // of exp(logit - max)
    double cross;        // of exp(a - max_a) (a - b)
    double total, squares, difference_squares;
    int64_t top_a, top_b;
    double a_of_top_b; // A's logit of B's likeliest token
} token_stat;

static void add_logits(token_stat *stat, const float *logits_a, const float *logits_b,
        int64_t n_logits, int64_t first, double *max_abs) {
    for (int64_t i = 0; i < n_logits; i++) {
        const double of_a = (double)logits_a[i], of_b = (double)logits_b[i];
        if (of_a > stat->max_a) {
            const double shrink = exp(stat->max_a - of_a);
            stat->sum_a *= shrink;
            stat->cross *= shrink;
            stat->max_a = of_a;
            stat->top_a = first + i;
        }
        if (of_b > stat->max_b) {
            stat->sum_b *= exp(stat->max_b - of_b);
            stat->max_b = of_b;
            stat->top_b = first + i;
            stat->a_of_top_b = of_a;
        }
        const double weight = exp(of_a - stat->max_a);
        stat->sum_a += weight;
        stat->cross += weight * (of_a - of_b);
        stat->sum_b += exp(of_b - stat->max_b);
        stat->total += of_a;
        stat->squares += of_a * of_a;
        stat->difference_squares += (of_a - of_b) * (of_a - of_b);
        if (fabs(of_a - of_b) > *max_abs) *max_abs = fabs(of_a - of_b);
    }
}

// KL(A || B) = sum p_A (a - b) - log Z_A + log Z_B
static double divergence(const token_stat *s) {
    if (s->difference_squares == 0) return 0;
    const double kl = s->cross / s->sum_a - (s->max_a + log(s->sum_a)) + s->max_b + log(s->sum_b);
    return kl > 0 ? kl : 0; // negative only by rounding
}

static double summarize(const token_stat *s, comparison *c) {
    double squares = 0, differences = 0;
    for (int64_t t = 0; t < c->tokens; t++) {
        const double mean = s[t].total / (double)c->vocab, kl = divergence(&s[t]);
        squares += s[t].squares / (double)c->vocab - mean * mean;
        differences += s[t].difference_squares / (double)c->vocab;
        c->kl += kl / (double)c->tokens;
        if (kl > c->kl_max) c->kl_max = kl;
        c->same_top += s[t].top_a == s[t].top_b;
        if (s[t].max_a - s[t].a_of_top_b > c->top_gap) c->top_gap = s[t].max_a - s[t].a_of_top_b;
    }
    c->rms = squares > 0 ? sqrt(differences / squares) : differences > 0 ? (double)INFINITY : 0;
    return sqrt(squares / (double)c->tokens);
}

// --- the two models
static drv_status compare_logits(replay *r, const model *const m[2], float *const hidden[2],
        token_stat *stats, comparison *c) {
    const int64_t most = replay_logit_rows(r);
    float *logits[2];
    for (int k = 0; k < 2; k++)
        logits[k] = mem_alloc(sizeof **logits * (size_t)(c->tokens * most));
    drv_status status = DRV_OK;
    for (int64_t row = 0; row < c->vocab && status == DRV_OK; row += most) {
        const int64_t n = c->vocab - row < most ? c->vocab - row : most;
        for (int k = 0; k < 2 && status == DRV_OK; k++)
            status = replay_logits(r, m[k], hidden[k], row, n, logits[k]);
        for (int64_t t = 0; t < c->tokens && status == DRV_OK; t++)
            add_logits(&stats[t], logits[0] + t * n, logits[1] + t * n, n, row, &c->max_abs);
        progress("comparing logits: %lld of %lld", (long long)(row + n), (long long)c->vocab);
    }
    progress_end();
    free(logits[0]);
    free(logits[1]);
    return status;
}

static drv_status replay_both(replay *r, const model *const m[2], comparison *c,
        double *logit_rms) {
    static const char *const names[] = {"A", "B"};
    float *hidden[2] = {NULL, NULL};
    token_stat *stats = mem_zeroed(sizeof *stats * (size_t)c->tokens);
    for (int64_t t = 0; t < c->tokens; t++)
        stats[t].max_a = stats[t].max_b = (double)-INFINITY;
    drv_status status = DRV_OK;
    for (int k = 0; k < 2 && status == DRV_OK; k++) {
        hidden[k] = mem_alloc(sizeof **hidden * (size_t)(c->tokens * m[k]->config.hidden_size));
        status = replay_hidden(r, m[k], names[k], hidden[k]);
    }
    if (status == DRV_OK) status = compare_logits(r, m, hidden, stats, c);
    *logit_rms = summarize(stats, c);
    free(stats);
    free(hidden[0]);
    free(hidden[1]);
    return status;
}

// --- the amplification of rounding in this model
// The rule above holds where errors of many weights average out and logits do not cancel; a narrow
// or an ill-conditioned model may amplify errors by any factor. Where the bound is exceeded, we
// measure this: to first order the logits change by J e, with J their derivative by the weights and
// e the errors of rounding, |e_i| <= u |w_i| + floor. A probe replays A with all errors at their
// maximum and random signs, so the expected square of the change that it measures is at least that
// of any rounding with uncorrelated errors: sum_i (J_i u w_i)^2 >= sum_i (J_i e_i)^2. The bound is
// the largest of the probes times GAIN, for a correct result that is less lucky than the probes, and
// for curvature. The largest single difference, which may be due to one token, is bounded likewise.
//
// If a residual stream has few columns it may come near zero, where its norm amplifies without
// bound. Then the largest of n probes grows with n, and about one rounding in n exceeds all of
// them. Such models are small, so they get further probes until one suffices or PROBED_WEIGHTS is
// reached.
enum { PROBES = 8, MOST_PROBES = 512 };
#define PROBED_WEIGHTS 1e8

static bool is_exceeded(const comparison *c) {
    return c->rms > c->bound_rms || c->max_abs > c->bound_max_abs;
}

static drv_status measure_bounds(replay *r, const model *a, disturbance size, double logit_rms,
        comparison *c) {
    const double most = PROBED_WEIGHTS / (double)model_parameters(&a->config);
    for (int i = 0; i < PROBES || (i < most && i < MOST_PROBES && is_exceeded(c)); i++) {
        model probed = *a;
        comparison probe = {.tokens = c->tokens, .vocab = c->vocab};
        double ignored;
        probed.disturbed = size;
        probed.disturbed.seed = (uint64_t)i + 1;
        DRV_TRY(replay_both(r, (const model *const[]){a, &probed}, &probe, &ignored));
        c->bound_rms = fmax(c->bound_rms, GAIN * probe.rms);
        c->bound_max_abs = fmax(c->bound_max_abs,
                fmax(GAIN * probe.max_abs, EXTREME * c->bound_rms * logit_rms));
    }
    return DRV_OK;
}

static drv_status find_bounds(replay *r, const model *a, bool exact_a, double logit_rms,
        comparison *c) {
    const double u_a = exact_a ? 0 : weights_roundoff(c->type_a), u_b = weights_roundoff(c->type_b);
    // fp32 sums of up to K terms have errors too, which show once a bit differs, or because x A^T
    // B^T differs from (B A) x^T. Norm, rotation, softmax, gate and residual add some 16 roundings
    // between two products.
    const double fp32 = 0x1p-24 * (sqrt((double)a->config.intermediate_size) + sqrt(16)),
                 u = fp32 + (u_a > u_b ? u_a : u_b);
    set_bounds(c, a, u, logit_rms);
    if (!is_exceeded(c) || c->bound_rms == 0 || c->weight) return DRV_OK; // nothing more to find
    const double floor_a = exact_a ? 0 : weights_floor(c->type_a);
    const disturbance size = {u, weights_floor(c->type_b) + floor_a, 0};
    return measure_bounds(r, a, size, logit_rms, c);
}

static bool has_tokenizer(arena *a, const char *folder) {
    return file_exists(path_join(a, folder, "tokenizer.json"));
}

// Opens the tokenizer of a folder; NULL: there is none that drover reads. An adapter's own
// tokenizer comes first, as in a merge, since tokens may have been added to it.
static tokenizer *open_tokenizer(arena *a, const model *m) {
    tokenizer *t;
    const char *folder =
            m->adapter && has_tokenizer(a, m->adapter->path) ? m->adapter->path : m->path;
    if (!has_tokenizer(a, folder)) return NULL;
    if (tokenizer_open(a, folder, &t) == DRV_OK) return t;
    log_warn("%s; only prompts drawn from the vocabulary are replayed", drv_message());
    return NULL;
}

// *difference describes how both models' tokenizers differ; NULL: they do not, or one is missing.
static void make_prompts(arena *a, const model *model_a, const model *model_b, replay_prompts *out,
        const char **difference) {
    tokenizer *of_a = open_tokenizer(a, model_a), *of_b = open_tokenizer(a, model_b);
    *difference = of_a && of_b ? replay_tokenizer_difference(a, of_a, of_b) : NULL;
    replay_prompts_make(a, of_a ? of_a : of_b, &model_a->config, out);
    if (of_a) tokenizer_close(of_a);
    if (of_b) tokenizer_close(of_b);
}

// Returns a module that the replay never reaches, so that comparing would miss it; NULL: none.
static const char *left_out(const model *m) {
    for (int i = 0; m->adapter && i < m->adapter->n; i++) {
        bool found = false;
        for (int k = 0; k < m->n_tensors && !found; k++)
            found = strcmp(m->tensors[k].entry.name, m->adapter->modules[i].weight) == 0;
        if (!found) return m->adapter->modules[i].weight;
    }
    return NULL;
}

static drv_status compare_open(arena *mem, replay *r, const model *a, const model *b, bool exact_a,
        comparison *c) {
    double logit_rms = 0;
    DRV_TRY(model_hash(a, c->hash_a));
    DRV_TRY(model_hash(b, c->hash_b));
    if (strcmp(c->hash_a, c->hash_b) != 0)
        DRV_TRY(weights_difference(mem, a, b, exact_a, &c->weight));
    DRV_TRY(replay_both(r, (const model *const[]){a, b}, c, &logit_rms));
    if (a->adapter) {
        model alone = *a;
        comparison effect = {.tokens = c->tokens, .vocab = c->vocab};
        double ignored;
        alone.adapter = NULL;
        DRV_TRY(replay_both(r, (const model *const[]){a, &alone}, &effect, &ignored));
        c->effect = effect.rms;
    }
    return find_bounds(r, a, exact_a, logit_rms, c);
}

static void find_problem(arena *a, comparison *c) {
    if (!isfinite(c->rms) || !isfinite(c->max_abs))
        c->problem = "logits are not finite";
    else if (c->rms > c->bound_rms)
        c->problem = arena_printf(a,
                "logits differ by %.3g of their root mean square, and rounding to %s explains %.3g",
                c->rms, c->type_b, c->bound_rms);
    else if (c->effect > 0 && c->rms >= c->effect)
        c->problem = arena_printf(a,
                "the adapter changes logits by %.3g of their root mean square, but the result differs from base + adapter by %.3g, so that the change is lost; --dtype f32, or a finer --type, rounds less",
                c->effect, c->rms);
    else if (c->max_abs > c->bound_max_abs)
        c->problem = arena_printf(a, "a logit differs by %.3g, and rounding to %s explains %.3g",
                c->max_abs, c->type_b, c->bound_max_abs);
    if (c->weight)
        c->problem = c->problem ? arena_printf(a, "%s; %s", c->problem, c->weight) : c->weight;
}

bool compare_configs(arena *a, const model *model_a, const model *model_b, comparison *out) {
    model_config other = model_b->config;
    other.initializer_range = model_a->config.initializer_range; // for training; GGUF has none
    const char *difference = model_config_difference(a, &model_a->config, &other);
    *out = (comparison){.vocab = model_a->config.vocab_size,
            .type_a = model_main_tensor(model_a)->type_name,
            .type_b = model_main_tensor(model_b)->type_name};
    if (difference) out->problem = arena_printf(a, "they are different models: %s", difference);
    return !difference;
}

drv_status compare_models(arena *a, const model *model_a, const model *model_b, bool exact_a,
        comparison *out) {
    replay_prompts prompts;
    replay *self;
    if (!compare_configs(a, model_a, model_b, out)) return DRV_OK;
    const char *difference = left_out(model_a);
    if (difference) {
        out->problem = arena_printf(a, "the adapter changes %s, which is not a weight of the model",
                difference);
        return DRV_OK;
    }
    make_prompts(a, model_a, model_b, &prompts, &difference);
    out->tokens = prompts.n;
    DRV_TRY(replay_open(a, &model_a->config, &prompts, &self));
    drv_status status = compare_open(a, self, model_a, model_b, exact_a, out);
    replay_close(self);
    if (status == DRV_OK) find_problem(a, out);
    if (difference && !out->problem)
        out->problem = arena_printf(a, "their tokenizers differ: %s", difference);
    if (!out->problem && out->rms > MOST_ROUNDED_SHARE * out->effect && out->effect > 0)
        log_warn("rounding to %s takes %.0f %% of the adapter's effect; --dtype f32, or a finer --type, rounds less",
                out->type_b, 100 * out->rms / out->effect);
    return status;
}

json_t *comparison_json(const comparison *c, const char *a, const char *b) {
    const bool same = c->hash_a[0] && strcmp(c->hash_a, c->hash_b) == 0;
    const struct {
        const char *name;
        double value;
    } numbers[] = {{"max_abs_logit_difference", c->max_abs}, {"bound_max_abs", c->bound_max_abs},
            {"relative_rms_difference", c->rms}, {"bound_relative_rms", c->bound_rms},
            {"kl", c->kl}, {"kl_max", c->kl_max}};
    json_t *o = json_pack("{s:o, s:o, s:s, s:s, s:s, s:s, s:b, s:I, s:I}", "a", json_of_text(a),
            "b", json_of_text(b), "hash_a", c->hash_a, "hash_b", c->hash_b, "dtype_a", c->type_a,
            "dtype_b", c->type_b, "same_weights", same, "tokens", (json_int_t)c->tokens,
            "vocab_size", (json_int_t)c->vocab);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        json_object_set_new(o, numbers[i].name, json_of_f64(numbers[i].value));
    json_object_set_new(o, "same_argmax", json_integer(c->same_top));
    if (c->effect > 0) json_object_set_new(o, "adapter_effect", json_of_f64(c->effect));
    json_object_set_new(o, "good", json_boolean(!c->problem));
    json_object_set_new(o, "problem", json_of_text(c->problem));
    return o;
}
