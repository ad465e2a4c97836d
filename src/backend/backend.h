// The interface that every back end has (design D5). A back end owns the state of one rank
// (weights, gradients, optimizer, inputs, outputs, by name) and runs planned programs on it. Ranks
// of one process are threads, each with a back end of its own.
#pragma once
#include "base/arena.h"
#include "base/status.h"
#include "comm/comm.h"
#include "backend/program_facts.h"
#include "plan/plan.h"

typedef struct backend backend;
typedef struct executable executable; // belongs to its back end

// Describes how a back end computes, for doctor and bench. Texts belong to the back end; "" where
// there is nothing to say.
typedef struct backend_info {
    const char *kernels;      // "avx512"
    const char *best_kernels; // what the device could use: "avx512_bf16"
    const char *features;     // beyond that: "AMX bf16"
    const char *bf16_by;      // how bf16 mode multiplies: "bf16 dot product"
    dtype bf16_peak;          // whose peak that can reach: DT_F32 where bf16 is widened
    const char *other_way;    // what to set for the other arithmetic: "DROVER_GEMM=fp32"
} backend_info;

// c [m,n] = a [m,k] b [k,n] or c += a b, dense, for measurements.
typedef struct backend_product {
    int64_t m, n, k;
    bool ta, tb; // a is [k,m], b is [n,k]
    dtype in, out;
    bool accumulate;
} backend_product;

// The memory of a program as its compiler plans it, in bytes of a device. `aliased` of the results
// take the memory of arguments; `elsewhere` is state of the programs loaded so far that this one
// does not see, and that stays on the device while it runs. Of a program that the back end has cut
// in parts: those of the part that needs most.
typedef struct backend_memory {
    int64_t arguments, results, aliased, temporary, code, elsewhere;
} backend_memory;

// Returns the bytes on the device while the program runs.
static inline int64_t backend_memory_total(const backend_memory *m) {
    return m->arguments + m->results - m->aliased + m->temporary + m->elsewhere;
}

// A training step as one program: `micro_batch`, forward and backward of a micro-batch,
// n_micro_batches times on slices of its inputs, from gradients of zero; then `rest`, the update.
// Gradients live in it alone. Beside the states of both graphs:
//   step.X       [n_micro_batches, ...] for each input X of `micro_batch` (but d...: the same in
//   all micro-batches) step.hyper   f64[2 N_HYPER]: the input "hyper" of `rest` (ir/hyper.h) if the
//   step before
//                counted, then if it did not because its norm was not finite; the program sees
//                which
//   X            each output of `micro_batch`: the sum over all micro-batches
typedef struct step_parts {
    const char *name;
    const graph *micro_batch, *rest;
    int n_micro_batches;
} step_parts;

// A program that is to be loaded beside others, and what becomes of it.
typedef struct load_request {
    const plan *plan;
    const step_parts *parts; // not NULL: this instead of `plan`
    executable **out;
    drv_status status;
    const char *message; // of a failure
    double seconds;      // to compile it, or to take it from a cache
    bool from_cache;
} load_request;

// A back end that computes nothing leaves out join, prepare, run, write, held_bytes, describe and
// close.
typedef struct backend_vtable {
    const char *name;
    // Scratch that the planner has to set aside while a node runs on a team of n_threads. Needs no
    // open back end, so that another one can plan for this one. NULL: none for any node.
    int64_t (*workspace)(const node *n, int n_threads);
    // Makes this back end that of rank comm_rank(c) in a mesh; before the first load. c NULL: of
    // the rank that its device of the pool is for, to compile alone. Without it: one rank.
    void (*join)(backend *b, comm *c, const mesh *m);
    // Lowers a planned graph; creates state that it names and that does not exist yet, zeroed.
    drv_status (*load)(backend *b, const plan *p, executable **out);
    // The same for several programs, compiled side by side; all are tried, the status is that of
    // what they have in common. Also whole steps as one program, whose states that do not exist yet
    // are zero. NULL: programs are loaded one by one, and there are no whole steps.
    drv_status (*load_all)(backend *b, load_request *requests, int n);
    // Allocates what loaded programs need at most; called by the first run at the latest.
    drv_status (*prepare)(backend *b);
    // May return before the program has ended; what it fails with may be told by the next call.
    drv_status (*run)(backend *b, executable *e);
    // Reads a whole small state as the program that was run last leaves it, without waiting: the
    // bytes are at dst when `arrive` has returned, whatever is run in between. arrive waits for the
    // n oldest. NULL, both: `read` does it.
    drv_status (*fetch)(backend *b, const char *name, int64_t bytes, void *dst);
    drv_status (*arrive)(backend *b, int n_oldest);
    // Chooses what programs, write and read see from here on of tensors in a pool: their slot
    // number `slot`, or, where the plan places memory, what lies in spans at these offsets, which
    // must live until the next call. NULL: backend_compile refuses graphs of a pipeline, which
    // alone have such tensors.
    void (*use_slot)(backend *b, int slot, const int64_t *spans);
    // Part of a state tensor, as bytes. Only inputs have to be written before each run.
    drv_status (
            *write)(backend *b, const char *name, int64_t offset, int64_t bytes, const void *src);
    drv_status (*read)(backend *b, const char *name, int64_t offset, int64_t bytes, void *dst);
    // Returns the bytes of state and arenas; 0: the memory is not placed by the plan.
    int64_t (*held_bytes)(backend *b);
    // Fills the memory of a loaded program. False: unknown. NULL: as the plan says.
    bool (*memory)(backend *b, const executable *e, backend_memory *out);
    // Fills what the compiler has made of a loaded program; *matters: of a device that is to be
    // fast, so that one may be warned. False, NULL: unknown.
    bool (*facts)(backend *b, const executable *e, program_facts *out, bool *matters);
    // Returns the bytes that its device gives to programs; 0: unknown. NULL: as much as there is of
    // the host's.
    int64_t (*capacity)(backend *b);
    // Times each node of all loaded programs from now on, or no longer; what was measured before is
    // forgotten. node_seconds: what each node of a program took since then, by its place in the
    // graph, negative where nothing is computed; *n_runs: how often the program ran. NULL, both: it
    // compiles programs as a whole, whose nodes cannot be told apart.
    void (*time_nodes)(backend *b, bool on);
    const double *(*node_seconds)(const executable *e, int64_t *n_runs);
    const char *(*device)(backend *b); // "AMD EPYC"; belongs to the back end
    void (*describe)(backend *b, backend_info *out);
    // Says in one line how numbers are made, the same in every run on this machine with these
    // settings.
    const char *(*arithmetic)(backend *b);
    // Highest FLOP/s measured of products of a type in its own arithmetic, with more `tries` on
    // more sizes (2: some 40 ms on two cores); 0, NULL: unknown.
    drv_status (*peak)(backend *b, dtype dt, int tries, double *flops_per_s);
    // Highest of `tries` rates at which all threads go through memory beyond any cache, reading or
    // reading and writing, bytes/s; 0, NULL: unknown.
    drv_status (*memory_rate)(backend *b, int tries, double *bytes_per_s);
    // Measures the best FLOP/s of `tries` of one product; *by says how a run multiplies it. NULL:
    // the back end multiplies nothing that could be timed alone.
    drv_status (*time_product)(backend *b, const backend_product *p, int tries, double *flops_per_s,
            const char **by);
    void (*close)(backend *b);
} backend_vtable;

struct backend {
    const backend_vtable *v;
    int64_t step;  // of training, that is computed: messages of pjrt name it; 0: none
    int64_t n_run; // programs that pjrt's device was given: one that it refuses changes no state
    bool refused;  // pjrt: the last one was, on the devices of all ranks alike
};

// The calls of the vtable.
static inline void backend_join(backend *b, comm *c, const mesh *m) {
    if (b->v->join) b->v->join(b, c, m);
}
static inline const char *backend_name(const backend *b) { // as `backend:` of a config
    return b->v->name;
}
static inline bool backend_has_steps(const backend *b) { // it loads step_parts
    return b->v->load_all != NULL;
}
static inline drv_status backend_prepare(backend *b) {
    return b->v->prepare ? b->v->prepare(b) : DRV_OK;
}
static inline drv_status backend_run(backend *b, executable *e) {
    return b->v->run ? b->v->run(b, e) : DRV_OK;
}
static inline void backend_use_slot(backend *b, int slot, const int64_t *spans) {
    b->v->use_slot(b, slot, spans);
}
static inline drv_status backend_write(backend *b, const char *name, int64_t offset, int64_t bytes,
        const void *src) {
    return b->v->write ? b->v->write(b, name, offset, bytes, src) : DRV_OK;
}
static inline drv_status backend_read(backend *b, const char *name, int64_t offset, int64_t bytes,
        void *dst) {
    return b->v->read(b, name, offset, bytes, dst);
}
static inline drv_status backend_fetch(backend *b, const char *name, int64_t bytes, void *dst) {
    return b->v->fetch ? b->v->fetch(b, name, bytes, dst) : b->v->read(b, name, 0, bytes, dst);
}
static inline drv_status backend_arrive(backend *b, int n_oldest) {
    return b->v->arrive ? b->v->arrive(b, n_oldest) : DRV_OK;
}
static inline int64_t backend_held_bytes(backend *b) {
    return b->v->held_bytes ? b->v->held_bytes(b) : 0;
}
static inline bool backend_program_memory(backend *b, const executable *e, backend_memory *out) {
    return b->v->memory && b->v->memory(b, e, out);
}
static inline bool backend_program_facts(backend *b, const executable *e, program_facts *out,
        bool *matters) {
    return b->v->facts && b->v->facts(b, e, out, matters);
}
static inline int64_t backend_capacity(backend *b) { // 0: unknown
    return b->v->capacity ? b->v->capacity(b) : 0;
}
// Checks a size. DRV_E_DEVICE: so many bytes, or those of a program, are more than the device
// gives; `expected` ends the message. One that does not say how much it gives, or the compiler what
// it needs, has enough.
DRV_CHECKED drv_status backend_check_fit(backend *b, const char *name, int64_t bytes,
        const char *expected);
DRV_CHECKED drv_status backend_check_program(backend *b, const char *name, const executable *e,
        const char *expected);
static inline bool backend_times_nodes(const backend *b) {
    return b->v->time_nodes != NULL;
}
static inline void backend_time_nodes(backend *b, bool on) {
    b->v->time_nodes(b, on);
}
static inline const double *backend_node_seconds(const backend *b, const executable *e,
        int64_t *n_runs) {
    return b->v->node_seconds(e, n_runs);
}
static inline const char *backend_device(backend *b) {
    return b->v->device(b);
}
static inline backend_info backend_describe(backend *b) {
    backend_info info = {.kernels = "",
            .best_kernels = "",
            .features = "",
            .bf16_by = "",
            .bf16_peak = DT_BF16,
            .other_way = ""};
    if (b->v->describe) b->v->describe(b, &info);
    return info;
}
static inline const char *backend_arithmetic(backend *b) {
    return b->v->arithmetic(b);
}
static inline drv_status backend_peak(backend *b, dtype dt, int tries, double *flops_per_s) {
    *flops_per_s = 0;
    return b->v->peak ? b->v->peak(b, dt, tries, flops_per_s) : DRV_OK;
}
static inline drv_status backend_memory_rate(backend *b, int tries, double *bytes_per_s) {
    *bytes_per_s = 0;
    return b->v->memory_rate ? b->v->memory_rate(b, tries, bytes_per_s) : DRV_OK;
}
static inline bool backend_times_products(const backend *b) {
    return b->v->time_product != NULL;
}
static inline drv_status backend_time_product(backend *b, const backend_product *p, int tries,
        double *flops_per_s, const char **by) {
    return b->v->time_product(b, p, tries, flops_per_s, by);
}
static inline void backend_close(backend *b) {
    if (b->v->close) b->v->close(b);
}

// Measures the FLOP/s of this rank to which MFU relates: DROVER_PEAK_FLOPS where it is set, else
// the higher peak of fp32 and bf16, by quick looks until two agree (eight, or 0.4 s, of a type); 0:
// unknown. DRV_E_USAGE: the variable is no such number.
DRV_CHECKED drv_status backend_peak_flops(backend *b, double *flops_per_s);

// Devices that ranks of one process share, each a thread with a back end of its own.
typedef struct device_pool device_pool;

// Options with which a back end is opened; zero: its defaults.
typedef struct backend_opts {
    bool portable; // cpu: the bits that any processor gives (docs/adr/0036)
    // pjrt: name or path of the plugin (backend/pjrt/runtime/plugin.h), options of its compiler as
    // NAME=VALUE, and the share of a GPU's memory that is taken at once
    const char *plugin;
    const char *const *flags;
    int n_flags;
    double memory_fraction;
    double give_up_s;      // pjrt: a device that is silent for so long has failed; 0: never
    bool nondeterministic; // pjrt: sums may be added in another order each time, if that is faster
    const char *target;    // "cuda:h200": programs are compiled for it and not run; NULL: none
    const char *cache_dir; // of compiled programs; NULL: the user's; "none"
    int64_t cache_max_bytes; // of all files there; 0: any
    // The number of programs that are compiled at a time; 0: as many as there are cores. The memory
    // of the host that they may take together; 0: three quarters of what this process can still
    // have.
    int compile_jobs;
    int64_t compile_max_bytes;
    // Computes on one device of a pool, which is closed after the back end; what is said above was
    // said to the pool. NULL: on a device that it opens itself.
    device_pool *pool;
    int device;
    comm *cluster; // of several processes, each with one device; NULL: this one is alone
} backend_opts;

// Opens the first n_devices devices of a plugin, or n_targets of a target. DRV_E_DEVICE: there are
// fewer.
DRV_CHECKED drv_status device_pool_open(arena *a, const backend_opts *opts, int n_devices,
        device_pool **out);
void device_pool_close(device_pool *p);

// Opens the back end that a config names; NULL or "": the one of this host's processor.
// DRV_E_USAGE: there is no such back end, or no such plugin; DRV_E_DEVICE: it cannot be opened.
DRV_CHECKED drv_status backend_open(arena *a, const char *name, const backend_opts *opts,
        backend **out);
// Opens the back end that computes on this host's processor, with the default options.
DRV_CHECKED drv_status backend_open_host(arena *a, backend **out);
// Makes a back end that plans as the host's does, or that of devices, and verifies. It computes
// nothing and holds nothing, so closing it may be left out.
backend *backend_open_planner(arena *a, bool devices);

// Plans a graph for a back end.
plan *backend_plan(arena *a, backend *b, graph *g);
// Loads all of them, whatever becomes of each; the status is that of what they have in common.
DRV_CHECKED drv_status backend_load_all(arena *a, backend *b, load_request *requests, int n);
// Checks that it can run a pipeline. DRV_E_DEVICE: it has no slots, as graphs of a pipeline need.
DRV_CHECKED drv_status backend_check_pipeline(const backend *b);
// Plans a graph and loads it.
DRV_CHECKED drv_status backend_compile(arena *a, backend *b, graph *g, plan **p, executable **out);
