// The PJRT back end prints graphs as StableHLO, which a plugin compiles and runs. State stays on
// the device between programs.
#include "backend/pjrt/pjrt_backend.h"

#include <stdlib.h>
#include <string.h>

#include "backend/pjrt/device_group.h"
#include "backend/pjrt/pjrt_state.h"
#include "base/log.h"

struct executable {
    device_program *program; // owned by the device group
    device_state **in, **out;
    bool *dies,
            *fresh; // by argument: nothing reads it later; by result: it does not replace an argument
    pjrt_buffer **arguments, **results; // of one execution
    lowered_exchange before, after;
    bool between_steps; // as of its graph
    executable *next;   // the next part of the program; NULL: none
};

// Programs that may be pending: one computes, the next one waits for it on the device.
enum { MAX_RUNNING = 2 };

typedef struct running_program {
    pjrt_event *done; // NULL: it has ended
    const char *name;
    int64_t step, number; // base.step and base.n_run when it was started
} running_program;

typedef struct pjrt_backend {
    backend base;
    arena *a;
    device_pool *pool;
    bool owns_pool;
    device_member member;
    state_table states;
    lower_options lower;
    running_program running[MAX_RUNNING]; // the latest programs, oldest first
    bool alone;                           // no other rank takes part in its programs
    mesh mesh;                            // of all ranks
    int n_together;                       // ranks that meet in a program
    int slot;
} pjrt_backend;

static pjrt_backend *self(backend *b) {
    return (pjrt_backend *)b;
}

lower_options *pjrt_lowering(backend *b) {
    return &self(b)->lower;
}

// Prefixes the message of a failure with the step and the program. Another rank's failure is
// reported by that rank.
static drv_status failed_in(drv_status status, int64_t step, const char *program) {
    if (status == DRV_E_PEER) return status;
    if (step == 0) return drv_context(status, "program \"%s\"", program);
    return drv_context(status, "step %lld: program \"%s\"", (long long)step, program);
}

// Waits for the programs up to a number. A program may fail after it was started; this reports it.
static drv_status settle(pjrt_backend *b, int64_t number) {
    drv_status status = DRV_OK;
    for (int i = 0; i < MAX_RUNNING && status == DRV_OK; i++) {
        running_program *p = &b->running[i];
        if (!p->done || p->number > number) continue;
        status = plugin_wait(b->pool->plugin, b->member.c, p->done);
        p->done = NULL;
        if (status != DRV_OK) status = failed_in(status, p->step, p->name);
    }
    return status;
}

// --- programs
static bool reads(const executable *e, const device_state *d) {
    for (; e; e = e->next)
        for (int i = 0; i < e->program->n_in; i++)
            if (e->in[i] == d) return true;
    return false;
}

// Marks the values that no later part reads; they are freed after each part. `l` has an entry for
// each part.
static void find_deaths(executable *e, const lowered *l) {
    for (; e; e = e->next, l++)
        for (int i = 0; i < e->program->n_in; i++) {
            const bool last = lowered_is_temporary(e->in[i]->name) || l->in[i].dies;
            e->dies[i] = last && !reads(e->next, e->in[i]);
        }
}

static executable *take_part(pjrt_backend *b, const lowered *l, device_program *program) {
    executable *e = ARENA_NEW(b->a, executable);
    e->program = program;
    e->before = l->before;
    e->after = l->after;
    e->in = ARENA_ARRAY(b->a, device_state *, l->n_in);
    e->out = ARENA_ARRAY(b->a, device_state *, l->n_out);
    e->dies = ARENA_ARRAY(b->a, bool, l->n_in);
    e->fresh = ARENA_ARRAY(b->a, bool, l->n_out);
    e->arguments = ARENA_ARRAY(b->a, pjrt_buffer *, l->n_in);
    e->results = ARENA_ARRAY(b->a, pjrt_buffer *, l->n_out);
    for (int i = 0; i < l->n_in; i++)
        e->in[i] = state_table_get(&b->states, &l->in[i]);
    for (int o = 0; o < l->n_out; o++) {
        e->out[o] = state_table_get(&b->states, &l->out[o]);
        e->fresh[o] = true;
        for (int i = 0; i < l->n_in; i++)
            e->fresh[o] &= e->in[i] != e->out[o];
    }
    return e;
}

static drv_status lower_request(pjrt_backend *b, const load_request *r, lowered *l) {
    return r->parts ? lower_step(b->a, r->parts, &b->lower, l)
                    : lower_graph(b->a, r->plan->g, &b->lower, l);
}

// Makes an executable from the n parts of a program.
static void take_program(pjrt_backend *b, const lowered *l, group_program *const *made, int n,
        load_request *r) {
    executable *first = NULL, **end = &first;
    r->status = DRV_OK;
    r->from_cache = true;
    for (int i = 0; i < n; i++) {
        r->seconds += made[i]->seconds;
        r->from_cache &= made[i]->from_cache;
        if (made[i]->ended.status != DRV_OK) {
            r->status = made[i]->ended.status;
            r->message = made[i]->ended.message;
            return;
        }
        *end = take_part(b, &l[i], &made[i]->program);
        (*end)->between_steps = r->plan->g->between_steps;
        end = &(*end)->next;
    }
    find_deaths(first, l);
    *r->out = first;
}

static drv_status load_all(backend *base, load_request *requests, int n) {
    pjrt_backend *b = self(base);
    lowered *firsts = ARENA_ARRAY(b->a, lowered, n);
    int *n_parts = ARENA_ARRAY(b->a, int, n), n_all = 0, done = 0;
    drv_status status = DRV_OK;
    for (int i = 0; i < n && status == DRV_OK; i++) {
        status = lower_request(b, &requests[i], &firsts[i]);
        for (const lowered *l = &firsts[i]; l && status == DRV_OK; l = l->next)
            n_parts[i]++;
        n_all += n_parts[i];
    }
    lowered *parts = ARENA_ARRAY(b->a, lowered, n_all);
    group_program **made = ARENA_ARRAY(b->a, group_program *, n_all);
    for (int i = 0, k = 0; i < n && status == DRV_OK; i++)
        for (const lowered *l = &firsts[i]; l; l = l->next)
            parts[k++] = *l;
    if (status == DRV_OK) status = group_compile(&b->member, parts, n_all, made);
    for (int i = 0; i < n && status == DRV_OK; done += n_parts[i++])
        take_program(b, parts + done, made + done, n_parts[i], &requests[i]);
    for (int i = 0; i < n; i++)
        for (lowered *l = &firsts[i]; l; l = l->next)
            str_free(&l->text);
    return status;
}

static drv_status load(backend *base, const plan *p, executable **out) {
    load_request r = {.plan = p, .out = out};
    DRV_TRY(load_all(base, &r, 1));
    return r.status == DRV_OK ? DRV_OK : drv_fail(r.status, "%s", r.message);
}

// Starts a program and records it as the latest.
static drv_status start(pjrt_backend *b, executable *e) {
    running_program next = {.name = e->program->name, .step = b->base.step};
    const drv_status status =
            group_execute(&b->member, e->program, e->arguments, e->results, &next.done);
    b->base.refused = status != DRV_OK && b->member.met && b->n_together == mesh_ranks(&b->mesh);
    DRV_TRY(status);
    next.number = ++b->base.n_run;
    for (int k = 1; k < MAX_RUNNING; k++)
        b->running[k - 1] = b->running[k];
    b->running[MAX_RUNNING - 1] = next;
    return DRV_OK;
}

// Uploads arguments of a program that changed on the host.
static drv_status collect_arguments(pjrt_backend *b, executable *e) {
    for (int i = 0; i < e->program->n_in; i++) {
        device_state *d = state_slot(e->in[i], b->slot);
        DRV_TRY(state_upload(&b->states, d));
        e->arguments[i] = d->buffer;
    }
    return DRV_OK;
}

static drv_status run_part(pjrt_backend *b, executable *e) {
    const int n_in = e->program->n_in, n_out = e->program->n_out;
    // The inputs of this program are uploaded while the previous one computes. If several ranks run
    // a program, it must end before the next one starts.
    drv_status status = collect_arguments(b, e);
    if (status != DRV_OK) return failed_in(status, b->base.step, e->program->name);
    for (int o = 0; o < n_out; o++)
        if (e->fresh[o]) state_drop(&b->states, state_slot(e->out[o], b->slot));
    DRV_TRY(settle(b, b->base.n_run + 1 - (b->alone ? MAX_RUNNING : 1)));
    status = start(b, e);
    if (status != DRV_OK) return failed_in(status, b->base.step, e->program->name);
    for (int o = 0; o < n_out; o++)
        state_take(&b->states, state_slot(e->out[o], b->slot), e->results[o]);
    for (int i = 0; i < n_in; i++)
        if (e->dies[i]) state_drop(&b->states, state_slot(e->in[i], b->slot));
    return DRV_OK;
}

// Sums a state over stages of the pipeline, on the host.
static drv_status exchange(pjrt_backend *b, const lowered_exchange *what) {
    comm *c = b->member.c;
    if (what->kind == EXCHANGE_NONE || !c) return DRV_OK;
    device_state *d = state_table_find(&b->states, what->name);
    const int64_t bytes = state_bytes(d);
    comm_group *g = comm_axes(c, &b->mesh, 1u << AXIS_PIPELINE);
    const int ends[] = {group_rank(g, 0), group_rank(g, group_size(g) - 1)};
    if (what->kind == EXCHANGE_ENDS) g = comm_ranks(c, "ends of an axis", ends, 2);
    void *values = mem_alloc((size_t)bytes);
    drv_status status = state_read(&b->states, d, 0, bytes, values);
    if (status == DRV_OK)
        status = comm_all_reduce(g, d->host, COMM_SUM, values, bytes / dtype_bytes(d->host), NULL);
    if (status == DRV_OK) status = state_write(&b->states, d, 0, bytes, values);
    free(values);
    return status;
}

static drv_status run(backend *base, executable *e) {
    pjrt_backend *b = self(base);
    if (!b->pool->client->handle)
        return drv_fail(DRV_E_DEVICE, "program \"%s\" was compiled for a target, not to run here",
                e->program->name);
    for (; e; e = e->next) {
        DRV_TRY(exchange(b, &e->before));
        DRV_TRY(run_part(b, e));
        DRV_TRY(exchange(b, &e->after));
    }
    return DRV_OK;
}

static void use_slot(backend *b, int slot, const int64_t *spans DRV_UNUSED) {
    // The plugin allocates the values of a micro-batch when they are computed.
    self(b)->slot = slot;
}

// Writes to the device this rank's places among the ranks that run its programs.
static drv_status write_places(pjrt_backend *b, int rank) {
    const lowered_state like = {.name = LOWERED_PLACES,
            .host = DT_I32,
            .shape = {.dt = DT_I32, .n_dims = 1, .dim = {N_AXES}}};
    int32_t places[N_AXES];
    for (int axis = 0; axis < N_AXES; axis++)
        places[axis] = mesh_place(&b->lower.ranks, rank, (mesh_axis)axis);
    return state_write(&b->states, state_table_get(&b->states, &like), 0, sizeof places, places);
}

// The ranks of a pipeline stage form a device group, since other stages run other programs.
static void join_ranks(backend *base, comm *c, const mesh *m) {
    pjrt_backend *b = self(base);
    mesh stage = *m;
    stage.size[AXIS_PIPELINE] = 1;
    const int n = mesh_ranks(&stage), rank = c ? comm_rank(c) : b->states.device,
              n_here = c && !b->pool->cluster ? n : 1;
    b->mesh = *m;
    b->lower.ranks = stage;
    b->alone = n_here == 1;
    b->n_together = n_here;
    b->member = (device_member){.group = device_group_of(b->pool, rank - rank % n, n, n_here),
            .place = n_here == 1 ? 0 : rank % n,
            .c = c};
    b->states.ranks = c;
    const drv_status status = write_places(b, rank % n);
    DRV_ASSERT(status == DRV_OK, "places: %s", drv_message()); // this does not call the device
}

// --- state. A graph without nodes has none.
static device_state *find(backend *b, const char *name) {
    device_state *d = state_table_find(&self(b)->states, name);
    DRV_ASSERT(d, "no tensor \"%s\"", name);
    return d;
}

static drv_status write_state(backend *b, const char *name, int64_t offset, int64_t bytes,
        const void *src) {
    device_state *d = state_slot(find(b, name), self(b)->slot);
    return state_write(&self(b)->states, d, offset, bytes, src);
}

static drv_status read_state(backend *b, const char *name, int64_t offset, int64_t bytes,
        void *dst) {
    device_state *d = state_slot(find(b, name), self(b)->slot);
    return state_read(&self(b)->states, d, offset, bytes, dst);
}

static drv_status fetch(backend *b, const char *name, int64_t bytes, void *dst) {
    state_table *s = &self(b)->states;
    const drv_status status = state_fetch(s, find(b, name), b->n_run, bytes, dst);
    const running_program *last = &self(b)->running[MAX_RUNNING - 1];
    return status == DRV_OK ? status : failed_in(status, b->step, last->name);
}

// Values are valid once the program that wrote them has ended without error. The values of a failed
// program are removed too, so that they are not mistaken for those of a later one.
static drv_status arrive(backend *base, int n_oldest) {
    pjrt_backend *b = self(base);
    const int64_t number = state_fetched_from(&b->states, n_oldest);
    const running_program *from = &b->running[0];
    while (from->number < number && from < &b->running[MAX_RUNNING - 1])
        from++;
    drv_saved settled;
    drv_save(settle(b, number), &settled);
    const drv_status arrived = state_arrive(&b->states, n_oldest);
    if (settled.status != DRV_OK) return drv_restore(&settled);
    return arrived == DRV_OK ? DRV_OK : failed_in(arrived, from->step, from->name);
}

// --- properties
static bool sees(const executable *e, const device_state *d) {
    for (int i = 0; i < e->program->n_in; i++)
        if (e->in[i] == d) return true;
    for (int o = 0; o < e->program->n_out; o++)
        if (e->out[o] == d) return true;
    return false;
}

// Returns whether a state is on the device while part `e` of the program that begins with `first`
// runs. A value that parts pass on exists from the part that makes it to the last one that reads
// it.
static bool is_there(const executable *first, const executable *e, const device_state *d) {
    if (!lowered_is_temporary(d->name)) return true;
    for (; first != e; first = first->next)
        if (sees(first, d)) return reads(e->next, d);
    return false;
}

// Counts the bytes that stay on the device while part `e` runs: state that it does not use, and the
// rest of the pool, which is full at worst and empty between steps.
static int64_t bytes_elsewhere(const state_table *s, const executable *first, const executable *e) {
    const state_pool *pool = NULL;
    int64_t bytes = 0, seen = 0;
    for (int i = 0; i < s->n; i++) {
        const device_state *d = s->all[i];
        if (d->pool) {
            pool = e->between_steps ? NULL : d->pool;
            seen += sees(e, d) * buffer_bytes(&d->shape);
        } else if (is_there(first, e, d)) {
            bytes += (1 - sees(e, d)) * buffer_bytes(&d->shape);
        }
        if (d->slots) i += d->n_slots; // its slots follow it in the list
    }
    return bytes + (pool && pool->bytes > seen ? pool->bytes - seen : 0);
}

// Returns the memory of the part that needs most.
static bool program_memory(backend *base, const executable *first, backend_memory *out) {
    const pjrt_backend *b = self(base);
    backend_memory most = {0};
    for (const executable *e = first; e; e = e->next) {
        backend_memory part;
        if (!client_program_memory(b->pool->client, e->program, &part)) return false;
        part.elsewhere = bytes_elsewhere(&b->states, first, e);
        if (e == first || backend_memory_total(&part) > backend_memory_total(&most)) most = part;
    }
    *out = most;
    return true;
}

// Sums the facts of a program's parts.
static bool facts(backend *base, const executable *e, program_facts *out, bool *matters) {
    *out = (program_facts){0};
    *matters = strcmp(self(base)->pool->client->platform, "cpu") != 0;
    for (; e; e = e->next) {
        if (!e->program->has_facts) return false;
        const program_facts *part = &e->program->facts;
        out->fused_asked += part->fused_asked;
        out->fused += part->fused;
        out->products_asked += part->products_asked;
        out->fp8_asked += part->fp8_asked;
        out->fp8 += part->fp8;
        out->products += part->products;
        out->fp32_products += part->fp32_products;
        out->summed_products += part->summed_products;
        out->weight_copies += part->weight_copies;
        out->updated_weights += part->updated_weights;
        out->update_kernels += part->update_kernels;
    }
    return true;
}

static int64_t capacity(backend *base) {
    const pjrt_backend *b = self(base);
    int64_t used, limit;
    return client_memory(b->pool->client, b->states.device, &used, &limit) ? limit : 0;
}

static const char *device(backend *base) {
    pjrt_backend *b = self(base);
    return arena_printf(b->a, "%s (%s)", b->pool->client->kind, b->pool->client->platform);
}

static void describe(backend *b DRV_UNUSED, backend_info *out) {
    out->kernels = out->best_kernels = out->bf16_by = "XLA";
}

static const char *arithmetic(backend *base) {
    pjrt_backend *b = self(base);
    return arena_printf(b->a, "PJRT plugin %s %d.%d, StableHLO %s", b->pool->plugin->name,
            b->pool->plugin->api->version.major, b->pool->plugin->api->version.minor,
            b->pool->plugin->stablehlo);
}

static void finish(backend *base) {
    pjrt_backend *b = self(base);
    if (settle(b, base->n_run) != DRV_OK) log_file_only("%s", drv_message());
    state_table_close(&b->states);
    if (b->owns_pool) device_pool_close(b->pool);
}

static int64_t workspace(const node *n, int n_threads DRV_UNUSED) {
    return lowered_workspace(n);
}

const backend_vtable backend_pjrt = {.name = "pjrt",
        .workspace = workspace,
        .load = load,
        .load_all = load_all,
        .join = join_ranks,
        .run = run,
        .use_slot = use_slot,
        .write = write_state,
        .read = read_state,
        .fetch = fetch,
        .arrive = arrive,
        .memory = program_memory,
        .facts = facts,
        .capacity = capacity,
        .device = device,
        .describe = describe,
        .arithmetic = arithmetic,
        .close = finish};

// Uses the given pool, or opens one with a single device.
static drv_status open_pool(pjrt_backend *b, const backend_opts *opts) {
    b->pool = opts->pool;
    b->owns_pool = !opts->pool;
    return opts->pool ? DRV_OK : device_pool_open(b->a, opts, 1, &b->pool);
}

// The values of DROVER_PJRT_ATTENTION: attention without cuDNN, or the form in which cuDNN gets
// documents.
typedef enum attention_wish { WISH_BLOCKS, WISH_MASK, WISH_SEGMENTS, WISH_NONE } attention_wish;

static drv_status read_wish(attention_wish *out) {
    static const char *const words[] = {"blocks", "mask", "segments"};
    const char *said = getenv("DROVER_PJRT_ATTENTION");
    const int i = said && *said ? str_index(said, words, WISH_NONE) : WISH_NONE;
    if (i < 0)
        return drv_fail(DRV_E_USAGE,
                "DROVER_PJRT_ATTENTION is \"%.40s\", expected blocks, mask, segments or none",
                said);
    *out = (attention_wish)i;
    return DRV_OK;
}

// Segments need Hopper (JAX: check_is_flash_attention).
static void choose_attention(pjrt_backend *b, attention_wish wish) {
    enum { HOPPER = 90 };
    const bool hopper = b->pool->client->capability >= HOPPER;
    if (wish == WISH_BLOCKS || !strstr(b->pool->plugin->name, "cuda")) return;
    b->lower.cudnn = (cudnn_choice){.head_dim = hopper ? CUDNN_HOPPER_HEAD_DIM : CUDNN_HEAD_DIM,
            .documents = !hopper || wish == WISH_MASK ? DOCUMENTS_MASK
                         : wish == WISH_SEGMENTS      ? DOCUMENTS_SEGMENTS
                                                      : DOCUMENTS_BY_RULE,
            .deterministic = b->pool->deterministic};
}

// fp8 products are printed in the form that XLA maps to cuBLASLt, which has them from Ada on
// (openxla/xla, gemm_rewriter.cc). The CPU plugin computes the same, for tests.
static bool has_fp8(const device_client *c) {
    enum { ADA = 89 };
    return strcmp(c->platform, "cpu") == 0 || c->capability >= ADA;
}

drv_status backend_open_pjrt(arena *a, const backend_opts *opts, backend **out) {
    pjrt_backend *b = ARENA_NEW(a, pjrt_backend);
    b->base = (backend){.v = &backend_pjrt};
    b->a = a;
    attention_wish wish = WISH_NONE;
    DRV_TRY(read_wish(&wish));
    DRV_TRY(open_pool(b, opts));
    b->lower = (lower_options){.has_f64 = b->pool->plugin->has_f64,
            .has_fp8 = has_fp8(b->pool->client),
            .has_host_memory = client_has_memory(b->pool->client, opts->device, HLO_MEMORY_OF_HOST),
            .adds_in_order = b->pool->deterministic && strstr(b->pool->plugin->name, "cuda"),
            .ranks = mesh_single()};
    choose_attention(b, wish);
    b->member.group = device_group_of(b->pool, opts->device, 1, 1);
    b->alone = true;
    b->mesh = mesh_single();
    state_table_open(a, b->pool->client, opts->device, &b->states);
    *out = &b->base;
    return DRV_OK;
}
