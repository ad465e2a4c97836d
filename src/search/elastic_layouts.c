// First searches for layouts that add in the order of the whole job, which accumulation groups,
// reduction blocks and partial sums determine (docs/layouts.md), so that the bits are the same. If
// there is none, searches for any layout.
#include "search/elastic_layouts.h"

#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "programs/fit.h"
#include "search/host_profile.h"
#include "setup/process_bytes.h"

enum { TOP = 64, MAX_SETS = 16 };

drv_status elastic_device(const run_config *cfg, int ranks, device_profile *out) {
    DRV_TRY(host_profile(cfg, out));
    out->memory /= ranks;
    return DRV_OK;
}

// --- a layout as keys
static void set_number(arena *a, const char **sets, int *n, const char *key, int64_t value) {
    sets[(*n)++] = value > 0 || strcmp(key, "parallel.zero") == 0
                           ? arena_printf(a, "%s=%lld", key, (long long)value)
                           : arena_printf(a, "%s=auto", key);
}

// pinned: the config of the search; 0 accumulation groups or reduction blocks: auto.
static void fill_sets(arena *a, const run_config *pinned, elastic_layout *out) {
    const layout_candidate *c = &out->layout;
    const char **sets = ARENA_ARRAY(a, const char *, MAX_SETS);
    int n = 0;
    set_number(a, sets, &n, "parallel.tensor", c->tensor);
    set_number(a, sets, &n, "parallel.pipeline", c->pipeline);
    set_number(a, sets, &n, "parallel.context", c->context);
    set_number(a, sets, &n, "parallel.data", c->data);
    set_number(a, sets, &n, "parallel.zero", c->zero);
    set_number(a, sets, &n, "parallel.zero_group", c->zero_group);
    set_number(a, sets, &n, "parallel.accumulation_groups", pinned->accum_groups);
    set_number(a, sets, &n, "parallel.context_blocks", pinned->context_blocks);
    set_number(a, sets, &n, "parallel.partial_sum_rows", pinned->partial_sum_rows);
    set_number(a, sets, &n, "parallel.virtual_stages", c->virtual_stages);
    set_number(a, sets, &n, "training.micro_batch_size", c->micro_batch);
    sets[n++] = arena_printf(a, "parallel.schedule=%s", layout_schedule(c, "auto"));
    sets[n++] = arena_printf(a, "parallel.sequence=%s", c->sequence ? "true" : "false");
    sets[n++] = arena_printf(a, "training.recompute=%s", recompute_name(c->recompute));
    out->sets = sets;
    out->n_sets = n;
}

// Returns text that names the numbers of data ranks with the same bits.
static const char *other_bits(arena *a, const run_config *whole) {
    str list = {0};
    for (int64_t d = 1; d <= whole->n_accum_groups; d++) {
        const int64_t each = whole->n_accum_groups / d;
        if (whole->n_accum_groups % d == 0 && (each & (each - 1)) == 0)
            str_printf(&list, "%s%lld", list.n ? ", " : "", (long long)d);
    }
    const char *text = arena_printf(a,
            "other bits: parallel.accumulation_groups %lld keeps them on %s data rank%s",
            (long long)whole->n_accum_groups, list.p, list.n > 1 ? "s" : "");
    str_free(&list);
    return text;
}

static void fill_words(arena *a, const run_config *whole, elastic_layout *out) {
    const layout_candidate *c = &out->layout;
    const struct {
        const char *axis;
        int64_t n;
    } axes[] = {{"data", c->data}, {"tensor", c->tensor}, {"pipeline", c->pipeline},
            {"context", c->context}};
    str text = {0};
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++)
        if (axes[i].n > 1)
            str_printf(&text, "%s%s %lld", text.n ? " x " : "", axes[i].axis, (long long)axes[i].n);
    if (text.n == 0) str_puts(&text, "one rank");
    str_printf(&text, ", micro-batch %lld, zero %lld; %s", (long long)c->micro_batch,
            (long long)c->zero,
            out->same_bits                       ? "the same bits"
            : config_backend(whole)->orders_sums ? other_bits(a, whole)
                                                 : "bits as its compiler has them");
    out->words = arena_strdup(a, text.p);
    str_free(&text);
}

// --- layouts with the same bits
static bool is_power_of_two(int64_t n) {
    return n > 0 && (n & (n - 1)) == 0;
}

static drv_status whole_job(const elastic_job *job, run_config *out) {
    *out = *job->cfg;
    DRV_TRY_CTX(config_set_ranks(out, (int64_t)job->n_nodes * job->ranks), "%d node%s of %d rank%s",
            job->n_nodes, str_plural(job->n_nodes), job->ranks, str_plural(job->ranks));
    return DRV_OK;
}

static drv_status apply(const run_config *pinned, const layout_candidate *c, int64_t ranks,
        run_config *out) {
    *out = *pinned;
    DRV_TRY(layout_candidate_apply(c, ranks, out));
    out->context_blocks = pinned->context_blocks;
    return config_set_ranks(out, ranks);
}

static bool has_bits(const run_config *whole, const run_config *pinned, const layout_candidate *c,
        int64_t ranks) {
    run_config tried;
    const int64_t joined = c->zero >= 2 ? layout_groups(c) : c->data; // ranks or groups of them
    const bool in_turn = c->zero >= 2 && joined == 1;
    return is_power_of_two(whole->n_context_blocks / c->context) &&
           whole->n_context_blocks % c->context == 0 &&
           (in_turn || is_power_of_two(whole->n_accum_groups / joined)) &&
           apply(pinned, c, ranks, &tried) == DRV_OK;
}

// Takes the fastest layout of a search that is allowed.
static bool pick(arena *a, const elastic_job *job, const run_config *whole,
        const run_config *pinned, bool same_bits, const layout_search *s, elastic_layout *out) {
    for (int i = 0; i < s->n; i++) {
        run_config tried;
        const layout_candidate *c = &s->list[i];
        if (same_bits ? !has_bits(whole, pinned, c, s->ranks)
                      : apply(pinned, c, s->ranks, &tried) != DRV_OK)
            continue;
        *out = (elastic_layout){.n_nodes = (int)(s->ranks / job->ranks),
                .layout = *c,
                .tokens_per_s = layout_tokens_per_s(whole, c),
                .perfect = (double)s->ranks * s->device.bf16_flops * s->device.reached_products /
                           s->flops_per_token,
                .same_bits = same_bits};
        fill_sets(a, pinned, out);
        fill_words(a, whole, out);
        return true;
    }
    return false;
}

static drv_status search(arena *a, const elastic_job *job, const run_config *whole,
        const run_config *pinned, bool same_bits, int64_t ranks, elastic_layout *out) {
    layout_search made = {.cfg = pinned,
            .ranks = ranks,
            .top = TOP,
            .device = job->device,
            .on_host = job->on_host};
    drv_status status = layout_search_run(&made);
    if (status == DRV_OK && !pick(a, job, whole, pinned, same_bits, &made, out)) {
        str refused = {0};
        layout_refusals_add(&made.all, &refused);
        status = drv_fail(DRV_E_USAGE, "no layout of %lld ranks is possible%s%s", (long long)ranks,
                refused.n ? ": " : " that fits", refused.n ? refused.p : "");
        str_free(&refused);
    }
    layout_search_free(&made);
    return status;
}

// --- one number of nodes
static drv_status own_layout(arena *a, const elastic_job *job, const run_config *whole,
        elastic_layout *out) {
    const int64_t ranks = (int64_t)job->n_nodes * job->ranks;
    run_config own = *job->cfg;
    if (own.given_zero < 0) { // the groups do not follow from the level
        own.accum_groups = whole->n_accum_groups;
        own.partial_sum_rows = config_partial_sum_rows(whole);
    }
    layout_search made = {.cfg = &own,
            .ranks = ranks,
            .top = 1,
            .device = job->device,
            .on_host = job->on_host};
    layout_candidate mine = {.tensor = whole->tensor_parallel,
            .pipeline = whole->pipeline_parallel,
            .context = whole->context_parallel,
            .data = whole->data_ranks,
            .micro_batch = whole->micro_batch_size,
            .zero = whole->zero,
            .zero_group = whole->zero_group,
            .schedule =
                    whole->pipeline_parallel > 1 ? config_pipeline_schedule(whole) : SCHEDULE_AUTO,
            .virtual_stages = whole->virtual_stages,
            .recompute = whole->recompute,
            .sequence = whole->sequence_parallel};
    drv_status status = layout_search_run(&made);
    if (status == DRV_OK) status = layout_search_plan(&made, &mine);
    layout_search_free(&made);
    DRV_TRY(status);
    *out = (elastic_layout){.n_nodes = job->n_nodes,
            .layout = mine,
            .tokens_per_s = layout_tokens_per_s(whole, &mine),
            .same_bits = true};
    fill_words(a, whole, out);
    return DRV_OK;
}

drv_status elastic_on(arena *a, const elastic_job *job, int n_nodes, elastic_layout *out) {
    const int64_t ranks = (int64_t)n_nodes * job->ranks;
    run_config whole;
    const char *why;
    DRV_TRY(whole_job(job, &whole));
    const memory_limit memory = {.free = job->device.memory, .what = "of a rank"};
    DRV_TRY(fit_choose_zero(a, &whole, &memory, job->on_host ? process_bytes(&whole) : 0, &why));
    if (n_nodes == job->n_nodes) return own_layout(a, job, &whole, out);
    run_config pinned = *job->cfg;
    pinned.accum_groups = whole.n_accum_groups;
    pinned.context_blocks = whole.n_context_blocks;
    pinned.partial_sum_rows = config_partial_sum_rows(&whole);
    if (config_backend(&whole)->orders_sums &&
            search(a, job, &whole, &pinned, true, ranks, out) == DRV_OK)
        return DRV_OK;
    pinned = *job->cfg;
    pinned.accum_groups = 0;
    pinned.context_blocks = 0;
    return search(a, job, &whole, &pinned, false, ranks, out);
}

// --- at most so many nodes
// The search ends after this time once it has found a layout.
#define SEARCH_S 10.0

drv_status elastic_choose(arena *a, const elastic_job *job, int n_nodes, int min_nodes,
        elastic_layout *out) {
    const bool keeps_bits = config_gives(job->cfg, "parallel.accumulation_groups");
    const double begin_s = clock_s();
    bool found = false;
    drv_status status = DRV_OK;
    for (int n = n_nodes; n >= min_nodes && n > 0; n--) {
        elastic_layout tried;
        status = elastic_on(a, job, n, &tried);
        if (status != DRV_OK) continue;
        const bool better = !found ? true
                            : keeps_bits && tried.same_bits != out->same_bits
                                    ? tried.same_bits
                                    : tried.tokens_per_s > out->tokens_per_s;
        if (better) *out = tried;
        found = true;
        // Even without any loss, one node fewer would not be faster.
        const bool enough = out->tokens_per_s >= tried.perfect * (n - 1) / n;
        if ((enough && (out->same_bits || !keeps_bits)) || clock_s() - begin_s > SEARCH_S) break;
    }
    if (found) return DRV_OK;
    return drv_fail(DRV_E_USAGE, "no layout for %d to %d nodes; %s", min_nodes, n_nodes,
            status == DRV_OK ? "" : arena_strdup(a, drv_message()));
}
