// Sets up the ranks of a measurement, and times their steps.
#include "train/step_bench.h"

#include "base/clock.h"
#include "setup/device.h"

enum { MEMORY_TRIES = 4 };

drv_status product_peaks_raise(backend *b, int tries, product_peaks *p) {
    product_peaks now;
    DRV_TRY(backend_peak(b, DT_F32, tries, &now.f32));
    DRV_TRY(backend_peak(b, DT_BF16, tries, &now.bf16));
    if (now.f32 > p->f32) p->f32 = now.f32;
    if (now.bf16 > p->bf16) p->bf16 = now.bf16;
    return DRV_OK;
}

// Pipeline ranks wait outside of ops, as launches do, and context ranks inside of attention: the
// times of a step tell neither from the other.
static drv_status check_device_layout(const run_config *cfg) {
    const bool pipeline = cfg->pipeline_parallel > 1;
    if (!pipeline && cfg->context_parallel == 1) return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "bench device: parallel.%s is %lld, expected 1: waiting cannot be separated from computing; data and tensor ranks measure links",
            pipeline ? "pipeline" : "context",
            (long long)(pipeline ? cfg->pipeline_parallel : cfg->context_parallel));
}

// Sets up one rank, whatever layout the config asks for; under mpirun or srun a rank of that layout.
static drv_status set_up(this_rank *r, run_config *cfg) {
    r->cfg = cfg;
    r->leads = comm_rank(r->comm) == 0;
    if (comm_size(r->comm) == 1) {
        config_one_rank(cfg);
        return DRV_OK;
    }
    DRV_TRY(ranks_together(r, ranks_set_up(r, cfg)));
    DRV_TRY(ranks_together(r, ranks_share_config(r)));
    return ranks_choose_zero(r);
}

static drv_status open_device(this_rank *r, bool profiled) {
    DRV_TRY(device_open_among(r->a, r->cfg, r->comm, &r->b));
    if (!profiled || backend_times_nodes(r->b)) return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "bench step: --profile needs a back end that runs op by op: expected backend cpu, but %s is \"%s\"",
            config_where(r->cfg, "backend"), r->cfg->backend);
}

static drv_status build(this_rank *r, programs *p) {
    const mesh ranks = run_mesh(r->cfg);
    if (comm_size(r->comm) > 1) backend_join(r->b, r->comm, &ranks);
    DRV_TRY(programs_build(r->a, r->cfg, p));
    p->held.comm = r->comm;
    DRV_TRY(programs_load(r->a, r->b, p));
    return held_init_weights(&p->held);
}

static void add_up(const run_config *cfg, double memory_per_s, step_bench *out) {
    const product_peaks *peak = &out->peak;
    const double highest = peak->f32 > peak->bf16 ? peak->f32 : peak->bf16,
                 all = out->ranks * highest;
    out->roof = (machine_roof){cfg->precision == PRECISION_F32 ? peak->f32 : highest, memory_per_s};
    out->model = *cfg->preset ? cfg->preset : *cfg->from ? cfg->from : "custom";
    out->tokens = (double)(cfg->global_batch_size * cfg->sequence_length);
    out->flops_per_s = out->tokens * programs_flops_per_token(out->built, false) / out->times.best;
    out->all_flops_per_s =
            out->tokens * programs_flops_per_token(out->built, true) / out->times.best;
    out->ratio = all > 0 ? out->flops_per_s / all : 0; // 0: unknown
    out->all_ratio = all > 0 ? out->all_flops_per_s / all : 0;
}

drv_status step_bench_run(this_rank *rank, run_config *cfg, int64_t repeats, bool profiled,
        bool for_device, step_bench *out) {
    const int tries = repeats < 3 ? LOOK_TRIES : PEAK_TRIES;
    programs *p = ARENA_NEW(rank->a, programs);
    double memory_per_s = 0;
    *out = (step_bench){.built = p, .profile = profiled ? ARENA_NEW(rank->a, step_profile) : NULL};
    DRV_TRY(set_up(rank, cfg));
    if (for_device) DRV_TRY(ranks_together(rank, check_device_layout(cfg)));
    DRV_TRY(ranks_together(rank, open_device(rank, profiled)));
    DRV_TRY(ranks_together(rank, ranks_agree_on_arithmetic(rank)));
    DRV_TRY(ranks_together(rank, product_peaks_raise(rank->b, tries, &out->peak)));
    if (profiled)
        DRV_TRY(ranks_together(rank, backend_memory_rate(rank->b, MEMORY_TRIES, &memory_per_s)));
    DRV_TRY(ranks_together(rank, build(rank, p)));
    DRV_TRY(step_time(rank->a, p, rank->comm, repeats, &out->times, out->profile));
    out->peak_rss = memory_peak_bytes(); // the products below come on top of the weights
    // Again, since the load of the machine may have changed during the steps.
    DRV_TRY(ranks_together(rank, product_peaks_raise(rank->b, tries, &out->peak)));
    out->ranks = comm_size(rank->comm);
    add_up(cfg, memory_per_s, out);
    return DRV_OK;
}
