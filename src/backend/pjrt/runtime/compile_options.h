// Encodes the options of a compilation as a CompileOptionsProto (openxla
// xla/pjrt/proto/compile_options.proto), without a library since it has a dozen fields.
#pragma once
#include "base/status.h"
#include "base/str.h"

typedef struct compile_options {
    int n_replicas;           // devices that run the program together, at least 1
    const int *devices;       // their ids; NULL: 0, 1, ...
    const char *const *flags; // "NAME=VALUE" of the compiler's own options, without dashes
    int n_flags;
} compile_options;

// Appends the bytes. DRV_E_USAGE: a flag has no name or no "="; nothing was appended.
DRV_CHECKED drv_status compile_options_encode(const compile_options *options, str *out);
