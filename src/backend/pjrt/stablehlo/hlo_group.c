// Prints operations that contain a region or combine elements: sums, products, rows, loops.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/pjrt/stablehlo/hlo.h"
#include "base/arena.h"

// --- shorthands
static void put_dims(hlo_text *h, const char *name, int n, const int64_t *x) {
    str_printf(&h->s, "%s = [", name);
    for (int i = 0; i < n; i++)
        str_printf(&h->s, i ? ", %lld" : "%lld", (long long)x[i]);
    str_puts(&h->s, "]");
}

void hlo_put_join(hlo_text *h, const char *op, hlo_type type) {
    const hlo_value a = hlo_new(h, type, 0, NULL), b = hlo_new(h, type, 0, NULL),
                    c = hlo_new(h, type, 0, NULL);
    str_printf(&h->s, " ({ ^bb0(%%v%d: ", a.id);
    hlo_put_type(h, &a);
    str_printf(&h->s, ", %%v%d: ", b.id);
    hlo_put_type(h, &b);
    str_printf(&h->s, "): %%v%d = \"stablehlo.%s\"(%%v%d, %%v%d) : (", c.id, op, a.id, b.id);
    hlo_put_types(h, (hlo_value[]){a, b}, 2);
    str_puts(&h->s, ") -> ");
    hlo_put_type(h, &c);
    str_printf(&h->s, " \"stablehlo.return\"(%%v%d) : (", c.id);
    hlo_put_type(h, &c);
    str_puts(&h->s, ") -> () })");
}

// --- sums
hlo_value hlo_reduce(hlo_text *h, const char *op, hlo_value x, int n_dims, const int64_t *dims) {
    const double none = strcmp(op, "maximum") == 0 ? -HUGE_VAL : 0;
    const hlo_value in[] = {x, hlo_scalar(h, x.type, none)};
    hlo_value out = hlo_new(h, x.type, 0, NULL);
    for (int i = 0; i < x.n_dims; i++) {
        bool gone = false;
        for (int k = 0; k < n_dims; k++)
            gone = gone || dims[k] == i;
        if (!gone) out.dim[out.n_dims++] = x.dim[i];
    }
    hlo_begin(h, "reduce", &out, in, 2);
    hlo_put_join(h, op, x.type);
    str_puts(&h->s, " {dimensions = ");
    hlo_put_list(h, n_dims, dims);
    str_puts(&h->s, "}");
    hlo_finish(h, &out, in, 2);
    return out;
}

hlo_value hlo_reduce_all(hlo_text *h, const char *op, hlo_value x) {
    static const int64_t all[HLO_MAX_DIMS] = {0, 1, 2, 3, 4, 5};
    return hlo_reduce(h, op, x, x.n_dims, all);
}

// --- products
hlo_value hlo_dot(hlo_text *h, hlo_value a, hlo_value b, int ca, int cb, hlo_type out_type) {
    const int batch = a.n_dims - 2;
    DRV_ASSERT(batch >= 0 && batch <= 1 && b.n_dims == a.n_dims && a.type == b.type &&
                       a.dim[batch + ca] == b.dim[batch + cb],
            "product of %%v%d and %%v%d", a.id, b.id);
    const hlo_value in[] = {a, b};
    const int64_t none = 0, of_a = batch + ca, of_b = batch + cb;
    hlo_value out = hlo_new(h, out_type, a.n_dims, a.dim);
    out.dim[batch] = a.dim[batch + !ca];
    out.dim[batch + 1] = b.dim[batch + !cb];
    // HIGHEST keeps plugins from rounding the operands of fp32 products.
    const char *precision = a.type == HLO_BF16 ? "DEFAULT" : "HIGHEST";
    hlo_begin(h, "dot_general", &out, in, 2);
    str_puts(&h->s, " {dot_dimension_numbers = #stablehlo.dot<");
    put_dims(h, "lhs_batching_dimensions", batch, &none);
    put_dims(h, ", rhs_batching_dimensions", batch, &none);
    put_dims(h, ", lhs_contracting_dimensions", 1, &of_a);
    put_dims(h, ", rhs_contracting_dimensions", 1, &of_b);
    str_printf(&h->s, ">, precision_config = [#stablehlo<precision %s>, #stablehlo<precision %s>]}",
            precision, precision);
    hlo_finish(h, &out, in, 2);
    return out;
}

// Prints "^bb0(%v1: type, ...):", with new values of the types of `like`.
static void put_block(hlo_text *h, const hlo_value *like, int n, hlo_value *fresh) {
    str_puts(&h->s, "^bb0(");
    for (int i = 0; i < n; i++) {
        fresh[i] = hlo_new(h, like[i].type, like[i].n_dims, like[i].dim);
        if (i) str_puts(&h->s, ", ");
        hlo_put_value(h, &fresh[i]);
        str_puts(&h->s, ": ");
        hlo_put_type(h, &fresh[i]);
    }
    str_puts(&h->s, "):");
    hlo_end_line(h);
}

// --- rows by index
hlo_value hlo_gather_rows(hlo_text *h, hlo_value table, hlo_value rows) {
    const hlo_value in[] = {table, rows};
    const hlo_value out = hlo_new(h, table.type, HLO_DIMS(rows.dim[0], table.dim[1]));
    hlo_begin(h, "gather", &out, in, 2);
    str_printf(&h->s,
            " {dimension_numbers = #stablehlo.gather<offset_dims = [1], "
            "collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, "
            "slice_sizes = array<i64: 1, %lld>, indices_are_sorted = false}",
            (long long)table.dim[1]);
    hlo_finish(h, &out, in, 2);
    return out;
}

hlo_value hlo_scatter_add_rows(hlo_text *h, hlo_value table, hlo_value rows, hlo_value added,
        bool unique) {
    const hlo_value in[] = {table, rows, added};
    const hlo_value out = hlo_new(h, table.type, table.n_dims, table.dim);
    hlo_begin(h, "scatter", &out, in, 3);
    hlo_put_join(h, "add", table.type);
    str_printf(&h->s,
            " {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], "
            "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], "
            "index_vector_dim = 1>, indices_are_sorted = false, unique_indices = %s}",
            unique ? "true" : "false");
    hlo_finish(h, &out, in, 3);
    return out;
}

hlo_value hlo_sort(hlo_text *h, hlo_value x) {
    const hlo_value out = hlo_new(h, x.type, x.n_dims, x.dim), one = {.type = x.type};
    hlo_value two[2];
    hlo_begin(h, "sort", &out, &x, 1);
    str_puts(&h->s, " ({ ");
    put_block(h, (hlo_value[]){one, one}, 2, two);
    const hlo_value less = hlo_compare(h, "LT", two[0], two[1]);
    hlo_put_return(h, "stablehlo.return", &less, 1);
    str_puts(&h->s, "  }) {dimension = 0 : i64, is_stable = false}");
    hlo_finish(h, &out, &x, 1);
    return out;
}

// --- order
static void put_barrier(hlo_text *h, hlo_value *v, int n) {
    const int id = hlo_new(h, v->type, v->n_dims, v->dim).id;
    str_printf(&h->s, n > 1 ? "  %%v%d:%d = " : "  %%v%d = ", id, n);
    str_puts(&h->s, "\"stablehlo.optimization_barrier\"(");
    hlo_put_values(h, v, n);
    str_puts(&h->s, ") : (");
    hlo_put_types(h, v, n);
    str_puts(&h->s, ") -> (");
    hlo_put_types(h, v, n);
    str_puts(&h->s, ")");
    hlo_end_op(h);
    for (int i = 0; i < n; i++) {
        v[i].id = id;
        v[i].part = n > 1 ? i : -1;
    }
}

// Joined values go as the matrices that they were joined from.
void hlo_barrier_all(hlo_text *h, hlo_value *v, int n) {
    hlo_value *all = mem_alloc(sizeof *all * (size_t)n * HLO_MAX_JOINED);
    int n_all = 0;
    for (int i = 0; i < n; i++) {
        const int n_of = v[i].joined ? v[i].joined->n : 1;
        memcpy(all + n_all, v[i].joined ? v[i].joined->of : &v[i], sizeof *all * (size_t)n_of);
        n_all += n_of;
    }
    put_barrier(h, all, n_all);
    const hlo_value *next = all;
    for (int i = 0; i < n; i++) {
        const int n_of = v[i].joined ? v[i].joined->n : 1;
        v[i] = hlo_join(h, next, n_of);
        next += n_of;
    }
    free(all);
}

hlo_value hlo_barrier(hlo_text *h, hlo_value x, hlo_value after) {
    hlo_value both[] = {x, after};
    hlo_barrier_all(h, both, 2);
    return both[0];
}

hlo_value hlo_cleared(hlo_text *h, hlo_value x, hlo_value after) {
    return hlo_spread(h, hlo_barrier(h, hlo_scalar(h, x.type, 0), after), &x);
}

// Prints it as JAX does (tests/golden/host_moves.json, tools/golden_offload.py).
hlo_value hlo_in_memory(hlo_text *h, hlo_value x, const char *memory) {
    hlo_value moved[HLO_MAX_JOINED];
    for (int i = 0; x.joined && i < x.joined->n; i++)
        moved[i] = hlo_in_memory(h, x.joined->of[i], memory);
    if (x.joined) return hlo_join(h, moved, x.joined->n);
    const hlo_value out = hlo_new(h, x.type, x.n_dims, x.dim);
    hlo_begin(h, "custom_call", &out, &x, 1);
    str_printf(&h->s,
            " {api_version = 1 : i32, backend_config = \"\", "
            "call_target_name = \"annotate_device_placement\", called_computations = [], "
            "has_side_effect = true, mhlo.frontend_attributes = {_xla_buffer_placement = \"%s\"}}",
            memory);
    hlo_finish(h, &out, &x, 1);
    return out;
}

// --- indices
hlo_index hlo_at(int64_t fixed) {
    return (hlo_index){.fixed = fixed};
}

hlo_index hlo_index_times(hlo_text *h, hlo_index p, int64_t factor) {
    if (!p.moves) return hlo_at(p.fixed * factor);
    p.value = hlo_scale(h, p.value, (double)factor);
    return p;
}

hlo_value hlo_index_value(hlo_text *h, hlo_index p) {
    return p.moves ? p.value : hlo_scalar(h, HLO_I32, (double)p.fixed);
}

hlo_index hlo_index_of(hlo_text *h, const int64_t *table, int n, hlo_index index) {
    if (!index.moves) return hlo_at(table[index.fixed]);
    const hlo_value all = hlo_table(h, HLO_I32, n, table);
    return (hlo_index){true, 0, hlo_reshape(h, hlo_take(h, all, 0, index, 1), 0, NULL)};
}

// Sets the start indices of a slice: zero in every dim but one.
static void set_starts(hlo_text *h, int n_dims, int dim, hlo_value first, hlo_value *out) {
    const hlo_value zero = hlo_scalar(h, HLO_I32, 0);
    for (int i = 0; i < n_dims; i++)
        out[i] = i == dim ? first : zero;
}

hlo_value hlo_take(hlo_text *h, hlo_value x, int dim, hlo_index first, int64_t n) {
    if (!first.moves) return hlo_slice(h, x, dim, first.fixed, n);
    hlo_value in[1 + HLO_MAX_DIMS] = {x};
    set_starts(h, x.n_dims, dim, first.value, in + 1);
    hlo_value out = hlo_new(h, x.type, x.n_dims, x.dim);
    out.dim[dim] = n;
    hlo_begin(h, "dynamic_slice", &out, in, 1 + x.n_dims);
    str_puts(&h->s, " {slice_sizes = ");
    hlo_put_list(h, out.n_dims, out.dim);
    str_puts(&h->s, "}");
    hlo_finish(h, &out, in, 1 + x.n_dims);
    return out;
}

hlo_value hlo_put(hlo_text *h, hlo_value x, hlo_value part, int dim, hlo_index first) {
    if (part.dim[dim] == x.dim[dim]) return part;
    hlo_value in[2 + HLO_MAX_DIMS] = {x, part};
    set_starts(h, x.n_dims, dim, hlo_index_value(h, first), in + 2);
    const hlo_value out = hlo_new(h, x.type, x.n_dims, x.dim);
    hlo_begin(h, "dynamic_update_slice", &out, in, 2 + x.n_dims);
    hlo_finish(h, &out, in, 2 + x.n_dims);
    return out;
}

// --- loops
void hlo_loop(hlo_text *h, int n_iterations, hlo_value *carried, int n_carried, hlo_body *body,
        void *ctx) {
    const int n_all = n_carried + 1; // the first one counts iterations from 0
    hlo_value *all = mem_alloc(2 * sizeof *all * (size_t)n_all), *fresh = all + n_all;
    all[0] = hlo_scalar(h, HLO_I32, 0);
    memcpy(all + 1, carried, sizeof *carried * (size_t)n_carried);
    const int id = h->n_values++;
    str_printf(&h->s, "  %%v%d:%d = \"stablehlo.while\"(", id, n_all);
    hlo_put_values(h, all, n_all);
    str_puts(&h->s, ") ({ ");
    put_block(h, all, n_all, fresh);
    const hlo_value more = hlo_compare(h, "LT", fresh[0], hlo_scalar(h, HLO_I32, n_iterations));
    hlo_put_return(h, "stablehlo.return", &more, 1);
    str_puts(&h->s, "  }, { ");
    put_block(h, all, n_all, fresh);
    body(h, ctx, (hlo_index){true, 0, fresh[0]}, fresh + 1);
    fresh[0] = hlo_binary(h, "add", fresh[0], hlo_scalar(h, HLO_I32, 1));
    hlo_put_return(h, "stablehlo.return", fresh, n_all);
    str_puts(&h->s, "  }) : (");
    hlo_put_types(h, all, n_all);
    str_puts(&h->s, ") -> (");
    hlo_put_types(h, all, n_all);
    str_puts(&h->s, ")");
    hlo_end_op(h);
    for (int i = 0; i < n_carried; i++) {
        carried[i].id = id;
        carried[i].part = i + 1;
        carried[i].joined = NULL;
    }
    free(all);
}

void hlo_repeat(hlo_text *h, int n, hlo_value *carried, int n_carried, hlo_body *body, void *ctx) {
    if (n > HLO_MAX_UNROLLED) {
        hlo_loop(h, n, carried, n_carried, body, ctx);
        return;
    }
    for (int i = 0; i < n; i++)
        body(h, ctx, hlo_at(i), carried);
}
