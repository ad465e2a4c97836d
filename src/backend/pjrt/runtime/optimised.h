// Facts of a program that its compiler has optimised: what of it became slow. The program comes as
// a serialised HloModuleProto (xla/service/hlo.proto), of which a few fields are read.
#pragma once
#include <stddef.h>

#include "backend/program_facts.h"

// Reads `hlo` (n bytes), which was compiled from StableHLO text (n_text). False: it is no such
// program.
bool optimised_read(const void *hlo, size_t n, const char *text, size_t n_text, program_facts *out);
