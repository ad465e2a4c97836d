// Chooses flags by platform. XLA's own compilers may omit roundings that training.precision asks
// for; the plugins of others would refuse a flag that they do not know.
#include "backend/pjrt/compiler_flags.h"

#include <string.h>

#include "backend/pjrt/runtime/gpu_target.h"
#include "base/str.h"

enum { OWN_FLAGS = 7 };

// XLA fixes the order of additions if either of these is set (RequireDeterminism in
// xla/service/gpu/stream_executor_util.cc). The first one does not change autotuning.
#define DETERMINISTIC  "xla_gpu_exclude_nondeterministic_ops="
#define AND_TUNING_TOO "xla_gpu_deterministic_ops="
#define TRITON         "xla_gpu_enable_triton_gemm="

static void put(compiler_flags *f, const char *flag) {
    f->list[f->n++] = flag;
}

// The calls of cuDNN must agree with these flags (lower_cudnn.c). Otherwise XLA stores the backward
// kernel under one name and looks it up under another: the program ends the process at its first
// run or, with one layer, is silently not deterministic.
static void put_determinism(compiler_flags *f, bool deterministic) {
    put(f, deterministic ? DETERMINISTIC "True" : DETERMINISTIC "False");
    if (!deterministic) put(f, AND_TUNING_TOO "False"); // overrides XLA_FLAGS
}

// XLA can tell only by trying them whether algorithms of Triton's products are deterministic.
static drv_status check_users(const char *flag, const backend_opts *opts) {
    const bool untried = opts->target && !opts->nondeterministic;
    if (untried && strcmp(flag, TRITON "True") == 0)
        return drv_fail(DRV_E_USAGE,
                "compiler flag \"%s\" with training.deterministic: true can only be checked on the GPU, expected no "
                "--target, or training.deterministic: false",
                flag);
    if (!str_starts(flag, DETERMINISTIC) && !str_starts(flag, AND_TUNING_TOO)) return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "compiler flag \"%s\", expected the key training.deterministic instead, which sets XLA and the calls of cuDNN alike",
            flag);
}

static void put_cuda(compiler_flags *f, const backend_opts *opts) {
    put_determinism(f, !opts->nondeterministic);
    // cuBLASLt computes products, since it adds a weight's gradient in place; Triton's products are
    // written to other memory and copied.
    put(f, TRITON "False");
    // Without a device no algorithm can be tried. Searching for one that compiles took a third of
    // the time and chose the same.
    if (opts->target) put(f, "xla_gpu_autotune_level=0");
    // A rank that finds its program in the cache would not do the share that the others wait for.
    if (opts->cluster) put(f, "xla_gpu_shard_autotuning=False");
}

drv_status compiler_flags_choose(arena *a, const pjrt_plugin *plugin, const backend_opts *opts,
        compiler_flags *out) {
    static const char tools_flag[] = "xla_gpu_cuda_data_dir=";
    const char *name = plugin->name, *tools = NULL;
    const bool cuda = strstr(name, "cuda") != NULL;
    *out = (compiler_flags){.list = ARENA_ARRAY(a, const char *, opts->n_flags + OWN_FLAGS)};
    if (cuda || strstr(name, "cpu") || strstr(name, "rocm"))
        put(out, "xla_allow_excess_precision=False");
    if (cuda) put_cuda(out, opts);
    for (int i = 0; i < opts->n_flags; i++) {
        put(out, opts->flags[i]);
        if (!cuda) continue;
        DRV_TRY(check_users(opts->flags[i], opts));
        if (!str_starts(opts->flags[i], tools_flag)) continue;
        tools = opts->flags[i] + strlen(tools_flag);
        DRV_TRY(cuda_tools_check(a, tools));
    }
    // XLA ends the process if it finds no ptxas.
    if (cuda && !tools) {
        DRV_TRY(cuda_tools_find(a, plugin->path, &tools));
        put(out, arena_printf(a, "%s%s", tools_flag, tools));
    }
    return DRV_OK;
}
