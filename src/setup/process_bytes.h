// Estimates the memory that a process with a model needs in addition to the plan of its back end.
#pragma once
#include "config/config.h"

// Returns the bytes that rank 0's process holds in addition to the planned ones: code and
// libraries, graphs, files for checkpoints, figures of each preference pair, buffers of a save, and
// with several ranks MPI. Other ranks need up to 20 MiB less. The number of threads must be set
// (par_set_threads).
int64_t process_bytes(const run_config *cfg);
