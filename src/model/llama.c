// Builds the graph of a Llama and of related families (model/family/model_family.h). The residual
// stream h and the output of the last layer block are separate values: see norm_of_stream.
#include "model/llama.h"

#include "ir/program_inputs.h"

typedef struct builder {
    graph *g;
    const model_layout *l;
    const param_list *params;
    const llama_opts *opts;
    llama_mode mode;
    const layer_chunk *layers;
    bool staged; // one of several stages
    bool is_first, is_last;
    tensor *position, *rope; // rope_ND
    tensor *hidden;          // of rows with continuations or pairs; else NULL
} builder;

static tensor *add1(builder *b, op_kind op, int n_in, tensor *const *in, op_attrs attrs) {
    return graph_add(b->g, op, n_in, in, &attrs)->out[0];
}

// Returns the tensor of a weight; a tied table that is used twice is one tensor.
static tensor *weight(builder *b, const param *p) {
    tensor *w = graph_find(b->g, p->name);
    if (w) return w;
    w = graph_state(b->g, TENSOR_WEIGHT, p->name, param_dtype(p, b->opts->dt), p->n_dims, p->dim);
    w->trainable = p->trainable;
    w->blocks = p->blocks;
    return w;
}

// Sets the attributes of the gradient of a replicated weight: a sum over tokens, which tensor ranks
// may share.
static void sum_over_tokens(const builder *b, op_attrs *attrs) {
    if (b->l->all_blocks <= 1) return;
    attrs->sum.dw_blocks = b->l->sequence ? b->l->blocks : b->l->all_blocks;
    if (!b->l->sequence) return;
    attrs->mesh.axis = AXIS_TENSOR;
    attrs->sum.dw_ranks = b->l->mesh.size[AXIS_TENSOR];
}

// The axes whose ranks may hold other rows or columns of an operand.
static int axes_of_operands(const builder *b) {
    int axes = 0;
    if (b->l->mesh.size[AXIS_TENSOR] > 1) axes |= 1 << AXIS_TENSOR;
    if (b->l->mesh.size[AXIS_CONTEXT] > 1) axes |= 1 << AXIS_CONTEXT;
    return axes;
}

// Sets the reduction blocks of sums over dimensions that tensor ranks split: in y over the columns
// of x; in dx over the columns of y, where a block has some columns of each part of the weight; in
// the gradient of the weight over tokens (docs/adr/0012).
static tensor *times_weight_in(builder *b, tensor *x_NK, const param *w_OK, fp8_use fp8) {
    tensor *in[] = {x_NK, weight(b, w_OK)};
    op_attrs attrs = {
            .matmul = {.tb = 1, .fp8 = (int)fp8, .fp8_axes = fp8 ? axes_of_operands(b) : 0}};
    const bool several = b->l->mesh.size[AXIS_TENSOR] > 1, blocks = b->l->all_blocks > 1;
    if (w_OK->split == SPLIT_COLUMNS && blocks) {
        attrs.sum.blocks = b->l->blocks;
        attrs.sum.wide = several;
    }
    if (w_OK->split == SPLIT_ROWS && blocks) {
        attrs.sum.dx_blocks = b->l->blocks;
        attrs.sum.dx_wide = several;
        if (w_OK->n_parts > 1) attrs.sum.segment2 = (int)w_OK->part[1].row;
        if (w_OK->n_parts > 2) attrs.sum.segment3 = (int)w_OK->part[2].row;
    }
    if (w_OK->split == SPLIT_NONE) sum_over_tokens(b, &attrs);
    return add1(b, OP_matmul, 2, in, attrs);
}

static tensor *times_weight(builder *b, tensor *x_NK, const param *w_OK) {
    return times_weight_in(b, x_NK, w_OK, FP8_NONE);
}

// Multiplies by a matrix of a layer, in fp8 if the run asks for it and it is not in blocks.
static tensor *times_layer_weight(builder *b, tensor *x_NK, const param *w_OK) {
    return times_weight_in(b, x_NK, w_OK, b->opts->fp8 && !w_OK->blocks ? FP8_FORWARD : FP8_NONE);
}

static bool is_cached(const builder *b) {
    return b->mode == LLAMA_PREFILL || b->mode == LLAMA_DECODE;
}

// Programs with caches exist side by side and take different numbers of tokens, so each has inputs
// of its own; so do the stages of a rank, which work on different micro-batches.
static const char *name_of_input(const builder *b, program_input which) {
    arena *a = b->g->a;
    if (is_cached(b)) return arena_printf(a, "%s.%s", b->g->name, program_inputs[which].name);
    return arena_strdup(a, input_name_of(which, b->staged ? b->opts->chunk : INPUT_ALONE).text);
}

static tensor *input(builder *b, program_input which, dtype dt, int n_dims, const int64_t *dim) {
    tensor *t = graph_state(b->g, TENSOR_INPUT, name_of_input(b, which), dt, n_dims, dim);
    if (b->opts->n_slots) t->n_slots = b->opts->n_slots;
    return t;
}

static tensor *token_input(builder *b, program_input which) {
    const program_input_row *row = &program_inputs[which];
    const int64_t n = row->per_token * b->opts->rows * b->opts->seq;
    return input(b, which, row->dt, 1, &n);
}

// Returns the attributes of a collective over the tensor axis; all zero if that has one rank.
static op_attrs over_tensor(const builder *b) {
    const int ranks = b->l->mesh.size[AXIS_TENSOR];
    return ranks > 1 ? (op_attrs){.mesh.axis = AXIS_TENSOR, .mesh.ranks = ranks} : (op_attrs){0};
}

static op_attrs split_vocabulary(const builder *b) {
    op_attrs attrs = over_tensor(b);
    if (attrs.mesh.ranks) attrs.vocabulary.part = (int)b->l->vocab_part;
    return attrs;
}

// Prepares the input of column-parallel products: gathers all tokens; ranks then compute different
// columns.
static tensor *enter(builder *b, tensor *x_NH) {
    const op_attrs attrs = over_tensor(b);
    if (!attrs.mesh.ranks) return x_NH;
    return add1(b, b->l->sequence ? OP_all_gather : OP_share, 1, &x_NH, attrs);
}

// Sums the outputs of row-parallel products, which are partial sums.
static tensor *leave(builder *b, tensor *y_NH) {
    const op_attrs attrs = over_tensor(b);
    if (!attrs.mesh.ranks) return y_NH;
    y_NH = add1(b, b->l->sequence ? OP_reduce_scatter : OP_all_reduce, 1, &y_NH, attrs);
    if (y_NH->dt == b->opts->dt) return y_NH;
    return add1(b, OP_narrow, 1, &y_NH, (op_attrs){.narrow.to = b->opts->dt});
}

// `part`: the part of x on this rank if ranks share it.
static tensor *dropped(builder *b, tensor *x_MK, int site, op_attrs part) {
    const llama_opts *opts = b->opts;
    tensor *origin = graph_find(b->g, name_of_input(b, INPUT_ORIGIN));
    if (!origin) origin = token_input(b, INPUT_ORIGIN);
    part.dropout.seq = (int)opts->seq;
    part.dropout.rate = opts->dropout;
    part.dropout.site = site;
    part.dropout.seed = (double)opts->seed;
    return add1(b, OP_dropout, 2, (tensor *[]){x_MK, origin}, part);
}

// The first half of the low-rank branches of an input, t = x A^T for all of them at once.
static tensor *branches_down(builder *b, tensor *x_MK, const param *w_OK) {
    const param_branches *branches = w_OK->branches;
    const bool columns = w_OK->split == SPLIT_COLUMNS;
    op_attrs part = columns || b->l->sequence ? over_tensor(b) : (op_attrs){0};
    if (part.mesh.ranks) part.mesh.dim = columns;
    if (b->opts->dropout > 0) x_MK = dropped(b, x_MK, branches->site, part);
    return times_weight(b, x_MK, branches->a);
}

// Adds the second half of the branches to some columns of y_NO. If tensor ranks split the columns,
// the gradient of t is a sum over them.
static tensor *branches_up(builder *b, tensor *y_NO, tensor *t_NR, const param *w_OK) {
    const param_branches *branches = w_OK->branches;
    tensor *in[2 + MAX_PARTS] = {y_NO, t_NR};
    for (int i = 0; i < branches->n; i++)
        in[2 + i] = weight(b, branches->b[i]);
    op_attrs attrs = {.low_rank.branches[0].alpha = branches->scale[0],
            .low_rank.branches[1].alpha = branches->scale[1],
            .low_rank.branches[2].alpha = branches->scale[2],
            .low_rank.branches[0].column = branches->column[0],
            .low_rank.branches[1].column = branches->column[1],
            .low_rank.branches[2].column = branches->column[2]};
    if (w_OK->split != SPLIT_ROWS) {
        sum_over_tokens(b, &attrs);
    } else if (b->l->all_blocks > 1) {
        attrs.sum.dx_blocks = b->l->blocks;
        attrs.sum.dx_wide = b->l->mesh.size[AXIS_TENSOR] > 1;
    }
    return add1(b, OP_lora_up, 2 + branches->n, in, attrs);
}

// A column-parallel product and its bias. Its low-rank branches compute t = x A^T before ranks
// exchange x, so that only t crosses the network: A is replicated, B is split as the product is
// (docs/adr/0008).
static tensor *spread_linear(builder *b, tensor *x_MK, const param *w_OK) {
    tensor *y_NO = times_layer_weight(b, enter(b, x_MK), w_OK);
    if (w_OK->bias)
        y_NO = add1(b, OP_add_bias, 2, (tensor *[]){y_NO, weight(b, w_OK->bias)}, (op_attrs){0});
    if (!w_OK->branches) return y_NO;
    return branches_up(b, y_NO, enter(b, branches_down(b, x_MK, w_OK)), w_OK);
}

// A row-parallel product: A is split as x is; B is replicated and applied to the sum.
static tensor *joined_linear(builder *b, tensor *x_NK, const param *w_OK) {
    tensor *y_MO = leave(b, times_layer_weight(b, x_NK, w_OK));
    if (!w_OK->branches) return y_MO;
    return branches_up(b, y_MO, leave(b, branches_down(b, x_NK, w_OK)), w_OK);
}

static tensor *rope_table(builder *b) {
    const model_config *m = b->l->model;
    const op_attrs attrs = {.heads.head_dim = b->l->head_dim,
            .rope.table_dtype = dtype_acc(b->opts->dt),
            .rope.theta = m->rope_theta,
            .rope.factor = m->rope_factor,
            .rope.low_freq_factor = m->rope_low_freq_factor,
            .rope.high_freq_factor = m->rope_high_freq_factor,
            .rope.original_context = (double)m->rope_original_context};
    return add1(b, OP_rope_table, 1, &b->position, attrs);
}

// Normalises the residual stream, whose value is *h + *block: the norm adds the output of the last
// block in the same pass over memory. block NULL: there is nothing to add.
static tensor *norm_of_stream(builder *b, const param *p, tensor **h, tensor **block) {
    tensor *w = weight(b, p);
    op_attrs attrs = b->l->sequence ? over_tensor(b) : (op_attrs){0};
    attrs.norm.eps = b->l->model->rms_norm_eps;
    if (b->l->all_blocks > 1) // of tokens
        attrs.sum.blocks = b->l->sequence ? b->l->blocks : b->l->all_blocks;
    if (!*block) return add1(b, OP_rmsnorm, 2, (tensor *[]){*h, w}, attrs);
    node *n = graph_add(b->g, OP_add_rmsnorm, 3, (tensor *[]){*h, *block, w}, &attrs);
    *h = n->out[0];
    *block = NULL;
    return n->out[1];
}

static tensor *cache(builder *b, const char *kind) {
    const char *name = arena_printf(b->g->a, "cache.%d.%s", b->g->layer, kind);
    const int64_t dim[] = {b->l->n_kv_heads, b->opts->capacity, b->l->head_dim};
    return graph_state(b->g, TENSOR_CACHE, name, b->opts->dt, 3, dim);
}

static int node_row_blocks(const builder *b) {
    return b->g->row_blocks > 1 ? b->g->row_blocks : 0;
}

// Returns whether the attention op itself adds the parts of tensor ranks that share a key-value
// head: it does if context ranks share rows.
static bool attention_joins(const builder *b) {
    return b->l->mesh.size[AXIS_CONTEXT] > 1 || node_row_blocks(b);
}

// Returns the size of this layer's attention window; 0: rows and caches are no longer than it.
static int window_of_layer(const builder *b) {
    const model_config *m = b->l->model;
    const int64_t row =
            is_cached(b) ? b->opts->capacity : b->opts->seq * b->l->mesh.size[AXIS_CONTEXT];
    return b->g->layer >= m->max_window_layers && m->sliding_window < row ? (int)m->sliding_window
                                                                          : 0;
}

// Returns the attributes of attention. `all_heads` counts the heads of the whole model, by which
// the op cuts its work if tensor ranks share them.
static op_attrs attrs_of_attention(const builder *b) {
    const model_layout *l = b->l;
    const int all = over_tensor(b).mesh.ranks ? (int)l->model->num_attention_heads : 0;
    op_attrs attrs = {.heads = {l->n_heads, l->n_kv_heads, l->head_dim},
            .attention = {.seq = (int)b->opts->seq,
                    .causal = b->opts->causal,
                    .documents = b->opts->documents,
                    .window = window_of_layer(b),
                    .all_heads = all},
            .sum.row_blocks = node_row_blocks(b),
            .sum.blocks = l->head_blocks > 1 ? l->head_blocks : 0,
            .sum.wide = l->replicas > 1 && !attention_joins(b),
            .mesh.replicas = l->replicas > 1 && attention_joins(b) ? l->replicas : 0};
    if (l->mesh.size[AXIS_CONTEXT] > 1) {
        attrs.mesh.axis = AXIS_CONTEXT;
        attrs.mesh.ranks = l->mesh.size[AXIS_CONTEXT];
    }
    return attrs;
}

// Adds `op` between a rank's share of a key-value head and the whole head, if several ranks work
// with one head.
static tensor *over_replicas(builder *b, op_kind op, tensor *qkv) {
    if (b->l->replicas == 1) return qkv;
    op_attrs attrs = over_tensor(b);
    attrs.mesh.replicas = b->l->replicas;
    attrs.heads.n_heads = b->l->n_heads;
    attrs.heads.head_dim = b->l->head_dim;
    return add1(b, op, 1, &qkv, attrs);
}

// Normalises heads. Each is whole at this point, and every rank has all tokens.
static tensor *norm_of_heads(builder *b, const layer_params *w, tensor *qkv_NC) {
    const model_layout *l = b->l;
    op_attrs attrs = over_tensor(b);
    attrs.mesh.replicas = l->replicas > 1 ? l->replicas : 0;
    attrs.norm.eps = l->model->rms_norm_eps;
    attrs.heads.n_heads = l->n_heads;
    attrs.heads.n_kv_heads = l->n_kv_heads;
    attrs.heads.head_dim = l->head_dim;
    tensor *in[] = {qkv_NC, weight(b, w->q_norm), weight(b, w->k_norm)};
    return add1(b, OP_head_norm, 3, in, attrs);
}

static tensor *rotated(builder *b, tensor *qkv_NC) {
    const model_layout *l = b->l;
    if (!model_layer_rotates(l->model, b->g->layer)) return qkv_NC;
    const op_attrs attrs = {.heads.n_heads = l->n_heads + l->n_kv_heads,
            .heads.head_dim = l->head_dim};
    return add1(b, OP_rope, 2, (tensor *[]){qkv_NC, b->rope}, attrs);
}

static tensor *attention_block(builder *b, const layer_params *w, tensor *x_NH) {
    tensor *whole_NC = over_replicas(b, OP_gather_kv, spread_linear(b, x_NH, w->qkv));
    if (w->q_norm) whole_NC = norm_of_heads(b, w, whole_NC);
    tensor *qkv_NC = rotated(b, whole_NC);
    if (!attention_joins(b)) qkv_NC = over_replicas(b, OP_share_kv, qkv_NC);
    const op_attrs attrs = attrs_of_attention(b);
    if (!is_cached(b)) {
        tensor *in[] = {qkv_NC, b->position, b->hidden};
        return joined_linear(b, add1(b, OP_attention, b->hidden ? 3 : 2, in, attrs), w->o);
    }
    tensor *keys = cache(b, "keys"), *values = cache(b, "values");
    tensor *in[] = {qkv_NC, keys, values, b->position};
    return joined_linear(b, add1(b, OP_cached_attention, 4, in, attrs), w->o);
}

static tensor *mlp_block(builder *b, const layer_params *w, tensor *x_NH) {
    tensor *gate_up_N2F = spread_linear(b, x_NH, w->gate_up);
    tensor *y_NF = add1(b, OP_swiglu, 1, &gate_up_N2F, (op_attrs){0});
    return joined_linear(b, y_NF, w->down);
}

static int64_t tokens_of_partial_sum(const builder *b) {
    return b->opts->rows * b->opts->seq / b->g->row_blocks / b->g->partial_sums;
}

// Returns how many rows of logits are in memory at a time: enough for an efficient GEMM, and at
// most 256 MiB for each rank on a CPU; a device has a bound of its own. The chunks determine the
// order of the gradient's sum, so ranks that share the vocabulary, or the row, use the same ones
// within a reduction block. A chunk is part of a partial sum, or as many whole ones as fit.
static int logit_rows(const builder *b) {
    const int64_t bound = b->opts->logit_bytes ? b->opts->logit_bytes : 256 << 20;
    int64_t n = tokens_of_partial_sum(b), rows = b->opts->logit_bytes ? 1 << 14 : 512;
    while (rows > 32 && rows * b->l->model->vocab_size * 4 > bound)
        rows /= 2;
    if (rows <= n) return (int)rows;
    return (int)(n * (rows / n < b->g->partial_sums ? rows / n : b->g->partial_sums));
}

// Returns the head's weight; a tied table is used here for the second time.
static tensor *head_table(builder *b) {
    tensor *w_VH = weight(b, b->params->head);
    if (b->params->head != b->params->embedding) return w_VH;
    return add1(b, OP_share, 1, &w_VH, (op_attrs){.mesh.axis = AXIS_PIPELINE, .mesh.ranks = 1});
}

static op_attrs loss_attrs(const builder *b) {
    op_attrs attrs = split_vocabulary(b);
    attrs.vocabulary.chunk = logit_rows(b);
    attrs.sum.row_blocks = node_row_blocks(b);
    attrs.sum.partial_sums = b->g->partial_sums > 1 ? b->g->partial_sums : 0;
    attrs.sum.apart = (b->opts->adds_up || attrs.sum.partial_sums) &&
                      attrs.vocabulary.chunk < tokens_of_partial_sum(b);
    if (b->l->all_blocks > 1) {
        attrs.sum.blocks = b->l->blocks;
        attrs.vocabulary.part = (int)b->l->vocab_part;
        attrs.sum.dx_wide = attrs.mesh.ranks > 1;
    }
    return attrs;
}

// Adds the loss of preference pairs, computed from the losses of their tokens on all context ranks.
static void pairs(builder *b, tensor *token_loss_N) {
    op_attrs attrs = {.preference.beta = b->opts->preference.beta,
            .preference.smoothing = b->opts->preference.label_smoothing,
            .sum.row_blocks = node_row_blocks(b),
            .sum.partial_sums = b->g->partial_sums > 1 ? b->g->partial_sums : 0};
    if (b->l->mesh.size[AXIS_CONTEXT] > 1) {
        attrs.mesh.axis = AXIS_CONTEXT;
        attrs.mesh.ranks = b->l->mesh.size[AXIS_CONTEXT];
    }
    tensor *in[] = {token_loss_N, token_input(b, INPUT_PAIR), token_input(b, INPUT_REFERENCE)};
    node *n = graph_add(b->g, OP_preference, 3, in, &attrs);
    graph_output(b->g, n->out[0], "loss");
    graph_output(b->g, n->out[1], "figures");
    graph_output(b->g, n->out[2], "log_probs");
}

static void head(builder *b, tensor *x_NH) {
    if (b->mode != LLAMA_LOSS && b->mode != LLAMA_SCORE) {
        graph_output(b->g, times_weight(b, x_NH, b->params->head), "logits");
        return;
    }
    tensor *w_VH = head_table(b);
    tensor *in[] = {enter(b, x_NH), w_VH, token_input(b, INPUT_LABELS)};
    const op_attrs attrs = loss_attrs(b);
    node *n = graph_add(b->g, OP_linear_cross_entropy, 3, in, &attrs);
    if (b->mode == LLAMA_LOSS && b->opts->preference.beta > 0)
        pairs(b, n->out[1]);
    else if (b->mode == LLAMA_LOSS)
        graph_output(b->g, n->out[0], "loss");
    else
        graph_output(b->g, n->out[1], "token_loss");
}

// Returns the residual stream with which the layers of this stage begin.
static tensor *enter_stage(builder *b) {
    const model_layout *l = b->l;
    tensor *h_NH;
    if (b->is_first) {
        tensor *in[] = {token_input(b, INPUT_TOKENS), weight(b, b->params->embedding)};
        b->position = token_input(b, INPUT_POSITION);
        h_NH = leave(b, add1(b, OP_embedding, 2, in, split_vocabulary(b)));
    } else {
        const int64_t n = b->opts->rows * b->opts->seq;
        const int64_t dim[] = {l->sequence ? n / l->mesh.size[AXIS_TENSOR] : n, l->hidden};
        h_NH = input(b, INPUT_STREAM, b->opts->dt, 2, dim);
        h_NH->trainable = !b->opts->frozen_before;
        b->position = token_input(b, INPUT_POSITION);
    }
    b->rope = rope_table(b);
    if (b->opts->continuations || b->opts->preference.beta > 0)
        b->hidden = token_input(b, INPUT_HIDDEN);
    return h_NH;
}

static void leave_stage(builder *b, tensor *h_NH, tensor *block_NH) {
    if (!b->is_last) {
        tensor *in[] = {h_NH, block_NH};
        graph_output(b->g, add1(b, OP_add, 2, in, (op_attrs){0}),
                arena_printf(b->g->a, STAGE_OUTPUT, b->opts->chunk));
        return;
    }
    tensor *x_NH = norm_of_stream(b, b->params->final_norm, &h_NH, &block_NH);
    if (b->mode != LLAMA_PREFILL) head(b, x_NH);
}

graph *llama_build(arena *a, const param_list *params, llama_mode mode, const llama_opts *opts) {
    static const char *const names[] = {"loss", "score", "logits", "prefill", "decode"};
    // Prompts are processed in blocks of several sizes, with a program for each size.
    const char *name = mode == LLAMA_PREFILL ? arena_printf(a, "prefill.%lld", (long long)opts->seq)
                                             : names[mode];
    builder build = {.g = graph_new(a, name),
            .l = &params->layout,
            .params = params,
            .opts = opts,
            .mode = mode};
    const model_layout *layout = build.l;
    build.layers = &layout->chunk[opts->chunk];
    build.staged = layout->mesh.size[AXIS_PIPELINE] > 1;
    build.is_first = build.layers->first == 0;
    build.is_last = build.layers->first + build.layers->n == layout->model->num_hidden_layers;
    build.g->mesh = layout->mesh;
    if (opts->row_blocks > 1) build.g->row_blocks = opts->row_blocks;
    if (opts->partial_sum_rows) build.g->partial_sums = (int)(opts->rows / opts->partial_sum_rows);
    tensor *block_NH = NULL, *h_NH = enter_stage(&build);
    for (int i = 0; i < build.layers->n; i++) {
        const layer_params *w = &params->layer[build.layers->first_here + i];
        build.g->layer = build.layers->first + i;
        tensor *x_NH = norm_of_stream(&build, w->input_norm, &h_NH, &block_NH);
        block_NH = attention_block(&build, w, x_NH);
        x_NH = norm_of_stream(&build, w->post_norm, &h_NH, &block_NH);
        block_NH = mlp_block(&build, w, x_NH);
    }
    build.g->layer = -1;
    leave_stage(&build, h_NH, block_NH);
    graph_prune(build.g);
    return build.g;
}
