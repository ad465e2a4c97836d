// What fuzz targets share. A target defines fuzz_input alone; replay.c calls it, or libFuzzer.
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"

// Tries one input. `a` is freed behind it.
void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes);
// A folder of this process, which is removed at its end.
const char *fuzz_folder(void);
// Writes a file there, and returns its path.
const char *fuzz_file(arena *a, const char *name, const void *bytes, size_t n_bytes);
