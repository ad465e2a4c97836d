// The calls of MPI that drover makes. They are in a separate shared library (mpi_module.c), which
// mpi.c opens at run time, so that the program runs where no MPI is installed and starts as fast as
// without it.
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { MPI_MODULE_VERSION = 1 };
#define MPI_MODULE_SYMBOL "drover_mpi"

// Functions return NULL, or MPI's text of the error. All are called by one thread.
typedef struct mpi_module {
    int version; // MPI_MODULE_VERSION of the one that was built
    const char *(*open)(int *rank, int *size, int *max_tag);
    const char *(*send)(const void *p, int bytes, int to, int tag, uint64_t *handle);
    const char *(*receive)(void *p, int bytes, int from, int tag, uint64_t *handle);
    // received: bytes, if the handle is of a receive.
    const char *(*test)(uint64_t *handle, bool *done, int *received);
    void (*close)(void);
} mpi_module;
