// Sets up the ranks of a run, and has them agree on stops and failures.
#include "train/ranks.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/parallel.h"
#include "base/stop.h"
#include "launch/expect.h"
#include "programs/fit.h"
#include "search/rank_memory.h"
#include "setup/run_layout.h"

// Removes mpirun's default, which binds each of two ranks to one core for all of its threads. A
// mask that a user asked for stays: srun's, or that of mpirun --bind-to.
static void unbind(void) {
    cpu_set_t all;
    if (!getenv("OMPI_COMM_WORLD_RANK") || getenv("OMPI_MCA_hwloc_base_binding_policy") ||
            getenv("SLURM_CPU_BIND_TYPE"))
        return;
    memset(&all, 0xFF, sizeof all);
    sched_setaffinity(0, sizeof all, &all); // the kernel drops cores that it may not use
}

// If neither the config nor the environment gives a number, the ranks of a host share its cores.
static int threads_of(const run_config *cfg, const comm *c) {
    if (comm_size(c) == 1 || cfg->threads || getenv("DROVER_THREADS") || getenv("OMP_NUM_THREADS"))
        return (int)cfg->threads;
    const int n = par_threads_for(0) / comm_ranks_on_host(c);
    return n > 0 ? n : 1;
}

// Names the cores that a rank may use.
static void name_cores(const comm *c, int threads, char *out, size_t size) {
    cpu_set_t mine;
    const int all = (int)sysconf(_SC_NPROCESSORS_ONLN);
    const int n = sched_getaffinity(0, sizeof mine, &mine) == 0 ? CPU_COUNT(&mine) : all;
    const char *shared = threads * comm_ranks_on_host(c) > all ? ", which they share" : "";
    if (n < all)
        snprintf(out, size, "bound to %d of %d cores%s", n, all, shared);
    else
        snprintf(out, size, "not bound, %d core%s%s", all, all > 1 ? "s" : "", shared);
}

static void log_ranks(const run_config *cfg, const comm *c) {
    static const char *const levels[] = {"", ", ZeRO-1", ", ZeRO-2", ", ZeRO-3"};
    const int hosts = comm_hosts(c), threads = par_threads();
    char pipeline[64] = "", context[64] = "", cores[64];
    name_cores(c, threads, cores, sizeof cores);
    if (cfg->pipeline_parallel > 1)
        snprintf(pipeline, sizeof pipeline, ", pipeline %lld x %lld stages",
                (long long)cfg->pipeline_parallel, (long long)cfg->virtual_stages);
    if (cfg->n_context_blocks > cfg->context_parallel)
        snprintf(context, sizeof context, ", context %lld with %lld reduction blocks",
                (long long)cfg->context_parallel, (long long)cfg->n_context_blocks);
    else if (cfg->context_parallel > 1)
        snprintf(context, sizeof context, ", context %lld", (long long)cfg->context_parallel);
    log_info("%d ranks on %d host%s over %s: tensor %lld%s%s, data %lld, %lld accumulation group%s%s; %d thread%s a rank, %s%s",
            comm_size(c), hosts, hosts > 1 ? "s" : "", comm_backend(c),
            (long long)cfg->tensor_parallel, pipeline, context, (long long)cfg->data_ranks,
            (long long)cfg->n_accum_groups, cfg->n_accum_groups > 1 ? "s" : "",
            cfg->given_zero < 0 ? "" : levels[run_layout_of(cfg).zero], threads,
            threads > 1 ? "s" : "", cores, comm_launcher());
}

drv_status ranks_set_up(this_rank *r, run_config *cfg) {
    if (r->pool)
        log_mute_thread(!r->leads);
    else
        log_to_file_only(!r->leads);
    DRV_TRY(expect_check(comm_size(r->comm), comm_hosts(r->comm)));
    DRV_TRY(config_set_ranks(cfg, comm_size(r->comm)));
    cfg->rank = comm_rank(r->comm);
    if (comm_size(r->comm) > 1 && !cfg->threads && !r->pool) unbind();
    if (!r->pool) par_set_threads(threads_of(cfg, r->comm));
    if (comm_size(r->comm) > 1) log_ranks(cfg, r->comm);
    return DRV_OK;
}

// Each rank plans with its own number of threads, and all take the highest level that one of them
// needs. If the memory of a device is unknown, this takes the lowest level.
drv_status ranks_choose_zero(this_rank *rank) {
    memory_limit limit;
    int64_t process;
    const char *why = NULL;
    run_config *cfg = rank->cfg;
    if (cfg->given_zero >= 0 || comm_size(rank->comm) == 1) return DRV_OK;
    drv_status status =
            rank_memory(rank->a, cfg, NULL, comm_ranks_on_host(rank->comm), &limit, &process);
    if (status == DRV_OK) status = fit_choose_zero(rank->a, cfg, &limit, process, &why);
    DRV_TRY(ranks_together(rank, status));
    int64_t level = cfg->zero;
    DRV_TRY(comm_all_reduce(comm_all_ranks(rank->comm), DT_I64, COMM_MAX, &level, 1, NULL));
    if (level > cfg->zero)
        why = arena_printf(rank->a, "zero %lld: another rank has too little memory for zero %lld",
                (long long)level, (long long)cfg->zero);
    cfg->zero = level;
    if (why) log_info("%s", why);
    return config_set_ranks(cfg, comm_size(rank->comm));
}

drv_status ranks_share_stop(this_rank *r) {
    int32_t number = stop_number();
    DRV_TRY(comm_all_reduce(comm_all_ranks(r->comm), DT_I32, COMM_MAX, &number, 1, NULL));
    stop_take_over(number);
    return DRV_OK;
}

drv_status ranks_wait(this_rank *r, ranks_is_done is_done, void *ctx, const char *doing) {
    const double at_most_s = 0.25;
    drv_status status = DRV_OK;
    for (bool done = false;;) {
        done = done || is_done(ctx, at_most_s, &status);
        int32_t asked[] = {stop_number(), !done, status != DRV_OK};
        DRV_TRY(comm_all_reduce(comm_all_ranks(r->comm), DT_I32, COMM_MAX, asked,
                sizeof asked / sizeof *asked, NULL));
        if (asked[2]) return ranks_together(r, status);
        if (!asked[1]) return DRV_OK;
        stop_take_over(asked[0]);
        if (asked[0]) return stop_check(doing);
    }
}

drv_status ranks_together(this_rank *r, drv_status status) {
    status = comm_agree_on_first(r->comm, status);
    r->together |= status != DRV_OK && status != DRV_E_PEER;
    return status;
}

drv_status ranks_leave(this_rank *r, const drv_saved *ended) {
    drv_status status = ended->status;
    bool mine = r->leads || status == DRV_E_PEER;
    if (status != DRV_OK && (!r->together || status == DRV_E_PEER)) {
        drv_restore(ended);
        mine = comm_abort(r->comm, status);
    }
    const comm_blame blame = comm_blamed(r->comm);
    const bool alone = comm_size(r->comm) == 1;
    if (status != DRV_OK && mine && *ended->message && !alone) {
        log_failure(ended->message);
        comm_mark_reported(r->comm);
    }
    comm_close(r->comm);
    // All processes end with the status of the rank that failed.
    if (status == DRV_E_PEER && blame.rank >= 0) status = blame.status;
    return status == DRV_OK ? DRV_OK : drv_fail(status, "%s", alone ? ended->message : "");
}
