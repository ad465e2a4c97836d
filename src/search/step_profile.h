// Finds where the time of a training step goes: rows by program and op, and what the machine would
// need for each at best.
#pragma once
#include "programs/programs.h"

// The program that a node is of. Nodes of the step that make values again (recomputation) are apart;
// so are those that only move or join what ranks have, in any program: their time is waiting too.
typedef enum profile_program {
    PROFILE_FORWARD,
    PROFILE_AGAIN,
    PROFILE_BACKWARD,
    PROFILE_UPDATE,
    PROFILE_BETWEEN_RANKS,
    N_PROFILE_PROGRAMS
} profile_program;

// All nodes of an op in a program.
typedef struct profile_row {
    profile_program program;
    op_kind op;
    int64_t count; // runs of nodes in a step
    double seconds;
    double flops; // by the op's row, as the plan counts them
    double bytes; // that they read and write at least (node_bytes)
    double sent;  // bytes to other ranks, as the plan counts them
} profile_row;

// The most that a rank can do.
typedef struct machine_roof {
    double flops_per_s, bytes_per_s; // peak of products, memory; 0: unknown
} machine_roof;

typedef struct step_profile {
    profile_row rows[N_PROFILE_PROGRAMS * N_OPS]; // by program, in each the longest first
    int n_rows;
    double step_s;    // the whole step
    double outside_s; // of which no node was running: inputs, losses, messages between stages
} step_profile;

// Fills the profile with what the nodes of all programs have taken since backend_time_nodes(b, true).
void step_profile_take(const programs *p, double step_s, step_profile *out);

// Returns the seconds that a row needs at least, by the roofline: FLOPs at the peak, or bytes at the
// rate of memory, whichever is more (Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009).
double profile_least_s(const profile_row *row, const machine_roof *roof, bool *by_memory);
const char *profile_program_name(profile_program program); // "forward"
