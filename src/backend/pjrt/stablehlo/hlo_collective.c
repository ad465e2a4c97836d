// Prints collectives in cross-replica mode, without channels (docs/adr/0017).
#include "backend/pjrt/stablehlo/hlo_collective.h"

static void put_groups(hlo_text *h, hlo_groups groups) {
    str_puts(&h->s, "replica_groups = dense<[");
    for (int g = 0; g < groups.n; g++)
        for (int i = 0; i < groups.size; i++)
            str_printf(&h->s, "%s%s%lld%s", g && !i ? ", " : "", i ? ", " : "[",
                    (long long)groups.members[g * groups.size + i],
                    i + 1 == groups.size ? "]" : "");
    str_printf(&h->s, "]> : tensor<%dx%dxi64>", groups.n, groups.size);
}

// Ends the attributes and the line.
static void finish(hlo_text *h, const hlo_value *out, const hlo_value *x) {
    str_puts(&h->s, "}");
    hlo_finish(h, out, x, 1);
}

hlo_value hlo_all_reduce(hlo_text *h, const char *op, hlo_value x, hlo_groups groups) {
    const hlo_value out = hlo_new(h, x.type, x.n_dims, x.dim);
    hlo_begin(h, "all_reduce", &out, &x, 1);
    hlo_put_join(h, op, x.type);
    str_puts(&h->s, " {");
    put_groups(h, groups);
    finish(h, &out, &x);
    return out;
}

hlo_value hlo_all_gather(hlo_text *h, hlo_value x, int dim, hlo_groups groups) {
    hlo_value out = hlo_new(h, x.type, x.n_dims, x.dim);
    out.dim[dim] *= groups.size;
    hlo_begin(h, "all_gather", &out, &x, 1);
    str_printf(&h->s, " {all_gather_dim = %d : i64, ", dim);
    put_groups(h, groups);
    finish(h, &out, &x);
    return out;
}

hlo_value hlo_reduce_scatter(hlo_text *h, hlo_value x, int dim, hlo_groups groups) {
    hlo_value out = hlo_new(h, x.type, x.n_dims, x.dim);
    DRV_ASSERT(x.dim[dim] % groups.size == 0, "%%v%d for %d replicas", x.id, groups.size);
    out.dim[dim] /= groups.size;
    hlo_begin(h, "reduce_scatter", &out, &x, 1);
    hlo_put_join(h, "add", x.type);
    str_printf(&h->s, " {scatter_dimension = %d : i64, ", dim);
    put_groups(h, groups);
    finish(h, &out, &x);
    return out;
}

hlo_value hlo_shift(hlo_text *h, hlo_value x, hlo_groups groups) {
    const hlo_value out = hlo_new(h, x.type, x.n_dims, x.dim);
    const char *before = "";
    hlo_begin(h, "collective_permute", &out, &x, 1);
    str_puts(&h->s, " {source_target_pairs = dense<[");
    for (int g = 0; g < groups.n; g++)
        for (int i = 0; i < groups.size; i++, before = ", ") {
            const int64_t *member = groups.members + g * groups.size;
            str_printf(&h->s, "%s[%lld, %lld]", before, (long long)member[i],
                    (long long)member[(i + 1) % groups.size]);
        }
    str_printf(&h->s, "]> : tensor<%dx2xi64>", groups.n * groups.size);
    finish(h, &out, &x);
    return out;
}
