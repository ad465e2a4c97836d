// The memory of a rank is the sum of the memory of its layers, of the embedding and the output
// layer if it has them, and of its largest arena. These amounts are interpolated between plans of
// small models: without a pipeline, models of two and of three layers; with one, the first, the
// last and a middle rank of a pipeline of three. Each is planned with micro-batches of three sizes,
// on one context rank and on two.
#include "search/layout_bytes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/shard.h"
#include "model/layout.h"
#include "programs/batch_feed.h"
#include "programs/fit.h"
#include "programs/programs.h"
#include "search/step_work.h"

enum { ALONE_FEW = 2, ALONE_MORE = 3, STAGE_LAYERS = 2 }; // layers of the small models
enum { N_ROWS = 3, N_CONTEXTS = 2, N_MODES = RECOMPUTE_FULL + 1 };
static const int sampled_rows[N_ROWS] = {1, 2, 8};
typedef enum sample_kind { ALONE, STAGES, SPLIT_STAGES, N_KINDS } sample_kind; // split: ZB-H1

// All in bytes, of one data rank that shares nothing.
typedef struct place_bytes {
    double weights, gradients, optimizer, messages;
    double beside, between;        // temporaries, of programs of micro-batches and of the update
    double others;                 // inputs and outputs; scratch of libraries
    double flight[PIPELINE_SPANS]; // of a micro-batch, in all
    double layer[PIPELINE_SPANS];  // of one of its layers that follows another
    double layers, largest;        // numbers: of layers; of elements of the largest weight
} place_bytes;
enum { N_BYTES = sizeof(place_bytes) / sizeof(double) };

typedef struct sample {
    enum { UNKNOWN, POSSIBLE, IMPOSSIBLE } state;
    place_bytes of[N_PIPELINE_PLACES]; // ALONE: of[STAGE_FIRST] with few layers, of[STAGE_MIDDLE]
                                       // with one more
} sample;

typedef struct tensor_samples {
    int64_t tensor;
    sample of[N_CONTEXTS][N_ROWS][N_MODES][2][N_KINDS]; // [2]: sequence
} tensor_samples;

// The number of micro-batches that the chunks of a rank hold at the moment when a certain kind of
// value takes most memory.
typedef struct rank_peak {
    double chunks[N_PIPELINE_PLACES][PIPELINE_SPANS], layers[PIPELINE_SPANS];
} rank_peak;
typedef enum peak_of { PEAK_LAYERS, PEAK_CHUNKS, PEAK_WEIGHTS, N_PEAKS } peak_of; // last: ZB-H1

typedef struct rank_chunks {
    int n[N_PIPELINE_PLACES], layers; // chunks by place
    rank_peak peak[N_PEAKS];
} rank_chunks;
enum { ENDS = 2 }; // ranks at each end of a pipeline, which are looked at

struct layout_bytes {
    const run_config *cfg;
    tensor_samples **list;
    int n, cap;
    layout_candidate last; // the one to which `ranks` belong
    int64_t last_micro_batches;
    rank_chunks ranks[2 * ENDS + 1];
    int n_ranks;
};

layout_bytes *layout_bytes_new(const run_config *cfg) {
    layout_bytes *all = mem_zeroed(sizeof *all);
    all->cfg = cfg;
    return all;
}

void layout_bytes_free(layout_bytes *all) {
    for (int i = 0; all && i < all->n; i++)
        free(all->list[i]);
    if (all) free(all->list);
    free(all);
}

// --- samples
typedef struct sample_key {
    int64_t tensor;
    int context, rows; // indices
    recompute_mode recompute;
    bool sequence;
    sample_kind kind;
} sample_key;

static double largest_weight(const param_list *params) {
    double most = 0;
    for (int i = 0; i < params->n; i++)
        if (params->p[i].trainable) most = fmax(most, (double)param_elements(&params->p[i]));
    return most;
}

static place_bytes take(const programs *p) {
    const memory_plan memory = programs_memory(p);
    int64_t most[2] = {0}; // arenas of programs of micro-batches; between steps
    for (int i = 0; i < p->held.n_all; i++) {
        int64_t *one = &most[p->held.all[i].graph->between_steps];
        const plan *made = p->held.all[i].plan;
        if (made->arena_bytes - made->host_bytes > *one)
            *one = made->arena_bytes - made->host_bytes;
    }
    place_bytes out = {.weights = (double)memory.weights,
            .gradients = (double)memory.gradients,
            .optimizer = (double)memory.optimizer,
            .messages = (double)memory.messages,
            .beside = (double)most[0],
            .between = (double)most[1],
            .others = (double)(memory.data - memory.batches + memory.masks + memory.workspace +
                               memory.products),
            .layers = (double)p->held.params.layout.chunk[0].n,
            .largest = largest_weight(&p->held.params)};
    for (int i = 0; i < p->pool.n_spans; i++)
        out.flight[i % PIPELINE_SPANS] += (double)p->pool.span_bytes[i];
    const int last = (int)p->held.params.layout.chunk[0].n * PIPELINE_SPANS;
    for (int i = 0; p->pool.n_spans && i < PIPELINE_SPANS; i++)
        out.layer[i] = (double)p->pool.span_bytes[last + i];
    return out;
}

static drv_status plan_sample(const run_config *cfg, const sample_key *key, stage_place which,
        place_bytes *out) {
    run_config one = *cfg;
    programs built;
    config_one_rank(&one);
    one.tensor_parallel = key->tensor;
    one.context_parallel = 1 + key->context;
    one.micro_batch_size = sampled_rows[key->rows];
    one.global_batch_size = 2 * one.micro_batch_size; // two in flight
    one.recompute = key->recompute;
    one.sequence_parallel = key->sequence;
    one.context_blocks = one.partial_sum_rows = one.accum_groups = 0;
    one.zero = one.given_zero = one.zero_group = 0;
    one.model.num_hidden_layers = which == STAGE_FIRST ? ALONE_FEW : ALONE_MORE;
    if (key->kind != ALONE) {
        one.model.num_hidden_layers = STAGE_LAYERS * N_PIPELINE_PLACES;
        one.pipeline_parallel = N_PIPELINE_PLACES;
        one.pipeline_schedule = key->kind == SPLIT_STAGES ? SCHEDULE_ZB_H1 : SCHEDULE_GPIPE;
    }
    DRV_TRY(config_set_ranks(&one,
            one.tensor_parallel * one.context_parallel * one.pipeline_parallel));
    const mesh ranks = run_mesh(&one);
    if (key->kind != ALONE) one.rank = (int)which * mesh_stride(&ranks, AXIS_PIPELINE);
    arena *a = arena_new("a small model");
    const drv_status status = programs_plan_outline(a, &one, &built);
    if (status == DRV_OK) *out = take(&built);
    arena_free(a);
    return status;
}

static tensor_samples *samples_of(layout_bytes *all, int64_t ranks) {
    for (int i = 0; i < all->n; i++)
        if (all->list[i]->tensor == ranks) return all->list[i];
    tensor_samples *made = mem_zeroed(sizeof *made);
    made->tensor = ranks;
    MEM_GROW(all->list, all->n, all->cap);
    return all->list[all->n++] = made;
}

static const sample *get(layout_bytes *all, const sample_key *key) {
    sample *s = &samples_of(all, key->tensor)
                         ->of[key->context][key->rows][key->recompute][key->sequence][key->kind];
    const int n = key->kind == ALONE ? STAGE_LAST : N_PIPELINE_PLACES;
    if (s->state == UNKNOWN)
        s->state = POSSIBLE;
    else
        return s->state == POSSIBLE ? s : NULL;
    for (int place = 0; place < n && s->state == POSSIBLE; place++)
        if (plan_sample(all->cfg, key, (stage_place)place, &s->of[place]) != DRV_OK)
            s->state = IMPOSSIBLE;
    return s->state == POSSIBLE ? s : NULL;
}

// Sets *out to x + times (y - x).
static void extend(const place_bytes *x, const place_bytes *y, double times, place_bytes *out) {
    double a[N_BYTES], b[N_BYTES];
    memcpy(a, x, sizeof a);
    memcpy(b, y, sizeof b);
    for (int i = 0; i < N_BYTES; i++)
        a[i] += times * (b[i] - a[i]);
    memcpy(out, a, sizeof a);
}

// Interpolates the bytes of a micro-batch of any size between those of two that are planned.
static bool interpolate(layout_bytes *all, const layout_candidate *layout, sample_key key,
        sample *out) {
    const double like = (double)layout->micro_batch * (1 + key.context) / (double)layout->context;
    key.rows = like <= sampled_rows[1] ? 0 : 1;
    const sample *few = get(all, &key);
    if (!few && key.rows == 0) key.rows = 1, few = get(all, &key);
    if (!few) return false;
    const int first = sampled_rows[key.rows], second = sampled_rows[key.rows + 1];
    *out = *few;
    if (like == first) return true;
    key.rows++;
    const sample *more = get(all, &key);
    for (int place = 0; more && place < N_PIPELINE_PLACES; place++)
        extend(&few->of[place], &more->of[place], (like - first) / (second - first),
                &out->of[place]);
    return more != NULL;
}

// --- the chunks of a pipeline
static void find_peak(const pipeline_schedule *table, int rank, int64_t micro_batches,
        const int *layers, peak_of most, rank_peak *out) {
    const int p = table->shape.ranks, v = table->shape.chunks;
    arena *a = arena_new("a peak");
    int *weight = ARENA_ARRAY(a, int, v *PIPELINE_SPANS),
        *count = ARENA_ARRAY(a, int, v *PIPELINE_SPANS);
    for (int i = 0; i < v * PIPELINE_SPANS; i++) {
        const bool counts = most != PEAK_WEIGHTS || i % PIPELINE_SPANS == pipeline_span(1, 2);
        weight[i] = !counts ? 0 : most == PEAK_CHUNKS ? 1 : layers[i / PIPELINE_SPANS * p + rank];
    }
    pipeline_count_alive(table, rank, weight, count);
    for (int i = 0; i < v * PIPELINE_SPANS; i++) {
        const int stage = i / PIPELINE_SPANS * p + rank, span = i % PIPELINE_SPANS;
        if (table->shape.kind == PIPELINE_GPIPE && span == pipeline_span(0, 1))
            count[i] = (int)micro_batches;
        out->chunks[stage_place_of(stage, p * v)][span] += count[i];
        out->layers[span] += (double)count[i] * layers[stage];
    }
    arena_free(a);
}

// Builds the table of one rank, shortened as searches do. (GPipe has all in flight: find_peak
// counts them.)
static rank_chunks chunks_of(const run_config *cfg, const layout_candidate *layout,
        const pipeline_shape *whole, int rank) {
    const int n_stages = (int)(layout->virtual_stages * layout->pipeline),
              micro_batches = whole->micro_batches;
    arena *a = arena_new("a table");
    int *layers = ARENA_ARRAY(a, int, n_stages);
    pipeline_shape shape = pipeline_shortened(whole, PIPELINE_SHORT);
    if (shape.kind == PIPELINE_GPIPE && shape.micro_batches > shape.ranks)
        shape.micro_batches = shape.ranks;
    pipeline_schedule table;
    rank_chunks out = {.layers = 0};
    const drv_status built = pipeline_build_rank(a, &shape, rank, &table);
    DRV_ASSERT(built == DRV_OK, "a group that was found is refused: %s", drv_message());
    layout_share_layers(&cfg->model, n_stages, layers);
    for (int stage = rank; stage < n_stages; stage += (int)layout->pipeline) {
        out.n[stage_place_of(stage, n_stages)]++;
        out.layers += layers[stage];
    }
    const int n_peaks = layout->schedule == SCHEDULE_ZB_H1 ? N_PEAKS : PEAK_WEIGHTS;
    for (int i = 0; i < n_peaks; i++)
        find_peak(&table, rank, micro_batches, layers, (peak_of)i, &out.peak[i]);
    arena_free(a);
    return out;
}

// Finds what the ranks at the ends of a pipeline hold, and the first one with more layers than the
// rank before it. Consecutive candidates often have the same schedule, for which it is known.
static void find_ranks(layout_bytes *all, const run_config *with, const layout_candidate *layout) {
    const int64_t micro_batches = with->global_batch_size / layout->data / layout->micro_batch;
    if (all->last.schedule == layout->schedule && all->last.pipeline == layout->pipeline &&
            all->last.virtual_stages == layout->virtual_stages &&
            all->last_micro_batches == micro_batches)
        return;
    all->last = *layout;
    all->last_micro_batches = micro_batches;
    all->n_ranks = 0;
    pipeline_shape shape;
    if (layout_shape(layout, micro_batches, &shape) != DRV_OK) return;
    int *layers = mem_alloc(sizeof *layers * (size_t)(shape.ranks * shape.chunks));
    layout_share_layers(&with->model, shape.ranks * shape.chunks, layers);
    for (int rank = 0; rank < shape.ranks; rank++)
        if (rank < ENDS || rank >= shape.ranks - ENDS ||
                layout_has_more_layers(layers, shape.ranks, shape.chunks, rank))
            all->ranks[all->n_ranks++] = chunks_of(with, layout, &shape, rank);
    free(layers);
}

// --- layouts
// Returns the bytes of weights. With ZeRO-3 these are a share of all weights, and two gathered
// units, each a layer or a table.
static double weight_bytes(const run_config *with, const layout_candidate *layout,
        const place_bytes *whole) {
    const model_config *m = &with->model;
    const double each = with->precision != PRECISION_F32 ? 2 : 4,
                 table = (double)(m->vocab_size * m->hidden_size) / (double)layout->tensor,
                 tables = m->tie_word_embeddings ? 1 : 2,
                 layer = ((double)model_parameters(m) / (double)layout->tensor - tables * table) /
                         (double)m->num_hidden_layers;
    if (layout->zero < 3) return whole->weights;
    return whole->weights * (double)layout_groups(layout) /
                   (double)(layout->data * layout->context) +
           each * (layer + fmax(layer, table));
}

// Adds up the memory of a rank. Micro-batches in flight take `in_flight` bytes, which the update
// uses for its temporaries; with ZeRO these include the shards of all gradients.
static double sum_of(const run_config *with, const layout_candidate *layout,
        const place_bytes *whole, double in_flight) {
    const int64_t all = with->global_batch_size / layout->micro_batch,
                  shards = layout->data * layout->context, of_ranks = layout_groups(layout),
                  groups = with->accum_groups ? with->accum_groups : of_ranks,
                  shard = shard_length((int64_t)whole->largest, (int)shards);
    double sums = 1; // of each element of a gradient
    if (layout->zero >= 2)
        sums = (double)shard_most_open(all / of_ranks, layout->data / of_ranks, all / groups) *
               (double)of_ranks / (double)layout->data;
    else if (groups > layout->data) // accumulation groups that are put aside
        sums += ceil(log2((double)(groups / layout->data)));
    const double optimizer = whole->optimizer / (layout->zero ? (double)shards : 1),
                 between = whole->between + (layout->zero ? whole->gradients / (double)shards : 0),
                 bucket = layout->data > 1 && layout->context == 1
                                  ? (double)comm_bucket_bytes(DT_F32, shard, (int)shards)
                                  : 0;
    return weight_bytes(with, layout, whole) + whole->gradients * sums + optimizer +
           fmax(in_flight + whole->beside, between) + whole->messages + bucket + whole->others +
           (double)batch_reader_bytes(with);
}

// Returns the bytes of micro-batches in flight.
static double bytes_at(const sample *s, const rank_peak *peak) {
    double bytes = 0;
    for (int i = 0; i < PIPELINE_SPANS; i++) {
        bytes += peak->layers[i] * s->of[STAGE_MIDDLE].layer[i];
        for (int place = 0; place < N_PIPELINE_PLACES; place++)
            bytes += peak->chunks[place][i] *
                     (s->of[place].flight[i] - s->of[place].layers * s->of[STAGE_MIDDLE].layer[i]);
    }
    return bytes;
}

// Adds up the memory of the chunks of a rank. A stage in the middle of the model has only layers.
static double rank_bytes(const sample *small, const run_config *with,
        const layout_candidate *layout, const rank_chunks *rank) {
    const place_bytes *like = &small->of[STAGE_MIDDLE];
    place_bytes sum = {.weights = 0};
    double more = rank->layers, in_flight = 0; // layers beyond those of the small models
    for (int i = 0; i < N_PEAKS; i++)
        in_flight = fmax(in_flight, bytes_at(small, &rank->peak[i]));
    for (int place = 0; place < N_PIPELINE_PLACES; place++) {
        const place_bytes *of = &small->of[place];
        const int n = rank->n[place];
        if (n == 0) continue;
        more -= n * of->layers;
        sum.weights += n * of->weights;
        sum.gradients += n * of->gradients;
        sum.optimizer += n * of->optimizer;
        sum.others += n * of->others;
        sum.messages = fmax(sum.messages, of->messages);
        sum.beside = fmax(sum.beside, of->beside);
        sum.between = fmax(sum.between, of->between);
        sum.largest = fmax(sum.largest, of->largest);
    }
    sum.weights += more * like->weights / like->layers;
    sum.gradients += more * like->gradients / like->layers;
    sum.optimizer += more * like->optimizer / like->layers;
    return sum_of(with, layout, &sum, in_flight);
}

// Plans a layout of one rank and one micro-batch whole. On a device its gradients use memory that
// activations no longer need (programs_memory), so that its bytes are not a sum over layers.
static double made_once_bytes(const run_config *with, const layout_candidate *layout) {
    run_config one = *with;
    memory_plan planned;
    if (layout_candidate_apply(layout, 1, &one) != DRV_OK || fit_plan(&one, &planned) != DRV_OK)
        return 0;
    return (double)planned.total;
}

double layout_bytes_of(layout_bytes *all, const run_config *with, const layout_candidate *layout) {
    const bool pipeline = layout->pipeline > 1,
               split = pipeline && layout->schedule == SCHEDULE_ZB_H1;
    const sample_key key = {.tensor = layout->tensor,
            .context = layout->context > 1,
            .recompute = layout->recompute,
            .sequence = layout->sequence,
            .kind = split      ? SPLIT_STAGES
                    : pipeline ? STAGES
                               : ALONE};
    const int64_t ranks = layout->tensor * layout->pipeline * layout->context * layout->data;
    sample s;
    if (config_backend(with)->has_devices && ranks == 1 &&
            layout->micro_batch == with->global_batch_size)
        return made_once_bytes(with, layout);
    if (!interpolate(all, layout, key, &s)) return 0;
    if (!pipeline) {
        place_bytes whole;
        extend(&s.of[STAGE_FIRST], &s.of[STAGE_MIDDLE],
                (double)(with->model.num_hidden_layers - ALONE_FEW), &whole);
        return sum_of(with, layout, &whole, 0);
    }
    double most = 0;
    find_ranks(all, with, layout);
    for (int i = 0; i < all->n_ranks; i++)
        most = fmax(most, rank_bytes(&s, with, layout, &all->ranks[i]));
    return most;
}
