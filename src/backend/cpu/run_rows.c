// Ops on independent rows or elements: embedding, norms, biases, rope, swiglu, add, dropout.
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu_op.h"
#include "base/round.h"
#include "comm/join.h"
#include "ir/token_sums.h"
#include "ir/wire.h"

// --- embedding
// Counts the rows of a split table that the ranks before this one have.
static int64_t rows_before(const instruction *ins) {
    return ins->group ? (int64_t)group_place(ins->group) * ins->node->attrs.vocabulary.part : 0;
}

// The last byte of an element has the sign in all types (little-endian, as in the file formats).
static void fill_minus_zero(dtype dt, int64_t n, char *to) {
    const int64_t unit = dtype_bytes(dt);
    memset(to, 0, (size_t)(n * unit));
    for (int64_t i = 1; i <= n; i++)
        to[i * unit - 1] = (char)0x80;
}

// Copies a row of the table.
static void copy_row(const instruction *ins, int64_t row, char *to) {
    const tensor *table = ins->node->in[1];
    const block_matrix *blocks = tensor_blocks(table);
    const int64_t width = table->dim[1];
    if (!blocks) {
        memcpy(to, input_at(ins, 1, row * width), (size_t)(width * dtype_bytes(table->dt)));
        return;
    }
    const quant_type *type;
    const char *held = (const char *)ins->in[1] + block_row_at(blocks, row, &type);
    ins->kernels->widen(table->dt, type, held, 0, width, to);
}

static void embedding_rows(const instruction *ins, int64_t first_row, int64_t rows) {
    const tensor *x = ins->node->out[0];
    const int32_t *ids = ins->in[0];
    const int64_t width = x->dim[1], end = first_row + rows;
    const int64_t here = rows_before(ins), n_here = ins->node->in[1]->dim[0];
    for (int64_t row = first_row; row < end; row++) {
        const int64_t id = ids[row] - here;
        if (id >= 0 && id < n_here)
            copy_row(ins, id, output_at(ins, 0, row * width));
        else
            fill_minus_zero(x->dt, width, output_at(ins, 0, row * width));
    }
}

const cpu_op cpu_op_embedding = {.rows = embedding_rows};

// A token and the row of the accumulator that its gradient belongs to.
typedef struct token_of_row {
    int64_t row, token;
} token_of_row;

static int by_row(const void *x, const void *y) {
    const token_of_row *a = x, *b = y;
    if (a->row != b->row) return a->row < b->row ? -1 : 1;
    return (a->token > b->token) - (a->token < b->token);
}

// Lists the tokens whose rows this rank has, by row and then in order, and ends with an entry
// without a row.
static void sort_tokens(const instruction *ins, token_of_row *list) {
    const int32_t *ids = ins->in[0];
    const int row_blocks = row_blocks_of(&ins->node->attrs);
    const int64_t here = rows_before(ins), n_here = ins->node->in[2]->dim[row_blocks > 1],
                  tokens = ins->node->in[1]->dim[0], in_block = tokens / row_blocks;
    int64_t n = 0;
    for (int64_t token = 0; token < tokens; token++) {
        const int64_t id = ids[token] - here;
        if (id >= 0 && id < n_here)
            list[n++] = (token_of_row){token / in_block * n_here + id, token};
    }
    qsort(list, (size_t)n, sizeof *list, by_row);
    list[n] = (token_of_row){-1, 0};
}

// Each chunk has a range of columns, so tokens are added in order on any number of threads. The
// tokens of a row are summed first, so that the accumulator gets one addition for each partial sum,
// as from a product (docs/adr/0021).
static void embedding_grad_columns(void *arg, int64_t c) {
    const instruction *ins = arg;
    const tensor *dx = ins->node->in[1], *acc = ins->node->in[2];
    const token_of_row *next = ins->workspace;
    const int64_t width = dx->dim[1], first = c * CHUNK_COLUMNS,
                  n = chunk_length(width, CHUNK_COLUMNS, c),
                  in_partial_sum = dx->dim[0] / sums_of_tokens(&ins->node->attrs);
    while (next->row >= 0) {
        const int64_t row = next->row, end = (next->token / in_partial_sum + 1) * in_partial_sum;
        double sum[CHUNK_COLUMNS] = {0}; // in the accumulation type
        for (; next->row == row && next->token < end; next++)
            ins->kernels->accumulate(dx->dt, n, input_at(ins, 1, next->token * width + first), sum);
        ins->kernels->accumulate(acc->dt, n, sum, output_at(ins, 0, row * width + first));
    }
}

static void embedding_grad(const instruction *ins) {
    sort_tokens(ins, ins->workspace);
    run_chunks(ins, ins->node->in[1]->dim[1], CHUNK_COLUMNS, embedding_grad_columns);
}

static int64_t embedding_grad_workspace(const node *n, int n_threads DRV_UNUSED) {
    return (n->in[1]->dim[0] + 1) * (int64_t)sizeof(token_of_row);
}

const cpu_op cpu_op_embedding_grad = {
        .run = embedding_grad,
        .workspace = embedding_grad_workspace,
};

// --- norms
static void rmsnorm_rows(const instruction *ins, int64_t row, int64_t rows) {
    const tensor *x = ins->node->in[0];
    const int64_t width = x->dim[1];
    ins->kernels->rmsnorm(x->dt, rows, width, input_at(ins, 0, row * width), NULL, ins->in[1],
            ins->node->attrs.norm.eps, NULL, output_at(ins, 0, row * width),
            output_at(ins, 1, row));
}

const cpu_op cpu_op_rmsnorm = {.rows = rmsnorm_rows};

static void add_rmsnorm_rows(const instruction *ins, int64_t row, int64_t rows) {
    const tensor *x = ins->node->in[0];
    const int64_t width = x->dim[1], first = row * width;
    ins->kernels->rmsnorm(x->dt, rows, width, input_at(ins, 0, first), input_at(ins, 1, first),
            ins->in[2], ins->node->attrs.norm.eps, output_at(ins, 0, first),
            output_at(ins, 1, first), output_at(ins, 2, row));
}

const cpu_op cpu_op_add_rmsnorm = {.rows = add_rmsnorm_rows};

// The gradient of the weight: each reduction block of tokens is summed in fixed parts, added in
// order; a tree adds the reduction blocks, across ranks if they have other tokens; the result is
// added to the accumulator. There are NORM_PARTS parts in all, or one for each block if there are
// more blocks.
//
// Reduction blocks of the row and partial sums each divide their tokens in this way. If tensor
// ranks share the tokens, the runs of one sum may be on several ranks, so each rank gathers the
// results of all and adds those of a sum.
//
// Workspace: a row of sums for each part | the sums of all ranks, or scratch of comm.
enum { NORM_PARTS = 16 };

typedef struct norm_cut {
    int64_t tokens, blocks; // on this rank, of all sums together
    int parts;              // of each reduction block
} norm_cut;

static norm_cut norm_cut_of(const node *n) {
    const int all = runs_of_sum(&n->attrs);
    return (norm_cut){n->in[0]->dim[0], runs_of_rank(&n->attrs),
            all < NORM_PARTS ? NORM_PARTS / all : 1};
}

static int64_t norm_part_bytes(const node *n) {
    return n->in[0]->dim[1] * dtype_bytes(dtype_acc(n->in[0]->dt));
}

static void rmsnorm_grad_part(void *arg, int64_t c) {
    const instruction *ins = arg;
    const node *n = ins->node;
    const tensor *dy = n->in[0];
    const norm_cut cut = norm_cut_of(n);
    const int64_t block = c / cut.parts, begin = cut.tokens * block / cut.blocks,
                  in_block = cut.tokens * (block + 1) / cut.blocks - begin,
                  size = div_up(in_block, cut.parts), width = dy->dim[1],
                  rows = chunk_length(in_block, size, c % cut.parts),
                  row = begin + c % cut.parts * size, first = row * width;
    char *dw = n->attrs.norm.skip_dw ? NULL : (char *)ins->workspace + c * norm_part_bytes(n);
    if (dw) memset(dw, 0, (size_t)norm_part_bytes(n));
    if (rows <= 0) return;
    const int dh = n->attrs.norm.skip_dw ? 4 : 5; // the input dh, if there is one
    ins->kernels->rmsnorm_grad(dy->dt, rows, width, input_at(ins, 0, first),
            input_at(ins, 1, first), ins->in[2], input_at(ins, 3, row),
            dh < n->n_in ? input_at(ins, dh, first) : NULL, output_at(ins, 0, first), dw);
}

static int64_t norm_parts_bytes(const node *n) {
    const norm_cut cut = norm_cut_of(n);
    return round_up(cut.blocks * cut.parts * norm_part_bytes(n), 64);
}

// Bytes that follow in the workspace: the sums of all ranks, or, for a single sum, scratch of comm.
static int64_t norm_exchange_bytes(const node *n) {
    if (n->attrs.mesh.ranks <= 1) return 0;
    if (tells_runs(&n->attrs))
        return runs_of_rank(&n->attrs) / runs_joined_here(&n->attrs) * n->attrs.mesh.ranks *
               norm_part_bytes(n);
    return wire_scratch(dtype_acc(n->in[0]->dt), n->in[0]->dim[1], n->attrs.mesh.ranks);
}

static void join_norm_blocks(const instruction *ins, char *first, int n, char *out) {
    const tensor *x = ins->node->in[0];
    const void *block[MAX_REDUCTION_BLOCKS];
    for (int i = 0; i < n; i++)
        block[i] = first + i * norm_part_bytes(ins->node);
    join_parts(dtype_acc(x->dt), COMM_SUM, block, n, x->dim[1], out);
}

// Computes the sums of this rank's reduction blocks, each added to its neighbours on this rank.
static void join_norm_parts(const instruction *ins, const norm_cut *cut) {
    const node *n = ins->node;
    const dtype acc = dtype_acc(n->in[0]->dt);
    const int64_t width = n->in[0]->dim[1], bytes = norm_part_bytes(n);
    const int n_joined = runs_joined_here(&n->attrs);
    char *parts = ins->workspace;
    for (int64_t i = 0; i < cut->blocks; i++) {
        char *sum = parts + i * cut->parts * bytes;
        for (int c = 1; c < cut->parts; c++)
            ins->kernels->accumulate(acc, width, sum + c * bytes, sum);
        if (cut->parts > 1 && i > 0) memcpy(parts + i * bytes, sum, (size_t)bytes);
    }
    for (int64_t i = 0; i < cut->blocks / n_joined; i++)
        join_norm_blocks(ins, parts + i * n_joined * bytes, n_joined, parts + i * bytes);
}

static void rmsnorm_grad(const instruction *ins) {
    const node *norm = ins->node;
    const op_attrs *attrs = &norm->attrs;
    const norm_cut cut = norm_cut_of(norm);
    const dtype acc = dtype_acc(norm->in[0]->dt);
    const int64_t width = norm->in[0]->dim[1], bytes = norm_part_bytes(norm);
    char *sums = ins->workspace, *exchange = sums + norm_parts_bytes(norm);
    run_chunks(ins, cut.blocks * cut.parts, 1, rmsnorm_grad_part);
    if (attrs->norm.skip_dw) return;
    join_norm_parts(ins, &cut);
    if (ins->group && tells_runs(attrs)) {
        *ins->failed = comm_all_gather(ins->group, sums,
                cut.blocks / runs_joined_here(attrs) * bytes, NULL, exchange);
        sums = exchange;
    } else if (ins->group) {
        *ins->failed = comm_all_reduce(ins->group, acc, COMM_SUM, sums, width, exchange);
    }
    const int in_sum = tells_runs(attrs) ? runs_of_sum(attrs) / runs_joined_here(attrs) : 1;
    for (int64_t i = 0; i < sums_of_tokens(attrs); i++) {
        char *sum = sums + i * in_sum * bytes;
        join_norm_blocks(ins, sum, in_sum, sum);
        ins->kernels->accumulate(acc, width, sum,
                output_at(ins, 1, i / partial_sums_of(attrs) * width));
    }
}

static int64_t rmsnorm_grad_workspace(const node *n, int n_threads DRV_UNUSED) {
    return n->attrs.norm.skip_dw ? 0 : norm_parts_bytes(n) + norm_exchange_bytes(n);
}

const cpu_op cpu_op_rmsnorm_grad = {.run = rmsnorm_grad, .workspace = rmsnorm_grad_workspace};

// --- biases
static void add_bias_rows(const instruction *ins, int64_t first_row, int64_t rows) {
    const tensor *x = ins->node->in[0];
    const int64_t width = x->dim[1], end = first_row + rows;
    for (int64_t row = first_row; row < end; row++)
        ins->kernels->narrow(x->dt, width, ins->in[1], input_at(ins, 0, row * width),
                output_at(ins, 0, row * width));
}

const cpu_op cpu_op_add_bias = {.rows = add_bias_rows};

enum { BIAS_RUN = 64 }; // tokens; rounding errors grow with the root of a chain's length

// Adds columns [column, column + n) of tokens [first, end) to `sum`, in the accumulation type.
static void sum_of_tokens(const instruction *ins, int64_t column, int64_t n, int64_t first,
        int64_t end, double *sum) {
    const tensor *dy = ins->node->in[0];
    for (int64_t token = first; token < end;) {
        double run[CHUNK_COLUMNS] = {0};
        const int64_t run_end = token + BIAS_RUN < end ? token + BIAS_RUN : end;
        for (; token < run_end; token++)
            ins->kernels->accumulate(dy->dt, n, input_at(ins, 0, token * dy->dim[1] + column), run);
        ins->kernels->accumulate(dtype_acc(dy->dt), n, run, sum);
    }
}

// Each chunk has a range of columns of one reduction block of the row.
static void bias_grad_columns(void *arg, int64_t c) {
    const instruction *ins = arg;
    const op_attrs *attrs = &ins->node->attrs;
    const tensor *dy = ins->node->in[0], *acc = ins->node->in[1];
    const int64_t width = dy->dim[1], in_block = div_up(width, CHUNK_COLUMNS), block = c / in_block,
                  column = c % in_block * CHUNK_COLUMNS,
                  n = chunk_length(width, CHUNK_COLUMNS, c % in_block),
                  tokens = dy->dim[0] / sums_of_tokens(attrs);
    for (int64_t i = 0; i < partial_sums_of(attrs); i++) {
        double sum[CHUNK_COLUMNS] = {0};
        const int64_t first = (block * partial_sums_of(attrs) + i) * tokens;
        sum_of_tokens(ins, column, n, first, first + tokens, sum);
        ins->kernels->accumulate(acc->dt, n, sum, output_at(ins, 0, block * width + column));
    }
}

static void bias_grad(const instruction *ins) {
    const int64_t chunks = div_up(ins->node->in[0]->dim[1], CHUNK_COLUMNS);
    run_chunks(ins, row_blocks_of(&ins->node->attrs) * chunks, 1, bias_grad_columns);
}

const cpu_op cpu_op_bias_grad = {.run = bias_grad};

// --- positions
static void rope_table(const instruction *ins) {
    const op_attrs *attrs = &ins->node->attrs;
    const rope_args args = {.head_dim = attrs->heads.head_dim,
            .theta = attrs->rope.theta,
            .factor = attrs->rope.factor,
            .low_freq_factor = attrs->rope.low_freq_factor,
            .high_freq_factor = attrs->rope.high_freq_factor,
            .original_context = attrs->rope.original_context};
    ins->kernels->rope_table(ins->node->out[0]->dt, &args, ins->node->in[0]->dim[0], ins->in[0],
            ins->out[0]);
}

const cpu_op cpu_op_rope_table = {.run = rope_table};

static void rope_rows(const instruction *ins, int64_t row, int64_t rows) {
    const op_attrs *attrs = &ins->node->attrs;
    const tensor *x = ins->node->in[0];
    const int64_t width = x->dim[1];
    ins->kernels->rope(x->dt, rows, width, attrs->heads.n_heads, attrs->heads.head_dim,
            input_at(ins, 0, row * width), input_at(ins, 1, row * attrs->heads.head_dim),
            attrs->rope.inverse, output_at(ins, 0, row * width));
}

const cpu_op cpu_op_rope = {.rows = rope_rows};

// --- swiglu
static void swiglu_rows(const instruction *ins, int64_t row, int64_t rows) {
    const tensor *y = ins->node->out[0];
    const int64_t first = row * y->dim[1];
    ins->kernels->swiglu(y->dt, rows, y->dim[1], input_at(ins, 0, 2 * first),
            output_at(ins, 0, first));
}

const cpu_op cpu_op_swiglu = {.rows = swiglu_rows};

static void swiglu_grad_rows(const instruction *ins, int64_t row, int64_t rows) {
    const tensor *dy = ins->node->in[0];
    const int64_t first = row * dy->dim[1];
    ins->kernels->swiglu_grad(dy->dt, rows, dy->dim[1], input_at(ins, 0, first),
            input_at(ins, 1, 2 * first), output_at(ins, 0, 2 * first));
}

const cpu_op cpu_op_swiglu_grad = {.rows = swiglu_grad_rows};

// --- add
static void add_elements(const instruction *ins, int64_t first, int64_t n) {
    const tensor *y = ins->node->out[0];
    ins->kernels->add(y->dt, n, input_at(ins, 0, first), input_at(ins, 1, first),
            output_at(ins, 0, first));
}

const cpu_op cpu_op_add = {.elements = add_elements};

// --- narrow
static void narrow_elements(const instruction *ins, int64_t first, int64_t n) {
    const tensor *y = ins->node->out[0];
    ins->kernels->narrow(y->dt, n, input_at(ins, 0, first),
            ins->node->n_in > 1 ? input_at(ins, 1, first) : NULL, output_at(ins, 0, first));
}

const cpu_op cpu_op_narrow = {.elements = narrow_elements};

// --- dropout
// A rank's part of x: its first token among those of `origin`, and its columns in a whole token.
typedef struct dropout_part {
    int64_t token, column, all_columns;
} dropout_part;

static dropout_part part_of(const instruction *ins) {
    const op_attrs *attrs = &ins->node->attrs;
    const tensor *x = ins->node->in[0];
    const int64_t place = ins->group && attrs->mesh.ranks > 1 ? group_place(ins->group) : 0;
    const bool columns = attrs->mesh.ranks > 1 && attrs->mesh.dim == 1;
    return (dropout_part){columns ? 0 : place * x->dim[0], columns ? place * x->dim[1] : 0,
            columns ? attrs->mesh.ranks * x->dim[1] : x->dim[1]};
}

// Returns how many of up to n tokens are consecutive in one row.
static int64_t tokens_in_a_row(const int32_t *origin, int64_t n) {
    int64_t run = 1;
    while (run < n && origin[3 * run] == origin[0] && origin[3 * run + 1] == origin[1] &&
            origin[3 * run + 2] == origin[2] + run)
        run++;
    return run;
}

static void dropout_tokens(const instruction *ins, int64_t row, int64_t rows) {
    const op_attrs *attrs = &ins->node->attrs;
    const tensor *x = ins->node->in[0];
    const dropout_part part = part_of(ins);
    const int64_t width = x->dim[1], end = row + rows;
    dropout_args args = {.key = {(uint64_t)attrs->dropout.seed, RNG_DROPOUT, 0},
            .site = (uint64_t)attrs->dropout.site,
            .rate = attrs->dropout.rate};
    for (int64_t token = row, n; token < end; token += n) {
        const int32_t *origin = (const int32_t *)ins->in[1] + 3 * (part.token + token);
        n = part.all_columns == width ? tokens_in_a_row(origin, end - token) : 1;
        args.key.step = (uint64_t)(uint32_t)origin[1] << 32 | (uint32_t)origin[0];
        ins->kernels->dropout(x->dt, &args, origin[2] * part.all_columns + part.column, n * width,
                input_at(ins, 0, token * width), output_at(ins, 0, token * width));
    }
}

const cpu_op cpu_op_dropout = {.rows = dropout_tokens};
