// Two link speeds, and what they make of messages.
#include "cli/link_time.h"

#include <string.h>

// Of n ranks that are `stride` apart, those that share a host.
static int64_t together(const link_speeds *l, int64_t stride, int64_t n) {
    const int64_t here = l->ranks_per_host ? l->ranks_per_host / stride : n;
    return here < 1 ? 1 : here < n ? here : n;
}

double link_all_seconds(const link_speeds *l, int64_t stride, int64_t n, double bytes) {
    if (n <= 1) return 0;
    const int64_t here = together(l, stride, n);
    const double part = bytes / (double)(n - 1); // to each of the others
    return part * (double)(here - 1) / l->inside + part * (double)(n - here) / l->between;
}

double link_next_seconds(const link_speeds *l, int64_t stride, int64_t n, double bytes) {
    if (n <= 1) return 0;
    return bytes / (together(l, stride, n) == n ? l->inside : l->between);
}

double link_axis_seconds(const link_speeds *l, const mesh *m, mesh_axis axis, double bytes) {
    const int64_t n = m->size[axis], stride = mesh_stride(m, axis);
    switch (axis) {
    case AXIS_TENSOR:
        return link_all_seconds(l, stride, n, bytes);
    case AXIS_DATA:
        return link_all_seconds(l, m->size[AXIS_TENSOR], n * m->size[AXIS_CONTEXT], bytes);
    default:
        return link_next_seconds(l, stride, n, bytes);
    }
}

// --- the options
static drv_status refuse(const char *text) {
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

drv_status link_speeds_read(const cli_args *args, int64_t ranks, link_speeds *out) {
    const char *text = cli_get(args, "--link", "12.5"), *colon = strchr(text, ':');
    const size_t first = colon ? (size_t)(colon - text) : strlen(text);
    link_speeds l = {0};
    DRV_TRY(cli_get_i64(args, "--ranks-per-host", 1, 1 << 20, &l.ranks_per_host));
    if (!read_speed(text, first, &l.inside)) return refuse(text);
    l.between = l.inside;
    if (colon && !read_speed(colon + 1, strlen(colon + 1), &l.between)) return refuse(text);
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
