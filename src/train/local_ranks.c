// Trains on several devices from one process. Each rank is a thread, and does all that a rank does
// which is a process of its own, but only rank 0 writes to log.txt and to the terminal.
#include "base/parallel.h"
#include "train/run.h"
#include "setup/device.h"

typedef struct local_run {
    const run_config *cfg;
    device_pool *pool;
    bool fresh;
    // how rank 0 ended, if all ranks agreed on that end, as they do on a stop
    drv_saved ended;
} local_run;

static drv_status run_here(run *r, local_run *all) {
    run_config cfg = *all->cfg;
    r->rank.cfg = &cfg;
    drv_saved ended;
    drv_save(run_all(r, &cfg, all->fresh), &ended);
    run_close(r);
    if (ended.status != DRV_OK && (!r->rank.together || ended.status == DRV_E_PEER))
        return drv_restore(&ended);
    if (r->rank.leads) all->ended = ended;
    return DRV_OK;
}

static drv_status run_rank(comm *c, void *ctx) {
    local_run *all = ctx;
    arena *a = arena_new("run");
    run *r = ARENA_NEW(a, run); // too large for the stack
    *r = (run){.rank = {.a = a, .comm = c, .pool = all->pool, .leads = comm_rank(c) == 0},
            .saving.saved_step = -1};
    const drv_status status = run_here(r, all);
    arena_free(a);
    return status;
}

// Refuses a number of devices that the layout does not divide, before any device is opened.
static drv_status check_layout(const run_config *cfg, int n_devices) {
    run_config whole = *cfg;
    const int64_t others = cfg->tensor_parallel * cfg->pipeline_parallel * cfg->context_parallel,
                  data = cfg->data_parallel;
    if (n_devices % others != 0 || (data && data * others != n_devices))
        return config_refuse(cfg, "pjrt.devices",
                "is %d, expected %s%lld: tensor %lld x pipeline %lld x "
                "context %lld%s",
                n_devices, data ? "" : "a multiple of ", (long long)(data ? data * others : others),
                (long long)cfg->tensor_parallel, (long long)cfg->pipeline_parallel,
                (long long)cfg->context_parallel, data ? " x data" : "");
    return config_set_ranks(&whole, n_devices);
}

drv_status run_on_devices(const run_config *cfg, int n_devices, bool fresh) {
    local_run all = {.cfg = cfg, .fresh = fresh};
    const int threads = par_threads_for((int)cfg->threads) / n_devices;
    DRV_TRY(check_layout(cfg, n_devices));
    arena *a = arena_new("devices");
    drv_status status = device_open_pool(a, cfg, n_devices, &all.pool);
    if (status == DRV_OK) {
        status = comm_run_threads(n_devices, threads > 1 ? threads : 1, NULL, run_rank, &all);
        device_pool_close(all.pool);
    }
    arena_free(a);
    if (status != DRV_OK) return status;
    return drv_restore(&all.ended);
}
