// Collects facts about an optimised program that show where it is slow.
// The program is a serialised HloModuleProto (xla/service/hlo.proto), of which a few fields are
// read.
#pragma once
#include <stddef.h>

#include "backend/program_facts.h"

// Sets *out for the program `hlo` of n bytes, which was compiled from a StableHLO text of n_text
// bytes. False: it is not such a program; *out then has only the X_asked.
bool optimised_read(const void *hlo, size_t n, const char *text, size_t n_text, program_facts *out);
