// Makes masks and tables of segments from positions.
//
// Legend: R rows of S tokens, T of the mask; M segments of a row at most; N = R S.
#include "backend/pjrt/stablehlo/lower_documents.h"

// As in JAX: a power of two, exact in bf16; below it cuDNN loses the differences of scores.
static const double NEVER = -0x1p41;

static bool same_rows(const document_rows *a, const document_rows *b) {
    return a->position == b->position && a->hidden == b->hidden && a->rows == b->rows &&
           a->seq == b->seq && a->padded == b->padded && a->window == b->window &&
           a->n_segments == b->n_segments;
}

struct row_mask {
    document_rows of;
    hlo_value value;
    struct row_mask *next;
};

struct row_segments {
    document_rows of;
    segment_table table;
    struct row_segments *next;
};

// --- the mask
// Repeats a number of each query, [R, T], for every key.
static hlo_value of_queries(hlo_text *h, hlo_value x, const hlo_value *like) {
    static const int64_t dims[] = {0, 2};
    return hlo_broadcast(h, x, like->n_dims, like->dim, dims);
}

// Returns one end of the range that is hidden from each token, [R, T].
static hlo_value hidden_end(lowering *l, const document_rows *of, int which) {
    hlo_text *h = &l->h;
    hlo_value x = hlo_reshape(h, l->values[of->hidden->id], HLO_DIMS(of->rows, of->seq, 2));
    x = hlo_reshape(h, hlo_slice(h, x, 2, which, 1), HLO_DIMS(of->rows, of->seq));
    return hlo_pad(h, x, 1, of->padded);
}

hlo_value lower_first_seen(hlo_text *h, hlo_value token, hlo_value position, const hlo_value *end,
        int64_t window) {
    if (window)
        position = hlo_binary(h, "minimum", position, hlo_fill(h, (double)window - 1, &position));
    const hlo_value first = hlo_binary(h, "subtract", token, position);
    if (!end) return first;
    hlo_value n = hlo_binary(h, "subtract", end[1], end[0]);
    if (window) // hidden tokens before the window do not matter
        n = hlo_select(h, hlo_compare(h, "LE", end[1], first), hlo_fill(h, 0, &n), n);
    return hlo_binary(h, "subtract", first, n);
}

static hlo_value make_mask(lowering *l, const document_rows *of) {
    hlo_text *h = &l->h;
    hlo_value end[2] = {{0}},
              position = hlo_reshape(h, l->values[of->position->id], HLO_DIMS(of->rows, of->seq));
    for (int i = 0; of->hidden && i < 2; i++)
        end[i] = hidden_end(l, of, i);
    position = hlo_pad(h, position, 1, of->padded);
    const hlo_value token = hlo_iota(h, HLO_I32, 2, position.dim, 1),
                    first = lower_first_seen(h, token, position, of->hidden ? end : NULL,
                            of->window);
    const hlo_value key = hlo_iota(h, HLO_I32, HLO_DIMS(of->rows, 1, of->padded, of->padded), 3);
    hlo_value seen = hlo_compare(h, "GE", key, of_queries(h, first, &key));
    if (of->hidden) {
        const hlo_value before = hlo_compare(h, "LT", key, of_queries(h, end[0], &key)),
                        after = hlo_compare(h, "GE", key, of_queries(h, end[1], &key));
        seen = hlo_binary(h, "and", seen, hlo_binary(h, "or", before, after));
    }
    hlo_value like = key;
    like.type = HLO_BF16;
    return hlo_select(h, seen, hlo_fill(h, 0, &like), hlo_fill(h, NEVER, &like));
}

hlo_value lower_mask(lowering *l, const document_rows *of) {
    for (const struct row_mask *m = l->masks; m; m = m->next)
        if (same_rows(&m->of, of)) return m->value;
    struct row_mask *made = ARENA_NEW(l->g->a, struct row_mask);
    *made = (struct row_mask){*of, make_mask(l, of), l->masks};
    l->masks = made;
    return made->value;
}

// --- segments
// Returns the prefix sums of x [n].
static hlo_value running_sum(hlo_text *h, hlo_value x) {
    const int64_t n = x.dim[0];
    for (int64_t by = 1; by < n; by *= 2) {
        hlo_value part[] = {x, hlo_slice(h, x, 0, 0, n - by)};
        part[0].dim[0] = by;
        part[0] = hlo_fill(h, 0, &part[0]);
        x = hlo_binary(h, "add", x, hlo_concat(h, part, 2, 0));
    }
    return x;
}

// Numbers the segments of all rows consecutively, as cuDNN requires (JAX: _fix_seqlen_offsets).
static segment_table make_segments(lowering *l, const document_rows *of) {
    hlo_text *h = &l->h;
    const int64_t n = of->rows * of->seq, most = of->rows * of->n_segments,
                  n_firsts = of->rows * (of->n_segments + 1);
    segment_table out = {.place = l->values[of->position->id]};
    const hlo_value begins =
            hlo_convert(h, hlo_compare(h, "EQ", out.place, hlo_fill(h, 0, &out.place)), HLO_I32);
    out.segment = hlo_binary(h, "subtract", running_sum(h, begins), hlo_fill(h, 1, &begins));
    const hlo_value number = hlo_iota(h, HLO_I32, HLO_DIMS(n, n_firsts), 1),
                    before = hlo_compare(h, "LT", hlo_along(h, out.segment, &number, 0), number);
    out.first = hlo_reduce(h, "add", hlo_convert(h, before, HLO_I32), 1, (const int64_t[]){0});
    const hlo_value end = hlo_slice(h, out.first, 0, 1, most),
                    length = hlo_binary(h, "subtract", end, hlo_slice(h, out.first, 0, 0, most));
    out.length = hlo_reshape(h, length, HLO_DIMS(of->rows, of->n_segments));
    return out;
}

const segment_table *lower_segments(lowering *l, const document_rows *of) {
    for (const struct row_segments *s = l->segments; s; s = s->next)
        if (same_rows(&s->of, of)) return &s->table;
    struct row_segments *made = ARENA_NEW(l->g->a, struct row_segments);
    *made = (struct row_segments){*of, make_segments(l, of), l->segments};
    l->segments = made;
    return &made->table;
}
