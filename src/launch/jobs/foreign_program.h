// Runs another program from a list of words, without a shell, with a limit on its time and on the
// output that is kept. A program that hangs or prints without end cannot hold up drover: it is
// killed with its process group.
#pragma once
#include <stdbool.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"

enum { PROGRAM_WORDS = 32, PROGRAM_ERROR_BYTES = 4096 };

// The words of a command line: program and arguments.
typedef struct program_words {
    const char *words[PROGRAM_WORDS];
    int n;
} program_words;
void program_add_words(program_words *self, const char *const *words, int n);
#define program_add(self, ...)                                                                     \
    program_add_words(self, (const char *const[]){__VA_ARGS__},                                    \
            (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *)))
// Names the program in messages, with its first word that is neither an option nor an option's
// value, as in "kubectl get".
const char *program_name(arena *a, const program_words *words);

typedef struct program_call {
    const program_words *words; // the program is searched for in PATH
    const str *input;           // its standard input; NULL: none
    double limit_s;
    size_t most_bytes; // of standard output; more is read and dropped
    // Gets standard output as it arrives, instead of keeping it; NULL: it is kept.
    void (*each)(void *ctx, const char *bytes, size_t n);
    void *ctx;
} program_call;

typedef struct program_end {
    int status;      // 0 to 255; 128 + a signal
    const char *out; // standard output, n_out bytes and a NUL
    size_t n_out;
    bool is_cut;       // there was more than most_bytes
    const char *error; // the last line of standard error that is not empty, else ""
} program_end;

// DRV_E_IO: it cannot be started. DRV_E_BUSY: it was killed at its time limit. DRV_STOPPED: it was
// killed since this process got SIGINT, SIGTERM or SIGHUP. Texts live in `a`.
DRV_CHECKED drv_status program_run(arena *a, const program_call *call, program_end *out);
// The same, but any status except 0 is DRV_E_IO with that line of standard error.
DRV_CHECKED drv_status program_must_run(arena *a, const program_call *call, program_end *out);
// Checks that PATH has the program. DRV_E_USAGE: it has not.
DRV_CHECKED drv_status program_find(arena *a, const char *name);
