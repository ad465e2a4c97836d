// The inputs that the host writes before a program runs. Their names are defined only here, for the
// code that builds, rewrites, lowers and fills graphs.
#pragma once
#include "ir/graph.h"

typedef enum program_input {
    // Filled for each token from the rows of a data set, or from texts that are scored or continued.
    INPUT_TOKENS,    // its id
    INPUT_POSITION,  // in its document
    INPUT_LABELS,    // the id that follows; negative: it predicts nothing
    INPUT_PAIR,      // its role in a preference pair (ir/pair_word.h)
    INPUT_REFERENCE, // of a response's head: the reference's log-probability, a double in two words
    INPUT_HIDDEN,    // the two ends of the tokens that it does not see (attention_args)
    INPUT_ORIGIN,    // number of its row in the run, in two words, and its place there: for dropout
    // Filled for each micro-batch by the loop of a run.
    INPUT_NUMBER, // of its first row in the run, two words: for gradients rounded stochastically
    INPUT_MICRO_BATCH, // its index among the rank's micro-batches of the step: for ZeRO-2
    INPUT_LAST,        // 1: the rank's last of the step, whose sums travel during the backward pass
    INPUT_DLOSS,       // of each loss that the program has: its share of the step's loss
    // Filled from a message of the neighbouring pipeline stage.
    INPUT_STREAM,      // [N, H] the residual stream at the beginning of a stage
    INPUT_STREAM_GRAD, // [N, H] the gradient of its output
    // Read by the update: f64[N_HYPER] (ir/hyper.h).
    INPUT_HYPER,
    N_PROGRAM_INPUTS
} program_input;

typedef struct program_input_row {
    const char *name;
    dtype dt;
    int per_token, alone; // elements per token, or in all; both 0: the graph defines the size
} program_input_row;
extern const program_input_row program_inputs[N_PROGRAM_INPUTS];

// The owner of an input: the number of a model chunk of a pipeline rank, or one of these.
enum {
    INPUT_ALONE = -1,   // the program is the only one of its kind
    INPUT_OF_STEP = -2, // a whole step (backend.h: step_parts), with a slice for each micro-batch
};
// The names by which a whole step calls the slices of an input.
#define INPUT_STEP_NAME   "step.%s"

// The output of a pipeline stage, and the gradient of the stream that it begins with.
#define STAGE_OUTPUT      "out.%d"
#define STAGE_STREAM_GRAD "dh.%d"

typedef struct input_name {
    char text[48];
} input_name;
input_name input_name_of(program_input which, int chunk);
