// doctor: what this machine is and what drover will do on it.
#include <dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "backend/cpu/gemm.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/parallel.h"
#include "base/str.h"
#include "base/version.h"
#include "cli/cli.h"

static drv_status run(arena *a, const cli_args *args) {
    struct sysinfo info;
    double f32, bf16;
    gemm_machine *m;
    cpu_level level;
    par_set_threads(0);
    DRV_TRY(cpu_level_chosen(&level));
    DRV_TRY(gemm_peak(DT_F32, 4, &f32));
    DRV_TRY(gemm_peak(DT_BF16, 4, &bf16));
    DRV_TRY(gemm_machine_open(a, GEMM_BY_RULE, &m));
    const char *arithmetic = gemm_arithmetic(m);
    gemm_machine_close(m);
    sysinfo(&info);
    const double memory = (double)info.totalram * info.mem_unit,
                 free_now = (double)info.freeram * info.mem_unit;
    const dnnl_version_t *v = dnnl_version();
    if (cli_has(args, "--json")) {
        printf("{\"version\": \"%s\", \"commit\": \"%s\", \"cpu\": \"%s\", \"level\": \"%s\", \"amx_bf16\": %s, "
               "\"threads\": %d, "
               "\"memory_bytes\": %.0f, \"onednn\": \"%d.%d.%d\", \"gemm_peak_fp32\": %.5g, "
               "\"gemm_peak_bf16\": %.5g, "
               "\"bf16_arithmetic\": \"%s\"}\n",
                drover_number(), drover_commit(), cpu_model_name(), cpu_level_name(level),
                cpu_has_amx_bf16() ? "true" : "false", par_threads(), memory, v->major, v->minor,
                v->patch, f32, bf16, arithmetic);
        return DRV_OK;
    }
    printf("drover      %s, commit %s, compiled with %s\n", drover_number(), drover_commit(),
            __VERSION__);
    printf("processor   %s\n", cpu_model_name());
    printf("kernels     %s (highest here: %s)%s\n", cpu_level_name(level),
            cpu_level_name(cpu_detect()), cpu_has_amx_bf16() ? ", AMX bf16" : "");
    printf("threads     %d\n", par_threads());
    printf("memory      %s, %s free\n", str_bytes(memory), str_bytes(free_now));
    printf("libraries   oneDNN %d.%d.%d, jansson %s\n", v->major, v->minor, v->patch,
            jansson_version_str());
    printf("GEMM peak   fp32 %.1f GFLOP/s, bf16 %.1f GFLOP/s\n", f32 / 1e9, bf16 / 1e9);
    printf("bf16 mode   multiplies by %s\n", arithmetic);
    const bool widens = strcmp(arithmetic, "fp32") == 0;
    const double chosen = widens ? f32 : bf16, other = widens ? bf16 : f32;
    if (other > 1.1 * chosen)
        printf("warning     the other arithmetic is %.1f times as fast here; set DROVER_GEMM=%s\n",
                other / chosen,
                !widens                    ? "fp32"
                : level == CPU_AVX512_BF16 ? "bf16"
                                           : "onednn");
    return DRV_OK;
}

static const cli_option options[] = {CLI_JSON};
const verb verb_doctor = {
        .name = "doctor",
        .summary = "say what this machine is and how drover will use it",
        .usage = "[--json]",
        .help = "Prints the processor, the kernels and arithmetic chosen for it, threads, memory,\n"
                "libraries and the measured GEMM peaks.",
        .options = options,
        .n_options = sizeof options / sizeof *options,
        .run = run,
};
