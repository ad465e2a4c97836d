// Profiles a training step: the time of each op by program, and the least time that the machine
// could need for it.
#pragma once
#include "programs/programs.h"

// The program to which a node belongs. Nodes that recompute values count as a separate program, and
// so do the communication nodes of all programs, whose time includes waiting.
typedef enum profile_program {
    PROFILE_FORWARD,
    PROFILE_AGAIN, // recomputation
    PROFILE_BACKWARD,
    PROFILE_UPDATE,
    PROFILE_BETWEEN_RANKS,
    N_PROFILE_PROGRAMS
} profile_program;

// All nodes of one op in one program.
typedef struct profile_row {
    profile_program program;
    op_kind op;
    int64_t count; // runs of nodes in a step
    double seconds;
    double flops; // from the op's row, as the plan counts them
    double bytes; // the minimum that they read and write (node_bytes)
    double sent;  // bytes to other ranks, as the plan counts them
} profile_row;

// The limits of a rank.
typedef struct machine_roof {
    double flops_per_s, bytes_per_s; // peak of matrix products; memory bandwidth; 0: not known
} machine_roof;

typedef struct step_profile {
    profile_row rows[N_PROFILE_PROGRAMS * N_OPS]; // by program, and within each the longest first
    int n_rows;
    double step_s;    // the whole step
    double outside_s; // time when no node ran: inputs, losses, messages between stages
} step_profile;

// Fills the profile with the times of all programs' nodes since backend_time_nodes(b, true).
void step_profile_take(const programs *p, double step_s, step_profile *out);

// Returns the least seconds of a row by the roofline model: its FLOPs at the peak or its bytes at
// the memory bandwidth, whichever takes longer (Williams, Waterman, Patterson, "Roofline", CACM
// 52(4), 2009).
double profile_least_s(const profile_row *row, const machine_roof *roof, bool *by_memory);
const char *profile_program_name(profile_program program); // "forward"
