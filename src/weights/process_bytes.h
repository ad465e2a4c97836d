// What a process that has a model needs beside what its back end plans.
#pragma once
#include "config/config.h"

// What the process of rank 0 holds beside the planned bytes: code and libraries, graphs, files that
// go into checkpoints, buffers of a save, and among several ranks MPI. Other ranks need up to 20
// MiB less. The number of threads must be set (par_set_threads).
int64_t process_bytes(const run_config *cfg);
