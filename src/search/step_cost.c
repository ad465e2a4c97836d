// Divides the work of a step by the rates of a device. tools/fit_devices.py compares the results
// with published runs, and fits the shares of the peaks to them.
#include "search/step_cost.h"

#include <math.h>

typedef struct times {
    double term[N_STEP_TERMS];
} times;

static double sum_of(const times *t) {
    double sum = 0;
    for (int i = 0; i < N_STEP_TERMS; i++)
        sum += t->term[i];
    return sum;
}

// The rates that a run reaches on a device: its peaks times the shares that are reached.
typedef struct rates {
    const device_profile *device;
    double products, head, attention, bytes;
    link_speeds links;
    mesh mesh;
    bool overlaps; // what data ranks send, with computing
} rates;

static rates rates_of(const run_config *cfg, const device_profile *d) {
    const run_layout layout = run_layout_of(cfg);
    const bool fp8 = cfg->precision == PRECISION_F8;
    return (rates){.device = d,
            .products = fp8 ? d->fp8_flops * d->reached_fp8 : d->bf16_flops * d->reached_products,
            .head = d->bf16_flops * d->reached_products,
            .attention = d->bf16_flops * d->reached_attention,
            .bytes = d->bytes_per_s * d->reached_memory,
            .links = {.inside = d->links.inside * d->reached_inside,
                    .between = d->links.between * d->reached_between,
                    .ranks_per_host = d->links.ranks_per_host},
            .mesh = run_mesh(cfg),
            .overlaps = layout.gathers_async || layout.sums.ranks > 0};
}

static double product_seconds(const rates *r, const product_work *w, double rate) {
    return (w->flops + r->device->small_product * w->small) / rate + w->rounded / r->bytes;
}

// Attention may overlap with the messages of context ranks: a rank computes with the keys that it
// has while it receives the next ones.
static times stage_seconds(const rates *r, const work *w) {
    const device_profile *d = r->device;
    times t = {{0}};
    t.term[TERM_PRODUCTS] = product_seconds(r, &w->weights, r->products);
    t.term[TERM_HEAD] = product_seconds(r, &w->head, r->head);
    t.term[TERM_ATTENTION] = w->attention / r->attention;
    t.term[TERM_MEMORY] = w->bytes / r->bytes;
    t.term[TERM_LAUNCHES] = w->launches * d->launch_s;
    t.term[TERM_TENSOR] =
            link_axis_seconds(&r->links, &r->mesh, AXIS_TENSOR, w->wire[AXIS_TENSOR]) *
                    (1 - d->overlap_tensor) +
            w->messages[AXIS_TENSOR] * d->message_s;
    const double keys = link_axis_seconds(&r->links, &r->mesh, AXIS_CONTEXT, w->wire[AXIS_CONTEXT]);
    t.term[TERM_CONTEXT] = keys - d->overlap_context * fmin(keys, t.term[TERM_ATTENTION]) +
                           w->messages[AXIS_CONTEXT] * d->message_s;
    return t;
}

// The seconds that traffic costs beside the computing of a micro-batch. Most of it is hidden, but
// it takes memory bandwidth and processors from the products.
static double waiting(const rates *r, double traffic_s, double micro_batch_s) {
    const double hidden = r->overlaps ? r->device->overlap_data : 0;
    return traffic_s - hidden * fmin(traffic_s, micro_batch_s);
}

// Messages of data ranks overlap with the micro-batch in which they are sent: those of the update
// with the last one, and those of ZeRO-2 and ZeRO-3 with each.
static double data_seconds(const rates *r, const step_work *w, const work *stages,
        double micro_batches, double micro_batch_s) {
    const double each = link_axis_seconds(&r->links, &r->mesh, AXIS_DATA, stages->wire[AXIS_DATA]),
                 sent = w->update.wire[AXIS_DATA],
                 once = r->mesh.groups ? link_groups_seconds(&r->links, &r->mesh, sent)
                                       : link_axis_seconds(&r->links, &r->mesh, AXIS_DATA, sent);
    return waiting(r, each, micro_batch_s) * (micro_batches - 1) +
           waiting(r, once + each, micro_batch_s) +
           (stages->messages[AXIS_DATA] + w->update.messages[AXIS_DATA]) * r->device->message_s;
}

// Returns the work of a micro-batch on the rank of the pipeline that takes longest.
static work longest_rank(const rates *by, const step_work *whole, times *out) {
    const int n_ranks = by->mesh.size[AXIS_PIPELINE];
    work longest = {.bytes = 0};
    double most = -1;
    for (int rank = 0; rank < n_ranks; rank++) {
        work all = {.bytes = 0};
        times t = {{0}};
        for (int stage = rank; stage < whole->n_stages; stage += n_ranks) {
            const times f = stage_seconds(by, &whole->forward[stage]),
                        b = stage_seconds(by, &whole->backward[stage]);
            for (int i = 0; i < N_STEP_TERMS; i++)
                t.term[i] += f.term[i] + b.term[i];
            work_add(&whole->forward[stage], 1, &all);
            work_add(&whole->backward[stage], 1, &all);
        }
        if (sum_of(&t) <= most) continue;
        most = sum_of(&t);
        longest = all;
        *out = t;
    }
    return longest;
}

static drv_status simulate(arena *a, const rates *r, const step_work *w,
        const pipeline_shape *shape, pipeline_result *out) {
    double *forward = ARENA_ARRAY(a, double, w->n_stages),
           *backward = ARENA_ARRAY(a, double, w->n_stages);
    for (int stage = 0; stage < w->n_stages; stage++) {
        const times f = stage_seconds(r, &w->forward[stage]),
                    b = stage_seconds(r, &w->backward[stage]);
        forward[stage] = sum_of(&f);
        backward[stage] = sum_of(&b) / 2; // of inputs and of weights
    }
    const pipeline_cost cost = {.forward = forward,
            .input_grad = backward,
            .weight_grad = backward,
            .transfer = link_axis_seconds(&r->links, &r->mesh, AXIS_PIPELINE, w->boundary_bytes) +
                        r->device->message_s};
    return pipeline_time(a, shape, &cost, out);
}

drv_status step_cost_make(arena *a, const run_config *cfg, const step_work *whole,
        const pipeline_shape *shape, const device_profile *device, step_cost *out) {
    const rates by = rates_of(cfg, device);
    if (cfg->precision == PRECISION_F8 && device->fp8_flops == 0)
        return drv_fail(DRV_E_USAGE, "training.precision is fp8, and %s has no peak.fp8_tflops",
                device->name);
    const double micro_batches =
            (double)(cfg->global_batch_size / (cfg->micro_batch_size * cfg->data_ranks));
    times each;
    const work longest = longest_rank(&by, whole, &each);
    const double micro_batch_s = sum_of(&each), compute_s = micro_batches * micro_batch_s;
    *out = (step_cost){.seconds = 0};
    for (int i = 0; i < N_STEP_TERMS; i++)
        out->term[i] = micro_batches * each.term[i];
    if (shape) {
        pipeline_result simulated;
        DRV_TRY(simulate(a, &by, whole, shape, &simulated));
        out->bubble = simulated.bubble;
        out->term[TERM_BUBBLE] = fmax(simulated.seconds - compute_s, 0);
    }
    out->term[TERM_DATA] = data_seconds(&by, whole, &longest, micro_batches, micro_batch_s);
    out->term[TERM_UPDATE] = whole->update.bytes / by.bytes +
                             product_seconds(&by, &whole->update.weights, by.head) +
                             whole->update.launches * device->launch_s;
    for (int i = 0; i < N_STEP_TERMS; i++)
        out->seconds += out->term[i];
    return DRV_OK;
}

const char *step_term_name(step_term term) {
    static const char *const names[N_STEP_TERMS] = {[TERM_PRODUCTS] = "products",
            [TERM_HEAD] = "head",
            [TERM_ATTENTION] = "attention",
            [TERM_MEMORY] = "memory",
            [TERM_LAUNCHES] = "launches",
            [TERM_TENSOR] = "tensor",
            [TERM_CONTEXT] = "context",
            [TERM_BUBBLE] = "bubble",
            [TERM_DATA] = "data",
            [TERM_UPDATE] = "update"};
    return names[term];
}
