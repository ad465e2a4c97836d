// Libraries that only some runs need, opened on first use. A linked library is loaded, relocated
// and initialised at every start; for libcurl and its dependencies that took longer than everything
// else (bench/results/2026-11-22-start.md).
#pragma once
#include <stdbool.h>
#include <stddef.h>

// A function of a library, and the offset of its pointer in the table.
typedef struct library_call {
    const char *name;
    size_t offset;
} library_call;

typedef struct library {
    const char *file; // a soname, looked for as the loader does
    const library_call *calls;
    int n_calls;
    void *table; // filled by the first library_ready
    bool ready;
    char why[256]; // it could not be opened, in the loader's words, which name the file
} library;

// Returns whether the functions of the library may be called for the rest of the process. The first
// call opens it; after a failure the next call tries again. Thread-safe. A function of the program
// itself takes precedence over one of the same name in the library.
bool library_ready(library *self);
