// Collects facts about a program that the compiler has optimised, which show where it became slow.
// The program is a serialised HloModuleProto (xla/service/hlo.proto), of which a few fields are
// read.
#pragma once
#include <stddef.h>

#include "backend/program_facts.h"

// Reads `hlo` (n bytes), which was compiled from StableHLO text (n_text). Returns false if it is
// not such a program.
bool optimised_read(const void *hlo, size_t n, const char *text, size_t n_text, program_facts *out);
