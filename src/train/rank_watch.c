// Writes ranks/status from a thread, sends the figures of a rank to the others, and reads energy.
#include "train/rank_watch.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/task.h"
#include "train/run.h"
#include "measure/energy.h"
#include "watch/files/rank_table.h"

enum { EVERY_S = 1 };

struct rank_watch {
    comm *comm;
    rank_table_writer *table; // NULL: it could not be opened
    rank_row *rows;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool closing, failing; // failing: a warning was logged
};

static void cut(char *out, size_t size, const char *text) {
    snprintf(out, size, "%.*s", (int)size - 1, text);
}

static void fill_row(comm *job, int rank, rank_row *row) {
    rank_view view;
    comm_view_rank(job, rank, &view);
    const rank_figures *f = &view.figures;
    *row = (rank_row){.known = true,
            .ended = view.ended,
            .pid = view.pid,
            .step = view.step,
            .since_s = view.since_s,
            .heard_s = view.heard_s,
            .compute_s = (double)f->compute_s,
            .wait_s = (double)f->wait_s,
            .data_s = (double)f->data_s,
            .save_s = (double)f->save_s,
            .resident = f->resident,
            .planned = f->planned,
            .device = f->device,
            .sent = f->sent};
    cut(row->host, sizeof row->host, view.host);
    cut(row->program, sizeof row->program, view.program);
    cut(row->op, sizeof row->op, view.op);
    cut(row->arithmetic, sizeof row->arithmetic, f->arithmetic);
}

static void write_table(rank_watch *w) {
    for (int i = 0; i < comm_size(w->comm); i++)
        fill_row(w->comm, i, &w->rows[i]);
    const drv_status status = rank_table_write(w->table, w->rows);
    if (status != DRV_OK && !w->failing) log_warn("table of ranks: %s", drv_message());
    w->failing = status != DRV_OK;
}

static void *watch_main(void *arg) {
    rank_watch *w = arg;
    struct timespec next;
    clock_gettime(CLOCK_MONOTONIC, &next);
    pthread_mutex_lock(&w->lock);
    while (!w->closing) {
        pthread_mutex_unlock(&w->lock);
        write_table(w);
        pthread_mutex_lock(&w->lock);
        next.tv_sec += EVERY_S;
        while (!w->closing && pthread_cond_timedwait(&w->changed, &w->lock, &next) == 0) {
        }
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

drv_status rank_watch_open(arena *a, comm *job, const run_config *cfg, rank_watch **out) {
    rank_watch *w = ARENA_NEW(a, rank_watch);
    const int n = comm_size(job);
    *w = (rank_watch){.comm = job, .rows = ARENA_ARRAY(a, rank_row, n)};
    if (rank_table_open(a, cfg->run_dir, cfg->status_dir, n, &w->table) != DRV_OK) {
        log_warn("table of ranks: %s", drv_message());
        return DRV_OK;
    }
    pthread_mutex_init(&w->lock, NULL);
    cond_init_monotonic(&w->changed);
    const drv_status status = thread_start(&w->thread, watch_main, w);
    if (status == DRV_OK)
        *out = w;
    else
        rank_table_close(w->table);
    return status;
}

void rank_watch_close(rank_watch *w) {
    if (!w) return;
    pthread_mutex_lock(&w->lock);
    w->closing = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    write_table(w);
    rank_table_close(w->table);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
}

void rank_watch_share_figures(run *r, const rank_time *step) {
    rank_figures *f = &r->shown.figures;
    const double now = clock_s();
    f->compute_s = (float)step->compute;
    f->wait_s = (float)step->wait;
    f->data_s = (float)step->data;
    f->save_s = (float)step->save;
    f->sent = (int64_t)step->sent;
    if (now - r->shown.measured_s >= EVERY_S) { // measuring reads a file
        const bool on_host = config_backend(r->rank.cfg)->uses_host_memory;
        f->resident = memory_resident_bytes();
        f->device = on_host ? 0 : backend_held_bytes(r->rank.b);
        r->shown.measured_s = now;
    }
    comm_share_figures(r->rank.comm, f);
}

// --- energy
enum { ENERGY_WORDS = 192 };

struct host_energy {
    energy *counters;      // the lowest rank of each host reads them; NULL: this rank does not
    double joules, read_s; // the last reading: its value and its clock
    int64_t step;          // the last step before that reading
    const char *words;     // on rank 0: how energy is read on all hosts
};

static bool is_first_of_host(const comm *c, int rank) {
    for (int i = 0; i < rank; i++)
        if (strcmp(comm_host(c, i), comm_host(c, rank)) == 0) return false;
    return true;
}

// Describes how energy is read, as in "RAPL (package-0)", and names one host that differs.
static void describe_energy(run *r, const char *words) {
    const int n = comm_size(r->rank.comm);
    int hosts = 0, others = 0, other = 0;
    for (int i = 0; i < n; i++) {
        if (!is_first_of_host(r->rank.comm, i)) continue;
        hosts++;
        if (strcmp(words, words + (size_t)i * ENERGY_WORDS) == 0) continue;
        if (!others++) other = i;
    }
    char more[ENERGY_WORDS + 128] = "";
    if (others)
        snprintf(more, sizeof more, "; %d of %d hosts differ, such as %.64s: %s", others, hosts,
                comm_host(r->rank.comm, other), words + (size_t)other * ENERGY_WORDS);
    r->shown.energy->words = arena_printf(r->rank.a, "%s%s", words, more);
    log_file_only("energy: %s", r->shown.energy->words);
}

drv_status rank_watch_open_energy(run *r) {
    char mine[ENERGY_WORDS] = "";
    drv_status status = DRV_OK;
    struct host_energy *of = r->shown.energy = ARENA_NEW(r->rank.a, struct host_energy);
    *of = (struct host_energy){.step = r->progress.state.step, .words = ""};
    if (is_first_of_host(r->rank.comm, comm_rank(r->rank.comm)))
        status = energy_open(r->rank.a, NULL, &of->counters);
    DRV_TRY(ranks_together(&r->rank, status));
    if (of->counters) {
        cut(mine, sizeof mine, energy_source(of->counters));
        of->joules = energy_read(of->counters);
    }
    of->read_s = clock_s();
    arena *a = arena_new("energy of hosts");
    char *all = arena_alloc(a, (size_t)comm_size(r->rank.comm) * ENERGY_WORDS);
    status = comm_all_gather(comm_all_ranks(r->rank.comm), mine, sizeof mine, NULL, all);
    if (status == DRV_OK && r->rank.leads) describe_energy(r, all);
    arena_free(a);
    return status;
}

const char *rank_watch_energy_text(const run *r) {
    return r->shown.energy->words;
}

void rank_watch_close_energy(run *r) {
    if (r->shown.energy) energy_close(r->shown.energy->counters);
}

void rank_watch_energy(run *r, int64_t step) {
    struct host_energy *of = r->shown.energy;
    const bool last = step >= r->rank.cfg->steps;
    if (!of->counters || (!last && clock_s() < of->read_s + EVERY_S)) return;
    const double joules = energy_read(of->counters);
    if (isfinite(joules) && step > of->step)
        rank_times_set_energy(&r->shown.times, joules - of->joules, step - of->step);
    of->joules = joules;
    of->step = step;
    of->read_s = clock_s();
}

// --- stragglers
void rank_watch_find_stragglers(run *r, const mesh *ranks) {
    const int n = comm_size(r->rank.comm);
    if (!r->rank.leads || n == 1) return;
    int *stages = ARENA_ARRAY(r->rank.a, int, n), *hosts = ARENA_ARRAY(r->rank.a, int, n),
        n_hosts = 0;
    for (int i = 0; i < n; i++) {
        int same = 0;
        while (same < i && strcmp(comm_host(r->rank.comm, same), comm_host(r->rank.comm, i)) != 0)
            same++;
        hosts[i] = same < i ? hosts[same] : n_hosts++;
        stages[i] = mesh_place(ranks, i, AXIS_PIPELINE);
    }
    r->shown.stragglers = stragglers_new(r->rank.a, n, stages, hosts, r->rank.cfg->straggler_ratio);
}

static void report_straggler(run *r, const straggler *told) {
    const char *host = comm_host(r->rank.comm, told->rank);
    char who[128];
    if (told->whole_host)
        snprintf(who, sizeof who, "host %s, all of its ranks,", host);
    else
        snprintf(who, sizeof who, "rank %d (%s)", told->rank, host);
    if (told->over)
        log_info("%s is as fast as the others again since about step %lld", who,
                (long long)told->step);
    else
        log_warn("%s holds up the others: %s, %.2f times as long since step %lld", who,
                told->reason, told->ratio, (long long)told->step);
    record_straggler(r->shown.record, told, host);
}

drv_status rank_watch_stragglers(run *r, int64_t step) {
    straggler told;
    bool there;
    DRV_TRY(rank_times_share_recent(&r->shown.times, &there));
    for (int i = 0; there && r->shown.stragglers && i < RECENT_STEPS; i++) {
        stragglers_add(r->shown.stragglers, step - RECENT_STEPS + 1 + i,
                rank_times_recent(&r->shown.times, i));
        while (stragglers_next(r->shown.stragglers, &told))
            report_straggler(r, &told);
    }
    return DRV_OK;
}
