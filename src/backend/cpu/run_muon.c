// Muon's update (ir/ops/muon.c). Legend: U the matrix before orthogonalisation, X during it, [R,
// C]; A = X X^T or X^T X, [M, M] with M the smaller of R and C.
#include <math.h>
#include <string.h>

#include "backend/cpu/adamw_numbers.h"
#include "base/round.h"
#include "ir/muon_matrices.h"
#include "ir/newton_schulz.h"
#include "ir/op.h"
#include "ir/shard.h"

// --- momentum
static void momentum_chunk(const instruction *ins, int64_t first, int64_t n) {
    const tensor *m = ins->node->in[0], *g = ins->node->in[1], *u = ins->node->out[2];
    const double norm2 = *(const double *)ins->in[2];
    if (!isfinite(norm2)) {
        memset(output_at(ins, 1, first), 0, (size_t)(n * dtype_bytes(g->dt)));
        memset(output_at(ins, 2, first), 0, (size_t)(n * dtype_bytes(u->dt)));
        return;
    }
    const momentum_args args = {.decay = ins->node->attrs.update.beta1,
            .grad_scale = clip_scale(norm2, ins->in[3]),
            .g = g->dt,
            .to = u->dt};
    ins->kernels->momentum(m->dt, n, output_at(ins, 0, first), output_at(ins, 1, first),
            output_at(ins, 2, first), &args);
}

const cpu_op cpu_op_momentum = {.elements = momentum_chunk};

// --- to_owner, from_owner. Workspace: bytes to each place | bytes from each
static int64_t owner_workspace(const node *n, int n_threads DRV_UNUSED) {
    return n->attrs.mesh.ranks > 1 ? 2 * n->attrs.mesh.ranks * (int64_t)sizeof(int64_t) : 0;
}

static void to_owner(const instruction *ins) {
    const mesh_use *use = &ins->node->attrs.mesh;
    const int64_t bytes = tensor_bytes(ins->node->in[0]);
    if (!ins->group) {
        memcpy(ins->out[0], ins->in[0], (size_t)bytes);
        return;
    }
    int64_t *to = ins->workspace, *from = to + use->ranks;
    for (int i = 0; i < use->ranks; i++) {
        to[i] = i == use->owner ? bytes : 0;
        from[i] = use->owns ? bytes : 0;
    }
    *ins->failed = comm_all_to_all(ins->group, ins->in[0], to, ins->out[0], from, 0);
}

const cpu_op cpu_op_to_owner = {.run = to_owner, .workspace = owner_workspace};

// Takes this rank's shard from the owner; the missing end of a short shard is 0.
static void from_owner(const instruction *ins) {
    const mesh_use *use = &ins->node->attrs.mesh;
    const int64_t all = whole_elements(&ins->node->attrs),
                  unit = dtype_bytes(ins->node->out[0]->dt),
                  place = ins->group ? group_place(ins->group) : 0,
                  bytes = shard_count(all, use->ranks, (int)place) * unit;
    memset((char *)ins->out[0] + bytes, 0, (size_t)(tensor_bytes(ins->node->out[0]) - bytes));
    if (!ins->group) {
        memcpy(ins->out[0], ins->in[0], (size_t)bytes);
        return;
    }
    int64_t *to = ins->workspace, *from = to + use->ranks;
    for (int i = 0; i < use->ranks; i++) {
        to[i] = use->owns ? shard_count(all, use->ranks, i) * unit : 0;
        from[i] = i == use->owner ? bytes : 0;
    }
    *ins->failed = comm_all_to_all(ins->group, ins->in[0], to, ins->out[0], from, 0);
}

const cpu_op cpu_op_from_owner = {.run = from_owner, .workspace = owner_workspace};

// --- descend
static void descend_chunk(const instruction *ins, int64_t first, int64_t n) {
    const tensor *p = ins->node->in[0];
    const double *hyper = ins->in[3];
    if (!isfinite(*(const double *)ins->in[2])) return;
    ins->kernels->descend(p->dt, n, output_at(ins, 0, first), input_at(ins, 1, first),
            hyper[HYPER_LR], ins->node->attrs.update.weight_decay,
            ins->node->n_in > 4 ? (uint16_t *)(void *)output_at(ins, 1, first) : NULL);
}

const cpu_op cpu_op_descend = {.elements = descend_chunk};

// --- orthogonalise
enum { PRODUCTS = 3 };

static bool is_wide(const muon_matrix *one) {
    return one->R <= one->C;
}

// The products are A = X X^T, c A A, A X; or, for a tall X, A = X^T X, c A A, X A.
static gemm_shape product_shape(const muon_matrix *one, int which, dtype dt) {
    const bool wide = is_wide(one);
    const gemm_shape shapes[PRODUCTS] = {{.m = one->M,
                                                 .n = one->M,
                                                 .k = wide ? one->C : one->R,
                                                 .ta = !wide,
                                                 .tb = wide,
                                                 .lda = one->C,
                                                 .ldb = one->C,
                                                 .ldc = one->M,
                                                 .in = dt,
                                                 .out = dt},
            {.m = one->M,
                    .n = one->M,
                    .k = one->M,
                    .lda = one->M,
                    .ldb = one->M,
                    .ldc = one->M,
                    .in = dt,
                    .out = dtype_acc(dt),
                    .scale = NS_C},
            {.m = one->R,
                    .n = one->C,
                    .k = one->M,
                    .lda = wide ? one->M : one->C,
                    .ldb = wide ? one->C : one->M,
                    .ldc = one->C,
                    .in = dt,
                    .out = dtype_acc(dt)}};
    return shapes[which];
}

typedef struct row_scale {
    double factor, squares; // of a row of X; its sum of squares after scaling
} row_scale;

// Scratch, one after the other: X, A; sums of A X or A A; squares of each chunk of X; row_scale of
// each row, for NorMuon; scratch of the products.
typedef struct ns_scratch {
    int64_t x, a, sums, squares, rows, products; // offsets in bytes
} ns_scratch;

static ns_scratch scratch_of(const node *n) {
    muon_matrix list[MAX_MATRICES];
    const int n_matrices = muon_matrices(n, list);
    const int64_t unit = dtype_bytes(n->in[0]->dt), acc = dtype_bytes(dtype_acc(n->in[0]->dt));
    int64_t elements = 0, square = 0, rows = 0;
    for (int k = 0; k < n_matrices; k++) {
        if (n->n_in > 1 && list[k].R > rows) rows = list[k].R;
        if (list[k].R * list[k].C > elements) elements = list[k].R * list[k].C;
        if (list[k].M * list[k].M > square) square = list[k].M * list[k].M;
    }
    ns_scratch s = {.a = round_up(elements * unit, 64)};
    s.sums = s.a + round_up(square * unit, 64);
    s.squares = s.sums + round_up((elements > square ? elements : square) * acc, 64);
    s.rows = s.squares + round_up(div_up(elements, CHUNK_ELEMENTS) * (int64_t)sizeof(double), 64);
    s.products = s.rows + round_up(rows * (int64_t)sizeof(row_scale), 64);
    return s;
}

static int64_t orthogonalise_workspace(const node *n, int n_threads) {
    muon_matrix list[MAX_MATRICES];
    const int n_matrices = muon_matrices(n, list);
    int64_t most = 0;
    for (int k = 0; k < n_matrices; k++)
        for (int which = 0; which < PRODUCTS; which++) {
            const gemm_shape shape = product_shape(&list[k], which, n->in[0]->dt);
            const int64_t bytes = gemm_workspace(&shape, NULL, n_threads);
            if (bytes > most) most = bytes;
        }
    return scratch_of(n).products + most;
}

static drv_status lower_orthogonalise(arena *a, gemm_machine *m, const node *n, instruction *out) {
    muon_matrix list[MAX_MATRICES];
    const int n_matrices = muon_matrices(n, list);
    for (int k = 0; k < n_matrices; k++)
        for (int which = 0; which < PRODUCTS; which++) {
            const gemm_shape shape = product_shape(&list[k], which, n->in[0]->dt);
            DRV_TRY(gemm_new(a, m, &shape, NULL, &out->gemm[k * PRODUCTS + which]));
        }
    return DRV_OK;
}

typedef struct ns_call {
    const instruction *ins;
    const muon_matrix *one;
    dtype dt; // of X and A
    char *x, *a, *sums;
    double *squares;
    row_scale *rows;      // NULL: it is not NorMuon
    int64_t n;            // elements that combine_chunk combines
    double factor;        // by which they are multiplied
    char *values, *added; // multiplied by factor; added to them, NULL: nothing
} ns_call;

// Copies CHUNK_ROWS rows of U to X. If ranks share columns, U has each row in parts, one from each
// rank.
static void load_rows(void *arg, int64_t chunk) {
    const ns_call *call = arg;
    const node *n = call->ins->node;
    const muon_matrix *one = call->one;
    const int ranks = n->attrs.mesh.ranks, n_pieces = n->attrs.mesh.dim == 1 ? ranks : 1;
    const int64_t unit = dtype_bytes(call->dt), columns = one->C / n_pieces,
                  from_rank_to_rank = tensor_elements(n->in[0]) / ranks;
    const int64_t end = chunk * CHUNK_ROWS + chunk_length(one->R, CHUNK_ROWS, chunk);
    for (int64_t row = chunk * CHUNK_ROWS; row < end; row++)
        for (int k = 0; k < n_pieces; k++) {
            const int64_t rank = n_pieces > 1 ? k : row / one->rows,
                          at = rank * from_rank_to_rank +
                               (one->row + (n_pieces > 1 ? row : row % one->rows)) * columns;
            memcpy(call->x + (row * one->C + k * columns) * unit, input_at(call->ins, 0, at),
                    (size_t)(columns * unit));
        }
}

// Writes this rank's rows of X, or its part of each row, times factor.
static void store_rows(void *arg, int64_t chunk) {
    const ns_call *call = arg;
    const node *n = call->ins->node;
    const muon_matrix *one = call->one;
    const bool by_rows = n->attrs.mesh.dim == 0;
    const int64_t columns = n->attrs.update.columns, place = call->ins->tensor_place,
                  unit = dtype_bytes(call->dt), first_row = by_rows ? place * one->rows : 0,
                  first_column = by_rows ? 0 : place * columns;
    const int64_t end = chunk * CHUNK_ROWS + chunk_length(one->rows, CHUNK_ROWS, chunk);
    for (int64_t row = chunk * CHUNK_ROWS; row < end; row++)
        call->ins->kernels->combine(call->dt, dtype_acc(call->dt), columns,
                call->factor * (call->rows ? call->rows[first_row + row].factor : 1),
                call->x + ((first_row + row) * one->C + first_column) * unit, NULL,
                output_at(call->ins, 0, (one->row + row) * columns));
}

// Returns the sum of the squares of elements [first, first + n) of X, rounded once.
static double squares_of(const ns_call *call, int64_t first, int64_t n) {
    exact_sum sum = {0};
    add_squares(call->ins->kernels, call->dt, call->x + first * dtype_bytes(call->dt), n, &sum);
    return exact_value(&sum);
}

static void square_chunk(void *arg, int64_t chunk) {
    const ns_call *call = arg;
    call->squares[chunk] =
            squares_of(call, chunk * CHUNK_ELEMENTS, chunk_length(call->n, CHUNK_ELEMENTS, chunk));
}

// Returns the norm of X, rounded to its type as in torch; the products see the difference.
static double norm_of(ns_call *call) {
    double sum = 0;
    call->n = call->one->R * call->one->C;
    par_for(div_up(call->n, CHUNK_ELEMENTS), square_chunk, call);
    for (int64_t i = 0; i < div_up(call->n, CHUNK_ELEMENTS); i++)
        sum += call->squares[i];
    return call->dt == DT_BF16 ? (double)bf16_to_f32(f32_to_bf16((float)sqrt(sum))) : sqrt(sum);
}

static void combine_chunk(void *arg, int64_t chunk) {
    const ns_call *call = arg;
    const int64_t first = chunk * CHUNK_ELEMENTS, n = chunk_length(call->n, CHUNK_ELEMENTS, chunk);
    char *values = call->values + first * dtype_bytes(call->dt);
    call->ins->kernels->combine(call->dt, call->dt, n, call->factor, values,
            call->added ? call->added + first * dtype_bytes(dtype_acc(call->dt)) : NULL, values);
}

// Computes values = factor values + added for n elements.
static void combine(ns_call *call, int64_t n, double factor, char *values, char *added) {
    call->n = n;
    call->factor = factor;
    call->values = values;
    call->added = added;
    par_for(div_up(n, CHUNK_ELEMENTS), combine_chunk, call);
}

static void newton_schulz(ns_call *call, gemm *const *product, char *scratch, int64_t bytes) {
    const muon_matrix *one = call->one;
    const int64_t elements = one->R * one->C, square = one->M * one->M;
    const bool wide = is_wide(one);
    for (int step = 0; step < call->ins->node->attrs.update.ns_steps; step++) {
        gemm_run(product[0], call->x, call->x, call->a, scratch, bytes);
        gemm_run(product[1], call->a, call->a, call->sums, scratch, bytes);
        combine(call, square, NS_B, call->a, call->sums);
        gemm_run(product[2], wide ? call->a : call->x, wide ? call->x : call->a, call->sums,
                scratch, bytes);
        combine(call, elements, NS_A, call->x, call->sums);
    }
}

// --- NorMuon: divides rows of X by their mean square over the steps
// Returns the rows of a matrix in the state, which has the rows of all ranks.
static char *mean_squares(const ns_call *call) {
    const bool by_rows = call->ins->node->attrs.mesh.dim == 0;
    return output_at(call->ins, 1,
            call->one->row * (by_rows ? call->ins->node->attrs.mesh.ranks : 1));
}

static void scale_rows(void *arg, int64_t chunk) {
    const ns_call *call = arg;
    const muon_matrix *one = call->one;
    const double beta2 = call->ins->node->attrs.update.beta2;
    const bool is_double = dtype_acc(call->dt) == DT_F64,
               counts = isfinite(*(const double *)call->ins->in[2]);
    void *v = mean_squares(call);
    const int64_t end = chunk * CHUNK_ROWS + chunk_length(one->R, CHUNK_ROWS, chunk);
    for (int64_t row = chunk * CHUNK_ROWS; row < end; row++) {
        const double squares = squares_of(call, row * one->C, one->C),
                     old = is_double ? ((double *)v)[row] : (double)((float *)v)[row],
                     mean = beta2 * old + (1 - beta2) * squares / (double)one->C,
                     factor = 1 / (sqrt(mean) + NORMUON_EPS);
        if (counts && is_double) ((double *)v)[row] = mean;
        if (counts && !is_double) ((float *)v)[row] = (float)mean;
        call->rows[row] = (row_scale){factor, squares * factor * factor};
    }
}

// Scales the rows; returns the factor that all rows get in addition to their own.
static double normalise(ns_call *call) {
    const muon_matrix *one = call->one;
    double squares = 0;
    par_for(div_up(one->R, CHUNK_ROWS), scale_rows, call);
    for (int64_t row = 0; row < one->R; row++)
        squares += call->rows[row].squares;
    return squares > 0 ? MUON_RMS * sqrt((double)(one->R * one->C) / squares) : 0;
}

static void orthogonalise_one(const instruction *ins, const muon_matrix *one,
        gemm *const *product) {
    const ns_scratch offset = scratch_of(ins->node);
    char *base = ins->workspace;
    ns_call call = {.ins = ins,
            .one = one,
            .dt = ins->node->in[0]->dt,
            .x = base + offset.x,
            .a = base + offset.a,
            .sums = base + offset.sums,
            .squares = (double *)(void *)(base + offset.squares),
            .rows = ins->node->n_in > 1 ? (row_scale *)(void *)(base + offset.rows) : NULL};
    par_for(div_up(one->R, CHUNK_ROWS), load_rows, &call);
    combine(&call, one->R * one->C, 1 / fmax(norm_of(&call), ins->node->attrs.update.eps), call.x,
            NULL);
    newton_schulz(&call, product, base + offset.products, ins->workspace_bytes - offset.products);
    call.factor = call.rows ? normalise(&call)
                            : MUON_RMS * sqrt((double)(one->R > one->C ? one->R : one->C));
    par_for(div_up(one->rows, CHUNK_ROWS), store_rows, &call);
}

static void orthogonalise(const instruction *ins) {
    muon_matrix list[MAX_MATRICES];
    const int n_matrices = muon_matrices(ins->node, list);
    for (int k = 0; k < n_matrices; k++)
        orthogonalise_one(ins, &list[k], &ins->gemm[k * PRODUCTS]);
}

const cpu_op cpu_op_orthogonalise = {.run = orthogonalise,
        .workspace = orthogonalise_workspace,
        .lower = lower_orthogonalise};
