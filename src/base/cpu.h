// Detects the instructions of this processor and chooses the level of kernels.
#pragma once
#include <stdbool.h>

#include "base/status.h"

typedef enum cpu_level {
    CPU_REF,         // scalar C in double: the definition of every kernel
    CPU_PLAIN,       // portable C with the bits of the levels above it
    CPU_AVX2,        // AVX2 + FMA
    CPU_AVX512,      // AVX-512 F, BW, DQ, VL
    CPU_AVX512_BF16, // and its bf16 dot product
} cpu_level;

cpu_level cpu_detect(void); // the highest level of this machine
// Gives the level that DROVER_CPU names or, if it is not set, the highest one. DRV_E_USAGE: the
// variable names no level, or a higher one.
DRV_CHECKED drv_status cpu_level_chosen(cpu_level *out);
const char *cpu_level_name(cpu_level level); // "ref", "plain", "avx2", "avx512", "avx512_bf16"
bool cpu_has_amx_bf16(void); // tile registers that multiply bf16, beside avx512_bf16
bool cpu_is_intel(void);     // by the vendor in CPUID, which hypervisors keep, unlike the model
const char *cpu_model_name(void); // from the operating system, else "unknown"; static. Any thread.
