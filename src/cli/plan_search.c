// Reads the options of a search for layouts, and prints its results as lines or JSON.
#include "cli/plan_parts.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "search/host_profile.h"
#include "search/layout_search.h"

// --- printing
static void print_row(const layout_search *f, const layout_candidate *c) {
    char stages[16] = "", seconds[32], zero[32];
    int n = snprintf(zero, sizeof zero, "%lld", (long long)c->zero);
    if (c->zero_group)
        snprintf(zero + n, sizeof zero - (size_t)n, "/%lld", (long long)c->zero_group);
    if (c->virtual_stages > 1)
        snprintf(stages, sizeof stages, " x%lld", (long long)c->virtual_stages);
    snprintf(seconds, sizeof seconds, "%.4g s", c->seconds);
    printf("%10s %9s %4.1f %% %11s %7lld %9lld %8lld %6lld  %-11s%-4s %6.1f %% %6lld  %-10s %-9s %5s\n",
            seconds, str_si(layout_tokens_per_s(f->cfg, c)), 100 * layout_search_mfu(f, c),
            str_bytes(c->bytes), (long long)c->tensor, (long long)c->pipeline,
            (long long)c->context, (long long)c->data, layout_schedule(c, "-"), stages,
            100 * c->bubble, (long long)c->micro_batch, recompute_name(c->recompute),
            c->tensor == 1 ? "-"
            : c->sequence  ? "shared"
                           : "whole",
            zero);
}

// Returns "50 GB/s between them", or the speeds inside and between hosts.
static const char *links_of(arena *a, const link_speeds *l) {
    if (!l->ranks_per_host) return arena_printf(a, "%.3g GB/s between them", l->between / 1e9);
    return arena_printf(a, "%.3g GB/s between the %lld of a host and %.3g GB/s between hosts",
            l->inside / 1e9, (long long)l->ranks_per_host, l->between / 1e9);
}

static const char *refusals(arena *a, const layout_candidates *all) {
    str text = {0};
    layout_refusals_add(all, &text);
    return str_keep(a, &text);
}

static void print_found(arena *a, const layout_search *best) {
    const layout_candidates *all = &best->all;
    printf("%lld ranks (%s) of %s and %s FLOP/s, %s; a batch of %lld rows of %lld tokens\n",
            (long long)best->ranks, best->device.name, str_bytes((double)best->device.memory),
            str_si(best->device.bf16_flops), links_of(a, &best->device.links),
            (long long)best->cfg->global_batch_size, (long long)best->cfg->sequence_length);
    printf("%10s %9s %6s %11s %7s %9s %8s %6s  %-15s %8s %6s  %-10s %-9s %5s\n", "step", "tokens/s",
            "MFU", "memory", "tensor", "pipeline", "context", "data", "schedule", "bubble", "micro",
            "recompute", "tokens", "ZeRO");
    for (int i = 0; i < best->n; i++)
        print_row(best, &best->list[i]);
    printf("%d variants of %d meshes considered; %d variants were estimated not to fit, and %d meshes "
           "planned that do not\n",
            all->n + all->n_too_large, all->n_meshes, all->n_too_large, best->n_not);
    const char *refused = refusals(a, all);
    if (*refused) printf("not possible: %s\n", refused);
    printf("the first: %s\n", layout_keys(a, &best->list[0]));
}

static void print_json(arena *a, const layout_search *best) {
    const layout_candidates *all = &best->all;
    json_t *list = json_array();
    for (int i = 0; i < best->n; i++) {
        const layout_candidate *c = &best->list[i];
        json_array_append_new(list,
                json_pack("{s:I,s:I,s:I,s:I,s:s,s:I,s:I,s:s,s:b,s:I,s:I,s:f,s:f,s:f,s:I,s:f,s:s}",
                        "tensor", (json_int_t)c->tensor, "pipeline", (json_int_t)c->pipeline,
                        "context", (json_int_t)c->context, "data", (json_int_t)c->data, "schedule",
                        layout_schedule(c, "-"), "virtual_stages", (json_int_t)c->virtual_stages,
                        "micro_batch_size", (json_int_t)c->micro_batch, "recompute",
                        recompute_name(c->recompute), "sequence", c->sequence, "zero",
                        (json_int_t)c->zero, "zero_group", (json_int_t)c->zero_group,
                        "step_seconds", c->seconds, "tokens_per_s",
                        layout_tokens_per_s(best->cfg, c), "mfu", layout_search_mfu(best, c),
                        "bytes", (json_int_t)c->planned_bytes, "bubble", c->bubble, "keys",
                        layout_keys(a, c)));
    }
    json_t *o = json_pack("{s:I,s:f,s:f,s:f,s:I,s:f,s:i,s:i,s:i,s:i,s:s,s:o}", "ranks",
            (json_int_t)best->ranks, "rank_flops",
            best->device.bf16_flops * best->device.reached_products, "rank_bytes_per_s",
            best->device.links.between, "rank_bytes_per_s_inside", best->device.links.inside,
            "ranks_per_host", (json_int_t)best->device.links.ranks_per_host, "rank_memory",
            (double)best->device.memory, "variants", all->n + all->n_too_large, "meshes",
            all->n_meshes, "variants_too_large", all->n_too_large, "meshes_too_large", best->n_not,
            "not_possible", refusals(a, all), "layouts", list);
    cli_puts_json(o, json_dumps(o, 0));
}

static drv_status report(arena *a, const cli_args *args, const layout_search *best) {
    const layout_candidates *all = &best->all;
    if (all->n_meshes == 0)
        return drv_fail(DRV_E_USAGE, "plan: no layout of %lld ranks is possible: %s",
                (long long)best->ranks, refusals(a, all));
    if (best->n == 0)
        return drv_fail(DRV_E_USAGE,
                "plan: of %d variants of %d meshes of %lld ranks none fits into %s a rank; expected more "
                "ranks, more memory or a smaller data.sequence_length",
                all->n + all->n_too_large, all->n_meshes, (long long)best->ranks,
                str_bytes((double)best->device.memory));
    if (cli_has(args, "--json"))
        print_json(a, best);
    else
        print_found(a, best);
    return DRV_OK;
}

// --- the power of a rank
static drv_status refuse_link(const char *text) {
    return drv_fail(DRV_E_USAGE,
            "plan: --link is \"%.60s\", expected GB/s from 1e-06 to 1e+09, or two of them as 450:50: "
            "inside a host, and between hosts",
            text);
}

static bool read_speed(const char *text, size_t n, double *out) {
    char copy[64];
    double x;
    if (n >= sizeof copy) return false;
    memcpy(copy, text, n);
    copy[n] = 0;
    if (!str_to_f64(copy, &x) || !(x >= 1e-6 && x <= 1e9)) return false;
    *out = 1e9 * x;
    return true;
}

// Reads "X" or "INSIDE:BETWEEN" in GB/s, and the ranks of a host. DRV_E_USAGE: an invalid speed,
// two speeds without the ranks of a host or the other way round, or a host that `ranks` ranks do
// not divide into.
static drv_status read_links(const cli_args *args, int64_t ranks, link_speeds *out) {
    const char *text = cli_get(args, "--link", "12.5"), *colon = strchr(text, ':');
    const size_t first = colon ? (size_t)(colon - text) : strlen(text);
    link_speeds l = {0};
    DRV_TRY(cli_get_i64(args, "--ranks-per-host", 1, 1 << 20, &l.ranks_per_host));
    if (!read_speed(text, first, &l.inside)) return refuse_link(text);
    l.between = l.inside;
    if (colon && !read_speed(colon + 1, strlen(colon + 1), &l.between)) return refuse_link(text);
    if (colon && !l.ranks_per_host)
        return drv_fail(DRV_E_USAGE,
                "plan: --link %s has a speed inside a host, which needs --ranks-per-host", text);
    if (!colon && l.ranks_per_host)
        return drv_fail(DRV_E_USAGE,
                "plan: --ranks-per-host needs --link INSIDE:BETWEEN, the speeds inside a host and "
                "between hosts, as 450:50");
    if (ranks > l.ranks_per_host && l.ranks_per_host && ranks % l.ranks_per_host)
        return drv_fail(DRV_E_USAGE,
                "plan: --ranks-per-host is %lld, expected a divisor of --ranks %lld",
                (long long)l.ranks_per_host, (long long)ranks);
    *out = l;
    return DRV_OK;
}

static drv_status read_by_hand(const cli_args *args, const run_config *cfg, int64_t ranks,
        device_profile *out) {
    double gflops = 0;
    link_speeds links;
    int64_t memory = memory_limit_read("").free;
    DRV_TRY(cli_get_f64(args, "--gflops", 1e-3, 1e12, &gflops));
    DRV_TRY(read_links(args, ranks, &links));
    DRV_TRY(cli_get_bytes(args, "--memory", 1 << 20, &memory));
    if (gflops > 0) {
        *out = device_profile_by_hand("of --gflops", gflops * 1e9, memory, &links);
        return DRV_OK;
    }
    DRV_TRY(host_profile(cfg, out));
    out->name = "like this machine";
    out->memory = memory;
    out->links = links;
    return DRV_OK;
}

drv_status plan_read_device(arena *a, const cli_args *args, const run_config *cfg, int64_t ranks,
        device_profile *out, bool *on_host) {
    const char *device = cli_get(args, "--device", NULL);
    *on_host = device == NULL;
    if (!device) return read_by_hand(args, cfg, ranks, out);
    DRV_TRY(device_profile_read(a, device, out));
    return device_profile_check_ranks(out, ranks);
}

// The default batch is of one machine: on many ranks it would leave most of them in a bubble.
static drv_status check_batch(const run_config *cfg, int64_t ranks) {
    if (config_gives(cfg, "training.global_batch_size") || cfg->global_batch_size >= ranks)
        return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "plan: training.global_batch_size is not given, and its default of %lld rows is fewer than "
            "the %lld ranks that may share them; give the rows of a step",
            (long long)cfg->global_batch_size, (long long)ranks);
}

static bool is_named(const char *name, const char *end, mesh_axis axis) {
    const char *wanted = mesh_axis_name(axis);
    return strlen(wanted) == (size_t)(end - name) && strncmp(name, wanted, strlen(wanted)) == 0;
}

static drv_status read_pins(arena *a, const cli_args *args, int64_t ranks, mesh *out) {
    int n;
    const char **pins = cli_get_all(a, args, "--pin", &n);
    for (int i = 0; i < n; i++) {
        const char *equal = strchr(pins[i], '=');
        int64_t size = 0;
        int axis = 0;
        while (equal && axis < N_AXES && !is_named(pins[i], equal, (mesh_axis)axis))
            axis++;
        if (!equal || axis == N_AXES || !str_to_i64(equal + 1, &size) || size < 1 || ranks % size)
            return drv_fail(DRV_E_USAGE,
                    "plan: --pin is \"%.60s\", expected tensor, pipeline, context or data = a divisor "
                    "of the %lld ranks, as tensor=8",
                    pins[i], (long long)ranks);
        out->size[axis] = (int)size;
    }
    return DRV_OK;
}

drv_status plan_search(arena *a, const cli_args *args, const run_config *cfg, int64_t ranks) {
    layout_search s = {.cfg = cfg, .ranks = ranks, .top = 10};
    DRV_TRY(cli_get_i64(args, "--top", 1, 1000, &s.top));
    DRV_TRY(check_batch(cfg, ranks));
    DRV_TRY(read_pins(a, args, ranks, &s.pinned));
    DRV_TRY(plan_read_device(a, args, cfg, ranks, &s.device, &s.on_host));
    drv_status status = layout_search_run(&s);
    if (status == DRV_OK) status = report(a, args, &s);
    layout_search_free(&s);
    return status;
}
