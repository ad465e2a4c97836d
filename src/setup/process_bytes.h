// Estimates the memory that a process with a model needs beside what its back end plans.
#pragma once
#include "config/config.h"

// Returns the bytes that rank 0's process holds beside the planned ones: code and libraries,
// graphs, files that go into checkpoints, what is known of each preference pair, buffers of a save,
// and among several ranks MPI. Other ranks need up to 20 MiB less. The number of threads must be
// set (par_set_threads).
int64_t process_bytes(const run_config *cfg);
