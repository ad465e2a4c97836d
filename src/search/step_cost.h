// The model of time: the seconds of a step on a device with a known profile, by terms. All
// predictions use it.
#pragma once
#include "search/device_profile.h"
#include "search/stage_plans.h"

// The parts of a step's time, on the rank that works longest.
typedef enum step_term {
    TERM_PRODUCTS,  // products with the weights of layers
    TERM_HEAD,      // output layer and loss
    TERM_ATTENTION, // scores, weighted values and their gradients
    TERM_MEMORY,    // ops that memory limits: norms, rotations, activations, sums
    TERM_LAUNCHES,  // starting each op
    TERM_TENSOR,    // waiting for tensor ranks
    TERM_CONTEXT,   // waiting for context ranks
    TERM_BUBBLE,    // waiting for other stages of the pipeline
    TERM_DATA,      // waiting for data ranks: sums of gradients, gathered weights
    TERM_UPDATE,    // the optimizer
    N_STEP_TERMS
} step_term;

typedef struct step_cost {
    double term[N_STEP_TERMS]; // seconds
    double seconds;            // their sum
    double bubble;             // share of the pipeline's time
} step_cost;

// Computes the seconds of a step from its work. `shape`: of its pipeline's table; NULL without one.
// DRV_E_USAGE: the profile has no fp8 products and the run asks for them.
DRV_CHECKED drv_status step_cost_make(arena *a, const run_config *cfg, const step_work *whole,
        const pipeline_shape *shape, const device_profile *device, step_cost *out);

const char *step_term_name(step_term term); // "products", for tables and JSON
