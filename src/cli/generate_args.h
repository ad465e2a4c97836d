// Serves generate and chat: options of the model and of the sampling, and the output of text.
#pragma once
#include "cli/cli.h"
#include "infer/generate.h"

// Rows for a table of options; --max-tokens, which generation_read reads too, has a default of its
// own in each verb.
#define GENERATION_OPTIONS                                                                                      \
    {"--temperature", "X", "sampling temperature; 0: always the most likely token (default 0.8)"},              \
            {"--top-k", "N", "sample from the N most likely tokens (default 0: all)"},                          \
            {"--top-p", "X",                                                                                    \
                    "sample from the most likely tokens that together have this probability (default 0.95)"},   \
            {"--min-p", "X",                                                                                    \
                    "sample from tokens at least X times as probable as the most likely one (default 0: all)"}, \
            {"--repetition-penalty", "X",                                                                       \
                    "above 1: tokens that have occurred become less likely (default 1)"},                       \
            {"--stop", "TEXT", "stop before this text (repeatable)"},                                           \
            {"--seed", "N", "seed of the sampling (default 0)"},                                                \
            {"--backend", "NAME", "cpu (default), pjrt, or pjrt:PLUGIN (docs/accelerators.md)"},                \
            {"--precision", "NAME",                                                                             \
                    "type of the weights: bf16, fp32, or blocks, those of a GGUF file (default: see above)"},   \
    {                                                                                                           \
        "--threads", "N", "number of threads; 0: all cores (default)"                                           \
    }

// Reads them, finds the model (the first positional argument, --adapter) and sets the threads. What
// it points to lives in `a` or in the arguments.
DRV_CHECKED drv_status generation_read(arena *a, const cli_args *args, generator_opts *model,
        generate_opts *out);

// Reads --precision; without it *out stays as it is.
DRV_CHECKED drv_status generation_precision(const cli_args *args, generate_precision *out);

// Prints text to standard output and flushes it; it serves as `emit` of generate_opts.
void generation_print(void *ctx, const char *text, size_t n);
// Prints "try it: " and a command, if the model in the folder can generate text.
void generation_print_hint(const char *folder);
