// Computes preference and its gradient: gathers the data of each token from the ranks that share
// the rows, then processes the pairs in the order of their numbers, with a few operations per
// token.
//
// Workspace: data of this rank's tokens | of all ranks' tokens | where the tokens of each pair
// begin | tokens pair by pair.
#include <string.h>

#include "backend/cpu/cpu_op.h"
#include "base/exact_sum.h"
#include "ir/pair_loss.h"
#include "ir/pair_word.h"
#include "base/round.h"
#include "ir/token_sums.h"

typedef struct token_data {        // the data of a token
    double loss, reference, scale; // scale: the gradient of the sum that the token is in
    int64_t word;                  // ir/pair_word.h
} token_data;

typedef struct pair_call {
    const instruction *ins;
    int64_t n, n_all, first; // tokens here, on all ranks; index of the first one here among all
    const token_data *all;   // [n_all]
    int32_t *begin, *order;  // [n_all + 1], [n_all]
    double beta, smoothing;
    bool grad;
} pair_call;

typedef struct response {
    double log_prob, reference, reward;
    int64_t head; // index of its token; -1: there is none
} response;

static int n_ranks(const node *n) {
    return n->attrs.mesh.ranks > 1 ? n->attrs.mesh.ranks : 1;
}

static int64_t workspace(const node *n, int n_threads DRV_UNUSED) {
    const int64_t tokens = n->in[0]->dim[0], all = tokens * n_ranks(n);
    return (tokens + all) * (int64_t)sizeof(token_data) +
           round_up((2 * all + 1) * (int64_t)sizeof(int32_t), 64);
}

static void fill_data(const pair_call *call, token_data *mine) {
    const instruction *ins = call->ins;
    const double *loss = ins->in[0];
    const int32_t *words = ins->in[1];
    const int64_t in_sum = call->n / sums_of_tokens(&ins->node->attrs);
    for (int64_t t = 0; t < call->n; t++) {
        token_data *one = &mine[t];
        DRV_ASSERT(words[t] < 0 || pair_of_word(words[t]) < call->n_all, "pair of token %lld",
                (long long)t);
        *one = (token_data){.loss = loss[t], .word = words[t]};
        memcpy(&one->reference, input_at(ins, 2, 2 * t), sizeof one->reference);
        if (call->grad) one->scale = ((const double *)ins->in[3])[t / in_sum];
    }
}

// Sorts the tokens by the number of their pair, by counting.
static void sort_tokens(const pair_call *call) {
    memset(call->begin, 0, sizeof *call->begin * (size_t)(call->n_all + 1));
    for (int64_t i = 0; i < call->n_all; i++)
        if (call->all[i].word != PAIR_NONE) call->begin[pair_of_word((int32_t)call->all[i].word)]++;
    int32_t n = 0;
    for (int64_t pair = 0; pair <= call->n_all; pair++) {
        n += call->begin[pair];
        call->begin[pair] = n;
    }
    for (int64_t i = call->n_all - 1; i >= 0; i--)
        if (call->all[i].word != PAIR_NONE)
            call->order[--call->begin[pair_of_word((int32_t)call->all[i].word)]] = (int32_t)i;
}

static response find_response(const pair_call *call, int64_t pair, bool rejected) {
    response found = {.head = -1};
    exact_sum loss = {0};
    for (int32_t k = call->begin[pair]; k < call->begin[pair + 1]; k++) {
        const token_data *one = &call->all[call->order[k]];
        const int32_t word = (int32_t)one->word;
        if (pair_is_rejected(word) != rejected) continue;
        exact_add(&loss, one->loss);
        if (!pair_is_head(word)) continue;
        found.head = call->order[k];
        found.reference = one->reference;
    }
    found.log_prob = -exact_value(&loss);
    found.reward = call->beta * (found.log_prob - found.reference);
    return found;
}

// Adds the loss of a pair to its sum, on the rank that has the pair's head.
static void put_pair(const pair_call *call, const response *chosen, const response *rejected) {
    const instruction *ins = call->ins;
    const int64_t at = chosen->head - call->first;
    const double margin = chosen->reward - rejected->reward;
    if (at < 0 || at >= call->n) return;
    const int64_t sum = at / (call->n / sums_of_tokens(&ins->node->attrs));
    double *loss = ins->out[0], *figures = ins->out[1], *log_probs = ins->out[2];
    loss[sum] += pair_loss(margin, call->smoothing);
    figures[3 * sum] += chosen->reward;
    figures[3 * sum + 1] += rejected->reward;
    figures[3 * sum + 2] += chosen->reward > rejected->reward;
    log_probs[2 * at] = chosen->log_prob;
    log_probs[2 * at + 1] = rejected->log_prob;
}

// The loss of a token falls as its log-probability rises. The gradient for a chosen response is
// beta ((1 - eps) sigmoid(-margin) - eps sigmoid(margin)), for a rejected one the negative of that.
static void put_gradient(const pair_call *call, int64_t pair, double margin, double scale) {
    double *dtoken_loss = call->ins->out[3];
    const double of_chosen = scale * call->beta * pair_pull(margin, call->smoothing);
    for (int32_t k = call->begin[pair]; k < call->begin[pair + 1]; k++) {
        const int64_t at = call->order[k] - call->first;
        if (at < 0 || at >= call->n) continue;
        const bool rejected = pair_is_rejected((int32_t)call->all[call->order[k]].word);
        dtoken_loss[at] = rejected ? -of_chosen : of_chosen;
    }
}

static void process_pairs(const pair_call *call) {
    for (int64_t pair = 0; pair < call->n_all; pair++) {
        if (call->begin[pair] == call->begin[pair + 1]) continue;
        const response chosen = find_response(call, pair, false),
                       rejected = find_response(call, pair, true);
        DRV_ASSERT(chosen.head >= 0 && rejected.head >= 0, "pair %lld has no two responses",
                (long long)pair);
        put_pair(call, &chosen, &rejected);
        if (call->grad)
            put_gradient(call, pair, chosen.reward - rejected.reward, call->all[chosen.head].scale);
    }
}

static void preference(const instruction *ins) {
    const node *pairs = ins->node;
    pair_call call = {.ins = ins,
            .n = pairs->in[0]->dim[0],
            .beta = pairs->attrs.preference.beta,
            .smoothing = pairs->attrs.preference.smoothing,
            .grad = pairs->op == OP_preference_grad};
    token_data *mine = ins->workspace, *all = mine + call.n;
    call.n_all = call.n * n_ranks(pairs);
    call.all = ins->group ? all : mine;
    call.begin = (int32_t *)(void *)(all + call.n_all);
    call.order = call.begin + call.n_all + 1;
    fill_data(&call, mine);
    if (ins->group) {
        call.first = call.n * group_place(ins->group);
        *ins->failed = comm_all_gather(ins->group, mine, call.n * (int64_t)sizeof *mine, NULL, all);
        if (*ins->failed != DRV_OK) return;
    }
    for (int o = 0; o < pairs->n_out; o++)
        memset(ins->out[o], 0, (size_t)tensor_bytes(pairs->out[o]));
    sort_tokens(&call);
    process_pairs(&call);
}

const cpu_op cpu_op_preference = {.run = preference, .workspace = workspace};
const cpu_op cpu_op_preference_grad = {.run = preference, .workspace = workspace};
