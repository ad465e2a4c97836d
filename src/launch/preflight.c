// Finds medians and figures below them; reads and writes results as JSON.
// Legend: a arena.
#include "launch/preflight.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "launch/nodes.h"

static const struct {
    const char *name, *key, *unit;
    double scale;
} figures[N_NODE_FIGURES] = {
        [NODE_GEMM] = {"GEMM", "gemm_flops_per_s", "GFLOP/s", 1e-9},
        [NODE_MEMORY] = {"memory", "memory_bytes_per_s", "GB/s", 1e-9},
        [NODE_DISK_WRITE] = {"writing the run directory", "write_bytes_per_s", "MB/s", 1e-6},
        [NODE_DISK_READ] = {"reading the run directory", "read_bytes_per_s", "MB/s", 1e-6},
        [NODE_FREE] = {"free memory", "free_bytes", "GB", 1e-9},
        [NODE_BANDWIDTH] = {"link", "link_bytes_per_s", "GB/s", 1e-9},
        [NODE_LATENCY] = {"latency", "latency_s", "us", 1e6},
};

const char *node_figure_text(node_figure figure, double value) {
    static _Thread_local char texts[4][48];
    static _Thread_local unsigned next;
    char *text = texts[next++ % 4];
    if (isnan(value)) return "-";
    snprintf(text, sizeof *texts, "%.4g %s", value * figures[figure].scale, figures[figure].unit);
    return text;
}

// --- judging
static int by_size(const void *x, const void *y) {
    const double one = *(const double *)x, other = *(const double *)y;
    return (one > other) - (one < other);
}

static double median_of(arena *a, const node_result *results, int n_nodes, node_figure figure) {
    double *values = ARENA_ARRAY(a, double, n_nodes);
    int n = 0;
    for (int i = 0; i < n_nodes; i++)
        if (!isnan(results[i].value[figure])) values[n++] = results[i].value[figure];
    if (n == 0) return (double)NAN;
    qsort(values, (size_t)n, sizeof *values, by_size);
    return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

static void add(arena *a, preflight *out, int node, double share, const char *text) {
    out->said[node] =
            arena_printf(a, "%s%s%s", out->said[node], *out->said[node] ? "; " : "", text);
    if (share < out->worst[node]) out->worst[node] = share;
}

static void judge_figure(arena *a, const node_result *result, int node, node_figure figure,
        preflight *out) {
    const double value = result->value[figure], median = out->median[figure];
    const bool is_latency = figure == NODE_LATENCY;
    if (isnan(value) || !(median > 0)) return;
    const double share = is_latency ? median / value : value / median;
    if (!(share < PREFLIGHT_SHARE) || (is_latency && value - median < PREFLIGHT_LATENCY_S)) return;
    add(a, out, node, share,
            arena_printf(a, "%s %.2f of the median: %s, not %s", figures[figure].name,
                    is_latency ? value / median : share, node_figure_text(figure, value),
                    node_figure_text(figure, median)));
}

static void judge_rest(arena *a, const node_result *results, int node, preflight *out) {
    const node_result *mine = &results[node];
    if (strcmp(mine->version, results[0].version) != 0)
        add(a, out, node, 0,
                arena_printf(a, "its drover is %s, not %s", mine->version, results[0].version));
    if (!mine->sees_directory) add(a, out, node, 0, "it cannot write into the run directory");
    if (mine->sees_directory && !mine->sees_rename)
        add(a, out, node, 0, "it does not see files of node 0 in the run directory");
    if (fabs(mine->clock_s) > PREFLIGHT_CLOCK_S)
        add(a, out, node, PREFLIGHT_SHARE,
                arena_printf(a, "its clock is %+.3g s from node 0's", mine->clock_s));
}

void preflight_judge(arena *a, const node_result *results, int n_nodes, preflight *out) {
    *out = (preflight){.n_nodes = n_nodes,
            .said = ARENA_ARRAY(a, const char *, n_nodes),
            .worst = ARENA_ARRAY(a, double, n_nodes)};
    for (int figure = 0; figure < N_NODE_FIGURES; figure++)
        out->median[figure] = median_of(a, results, n_nodes, (node_figure)figure);
    for (int node = 0; node < n_nodes; node++) {
        out->said[node] = "";
        out->worst[node] = 1;
        judge_rest(a, results, node, out);
        for (int figure = 0; figure < N_NODE_FIGURES; figure++)
            judge_figure(a, &results[node], node, (node_figure)figure, out);
        out->n_named += *out->said[node] != 0;
    }
}

// --- as JSON
static json_t *result_json(const node_result *result, int node, const char *said) {
    json_t *o = json_object();
    json_object_set_new(o, "node", json_integer(node));
    json_object_set_new(o, "host", json_string(result->host));
    json_object_set_new(o, "version", json_string(result->version));
    for (int i = 0; i < N_NODE_FIGURES; i++)
        json_object_set_new(o, figures[i].key, json_of_f64(result->value[i]));
    json_object_set_new(o, "fsync_s", json_of_f64(result->fsync_s));
    json_object_set_new(o, "clock_s", json_of_f64(result->clock_s));
    json_object_set_new(o, "sees_lock",
            result->sees_lock < 0 ? json_null() : json_boolean(result->sees_lock));
    json_object_set_new(o, "sees_rename", json_boolean(result->sees_rename));
    json_object_set_new(o, "sees_directory", json_boolean(result->sees_directory));
    json_object_set_new(o, "named", json_of_words(said));
    return o;
}

json_t *preflight_json(const preflight *judged, const node_result *results) {
    json_t *nodes = json_array(), *named = json_array();
    for (int node = 0; node < judged->n_nodes; node++) {
        json_array_append_new(nodes, result_json(&results[node], node, judged->said[node]));
        if (*judged->said[node]) json_array_append_new(named, json_string(results[node].host));
    }
    return json_pack("{s:o,s:o}", "nodes", nodes, "named_hosts", named);
}

static drv_status read_text(const char *path, const json_t *object, const char *key, char *out,
        size_t size) {
    const char *text = NULL;
    DRV_TRY(json_get_str(path, object, key, &text));
    if (!text || strlen(text) >= size)
        return drv_fail(DRV_E_DATA,
                "%s: key \"%s\" is missing or too long, expected at most %zu bytes", path, key,
                size - 1);
    memcpy(out, text, strlen(text) + 1);
    return DRV_OK;
}

static drv_status read_bool(const char *path, const json_t *object, const char *key, int32_t *out) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_boolean(value) && !json_is_null(value))
        return drv_fail(DRV_E_DATA, "%s: key \"%s\" is missing, expected true, false or null", path,
                key);
    *out = json_is_null(value) ? -1 : json_is_true(value);
    return DRV_OK;
}

static drv_status read_result(const char *path, const json_t *object, int node, node_result *out) {
    int64_t said = -1;
    DRV_TRY(json_get_i64(path, object, "node", &said));
    if (said != node)
        return drv_fail(DRV_E_DATA, "%s: key \"node\" is %lld, expected %d", path, (long long)said,
                node);
    DRV_TRY(read_text(path, object, "host", out->host, sizeof out->host));
    DRV_TRY(read_text(path, object, "version", out->version, sizeof out->version));
    for (int i = 0; i < N_NODE_FIGURES; i++) {
        out->value[i] = (double)NAN;
        DRV_TRY(json_get_f64(path, object, figures[i].key, &out->value[i]));
        if (out->value[i] < 0)
            return drv_fail(DRV_E_DATA, "%s: key \"%s\" is below 0", path, figures[i].key);
    }
    out->fsync_s = (double)NAN;
    DRV_TRY(json_get_f64(path, object, "fsync_s", &out->fsync_s));
    DRV_TRY(json_get_f64(path, object, "clock_s", &out->clock_s));
    DRV_TRY(read_bool(path, object, "sees_lock", &out->sees_lock));
    DRV_TRY(read_bool(path, object, "sees_rename", &out->sees_rename));
    return read_bool(path, object, "sees_directory", &out->sees_directory);
}

drv_status preflight_read(arena *a, const char *path, const char *text, size_t n,
        node_result **results, int *n_nodes) {
    json_t *object;
    DRV_TRY(json_read_bytes(path, text, n, &object));
    const json_t *list = json_object_get(object, "nodes");
    const size_t count = json_array_size(list);
    drv_status status = DRV_OK;
    node_result *read = ARENA_ARRAY(a, node_result, count + 1);
    if (count < 1 || count > MAX_NODES)
        status = drv_fail(DRV_E_DATA, "%s: key \"nodes\" has %zu items, expected 1 to %d", path,
                count, MAX_NODES);
    for (size_t i = 0; i < count && status == DRV_OK; i++)
        status = read_result(path, json_array_get(list, i), (int)i, &read[i]);
    json_decref(object);
    if (status != DRV_OK) return status;
    *results = read;
    *n_nodes = (int)count;
    return DRV_OK;
}

drv_status preflight_verdict(const preflight *judged, const node_result *results) {
    for (int i = 0; i < judged->n_nodes; i++)
        if (strcmp(results[i].version, results[0].version) != 0)
            return drv_fail(DRV_E_USAGE,
                    "node %d (%s) has drover %s, node 0 (%s) %s; expected one and the same", i,
                    results[i].host, results[i].version, results[0].host, results[0].version);
    if (judged->n_named == 0) return DRV_OK;
    int i = 0;
    while (!*judged->said[i])
        i++;
    return drv_fail(DRV_E_DEVICE, "%d of %d nodes stand%s out: node %d (%s): %s%s", judged->n_named,
            judged->n_nodes, judged->n_named == 1 ? "s" : "", i, results[i].host, judged->said[i],
            judged->n_named > 1 ? "; ..." : "");
}
