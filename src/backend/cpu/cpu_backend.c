// Keeps named state and one arena, both in pages; programs are lists of instructions.
#include "backend/backend_kinds.h"

#include <string.h>

#include "backend/cpu/cpu_state.h"
#include "backend/cpu/memory_rate.h"
#include "base/clock.h"
#include "ir/op.h"

typedef struct pooled { // a pointer of an instruction to a tensor in the pool
    void **pointer;
    const state *to;
} pooled;

struct executable {
    executable *next; // in the list of all loaded ones
    const plan *plan;
    instruction *code;
    int n_code;
    bool ready;
    uintptr_t linked; // address of the temporaries, once ready
    pooled *pooled;
    int n_pooled, cap_pooled;
    // Since time_nodes: seconds by node of the graph, negative if a node runs nothing; runs.
    double *seconds;
    int64_t n_runs;
};

typedef struct cpu_backend {
    backend base;
    arena *a;
    gemm_machine *gemm;
    cpu_level level;
    bool portable;
    const kernels *kernels;
    state_store states;
    char *arena;
    int64_t arena_bytes;
    int64_t beside;     // the most bytes of temporaries of a program that needs the pool, too
    int64_t between;    // and of one between steps, which may use the memory of the pool
    executable *loaded; // the program loaded last; NULL: none
    bool times_nodes;
    comm *comm; // NULL: one rank
    mesh mesh;
    drv_status failed; // result of the instruction that has just run
} cpu_backend;

static cpu_backend *self(backend *b) {
    return (cpu_backend *)b;
}

// Returns the ranks along an axis of a graph's mesh, which is the job's or that of an update.
static comm_group *group_along(cpu_backend *b, const mesh *m, mesh_axis axis) {
    if (axis == AXIS_DATA && (m->groups || m->size[axis] != b->mesh.size[axis]))
        return comm_owners(b->comm, &b->mesh);
    return comm_axes(b->comm, &b->mesh, 1u << axis);
}

static bool is_mesh_of(const cpu_backend *b, const mesh *m) {
    const mesh update = mesh_of_update(&b->mesh);
    return memcmp(m, &b->mesh, sizeof *m) == 0 || memcmp(m, &update, sizeof *m) == 0;
}

// Returns the tensor ranks that share this rank's key-value head.
static comm_group *replicas_of(cpu_backend *b, const comm_group *along, int replicas) {
    const int first = group_place(along) / replicas * replicas;
    int *ranks = ARENA_ARRAY(b->a, int, replicas);
    for (int i = 0; i < replicas; i++)
        ranks[i] = group_rank(along, first + i);
    return comm_ranks(b->comm, "replicas of a key-value head", ranks, replicas);
}

// Returns the size of a node's axis: the ranks that exchange messages, times the number of groups.
static int ranks_of_axis(const node *n, const mesh *update) {
    const mesh_use *use = &n->attrs.mesh;
    if (use->across) return use->ranks * (update->size[use->axis] / mesh_groups(update));
    return use->groups ? use->ranks * use->groups : use->ranks;
}

// Returns the ranks along an axis of a mesh, or those of this rank's group, or those of other
// groups that hold the same shards.
static comm_group *ranks_along(cpu_backend *b, const mesh *m, const mesh_use *use) {
    if (use->groups) return comm_weight_group(b->comm, &b->mesh);
    if (use->across) return comm_same_shards(b->comm, &b->mesh);
    return group_along(b, m, (mesh_axis)use->axis);
}

// Finds the ranks of a collective: those along its axis, or some of them.
static drv_status find_group(cpu_backend *b, const mesh *m, const node *n, comm_group **out) {
    *out = NULL;
    if (n->attrs.mesh.ranks <= 1) return DRV_OK;
    const mesh_axis axis = (mesh_axis)n->attrs.mesh.axis;
    const mesh update = mesh_of_update(m); // the mesh over which gradients are summed
    const int ranks = ranks_of_axis(n, &update);
    if (n->attrs.sum.data_ranks && update.size[axis] == ranks) m = &update;
    if (m->size[axis] != ranks || !is_mesh_of(b, m))
        return drv_fail(DRV_E_DEVICE, "%s over %d ranks, but the %s axis here has %d",
                op_name(n->op), n->attrs.mesh.ranks, mesh_axis_name(axis), b->mesh.size[axis]);
    *out = ranks_along(b, m, &n->attrs.mesh);
    if (n->attrs.mesh.replicas && axis == AXIS_TENSOR && !cpu_ops[n->op]->whole_axis)
        *out = n->attrs.mesh.replicas > 1 ? replicas_of(b, *out, n->attrs.mesh.replicas) : NULL;
    if (!n->attrs.mesh.ends) return DRV_OK;
    const int ends[] = {group_rank(*out, 0), group_rank(*out, n->attrs.mesh.ranks - 1)};
    *out = comm_ranks(b->comm, "ends of an axis", ends, 2);
    return DRV_OK;
}

static drv_status lower(cpu_backend *b, const mesh *m, const node *n, instruction *out) {
    const cpu_op *row = cpu_ops[n->op];
    *out = (instruction){.run = run_of_op(row),
            .node = n,
            .failed = &b->failed,
            .kernels = b->kernels,
            .attention = gemm_kernels(b->gemm, n->n_in > 0 ? n->in[0]->dt : DT_F32)};
    DRV_TRY(find_group(b, m, n, &out->group));
    if (n->attrs.mesh.async && out->group)
        out->group = comm_thread_group(b->states.comm_thread, out->group);
    if (row->over_replicas && n->attrs.mesh.replicas > 1)
        out->replicas = replicas_of(b, group_along(b, m, AXIS_TENSOR), n->attrs.mesh.replicas);
    out->tensor_place = b->comm ? mesh_place(&b->mesh, comm_rank(b->comm), AXIS_TENSOR) : 0;
    const int axes =
            OP_READS(n->op, matmul, fp8_axes) ? n->attrs.matmul.fp8_axes : n->attrs.mesh.axes;
    for (int axis = 0; axis < N_AXES; axis++)
        if (axes >> axis & 1 && m->size[axis] > 1)
            out->along[axis] = group_along(b, m, (mesh_axis)axis);
    return row->lower ? row->lower(b->a, b->gemm, n, out) : DRV_OK;
}

// Names the operation of an asynchronous node in messages of ranks that wait for it: by its layer,
// or, outside the layers, by the weight that it moves.
static const char *label_of(arena *a, const node *n) {
    const char *op = op_name(n->op), *weight = tensor_root(n->in[0])->name;
    if (n->layer >= 0) return arena_printf(a, "%s, layer %d", op, n->layer);
    return n->phase == PHASE_UPDATE ? op : arena_printf(a, "%s of %s", op, weight);
}

// Lists the inputs and outputs of a node that asynchronous nodes may be writing.
static void watch_writers(cpu_backend *b, const plan *p, state *const *arriving, instruction *ins) {
    const node *n = ins->node;
    ins->touched = store_touched(&b->states, p, arriving, n);
    if (!n->attrs.mesh.async) return;
    ins->written = store_written(&b->states, p, arriving, n);
    ins->label = label_of(b->a, n);
}

static drv_status load(backend *base, const plan *planned, executable **out) {
    cpu_backend *cpu = self(base);
    const graph *from = planned->g;
    DRV_TRY(store_create(&cpu->states, from));
    executable *program = ARENA_NEW(cpu->a, executable);
    program->plan = planned;
    program->seconds = ARENA_ARRAY(cpu->a, double, from->n_nodes);
    program->code = ARENA_ARRAY(cpu->a, instruction, from->n_nodes);
    state **arriving = store_arriving(&cpu->states, planned);
    for (int i = 0; i < from->n_nodes; i++) {
        const node *n = from->nodes[i];
        instruction *ins = &program->code[program->n_code];
        DRV_TRY(lower(cpu, &from->mesh, n, ins));
        program->seconds[i] = ins->run ? 0 : -1;
        if (!ins->run) continue;
        ins->seconds = &program->seconds[i];
        ins->in = ARENA_ARRAY(cpu->a, void *, n->n_in);
        ins->out = ARENA_ARRAY(cpu->a, void *, n->n_out);
        ins->workspace = (void *)(uintptr_t)planned->workspace[i]; // an offset until linked
        ins->workspace_bytes = planned->scratch_bytes[i];
        if (cpu->states.comm_thread) watch_writers(cpu, planned, arriving, ins);
        program->n_code++;
    }
    int64_t *most = from->between_steps ? &cpu->between : &cpu->beside;
    if (planned->arena_bytes > *most) *most = planned->arena_bytes;
    program->next = cpu->loaded;
    *out = cpu->loaded = program;
    return DRV_OK;
}

static drv_status prepare(backend *base) {
    cpu_backend *b = self(base);
    const int64_t beside = b->states.pool_bytes + b->beside,
                  wanted = beside > b->between ? beside : b->between;
    if (b->arena_bytes >= wanted) return DRV_OK;
    pages_free(b->arena, (size_t)b->arena_bytes);
    b->states.held -= b->arena_bytes;
    b->arena_bytes = 0;
    DRV_TRY(store_pages(&b->states, "activations and scratch", wanted, &b->arena));
    b->arena_bytes = wanted;
    b->states.pool = b->arena;
    return DRV_OK;
}

// Returns the address of a program's temporaries: behind the pool, or in its place. It is a number,
// since there may be no arena, and NULL + 0 is undefined.
static uintptr_t temporaries_of(const cpu_backend *b, const executable *e) {
    const int64_t before = e->plan->g->between_steps ? 0 : b->states.pool_bytes;
    return (uintptr_t)b->arena + (uintptr_t)before;
}

static void note_pooled(cpu_backend *b, executable *e, pooled made) {
    ARENA_GROW(b->a, e->pooled, e->n_pooled, e->cap_pooled);
    e->pooled[e->n_pooled++] = made;
}

// Sets a pointer of an instruction to a tensor.
static void point(cpu_backend *b, executable *e, const tensor *t, void **pointer) {
    const tensor *root = e->plan->storage[t->id];
    const state *named = store_of(&b->states, e->plan, t);
    if (!named) {
        *pointer = (char *)temporaries_of(b, e) + e->plan->offset[root->id];
        return;
    }
    *pointer = named->p;
    if (named->in_pool) note_pooled(b, e, (pooled){pointer, named});
}

// Links each instruction to the next product of a single row. The last product is followed by the
// first one of the next run.
static void link_products(executable *e) {
    const instruction *next = NULL;
    for (int i = 2 * e->n_code; i-- > 0;) {
        instruction *ins = &e->code[i % e->n_code];
        ins->next_product = next;
        if (is_row_product(ins)) next = ins;
    }
}

static void link_program(cpu_backend *b, executable *e) {
    const uintptr_t move = temporaries_of(b, e) - e->linked;
    e->n_pooled = 0;
    for (int i = 0; i < e->n_code; i++) {
        instruction *ins = &e->code[i];
        for (int k = 0; k < ins->node->n_in; k++)
            point(b, e, ins->node->in[k], &ins->in[k]);
        for (int k = 0; k < ins->node->n_out; k++)
            point(b, e, ins->node->out[k], &ins->out[k]);
        ins->workspace = (void *)((uintptr_t)ins->workspace + move);
    }
    link_products(e);
    e->linked = temporaries_of(b, e);
    e->ready = true;
}

static void move_to_spans(const cpu_backend *b, executable *e) {
    for (int i = 0; i < e->n_pooled; i++)
        *e->pooled[i].pointer = store_place(&b->states, e->pooled[i].to);
}

static void time_nodes(backend *b, bool on) {
    self(b)->times_nodes = on;
    for (executable *e = self(b)->loaded; e; e = e->next) {
        e->n_runs = 0;
        for (int i = 0; i < e->n_code; i++)
            *e->code[i].seconds = 0;
    }
}

static const double *node_seconds(const executable *e, int64_t *n_runs) {
    *n_runs = e->n_runs;
    return e->seconds;
}

// The time of a node is the time since the end of the previous node.
static void note_time(const instruction *ins, double *since) {
    const double now = clock_s();
    *ins->seconds += now - *since;
    *since = now;
}

static drv_status run(backend *base, executable *e) {
    cpu_backend *b = self(base);
    DRV_TRY(prepare(base));
    if (!e->ready || e->linked != temporaries_of(b, e)) link_program(b, e);
    move_to_spans(b, e);
    double since = b->times_nodes ? clock_s() : 0;
    e->n_runs++;
    for (int i = 0; i < e->n_code; i++) {
        const instruction *ins = &e->code[i], *writer = NULL;
        if (ins->touched) DRV_TRY(store_settle(&b->states, ins->touched, &writer));
        if (b->times_nodes && writer) note_time(writer, &since);
        if (ins->node->attrs.mesh.async && ins->group)
            store_begin(&b->states, ins);
        else
            ins->run(ins);
        if (b->failed != DRV_OK) return b->failed;
        if (b->times_nodes) note_time(ins, &since);
    }
    return DRV_OK;
}

static void use_slot(backend *b, int slot DRV_UNUSED, const int64_t *spans) {
    self(b)->states.spans = spans;
}

static void join_ranks(backend *base, comm *c, const mesh *m) {
    cpu_backend *b = self(base);
    b->comm = c;
    b->mesh = *m;
    if (c && comm_size(c) > 1) b->states.comm_thread = comm_thread_open(c);
}

static drv_status write_state(backend *b, const char *name, int64_t offset, int64_t bytes,
        const void *src) {
    char *p;
    DRV_TRY(store_find(&self(b)->states, name, offset, bytes, &p));
    memcpy(p, src, (size_t)bytes);
    return DRV_OK;
}

static drv_status read_state(backend *b, const char *name, int64_t offset, int64_t bytes,
        void *dst) {
    char *p;
    DRV_TRY(store_find(&self(b)->states, name, offset, bytes, &p));
    memcpy(dst, p, (size_t)bytes);
    return DRV_OK;
}

static int64_t workspace(const node *n, int n_threads) {
    return cpu_ops[n->op]->workspace ? cpu_ops[n->op]->workspace(n, n_threads) : 0;
}

static int64_t held_bytes(backend *b) {
    return self(b)->states.held;
}

static const char *device(backend *b DRV_UNUSED) {
    return cpu_model_name();
}

static void describe(backend *base, backend_info *out) {
    cpu_backend *b = self(base);
    *out = (backend_info){.kernels = cpu_level_name(b->level),
            .best_kernels = cpu_level_name(cpu_detect()),
            .features = cpu_has_amx_bf16() ? "AMX bf16" : "",
            .bf16_by = gemm_arithmetic(b->gemm),
            .bf16_peak = gemm_widens(b->gemm) ? DT_F32 : DT_BF16,
            .other_way = !gemm_widens(b->gemm) ? "DROVER_GEMM=fp32"
                         : gemm_amx(b->level)  ? "DROVER_GEMM=amx"
                                               : "DROVER_GEMM=bf16"};
}

static const char *arithmetic(backend *base) {
    cpu_backend *b = self(base);
    if (b->portable) return "portable";
    return arena_printf(b->a, "kernels %s, bf16 products by %s", cpu_level_name(b->level),
            gemm_arithmetic(b->gemm));
}

static drv_status peak(backend *b DRV_UNUSED, dtype dt, int tries, double *flops_per_s) {
    return gemm_peak(dt, tries, flops_per_s);
}

static drv_status memory_rate(backend *b, int tries, double *bytes_per_s) {
    return memory_rate_measure(self(b)->kernels, tries, bytes_per_s);
}

static drv_status time_product(backend *device, const backend_product *product, int tries,
        double *flops_per_s, const char **by) {
    const gemm_shape shape = {.m = product->m,
            .n = product->n,
            .k = product->k,
            .ta = product->ta,
            .tb = product->tb,
            .lda = product->ta ? product->m : product->k,
            .ldb = product->tb ? product->k : product->n,
            .ldc = product->n,
            .in = product->in,
            .out = product->out,
            .accumulate = product->accumulate};
    const bool portable = self(device)->portable;
    gemm_machine *machine;
    arena *a = arena_new("a product");
    drv_status status = gemm_machine_open(a, portable ? GEMM_PORTABLE : GEMM_BY_RULE, &machine);
    if (status == DRV_OK) {
        *by = product->in == DT_BF16 ? gemm_arithmetic(machine) : "fp32";
        status = gemm_time(a, machine, &shape, tries, flops_per_s);
        gemm_machine_close(machine);
    }
    arena_free(a);
    return status;
}

static void finish(backend *base) {
    cpu_backend *b = self(base);
    store_free(&b->states);
    gemm_machine_close(b->gemm);
    pages_free(b->arena, (size_t)b->arena_bytes);
}

const backend_vtable backend_cpu = {.name = "cpu",
        .workspace = workspace,
        .load = load,
        .prepare = prepare,
        .join = join_ranks,
        .run = run,
        .use_slot = use_slot,
        .write = write_state,
        .read = read_state,
        .held_bytes = held_bytes,
        .time_nodes = time_nodes,
        .node_seconds = node_seconds,
        .device = device,
        .describe = describe,
        .arithmetic = arithmetic,
        .peak = peak,
        .memory_rate = memory_rate,
        .time_product = time_product,
        .close = finish};

drv_status backend_open_cpu(arena *a, const backend_opts *opts, backend **out) {
    cpu_backend *b = ARENA_NEW(a, cpu_backend);
    b->base = (backend){.v = &backend_cpu};
    b->a = b->states.a = b->states.names.a = a;
    b->mesh = mesh_single();
    DRV_TRY(cpu_level_chosen(&b->level));
    b->portable = opts->portable;
    DRV_TRY(gemm_machine_open(a, b->portable ? GEMM_PORTABLE : GEMM_BY_RULE, &b->gemm));
    b->kernels = gemm_kernels(b->gemm, DT_F32);
    *out = &b->base;
    return DRV_OK;
}
