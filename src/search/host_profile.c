// Times a step of two layers of llama-135m, whose products are large enough to run at full speed.
#include "search/host_profile.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory_limit.h"
#include "search/device_measure.h"
#include "search/step_time.h"

static drv_status sample_config(arena *a, const run_config *cfg, run_config *out) {
    const bool fp32 = cfg->precision == PRECISION_F32;
    const char *text = arena_printf(a,
            "model: {preset: llama-135m, num_hidden_layers: 2, vocab_size: 1024}\n"
            "data: {sequence_length: 256}\n"
            "training: {global_batch_size: 1, micro_batch_size: 1, steps: 1, precision: %s}\n",
            precision_name(fp32 ? PRECISION_F32 : PRECISION_BF16));
    DRV_TRY(config_load_text(a, "the sample of this machine", text, strlen(text), out));
    out->arithmetic = cfg->arithmetic;
    return DRV_OK;
}

static drv_status measure(arena *a, const run_config *cfg, backend *host, device_profile *out) {
    machine_roof roof = {.bytes_per_s = 0}; // which takes longer to measure than the step
    step_profile *step = ARENA_NEW(a, step_profile);
    DRV_TRY(backend_peak_flops(host, &roof.flops_per_s));
    DRV_TRY(step_sample(a, cfg, host, step));
    *out = device_profile_of_step(step, &roof, memory_limit_read("").free);
    out->name = "this machine";
    out->source = "a short step, measured";
    return DRV_OK;
}

// With DROVER_PEAK_FLOPS, plans depend on that peak alone.
static drv_status by_peak(backend *host, device_profile *out) {
    const link_speeds links = {UNKNOWN_LINK, UNKNOWN_LINK, 0};
    double peak;
    DRV_TRY(backend_peak_flops(host, &peak));
    *out = device_profile_by_hand("this machine", peak, memory_limit_read("").free, &links);
    return DRV_OK;
}

drv_status host_profile(const run_config *cfg, device_profile *out) {
    const char *said = getenv("DROVER_PEAK_FLOPS");
    arena *a = arena_new("a sample");
    run_config one;
    backend *host;
    drv_status status = sample_config(a, cfg, &one);
    if (status == DRV_OK) status = backend_open_host(a, &host);
    if (status == DRV_OK) {
        status = said && *said ? by_peak(host, out) : measure(a, &one, host, out);
        backend_close(host);
    }
    arena_free(a);
    return status;
}
