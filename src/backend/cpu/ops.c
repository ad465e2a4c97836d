// The table of rows (cpu_op.h). The rows are in run_*.c, one file for each family, as in ir/ops/.
#include "backend/cpu/cpu_op.h"
#include "base/round.h"

#define X(name) extern const cpu_op cpu_op_##name;
IR_OPS(X)
#undef X

const cpu_op *const cpu_ops[N_OPS] = {
#define X(name) &cpu_op_##name,
        IR_OPS(X)
#undef X
};

void run_chunks(const instruction *ins, int64_t n, int64_t size, par_fn *fn) {
    par_for(div_up(n, size), fn, (void *)(uintptr_t)ins);
}

static void rows_of_chunk(void *arg, int64_t c) {
    const instruction *ins = arg;
    cpu_ops[ins->node->op]->rows(ins, c * CHUNK_ROWS,
            chunk_length(ins->node->out[0]->dim[0], CHUNK_ROWS, c));
}

static void run_rows(const instruction *ins) {
    run_chunks(ins, ins->node->out[0]->dim[0], CHUNK_ROWS, rows_of_chunk);
}

static void elements_of_chunk(void *arg, int64_t c) {
    const instruction *ins = arg;
    cpu_ops[ins->node->op]->elements(ins, c * CHUNK_ELEMENTS,
            chunk_length(tensor_elements(ins->node->out[0]), CHUNK_ELEMENTS, c));
}

static void run_elements(const instruction *ins) {
    run_chunks(ins, tensor_elements(ins->node->out[0]), CHUNK_ELEMENTS, elements_of_chunk);
}

void (*run_of_op(const cpu_op *row))(const instruction *ins) {
    return row->rows ? run_rows : row->elements ? run_elements : row->run;
}

void add_squares(const kernels *by, dtype dt, const char *x, int64_t n, exact_sum *sum) {
    for (int64_t first = 0; first < n; first += SQUARES_MOST) {
        double words[SQUARES_SUMS];
        const int64_t left = n - first;
        const int n_words = by->squares(dt, left < SQUARES_MOST ? left : SQUARES_MOST,
                x + first * dtype_bytes(dt), words);
        for (int i = 0; i < n_words; i++)
            exact_add(sum, words[i]);
    }
}
