// Prints single operations of StableHLO.
#include "backend/pjrt/stablehlo/hlo.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const type_names[] = {"f32", "bf16", "f64", "i32", "ui32", "ui64", "i1",
        "f8E4M3FN", "f8E5M2"};

int64_t hlo_elements(const hlo_value *v) {
    int64_t n = 1;
    for (int i = 0; i < v->n_dims; i++)
        n *= v->dim[i];
    return n;
}

hlo_value hlo_new(hlo_text *h, hlo_type type, int n_dims, const int64_t *dim) {
    DRV_ASSERT(n_dims >= 0 && n_dims <= HLO_MAX_DIMS, "%d dims", n_dims);
    hlo_value v = {.id = h->n_values++, .part = -1, .type = type, .n_dims = n_dims};
    for (int i = 0; i < n_dims; i++)
        v.dim[i] = dim[i];
    return v;
}

static hlo_value new_like(hlo_text *h, hlo_type type, const hlo_value *v) {
    return hlo_new(h, type, v->n_dims, v->dim);
}

static bool same_dims(const hlo_value *a, const hlo_value *b) {
    return a->n_dims == b->n_dims &&
           memcmp(a->dim, b->dim, sizeof *a->dim * (size_t)a->n_dims) == 0;
}

void hlo_put_type(hlo_text *h, const hlo_value *v) {
    str_puts(&h->s, "tensor<");
    for (int i = 0; i < v->n_dims; i++)
        str_printf(&h->s, "%lldx", (long long)v->dim[i]);
    str_printf(&h->s, "%s>", type_names[v->type]);
}

void hlo_put_value(hlo_text *h, const hlo_value *v) {
    str_printf(&h->s, "%%v%d", v->id);
    if (v->part >= 0) str_printf(&h->s, "#%d", v->part);
}

void hlo_put_values(hlo_text *h, const hlo_value *v, int n) {
    for (int i = 0; i < n; i++) {
        if (i) str_puts(&h->s, ", ");
        hlo_put_value(h, &v[i]);
    }
}

void hlo_put_types(hlo_text *h, const hlo_value *v, int n) {
    for (int i = 0; i < n; i++) {
        if (i) str_puts(&h->s, ", ");
        hlo_put_type(h, &v[i]);
    }
}

void hlo_end_line(hlo_text *h) {
    str_puts(&h->s, "\n");
    h->n_lines++;
}

void hlo_end_op(hlo_text *h) {
    str_puts(&h->s, HLO_NOWHERE);
    hlo_end_line(h);
}

void hlo_put_list(hlo_text *h, int n, const int64_t *x) {
    str_puts(&h->s, "array<i64");
    for (int i = 0; i < n; i++)
        str_printf(&h->s, i ? ", %lld" : ": %lld", (long long)x[i]);
    str_puts(&h->s, ">");
}

void hlo_begin(hlo_text *h, const char *op, const hlo_value *out, const hlo_value *in, int n) {
    str_printf(&h->s, "  %%v%d = \"stablehlo.%s\"(", out->id, op);
    hlo_put_values(h, in, n);
    str_puts(&h->s, ")");
}

void hlo_finish(hlo_text *h, const hlo_value *out, const hlo_value *in, int n) {
    str_puts(&h->s, " : (");
    hlo_put_types(h, in, n);
    str_puts(&h->s, ") -> ");
    hlo_put_type(h, out);
    hlo_end_op(h);
}

static hlo_value plain(hlo_text *h, const char *op, hlo_value out, const hlo_value *in, int n) {
    hlo_begin(h, op, &out, in, n);
    hlo_finish(h, &out, in, n);
    return out;
}

void hlo_put_return(hlo_text *h, const char *op, const hlo_value *v, int n) {
    str_printf(&h->s, "  \"%s\"(", op);
    hlo_put_values(h, v, n);
    str_puts(&h->s, ") : (");
    hlo_put_types(h, v, n);
    str_puts(&h->s, ") -> ()");
    hlo_end_op(h);
}

// --- constants
static void print_real(char *text, size_t cap, hlo_type type, double x) {
    const char *sign = x > 0 ? "7F" : "FF", *rest = type == HLO_F64   ? "F0000000000000"
                                                    : type == HLO_F32 ? "800000"
                                                                      : "80";
    if (isfinite(x)) // MLIR requires the decimal point
        snprintf(text, cap, "%.17e", x);
    else
        snprintf(text, cap, "0x%s%s", sign, rest);
}

static bool is_real(hlo_type type) {
    return type == HLO_F32 || type == HLO_BF16 || type == HLO_F64;
}

static hlo_value constant(hlo_text *h, hlo_value out, const char *text) {
    hlo_begin(h, "constant", &out, NULL, 0);
    str_printf(&h->s, " {value = dense<%s> : ", text);
    hlo_put_type(h, &out);
    str_puts(&h->s, "}");
    hlo_finish(h, &out, NULL, 0);
    return out;
}

static hlo_value constant_of(hlo_text *h, hlo_value out, double x) {
    char text[40];
    if (is_real(out.type))
        print_real(text, sizeof text, out.type, x);
    else
        snprintf(text, sizeof text, "%lld", (long long)x);
    return constant(h, out, text);
}

hlo_value hlo_scalar(hlo_text *h, hlo_type type, double x) {
    return constant_of(h, hlo_new(h, type, 0, NULL), x);
}

hlo_value hlo_whole(hlo_text *h, hlo_type type, uint64_t x) {
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)x);
    return constant(h, hlo_new(h, type, 0, NULL), text);
}

hlo_value hlo_fill(hlo_text *h, double x, const hlo_value *like) {
    return constant_of(h, new_like(h, like->type, like), x);
}

hlo_value hlo_table(hlo_text *h, hlo_type type, int n, const int64_t *x) {
    str list = {0};
    for (int i = 0; i < n; i++)
        str_printf(&list, i ? ", %lld" : "[%lld", (long long)x[i]);
    str_puts(&list, "]");
    const hlo_value out = constant(h, hlo_new(h, type, 1, (int64_t[]){n}), list.p);
    str_free(&list);
    return out;
}

hlo_value hlo_iota(hlo_text *h, hlo_type type, int n_dims, const int64_t *dim, int along) {
    hlo_value out = hlo_new(h, type, n_dims, dim);
    hlo_begin(h, "iota", &out, NULL, 0);
    str_printf(&h->s, " {iota_dimension = %d : i64}", along);
    hlo_finish(h, &out, NULL, 0);
    return out;
}

// --- element by element
hlo_value hlo_unary(hlo_text *h, const char *op, hlo_value x) {
    return plain(h, op, new_like(h, x.type, &x), &x, 1);
}

hlo_value hlo_binary(hlo_text *h, const char *op, hlo_value a, hlo_value b) {
    DRV_ASSERT(a.type == b.type && same_dims(&a, &b), "%s of %%v%d and %%v%d", op, a.id, b.id);
    return plain(h, op, new_like(h, a.type, &a), (hlo_value[]){a, b}, 2);
}

hlo_value hlo_scale(hlo_text *h, hlo_value x, double factor) {
    return hlo_binary(h, "multiply", x, hlo_fill(h, factor, &x));
}

hlo_value hlo_with(hlo_text *h, const char *op, hlo_value x, uint64_t word) {
    return hlo_binary(h, op, x, hlo_spread(h, hlo_whole(h, x.type, word), &x));
}

hlo_value hlo_convert(hlo_text *h, hlo_value x, hlo_type type) {
    if (x.type == type) return x;
    return plain(h, "convert", new_like(h, type, &x), &x, 1);
}

hlo_value hlo_bitcast(hlo_text *h, hlo_value x, hlo_type type) {
    return plain(h, "bitcast_convert", new_like(h, type, &x), &x, 1);
}

hlo_value hlo_compare(hlo_text *h, const char *direction, hlo_value a, hlo_value b) {
    DRV_ASSERT(a.type == b.type && same_dims(&a, &b), "%s of %%v%d and %%v%d", direction, a.id,
            b.id);
    const hlo_value in[] = {a, b}, out = new_like(h, HLO_BOOL, &a);
    hlo_begin(h, "compare", &out, in, 2);
    str_printf(&h->s, " {comparison_direction = #stablehlo<comparison_direction %s>, ", direction);
    str_printf(&h->s, "compare_type = #stablehlo<comparison_type %s>}",
            is_real(a.type)     ? "FLOAT"
            : a.type == HLO_I32 ? "SIGNED"
                                : "UNSIGNED");
    hlo_finish(h, &out, in, 2);
    return out;
}

hlo_value hlo_select(hlo_text *h, hlo_value condition, hlo_value yes, hlo_value no) {
    DRV_ASSERT(same_dims(&condition, &yes) && same_dims(&yes, &no) && yes.type == no.type,
            "select of %%v%d and %%v%d", yes.id, no.id);
    return plain(h, "select", new_like(h, yes.type, &yes), (hlo_value[]){condition, yes, no}, 3);
}

// --- shapes
hlo_value hlo_broadcast(hlo_text *h, hlo_value x, int n_dims, const int64_t *dim,
        const int64_t *dims) {
    const hlo_value out = hlo_new(h, x.type, n_dims, dim);
    hlo_begin(h, "broadcast_in_dim", &out, &x, 1);
    str_puts(&h->s, " {broadcast_dimensions = ");
    hlo_put_list(h, x.n_dims, dims);
    str_puts(&h->s, "}");
    hlo_finish(h, &out, &x, 1);
    return out;
}

hlo_value hlo_spread(hlo_text *h, hlo_value x, const hlo_value *like) {
    return hlo_broadcast(h, x, like->n_dims, like->dim, NULL);
}

hlo_value hlo_along(hlo_text *h, hlo_value x, const hlo_value *like, int64_t dim) {
    DRV_ASSERT(x.n_dims == 1 && x.dim[0] == like->dim[dim], "%%v%d along %d", x.id, (int)dim);
    return hlo_broadcast(h, x, like->n_dims, like->dim, &dim);
}

hlo_value hlo_reshape(hlo_text *h, hlo_value x, int n_dims, const int64_t *dim) {
    const hlo_value out = hlo_new(h, x.type, n_dims, dim);
    DRV_ASSERT(hlo_elements(&out) == hlo_elements(&x), "reshape of %%v%d", x.id);
    return same_dims(&out, &x) ? x : plain(h, "reshape", out, &x, 1);
}

hlo_value hlo_transpose(hlo_text *h, hlo_value x, const int64_t *order) {
    hlo_value out = new_like(h, x.type, &x);
    for (int i = 0; i < x.n_dims; i++)
        out.dim[i] = x.dim[order[i]];
    hlo_begin(h, "transpose", &out, &x, 1);
    str_puts(&h->s, " {permutation = ");
    hlo_put_list(h, x.n_dims, order);
    str_puts(&h->s, "}");
    hlo_finish(h, &out, &x, 1);
    return out;
}

// Appends three attributes, each a list with a number for each dim.
static void put_lists(hlo_text *h, int n, const char *const names[3],
        const int64_t *const lists[3]) {
    for (int i = 0; i < 3; i++) {
        str_printf(&h->s, "%s%s = ", i ? ", " : " {", names[i]);
        hlo_put_list(h, n, lists[i]);
    }
    str_puts(&h->s, "}");
}

// Finds the matrix that has columns [first, first + n) of a joined value. NULL: there is none.
static const hlo_value *find_joined(const hlo_value *x, int64_t first, int64_t n) {
    int64_t begin = 0;
    for (int i = 0; x->joined && i < x->joined->n; begin += x->joined->of[i++].dim[1])
        if (begin == first && x->joined->of[i].dim[1] == n) return &x->joined->of[i];
    return NULL;
}

hlo_value hlo_slice(hlo_text *h, hlo_value x, int dim, int64_t first, int64_t n_taken) {
    DRV_ASSERT(first >= 0 && first + n_taken <= x.dim[dim], "slice of %%v%d", x.id);
    const hlo_value *whole = dim == 1 ? find_joined(&x, first, n_taken) : NULL;
    if (n_taken == x.dim[dim]) return x;
    if (whole) return *whole;
    int64_t start[HLO_MAX_DIMS] = {0}, limit[HLO_MAX_DIMS], stride[HLO_MAX_DIMS];
    hlo_value out = new_like(h, x.type, &x);
    for (int i = 0; i < x.n_dims; i++) {
        limit[i] = x.dim[i];
        stride[i] = 1;
    }
    start[dim] = first;
    limit[dim] = first + n_taken;
    out.dim[dim] = n_taken;
    hlo_begin(h, "slice", &out, &x, 1);
    put_lists(h, x.n_dims, (const char *const[]){"start_indices", "limit_indices", "strides"},
            (const int64_t *const[]){start, limit, stride});
    hlo_finish(h, &out, &x, 1);
    return out;
}

hlo_value hlo_element(hlo_text *h, hlo_value vector, int64_t i) {
    return hlo_reshape(h, hlo_slice(h, vector, 0, i, 1), 0, NULL);
}

hlo_value hlo_concat(hlo_text *h, const hlo_value *x, int n, int dim) {
    if (n == 1) return x[0];
    hlo_value out = new_like(h, x[0].type, &x[0]);
    for (int i = 1; i < n; i++)
        out.dim[dim] += x[i].dim[dim];
    hlo_begin(h, "concatenate", &out, x, n);
    str_printf(&h->s, " {dimension = %d : i64}", dim);
    hlo_finish(h, &out, x, n);
    return out;
}

hlo_value hlo_join(hlo_text *h, const hlo_value *x, int n) {
    DRV_ASSERT(n <= HLO_MAX_JOINED, "%d joined", n);
    hlo_value out = hlo_concat(h, x, n, 1);
    if (n == 1) return out;
    hlo_joined *joined = ARENA_NEW(h->a, hlo_joined);
    joined->n = n;
    memcpy(joined->of, x, sizeof *x * (size_t)n);
    out.joined = joined;
    return out;
}

hlo_value hlo_pad(hlo_text *h, hlo_value x, int dim, int64_t n) {
    if (n == x.dim[dim]) return x;
    const int64_t none[HLO_MAX_DIMS] = {0};
    int64_t after[HLO_MAX_DIMS] = {0};
    const hlo_value in[] = {x, hlo_scalar(h, x.type, 0)};
    hlo_value out = new_like(h, x.type, &x);
    after[dim] = n - x.dim[dim];
    out.dim[dim] = n;
    hlo_begin(h, "pad", &out, in, 2);
    put_lists(h, x.n_dims,
            (const char *const[]){"edge_padding_low", "edge_padding_high", "interior_padding"},
            (const int64_t *const[]){none, after, none});
    hlo_finish(h, &out, in, 2);
    return out;
}
