// The PJRT back end: graphs printed as StableHLO, compiled and run by a plugin; state stays on the
// device between programs.
#include "backend/pjrt/pjrt_backend.h"

#include <stdlib.h>
#include <string.h>

#include "backend/pjrt/compile_cache.h"
#include "backend/pjrt/gpu_target.h"
#include "backend/pjrt/pjrt_state.h"
#include "base/file.h"
#include "base/log.h"

struct executable {
    device_program program;
    device_state **in, **out;
    pjrt_buffer **arguments, **results; // of one run
};

// Programs that may be on their way: one computes, the next one waits for it on the device.
enum { MAX_RUNNING = 2 };

typedef struct pjrt_backend {
    backend base;
    arena *a;
    pjrt_plugin *plugin;
    device_client *client;
    state_table states;
    compile_options compile;
    compile_cache cache;
    lower_options lower;
    executable **programs;
    int n_programs, cap_programs;
    pjrt_event *running[MAX_RUNNING]; // of the last programs, the oldest first; NULL: none
} pjrt_backend;

static pjrt_backend *self(backend *b) {
    return (pjrt_backend *)b;
}

lower_options *pjrt_lowering(backend *b) {
    return &self(b)->lower;
}

// A program may fail after it has been started: a later call says so. Waits for all but the
// `left` youngest.
static drv_status settle(pjrt_backend *b, int left) {
    drv_status status = DRV_OK;
    for (int i = 0; i < MAX_RUNNING - left && status == DRV_OK; i++) {
        pjrt_event *event = b->running[0];
        for (int k = 1; k < MAX_RUNNING; k++)
            b->running[k - 1] = b->running[k];
        b->running[MAX_RUNNING - 1] = NULL;
        status = plugin_wait(b->plugin, event);
    }
    return status;
}

// --- programs
static void keep_text(const lowered *l) {
    const char *dir = getenv("DROVER_PJRT_DUMP");
    if (!dir || !*dir) return;
    arena *a = arena_new("dump");
    const char *path = arena_printf(a, "%s/%s.mlir", dir, l->name);
    if (file_write_atomic(path, l->text.p, l->text.n) != DRV_OK) log_warn("%s", drv_message());
    arena_free(a);
}

static drv_status compile(pjrt_backend *b, lowered *l, device_program *out) {
    keep_text(l);
    *out = (device_program){.name = l->name, .n_in = l->n_in, .n_out = l->n_out};
    buffer_shape *in = ARENA_ARRAY(b->a, buffer_shape, l->n_in),
                 *made = ARENA_ARRAY(b->a, buffer_shape, l->n_out);
    for (int i = 0; i < l->n_in; i++)
        in[i] = l->in[i].shape;
    for (int o = 0; o < l->n_out; o++)
        made[o] = l->out[o].shape;
    out->in = in;
    out->out = made;
    const drv_status status =
            compile_cached(&b->cache, b->client, l->text.p, l->text.n, &b->compile, out);
    str_free(&l->text);
    return status == DRV_OK ? DRV_OK : lower_explain(l, status);
}

static drv_status load_text(pjrt_backend *b, lowered *l, executable **out) {
    executable *e = ARENA_NEW(b->a, executable);
    DRV_TRY(compile(b, l, &e->program));
    e->in = ARENA_ARRAY(b->a, device_state *, l->n_in);
    e->out = ARENA_ARRAY(b->a, device_state *, l->n_out);
    e->arguments = ARENA_ARRAY(b->a, pjrt_buffer *, l->n_in);
    e->results = ARENA_ARRAY(b->a, pjrt_buffer *, l->n_out);
    for (int i = 0; i < l->n_in; i++)
        e->in[i] = state_table_get(&b->states, &l->in[i]);
    for (int o = 0; o < l->n_out; o++)
        e->out[o] = state_table_get(&b->states, &l->out[o]);
    MEM_GROW(b->programs, b->n_programs, b->cap_programs);
    b->programs[b->n_programs++] = e;
    *out = e;
    return DRV_OK;
}

static drv_status load(backend *base, const plan *p, executable **out) {
    pjrt_backend *b = self(base);
    lowered l;
    DRV_TRY(lower_graph(b->a, p->g, &b->lower, &l));
    return load_text(b, &l, out);
}

static drv_status load_step(backend *base, const step_parts *parts, executable **out) {
    pjrt_backend *b = self(base);
    lowered l;
    DRV_TRY(lower_step(b->a, parts, &b->lower, &l));
    return load_text(b, &l, out);
}

static drv_status prepare(backend *b) {
    (void)b; // the plugin allocates as programs run
    return DRV_OK;
}

static drv_status run(backend *base, executable *e) {
    pjrt_backend *b = self(base);
    if (!b->client->handle)
        return drv_fail(DRV_E_DEVICE, "program \"%s\" was compiled for a target, not to run here",
                e->program.name);
    // What this program reads crosses while the one before it computes.
    for (int i = 0; i < e->program.n_in; i++) {
        DRV_TRY(state_upload(&b->states, e->in[i]));
        e->arguments[i] = e->in[i]->buffer;
    }
    pjrt_buffer *const *in[] = {e->arguments};
    pjrt_buffer **out[] = {e->results};
    DRV_TRY(settle(b, MAX_RUNNING - 1));
    DRV_TRY(client_execute(b->client, &e->program, 1, in, out, &b->running[MAX_RUNNING - 1]));
    for (int o = 0; o < e->program.n_out; o++)
        state_take(&b->states, e->out[o], e->results[o]);
    return DRV_OK;
}

static void join_ranks(backend *b, comm *c, const mesh *m) {
    (void)b, (void)c, (void)m; // programs of one rank: lower_graph refuses others
}

// --- state. Of a graph that has no nodes to name it, there is none.
static device_state *find(backend *b, const char *name) {
    device_state *d = state_table_find(&self(b)->states, name);
    DRV_ASSERT(d, "no tensor \"%s\"", name);
    return d;
}

static drv_status write_state(backend *b, int rank, const char *name, int64_t offset, int64_t bytes,
        const void *src) {
    (void)rank;
    return state_write(&self(b)->states, find(b, name), offset, bytes, src);
}

static drv_status read_state(backend *b, int rank, const char *name, int64_t offset, int64_t bytes,
        void *dst) {
    (void)rank;
    return state_read(&self(b)->states, find(b, name), offset, bytes, dst);
}

static drv_status fetch(backend *b, int rank, const char *name, int64_t bytes, void *dst) {
    (void)rank;
    return state_fetch(&self(b)->states, find(b, name), bytes, dst);
}

static drv_status arrive(backend *base, int n_oldest) {
    return state_arrive(&self(base)->states, n_oldest);
}

// --- what it is
static int64_t held_bytes(backend *b) {
    (void)b; // the compiler places it, not the plan
    return 0;
}

static bool program_memory(backend *b, const executable *e, backend_memory *out) {
    compiled_memory m;
    if (!client_program_memory(self(b)->client, &e->program, &m)) return false;
    *out = (backend_memory){m.argument, m.output, m.alias, m.temp, m.code};
    return true;
}

static void profile(backend *b, double s[N_OPS]) {
    (void)b; // the compiler joins ops
    memset(s, 0, N_OPS * sizeof *s);
}

static void describe(backend *base, backend_info *out) {
    pjrt_backend *b = self(base);
    *out = (backend_info){.device = arena_printf(b->a, "%s (%s)", b->client->kind,
                                  b->client->platform),
            .kernels = "XLA",
            .best_kernels = "XLA",
            .features = "",
            .libraries =
                    arena_printf(b->a, "PJRT %d.%d, StableHLO %s", b->plugin->api->version.major,
                            b->plugin->api->version.minor, b->plugin->stablehlo),
            .bf16_by = "XLA",
            .bf16_peak = DT_BF16,
            .other_way = ""};
}

static const char *arithmetic(backend *base) {
    pjrt_backend *b = self(base);
    return arena_printf(b->a, "PJRT plugin %s %d.%d, StableHLO %s", b->plugin->name,
            b->plugin->api->version.major, b->plugin->api->version.minor, b->plugin->stablehlo);
}

static drv_status peak(backend *b, dtype dt, int tries, double *flops_per_s) {
    (void)b, (void)dt, (void)tries;
    *flops_per_s = 0;
    return DRV_OK;
}

static void finish(backend *base) {
    pjrt_backend *b = self(base);
    if (settle(b, 0) != DRV_OK) log_warn("%s", drv_message());
    state_table_close(&b->states);
    for (int i = 0; i < b->n_programs; i++)
        client_program_free(b->client, &b->programs[i]->program);
    free(b->programs);
    client_close(b->client);
}

static const backend_vtable calls = {.name = "pjrt",
        .load = load,
        .load_step = load_step,
        .prepare = prepare,
        .join = join_ranks,
        .run = run,
        .write = write_state,
        .read = read_state,
        .fetch = fetch,
        .arrive = arrive,
        .held_bytes = held_bytes,
        .memory = program_memory,
        .profile = profile,
        .describe = describe,
        .arithmetic = arithmetic,
        .peak = peak,
        .close = finish};

// XLA's own compilers may leave roundings out that precision names; plugins of others would refuse
// a flag that they do not know. For CUDA it dies where it finds no ptxas.
static drv_status set_flags(pjrt_backend *b, const backend_opts *opts) {
    enum { OWN_FLAGS = 2 };
    const char *name = b->plugin->name, *tools;
    const bool cuda = strstr(name, "cuda") != NULL;
    const char **flags = ARENA_ARRAY(b->a, const char *, opts->n_flags + OWN_FLAGS);
    int n = 0;
    if (cuda || strstr(name, "cpu") || strstr(name, "rocm"))
        flags[n++] = "xla_allow_excess_precision=False";
    if (cuda) {
        DRV_TRY(cuda_tools_find(b->a, b->plugin->path, &tools));
        flags[n++] = arena_printf(b->a, "xla_gpu_cuda_data_dir=%s", tools);
    }
    for (int i = 0; i < opts->n_flags; i++)
        flags[n++] = opts->flags[i];
    b->compile = (compile_options){.n_replicas = 1, .flags = flags, .n_flags = n};
    return DRV_OK;
}

// "cuda:h200"
static drv_status open_target(pjrt_backend *b, const backend_opts *opts) {
    static const char cuda[] = "cuda:";
    const char *config;
    if (strncmp(opts->target, cuda, strlen(cuda)) != 0)
        return drv_fail(DRV_E_USAGE, "target \"%s\", expected cuda:h200, h100, a100 or b200",
                opts->target);
    DRV_TRY(gpu_target_config(b->a, opts->target + strlen(cuda), &config));
    DRV_TRY(plugin_open(b->a, opts->plugin && *opts->plugin ? opts->plugin : "cuda", &b->plugin));
    DRV_TRY(set_flags(b, opts));
    return client_open_target(b->a, b->plugin, config, &b->client);
}

static drv_status open_device(pjrt_backend *b, const backend_opts *opts) {
    const client_options client = {.memory_fraction = opts->memory_fraction};
    DRV_TRY(plugin_open(b->a, opts->plugin, &b->plugin));
    DRV_TRY(client_open(b->a, b->plugin, &client, &b->client));
    return set_flags(b, opts);
}

drv_status backend_open_pjrt(arena *a, const backend_opts *opts, backend **out) {
    pjrt_backend *b = ARENA_NEW(a, pjrt_backend);
    b->base = (backend){&calls, 1};
    b->a = a;
    DRV_TRY(opts->target ? open_target(b, opts) : open_device(b, opts));
    compile_cache_open(a, b->plugin, opts->target ? "none" : opts->cache_dir, &b->cache);
    b->lower = (lower_options){.has_f64 = b->plugin->has_f64};
    state_table_open(a, b->client, &b->states);
    *out = &b->base;
    return DRV_OK;
}
