// Names and sizes of inputs.
#include "ir/program_inputs.h"

#include <stdio.h>

#include "ir/hyper.h"

const program_input_row program_inputs[N_PROGRAM_INPUTS] = {
        [INPUT_TOKENS] = {.name = "tokens", .dt = DT_I32, .per_token = 1},
        [INPUT_POSITION] = {.name = "position", .dt = DT_I32, .per_token = 1},
        [INPUT_LABELS] = {.name = "labels", .dt = DT_I32, .per_token = 1},
        [INPUT_PAIR] = {.name = "pair", .dt = DT_I32, .per_token = 1},
        [INPUT_REFERENCE] = {.name = "reference", .dt = DT_I32, .per_token = 2},
        [INPUT_HIDDEN] = {.name = "hidden", .dt = DT_I32, .per_token = 2},
        [INPUT_ORIGIN] = {.name = "origin", .dt = DT_I32, .per_token = 3},
        [INPUT_NUMBER] = {.name = "number", .dt = DT_I32, .alone = 2},
        [INPUT_MICRO_BATCH] = {.name = "micro_batch", .dt = DT_I32, .alone = 1},
        [INPUT_LAST] = {.name = "last", .dt = DT_I32, .alone = 1},
        [INPUT_DLOSS] = {.name = "dloss", .dt = DT_F64},
        [INPUT_STREAM] = {.name = "h"},
        [INPUT_STREAM_GRAD] = {.name = "dout"},
        [INPUT_HYPER] = {.name = "hyper", .dt = DT_F64, .alone = N_HYPER},
};

input_name input_name_of(program_input which, int chunk) {
    const char *name = program_inputs[which].name;
    input_name out;
    if (chunk == INPUT_ALONE)
        snprintf(out.text, sizeof out.text, "%s", name);
    else if (chunk == INPUT_OF_STEP)
        snprintf(out.text, sizeof out.text, INPUT_STEP_NAME, name);
    else
        snprintf(out.text, sizeof out.text, "%s.%d", name, chunk);
    return out;
}
