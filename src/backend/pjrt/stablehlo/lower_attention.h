// Shared by attention on one device and the ring over several (lower_ring.c): a call that is being
// lowered, and the work of a pair of blocks. Legend: lower_attention.c.
#pragma once
#include "backend/pjrt/stablehlo/lower.h"

typedef struct attention_call {
    lowering *l;
    int64_t rows, seq, padded, block, n_heads, n_kv, group, d;
    int n_chunks; // of a row on this rank, each padded to n_blocks blocks
    int n_blocks, n_pairs;
    int64_t *query_block, *key_block; // by pair
    hlo_index offset;                 // in tokens, of the queries and keys of all pairs
    hlo_type dt, acc;
    double scale;
    int window;                // the most tokens that a token sees; 0: any number
    hlo_value q, k, v;         // [RK, G, S, D], [RK, S, D]
    bool numbered;             // tokens have the indices below; else they count from 0 in S
    hlo_value query, key;      // i32 [S]: their indices in the row
    hlo_value first;           // i32 [RK, G, S]: the first token that each sees
    bool continuations;        // it does not see tokens from hidden[0] to before hidden[1], either
    hlo_value hidden[2];       // i32 [RK, G, S]
    hlo_value d_o, lse, delta; // of the gradient: [RK, G, S, D], [RK, G, S]
} attention_call;

// The values that one pair passes to the next. Forward, of each query: the largest score, the sum
// of exponentials, and the sum of values; backward: the sums of gradients.
enum { MAX, SUM, OUT, N_FORWARD };
enum { DQ, DK, DV, N_GRADIENTS };
hlo_body attention_pair, attention_grad_pair; // ctx: attention_call

// For rows that ranks share (attrs.mesh.ranks > 1): lower_ring_open finds the indices of this
// rank's tokens; the others process all pairs with the keys of all ranks.
void lower_ring_open(attention_call *c, const node *n);
void lower_ring_pairs(attention_call *c, const node *n, hlo_value carried[N_FORWARD]);
void lower_ring_grad(attention_call *c, const node *n, hlo_value carried[N_GRADIENTS]);
