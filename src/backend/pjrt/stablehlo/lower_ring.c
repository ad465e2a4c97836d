// Prints ring attention for rows that are split over ranks in a zigzag (ir/zigzag.h). Keys and
// values visit all ranks one after the other; their gradients travel with them, back to the owner.
//
// Rank j of n has the early chunk j and the late chunk 2 n - 1 - j of a row, and at hop h the keys
// of rank s = j - h. All ranks run one program, so its operations must not depend on j, only their
// values:
//
//   hop 0    the late queries with the early keys; each chunk with itself, causal
//   hop h    the late queries with the early keys; if s < j the early queries with the early keys,
//   else
//            the late queries with the late keys: these keys are all before these queries
//
// So each rank computes two pairs of chunks in a hop, and none with keys after the queries. Legend:
// as in lower_attention.c; S are the two chunks of this rank, one after the other, each padded.
#include "backend/pjrt/stablehlo/lower_attention.h"
#include "backend/pjrt/stablehlo/lower_collective.h"
#include "ir/zigzag.h"

enum { EARLY, LATE };

typedef struct ring_call {
    attention_call *c;
    const node *n;
    hlo_groups ranks;
    hlo_value place;     // of this rank, i32
    int hops;            // after which keys are back at their owner
    int first_iteration; // the hop of a loop's iteration 0
    hlo_body *pair;      // of blocks
    int n_sums;          // number of carried values that pairs add to
} ring_call;

// --- indices of tokens
// Returns the token indices of the two chunks of a rank, and `none` for padding.
static hlo_value numbers_of(const attention_call *c, const node *n, hlo_value place, double none) {
    hlo_text *h = &c->l->h;
    const int64_t tokens = c->seq / ZIGZAG_HALVES, padded = c->padded / ZIGZAG_HALVES;
    hlo_value token = hlo_iota(h, HLO_I32, 1, &padded, 0), chunk[ZIGZAG_HALVES],
              number[ZIGZAG_HALVES];
    const hlo_value inside = hlo_compare(h, "LT", token, hlo_fill(h, (double)tokens, &token));
    chunk[EARLY] = place;
    chunk[LATE] = hlo_binary(h, "subtract",
            hlo_fill(h, ZIGZAG_HALVES * n->attrs.mesh.ranks - 1, &place), place);
    for (int i = 0; i < ZIGZAG_HALVES; i++) {
        const hlo_value first = hlo_scale(h, chunk[i], (double)tokens);
        number[i] = hlo_binary(h, "add", token, hlo_spread(h, first, &token));
        number[i] = hlo_select(h, inside, number[i], hlo_fill(h, none, &token));
    }
    return hlo_concat(h, number, ZIGZAG_HALVES, 0);
}

// Returns the token indices of keys. Padding of queries sees nothing, and padding of keys is not
// seen.
static hlo_value keys_of(const attention_call *c, const node *n, hlo_value place) {
    return numbers_of(c, n, place, 1 << 30);
}

void lower_ring_open(attention_call *c, const node *n) {
    const hlo_value place = lower_place(c->l, (mesh_axis)n->attrs.mesh.axis);
    c->numbered = true;
    c->query = numbers_of(c, n, place, -1);
    c->key = keys_of(c, n, place);
}

// --- pairs of chunks
// Lists the pairs of blocks of a chunk of queries and a chunk of keys; if they are the same chunk,
// only those up to the diagonal.
static void add_pairs(attention_call *c, int query, int key, bool causal) {
    for (int i = 0; i < c->n_blocks; i++)
        for (int j = 0; j < (causal ? i + 1 : c->n_blocks); j++) {
            c->query_block[c->n_pairs] = query * c->n_blocks + i;
            c->key_block[c->n_pairs++] = key * c->n_blocks + j;
        }
}

static void run_pairs(const ring_call *r, hlo_value *carried) {
    hlo_repeat(&r->c->l->h, r->c->n_pairs, carried, r->n_sums, r->pair, r->c);
    r->c->n_pairs = 0;
}

static void own_keys(const ring_call *r, hlo_value *carried) {
    add_pairs(r->c, EARLY, EARLY, true);
    add_pairs(r->c, LATE, EARLY, false);
    add_pairs(r->c, LATE, LATE, true);
    run_pairs(r, carried);
}

// Attends to the keys of the rank that is `hop` places before this one.
static void keys_of_hop(const ring_call *r, hlo_index hop, hlo_value *carried) {
    attention_call *c = r->c;
    hlo_text *h = &c->l->h;
    const hlo_value hops = hlo_index_value(h, hop), n = hlo_fill(h, r->hops, &hops),
                    before = hlo_binary(h, "subtract", hlo_binary(h, "add", r->place, n), hops),
                    source = hlo_binary(h, "remainder", before, n);
    const hlo_value late = hlo_convert(h, hlo_compare(h, "GT", source, r->place), HLO_I32);
    c->key = keys_of(c, r->n, source);
    add_pairs(c, LATE, EARLY, false);
    run_pairs(r, carried);
    c->offset = hlo_index_times(h, (hlo_index){true, 0, late}, c->padded / ZIGZAG_HALVES);
    add_pairs(c, EARLY, EARLY, false);
    run_pairs(r, carried);
    c->offset = hlo_at(0);
}

// Sends x to the next rank of the ring.
static hlo_value pass_on(const ring_call *r, hlo_value x) {
    return hlo_shift(&r->c->l->h, x, r->ranks);
}

static ring_call open_ring(attention_call *c, const node *n, hlo_body *pair, int n_sums) {
    const mesh_axis axis = (mesh_axis)n->attrs.mesh.axis;
    const int64_t most = 3 * (int64_t)c->n_blocks * c->n_blocks;
    c->query_block = ARENA_ARRAY(c->l->g->a, int64_t, most);
    c->key_block = ARENA_ARRAY(c->l->g->a, int64_t, most);
    c->n_pairs = 0;
    return (ring_call){.c = c,
            .n = n,
            .ranks = lower_neighbours(c->l, axis, n->attrs.mesh.ranks),
            .place = lower_place(c->l, axis),
            .hops = n->attrs.mesh.ranks,
            .pair = pair,
            .n_sums = n_sums};
}

static hlo_index hop_of(hlo_text *h, const ring_call *r, hlo_index iteration) {
    if (!iteration.moves) return hlo_at(iteration.fixed + r->first_iteration);
    const hlo_value first = hlo_fill(h, r->first_iteration, &iteration.value);
    return (hlo_index){true, 0, hlo_binary(h, "add", iteration.value, first)};
}

// --- carried over hops: sums, then keys and values, which are sent on during the computation
enum { MAX_SUMS = 3 };

static void hop_body(hlo_text *h, const ring_call *r, hlo_index iteration, hlo_value *carried,
        bool last, void (*compute)(const ring_call *r, hlo_index hop, hlo_value *carried)) {
    hlo_value *k = carried + r->n_sums, *v = k + 1;
    r->c->k = *k;
    r->c->v = *v;
    if (!last) *k = pass_on(r, *k);
    if (!last) *v = pass_on(r, *v);
    compute(r, hop_of(h, r, iteration), carried);
}

static void forward_hop(hlo_text *h, void *ctx, hlo_index iteration, hlo_value *carried) {
    hop_body(h, ctx, iteration, carried, false, keys_of_hop);
}

// Adds the gradients of keys that this rank computes to those that arrive with the keys.
static void add_gradients(const ring_call *r, hlo_index hop, hlo_value *carried) {
    hlo_text *h = &r->c->l->h;
    hlo_value here[N_GRADIENTS] = {carried[DQ]};
    for (int i = DK; i < N_GRADIENTS; i++)
        here[i] = hlo_fill(h, 0, &carried[i]);
    keys_of_hop(r, hop, here);
    carried[DQ] = here[DQ];
    for (int i = DK; i < N_GRADIENTS; i++)
        carried[i] = hlo_binary(h, "add", pass_on(r, carried[i]), here[i]);
}

static void backward_hop(hlo_text *h, void *ctx, hlo_index iteration, hlo_value *carried) {
    hop_body(h, ctx, iteration, carried, false, add_gradients);
}

static void go_around(ring_call *r, hlo_value *sums, hlo_body *hop,
        void (*compute)(const ring_call *r, hlo_index hop, hlo_value *carried)) {
    hlo_text *h = &r->c->l->h;
    hlo_value carried[MAX_SUMS + 2];
    const hlo_value k = pass_on(r, r->c->k), v = pass_on(r, r->c->v);
    own_keys(r, sums);
    for (int i = 0; i < r->n_sums; i++)
        carried[i] = sums[i];
    carried[r->n_sums] = k;
    carried[r->n_sums + 1] = v;
    r->first_iteration = 1;
    if (r->hops > 2) hlo_repeat(h, r->hops - 2, carried, r->n_sums + 2, hop, r);
    hop_body(h, r, hlo_at(r->hops - 2), carried, true, compute);
    for (int i = 0; i < r->n_sums; i++)
        sums[i] = carried[i];
}

void lower_ring_pairs(attention_call *c, const node *n, hlo_value carried[N_FORWARD]) {
    ring_call r = open_ring(c, n, attention_pair, N_FORWARD);
    go_around(&r, carried, forward_hop, keys_of_hop);
}

// Tensor ranks that share a key-value head each have gradients from other query heads.
static void join_replicas(const ring_call *r, hlo_value carried[N_GRADIENTS]) {
    lowering *l = r->c->l;
    const hlo_groups replicas = lower_neighbours(l, AXIS_TENSOR, r->n->attrs.mesh.replicas);
    const int64_t heads = carried[DK].dim[0];
    const hlo_value both =
            hlo_all_reduce(&l->h, "add", hlo_concat(&l->h, &carried[DK], 2, 0), replicas);
    carried[DK] = hlo_slice(&l->h, both, 0, 0, heads);
    carried[DV] = hlo_slice(&l->h, both, 0, heads, heads);
}

void lower_ring_grad(attention_call *c, const node *n, hlo_value carried[N_GRADIENTS]) {
    ring_call r = open_ring(c, n, attention_grad_pair, N_GRADIENTS);
    go_around(&r, carried, backward_hop, add_gradients);
    carried[DK] = pass_on(&r, carried[DK]);
    carried[DV] = pass_on(&r, carried[DV]);
    if (n->attrs.mesh.replicas > 1) join_replicas(&r, carried);
}
