// Levels of the processor by CPUID, and what the system calls it.
#include "base/cpu.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"ref", "plain", "avx2", "avx512", "avx512_bf16"};

cpu_level cpu_detect(void) {
#ifdef __x86_64__
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return CPU_PLAIN;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
            !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl"))
        return CPU_AVX2;
    return __builtin_cpu_supports("avx512bf16") ? CPU_AVX512_BF16 : CPU_AVX512;
#else
    return CPU_PLAIN;
#endif
}

const char *cpu_level_name(cpu_level level) {
    return names[level];
}

drv_status cpu_level_chosen(cpu_level *out) {
    const char *asked = getenv("DROVER_CPU");
    *out = cpu_detect();
    if (!asked) return DRV_OK;
    for (int i = 0; i <= (int)CPU_AVX512_BF16; i++) {
        if (strcmp(asked, names[i]) != 0) continue;
        if (i > (int)*out)
            return drv_fail(DRV_E_USAGE, "DROVER_CPU is \"%s\", but this processor has only %s",
                    asked, names[*out]);
        *out = (cpu_level)i;
        return DRV_OK;
    }
    return drv_fail(DRV_E_USAGE, "DROVER_CPU is \"%s\", expected %s, %s, %s, %s or %s", asked,
            names[CPU_REF], names[CPU_PLAIN], names[CPU_AVX2], names[CPU_AVX512],
            names[CPU_AVX512_BF16]);
}

static bool cpuinfo(const char *key, char *out, size_t cap) {
    FILE *f = fopen("/proc/cpuinfo", "r");
    if (!f) return false;
    char line[7168];
    bool found = false;
    while (!found && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, key, strlen(key)) != 0 || !colon) continue;
        colon[strcspn(colon, "\n")] = 0;
        snprintf(out, cap, "%s", colon + (colon[1] == ' ' ? 2 : 1));
        found = true;
    }
    fclose(f);
    return found;
}

bool cpu_is_intel(void) {
#ifdef __x86_64__
    __builtin_cpu_init();
    return __builtin_cpu_is("intel");
#else
    return false;
#endif
}

bool cpu_has_amx_bf16(void) {
    char flags[7168];
    return cpuinfo("flags", flags, sizeof flags) && strstr(flags, " amx_bf16") &&
           strstr(flags, " amx_tile") && strstr(flags, " avx512_bf16");
}

static char model_name[128];

static void read_model_name(void) {
    if (!cpuinfo("model name", model_name, sizeof model_name)) memcpy(model_name, "unknown", 8);
}

const char *cpu_model_name(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT; // ranks may be threads
    pthread_once(&once, read_model_name);
    return model_name;
}
