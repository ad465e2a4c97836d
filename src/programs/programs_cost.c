// Counts the cost of programs: arithmetic, bytes sent to other ranks, memory; and compares the
// memory of the back end with the plan.

#include "base/log.h"
#include "ir/op.h"
#include "ir/shard.h"
#include "backend/cublas_memory.h"
#include "backend/cudnn_attention.h"
#include "backend/devices.h"
#include "backend/step_memory.h"
#include "programs/batch_feed.h"
#include "programs/pipeline_run.h"
#include "programs/programs.h"
#include "programs/stages.h"

static double flops_of(const graph *g, bool recomputed) {
    double flops = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        const node *n = g->nodes[i];
        if (op_rows[n->op]->flops && (recomputed || !n->recomputed))
            flops += op_rows[n->op]->flops(n);
    }
    return flops;
}

static double flops_per_token(const programs *p, const graph *g, bool recomputed) {
    return flops_of(g, recomputed) /
           (double)(p->held.config->micro_batch_size * p->layout.row_tokens);
}

// Counts with the graph of a single rank, because a rank of a pipeline has only the graphs of its
// own stages, and tensor ranks repeat some products of low-rank branches. `eval`: the graph of an
// evaluation.
static double flops_of_model(const programs *p, bool eval, bool recomputed) {
    if (!p->n_stages && p->held.config->tensor_parallel == 1)
        return flops_per_token(p, eval ? p->eval_graph : p->step_graph, recomputed);
    arena *a = arena_new("flops");
    run_config whole = *p->held.config;
    programs all;
    whole.pipeline_parallel = whole.virtual_stages = whole.tensor_parallel = 1;
    whole.rank = 0;
    const drv_status status = programs_build(a, &whole, &all);
    DRV_ASSERT(status == DRV_OK, "the model on one rank: %s", drv_message());
    const double flops = flops_per_token(&all, eval ? all.eval_graph : all.step_graph, recomputed);
    arena_free(a);
    return flops;
}

double programs_flops_per_token(const programs *p, bool recomputed) {
    return flops_of_model(p, false, recomputed);
}

double programs_eval_flops_per_token(const programs *p) {
    return flops_of_model(p, true, false);
}

double programs_update_flops(const programs *p) {
    return flops_of(p->update_graph, false);
}

void programs_wire(const programs *p, double bytes[N_AXES]) {
    const double micro_batches = (double)p->layout.micro_batches;
    for (int axis = 0; axis < N_AXES; axis++)
        bytes[axis] = 0;
    for (int i = 0; i < p->held.n_all; i++) {
        const graph *g = p->held.all[i].graph;
        const double runs = p->held.all[i].each_micro_batch ? micro_batches : g == p->update_graph;
        for (int axis = 0; axis < N_AXES; axis++)
            bytes[axis] += runs * p->held.all[i].plan->wire_bytes[axis];
    }
    bytes[AXIS_PIPELINE] += micro_batches * stages_sent(p);
}

// Scratch of the largest collective; it lies in the arena.
static int64_t largest_exchange(const programs *p) {
    int64_t largest = 0;
    for (int k = 0; k < p->held.n_all; k++)
        for (int i = 0; i < p->held.all[k].graph->n_nodes; i++) {
            const node *n = p->held.all[k].graph->nodes[i];
            if (!op_rows[n->op]->wire || n->attrs.mesh.ranks <= 1) continue; // 0: along no axis
            if (n->attrs.mesh.async || n->attrs.mesh.summed) continue;       // takes nothing there
            const int64_t bytes = tensor_bytes(n->in[0]);
            if (bytes > largest) largest = bytes;
        }
    return largest;
}

// Returns the bytes of the largest bucket through which sums go during the backward pass.
static int64_t largest_bucket(const programs *p) {
    int64_t largest = 0;
    for (int k = 0; k < p->held.n_all; k++)
        for (int i = 0; i < p->held.all[k].graph->n_nodes; i++) {
            const node *n = p->held.all[k].graph->nodes[i];
            if (!op_rows[n->op]->in_buckets) continue;
            const int64_t shard = shard_length(tensor_elements(n->in[0]), n->attrs.mesh.ranks),
                          bytes = comm_bucket_bytes(n->in[0]->dt, shard, n->attrs.mesh.ranks);
            if (bytes > largest) largest = bytes;
        }
    return largest;
}

// Counts the state of all programs by class, each tensor once.
static void add_state(const programs *p, int64_t bytes[N_TENSOR_CLASSES]) {
    arena *a = arena_new("state");
    name_map seen = {.a = a};
    for (int k = 0; k < p->held.n_all; k++)
        for (int i = 0; i < p->held.all[k].graph->n_tensors; i++) {
            tensor *t = p->held.all[k].graph->tensors[i];
            if (t->cls == TENSOR_TEMP || t->alias || name_map_get(&seen, t->name)) continue;
            name_map_set(&seen, t->name, t);
            bytes[t->cls] += plan_state_bytes(t);
        }
    arena_free(a);
}

static int64_t cublas_bytes(const graph *g) {
    return cublas_most_scratch(g) + cublas_fp8_bytes(g);
}

// Returns the memory that a program needs beside the shared state. `gradients`: the bytes of all
// sums of gradients.
static memory_plan memory_of(const programs *p, const built_program *one, int64_t gradients) {
    const run_config *cfg = p->held.config;
    const bool cuda = stages_on_cuda(cfg);
    const cudnn_choice how = {.head_dim = cuda ? CUDNN_HOPPER_HEAD_DIM : 0,
            .deterministic = cfg->deterministic};
    const int64_t pool = p->pooled && !one->graph->between_steps ? p->pooled->bytes : 0;
    memory_plan m = {.gradients = gradients,
            .activations = pool + one->plan->arena_bytes - one->plan->host_bytes,
            .offloaded = one->plan->host_bytes,
            .masks = cudnn_mask_bytes(&how, one->graph),
            .workspace = cudnn_workspace_bytes(&how, one->graph),
            .products = cuda ? cublas_bytes(one->graph) : 0};
    if (!programs_makes_gradients_once(p)) return m;
    m.gradients = 0;
    if (one->graph != p->step_graph) return m;
    const plan *update = held_find(&p->held, p->update_graph->name)->plan;
    const step_memory step = step_memory_of(one->plan, update, &how, cuda);
    m.gradients = step.gradients;
    m.activations = step.bytes - step.gradients;
    m.masks = m.products = 0; // copies of weights in fp8 do not outlive their product
    return m;
}

// Programs run one after the other, so one arena serves the largest of them; the memory that cuDNN
// and cuBLASLt need beside it is included, as on Hopper. The arena of programs between steps uses
// the memory of the pool of micro-batches in flight.
static void add_largest(const programs *p, int64_t gradients, memory_plan *out) {
    int64_t most = -1;
    for (int i = 0; i < p->held.n_all; i++) {
        const memory_plan m = memory_of(p, &p->held.all[i], gradients);
        const int64_t sum = m.gradients + m.activations + m.masks + m.workspace + m.products;
        if (m.offloaded > out->offloaded) out->offloaded = m.offloaded;
        if (sum <= most) continue;
        most = sum;
        out->gradients = m.gradients;
        out->activations = m.activations;
        out->masks = m.masks;
        out->workspace = m.workspace;
        out->products = m.products;
    }
}

memory_plan programs_memory(const programs *p) {
    int64_t state[N_TENSOR_CLASSES] = {0};
    add_state(p, state);
    memory_plan m = {.weights = state[TENSOR_WEIGHT],
            .optimizer = state[TENSOR_OPTIMIZER],
            .batches = batch_reader_bytes(p->held.config),
            .messages = pipeline_link_bytes(p->message_bytes) + largest_bucket(p)};
    add_largest(p, state[TENSOR_GRAD], &m);
    m.activations += state[TENSOR_KEPT];
    m.data = state[TENSOR_INPUT] + state[TENSOR_OUTPUT] + m.batches;
    m.communication = largest_exchange(p) + m.messages;
    m.total = m.weights + m.gradients + m.optimizer + m.activations + m.data + m.messages +
              m.masks + m.workspace + m.products;
    return m;
}

int64_t programs_compiled_bytes(const programs *p, const char **name) {
    int64_t most = 0;
    for (int i = -1; i < p->held.n_all; i++) {
        const executable *e = i < 0 ? p->whole_step : *p->held.all[i].run;
        backend_memory m;
        if (!e || !backend_program_memory(p->held.b, e, &m) || backend_memory_total(&m) <= most)
            continue;
        most = backend_memory_total(&m);
        *name = i < 0 ? "whole_step" : p->held.all[i].graph->name;
    }
    return most;
}

drv_status programs_check_fit(const programs *p) {
    const char *name = "";
    const int64_t most = programs_compiled_bytes(p, &name);
    return backend_check_fit(p->held.b, name, most,
            "`drover plan` says what takes it: expected a smaller micro-batch, more recomputation or "
            "more devices");
}

drv_status programs_check_held(const programs *p) {
    const memory_plan memory = programs_memory(p);
    const int64_t planned = memory.total - memory.batches - memory.messages,
                  held = backend_held_bytes(p->held.b);
    if (held > planned)
        return drv_fail(DRV_E_DEVICE,
                "the %s back end holds %lld bytes, expected at most the %lld that were planned; "
                "this is a fault of drover",
                backend_name(p->held.b), (long long)held, (long long)planned);
    if (held != 0 && held < planned) // 0: its memory is not placed by the plan
        log_warn("the %s back end holds %lld bytes, fewer than the %lld that were planned",
                backend_name(p->held.b), (long long)held, (long long)planned);
    return DRV_OK;
}
