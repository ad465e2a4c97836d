// Ranks meet at each compilation and execution; the last one to arrive does the work for all.
#include "backend/pjrt/device_group.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/pjrt/runtime/gpu_target.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "base/task.h"

struct device_group {
    device_pool *pool;
    int first, n, n_here;
    int *ids; // of all n devices
    device_group *next;
    group_program **programs; // in the order of compilation
    int n_programs, cap_programs;
    // The current meeting; protected by the lock.
    pthread_mutex_t lock;
    pthread_cond_t ended;
    int n_arrived;
    uint64_t n_meetings;
    bool broken;   // a rank has left before its meeting, so no later one can complete
    drv_saved met; // result of the last one
    // By place, for the current meeting.
    pjrt_buffer ***arguments, ***results;
    pjrt_event **done;
};

// --- meetings
#define LOOK_S 0.1 // a waiting rank looks at the others this often

// Waits, with the lock held, until the meeting has ended or a rank has failed elsewhere.
static drv_status wait_for_end(device_group *t, const comm *c) {
    const uint64_t mine = t->n_meetings;
    while (t->n_meetings == mine) {
        const struct timespec until = monotonic_after(LOOK_S);
        const bool late = pthread_cond_timedwait(&t->ended, &t->lock, &until) == ETIMEDOUT;
        const drv_status status = late && c ? comm_check(c) : DRV_OK;
        if (status == DRV_OK) continue;
        t->broken = true; // the data of this rank is freed
        return status;
    }
    return drv_restore(&t->met);
}

// Calls act(t, ctx of the last rank) once for all ranks here; all get its status.
static drv_status meet(device_member *self, drv_status (*act)(device_group *group, void *ctx),
        void *ctx) {
    device_group *group = self->group;
    drv_status status;
    pthread_mutex_lock(&group->lock);
    const uint64_t before = group->n_meetings;
    if (group->broken) {
        status = self->c ? comm_check(self->c) : DRV_OK;
        if (status == DRV_OK) status = drv_fail(DRV_E_PEER, "%s", "");
    } else if (++group->n_arrived < group->n_here) {
        status = wait_for_end(group, self->c);
    } else {
        status = act(group, ctx);
        drv_save(status, &group->met);
        group->n_arrived = 0;
        group->n_meetings++;
        pthread_cond_broadcast(&group->ended);
    }
    self->met = group->n_meetings > before;
    pthread_mutex_unlock(&group->lock);
    return status;
}

// --- compiling
static void keep_text(const lowered *l) {
    const char *dir = getenv("DROVER_PJRT_DUMP");
    if (!dir || !*dir) return;
    arena *a = arena_new("dump");
    const char *path = arena_printf(a, "%s/%s.mlir", dir, l->name);
    if (file_write_atomic(path, l->text.p, l->text.n) != DRV_OK) log_warn("%s", drv_message());
    arena_free(a);
}

// Describes the arguments and results of a program, in memory of the pool.
static device_program describe(arena *a, const lowered *l) {
    buffer_shape *in = ARENA_ARRAY(a, buffer_shape, l->n_in),
                 *made = ARENA_ARRAY(a, buffer_shape, l->n_out);
    for (int i = 0; i < l->n_in; i++)
        in[i] = l->in[i].shape;
    for (int o = 0; o < l->n_out; o++)
        made[o] = l->out[o].shape;
    return (device_program){.name = arena_strdup(a, l->name),
            .n_in = l->n_in,
            .n_out = l->n_out,
            .in = in,
            .out = made};
}

// Programs that are compiled at the same time.
typedef struct compile_call {
    device_group *t;
    const lowered *l;
    int n, n_done;
    double start_s;
    group_program **made;
    pthread_mutex_t lock; // protects n_done and the status line
} compile_call;

static void tell_progress(compile_call *call) {
    pthread_mutex_lock(&call->lock);
    if (++call->n_done < call->n)
        progress("compiling: %d of %d programs, %s", call->n_done, call->n,
                str_duration(clock_s() - call->start_s));
    pthread_mutex_unlock(&call->lock);
}

// A parser that refuses an operation cannot name its line (HLO_NOWHERE), so it gets the text again
// in a form that lets it count lines.
static drv_status refuse_again(const device_pool *pool, const lowered *l,
        const compile_options *options, device_program *program) {
    str text = {0};
    str_replace(&text, l->text.p, l->text.n, HLO_NOWHERE, "");
    const drv_status status = client_compile(pool->client, text.p, text.n, options, program);
    str_free(&text);
    return status;
}

static void compile_one(void *ctx, int i) {
    compile_call *call = ctx;
    device_pool *pool = call->t->pool;
    const lowered *l = &call->l[i];
    group_program *made = call->made[i];
    const compile_options options = {call->t->n, call->t->ids, pool->flags.list, pool->flags.n};
    const int64_t bytes = compile_bytes((int64_t)l->text.n);
    compile_gate_enter(&pool->gate, bytes);
    const double start = clock_s();
    drv_status status = compile_cached(&pool->cache, pool->client, l->text.p, l->text.n, &options,
            &made->program, &made->from_cache);
    if (status != DRV_OK && strstr(drv_message(), "<unknown>:0"))
        status = refuse_again(pool, l, &options, &made->program);
    made->seconds = clock_s() - start;
    compile_gate_leave(&pool->gate, bytes);
    drv_save(status == DRV_OK ? DRV_OK : lower_explain(l, status), &made->ended);
    tell_progress(call);
}

static group_program *new_program(device_pool *pool, const lowered *l) {
    pthread_mutex_lock(&pool->lock);
    group_program *made = ARENA_NEW(pool->a, group_program);
    made->program = describe(pool->a, l);
    pthread_mutex_unlock(&pool->lock);
    made->text = XXH3_128bits(l->text.p, l->text.n);
    return made;
}

// Appends all n programs to the device group's list, with the result of each.
static drv_status compile_all(device_group *t, void *ctx) {
    compile_call *call = ctx;
    call->t = t;
    call->start_s = clock_s();
    pthread_mutex_init(&call->lock, NULL);
    for (int i = 0; i < call->n; i++) {
        MEM_GROW(t->programs, t->n_programs, t->cap_programs);
        t->programs[t->n_programs++] = new_program(t->pool, &call->l[i]);
        keep_text(&call->l[i]);
    }
    call->made = t->programs + t->n_programs - call->n;
    progress("compiling: %d program%s", call->n, call->n == 1 ? "" : "s");
    compile_side_by_side(&t->pool->gate, call->n, compile_one, call);
    progress_end();
    pthread_mutex_destroy(&call->lock);
    return DRV_OK;
}

drv_status group_compile(device_member *self, const lowered *l, int n, group_program **out) {
    device_group *group = self->group;
    const device_pool *pool = group->pool;
    if (group->n > group->n_here && pool->cluster && !pool->client->rank_devices)
        return drv_fail(DRV_E_DEVICE,
                "program \"%s\" is for %d processes, but plugin \"%s\" runs each program in one process, "
                "expected parallel.pipeline %d, a stage for each process, or one process with pjrt.devices",
                l->name, group->n, pool->plugin->name, comm_size(pool->cluster));
    compile_call call = {.l = l, .n = n};
    DRV_TRY(meet(self, compile_all, &call));
    // The next meeting, which would add programs, needs this rank.
    for (int i = 0; i < n; i++) {
        const XXH128_hash_t mine = XXH3_128bits(l[i].text.p, l[i].text.n);
        out[i] = group->programs[group->n_programs - n + i];
        DRV_ASSERT(XXH128_isEqual(mine, out[i]->text),
                "rank %d of its group prints another program \"%s\" than the others", self->place,
                l[i].name);
    }
    return DRV_OK;
}

// --- running
static drv_status execute(device_group *t, void *ctx) {
    device_program *p = ctx;
    return client_execute(t->pool->client, p, t->n_here, (pjrt_buffer *const *const *)t->arguments,
            (pjrt_buffer * *const *)t->results, t->done);
}

drv_status group_execute(device_member *self, device_program *p, pjrt_buffer **arguments,
        pjrt_buffer **results, pjrt_event **done) {
    device_group *t = self->group;
    t->arguments[self->place] = arguments;
    t->results[self->place] = results;
    DRV_TRY(meet(self, execute, p));
    *done = t->done[self->place];
    return DRV_OK;
}

// --- device groups and pools
static device_group *group_new(device_pool *pool, int first, int n, int n_here) {
    device_group *t = ARENA_NEW(pool->a, device_group);
    *t = (device_group){.pool = pool,
            .first = first,
            .n = n,
            .n_here = n_here,
            .ids = ARENA_ARRAY(pool->a, int, n),
            .arguments = ARENA_ARRAY(pool->a, pjrt_buffer **, n_here),
            .results = ARENA_ARRAY(pool->a, pjrt_buffer **, n_here),
            .done = ARENA_ARRAY(pool->a, pjrt_event *, n_here),
            .next = pool->groups};
    const int *of_ranks = pool->client->rank_devices;
    for (int i = 0; i < n; i++)
        t->ids[i] = of_ranks ? of_ranks[first + i]
                             : client_device_id(pool->client, pool->cluster ? 0 : first + i);
    pthread_mutex_init(&t->lock, NULL);
    cond_init_monotonic(&t->ended);
    pool->groups = t;
    return t;
}

device_group *device_group_of(device_pool *pool, int first, int n, int n_here) {
    pthread_mutex_lock(&pool->lock);
    device_group *t = pool->groups;
    while (t && !(t->first == first && t->n == n))
        t = t->next;
    if (!t) t = group_new(pool, first, n, n_here);
    pthread_mutex_unlock(&pool->lock);
    return t;
}

static void group_free(device_group *t) {
    for (int i = 0; i < t->n_programs; i++)
        client_program_free(t->pool->client, &t->programs[i]->program);
    free(t->programs);
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->ended);
}

// The target chooses the plugin, since the one that the config names may be for another platform.
static const char *target_plugin(const char *named) {
    if (!named || !*named) return "cuda";
    for (int i = 0; i < N_PLUGIN_NAMES; i++)
        if (strcmp(named, plugin_names[i]) == 0) return "cuda";
    return named;
}

// Opens a target such as "cuda:h200".
static drv_status open_target(device_pool *p, const backend_opts *opts, int n_devices) {
    static const char cuda[] = "cuda:";
    gpu_target gpu;
    if (strncmp(opts->target, cuda, strlen(cuda)) != 0)
        return drv_fail(DRV_E_USAGE, "target \"%s\", expected cuda:h200, h100, a100 or b200",
                opts->target);
    DRV_TRY(gpu_target_find(p->a, opts->target + strlen(cuda), &gpu));
    DRV_TRY(plugin_open(p->a, target_plugin(opts->plugin), &p->plugin));
    DRV_TRY(compiler_flags_choose(p->a, p->plugin, opts, &p->flags));
    if (opts->memory_fraction > 0)
        gpu.memory = (int64_t)((double)gpu.memory * opts->memory_fraction);
    return client_open_target(p->a, p->plugin, &gpu, n_devices, &p->client);
}

// Opens the store that joins processes; it lives as long as the client that uses it.
static drv_status open_in_cluster(device_pool *p, client_options *client) {
    DRV_TRY(cluster_store_open(p->cluster, &p->store));
    client->store = p->store;
    client->cluster = p->cluster;
    client->place_on_host = cluster_place_on_host(p->cluster);
    const drv_status status = client_open(p->a, p->plugin, client, &p->client);
    if (status == DRV_OK && p->client->rank_devices) return DRV_OK;
    cluster_store_close(p->store);
    p->store = NULL;
    return status;
}

static drv_status open_devices(device_pool *p, const backend_opts *opts, int n_devices) {
    client_options client = {.n_devices = n_devices, .memory_fraction = opts->memory_fraction};
    const char *by_default = getenv("DROVER_PJRT_PLUGIN");
    const bool named = (opts->plugin && *opts->plugin) || (by_default && *by_default);
    p->cluster = opts->cluster;
    DRV_TRY(plugin_open(p->a, opts->plugin, &p->plugin));
    p->plugin->give_up_s = opts->give_up_s;
    const drv_status status = p->cluster ? open_in_cluster(p, &client)
                                         : client_open(p->a, p->plugin, &client, &p->client);
    if (status != DRV_OK && !named)
        return drv_fail(status,
                "%s; pjrt.plugin or DROVER_PJRT_PLUGIN names another plugin, tools/fetch_pjrt.py "
                "gets that of the CPU",
                drv_message());
    DRV_TRY(status);
    return compiler_flags_choose(p->a, p->plugin, opts, &p->flags);
}

static void close_client(device_pool *p) {
    if (p->client) client_close(p->client);
    if (p->store) cluster_store_close(p->store);
}

drv_status device_pool_open(arena *a, const backend_opts *opts, int n_devices, device_pool **out) {
    device_pool *p = ARENA_NEW(a, device_pool);
    p->a = a;
    p->deterministic = !opts->nondeterministic;
    const drv_status status =
            opts->target ? open_target(p, opts, n_devices) : open_devices(p, opts, n_devices);
    if (status != DRV_OK) {
        drv_saved failure;
        drv_save(status, &failure);
        close_client(p);
        return drv_restore(&failure);
    }
    compile_cache_open(a, p->plugin, opts->target ? "none" : opts->cache_dir, opts->cache_max_bytes,
            &p->cache);
    compile_gate_open(&p->gate, opts->compile_jobs, opts->compile_max_bytes);
    pthread_mutex_init(&p->lock, NULL);
    *out = p;
    return DRV_OK;
}

void device_pool_close(device_pool *p) {
    for (device_group *t = p->groups; t; t = t->next)
        group_free(t);
    pthread_mutex_destroy(&p->lock);
    compile_gate_close(&p->gate);
    close_client(p);
}
