// The interface of all back ends (design D5). A back end owns the state of one rank (weights,
// gradients, optimizer, inputs, outputs, by name) and runs planned programs on it. Ranks of one
// process are threads, each with a back end of its own.
#pragma once
#include "base/arena.h"
#include "base/status.h"
#include "comm/comm.h"
#include "backend/program_facts.h"
#include "plan/plan.h"

typedef struct backend backend;
typedef struct executable executable; // belongs to its back end

// Describes how a back end computes, for doctor and bench. Texts belong to the back end; "": not
// applicable.
typedef struct backend_info {
    const char *kernels;      // "avx512"
    const char *best_kernels; // the best that the device supports: "avx512_bf16"
    const char *features;     // beyond that: "AMX bf16"
    const char *bf16_by;      // how bf16 mode multiplies: "bf16 dot product"
    dtype bf16_peak;       // the type whose peak bf16 products can reach: DT_F32 if bf16 is widened
    const char *other_way; // the setting for the other arithmetic: "DROVER_GEMM=fp32"
} backend_info;

// c [m,n] = a [m,k] b [k,n] or c += a b, dense, for measurements.
typedef struct backend_product {
    int64_t m, n, k;
    bool ta, tb; // a is [k,m], b is [n,k]
    dtype in, out;
    bool accumulate;
} backend_product;

// A training step as one program: `micro_batch`, the forward and backward pass of a micro-batch,
// runs n_micro_batches times on slices of its inputs, starting with zero gradients; then `rest`,
// the update, runs. Gradients exist only inside the program. It has the states of both graphs and:
//   step.X       [n_micro_batches, ...] for each input X of `micro_batch`; inputs d... have no
//                first dimension, since they are the same in all micro-batches
//   step.hyper   f64[2 N_HYPER]: the input "hyper" of `rest` (ir/hyper.h), first its value if the
//                previous step was applied, then its value if that step was skipped because its
//                norm was not finite; the program decides
//   X            each output of `micro_batch`: the sum over all micro-batches
typedef struct step_parts {
    const char *name;
    const graph *micro_batch, *rest;
    int n_micro_batches;
} step_parts;

// A request to load a program together with others, and its result.
typedef struct load_request {
    const plan *plan;
    const step_parts *parts; // used instead of `plan` if not NULL
    executable **out;
    drv_status status;
    const char *message; // of a failure
    double seconds;      // to compile it, or to load it from a cache
    bool from_cache;
} load_request;

// A back end that computes nothing leaves out join, prepare, run, write, held_bytes, describe and
// close.
typedef struct backend_vtable {
    const char *name;
    // Returns the scratch that a node needs while it runs on n_threads threads. Works without an
    // open back end, so that another one can plan for this one. NULL: no node needs scratch.
    int64_t (*workspace)(const node *n, int n_threads);
    // Makes this back end that of rank comm_rank(c) in a mesh; called before the first load. c
    // NULL: compiles only, for the rank of its device in the pool. If it is not called there is one
    // rank.
    void (*join)(backend *b, comm *c, const mesh *m);
    // Lowers a planned graph. Creates missing state that it names, filled with zeros.
    drv_status (*load)(backend *b, const plan *p, executable **out);
    // Loads several programs, which are compiled in parallel; also whole steps as one program. All
    // are tried; each has its own status, and the returned status is an error that concerns all.
    // NULL: programs are loaded one by one, and whole steps are not supported.
    drv_status (*load_all)(backend *b, load_request *requests, int n);
    // Allocates the maximum that loaded programs need; the first run does so if the caller has not.
    // NULL: memory is allocated while programs run.
    drv_status (*prepare)(backend *b);
    // May return before the program has ended; a later call may return its failure.
    drv_status (*run)(backend *b, executable *e);
    // Starts to read a whole small state as the last program leaves it, without waiting: the bytes
    // are at dst once `arrive` has returned, even if other programs run in between. arrive waits
    // for the n oldest reads. Both NULL: `read` is used.
    drv_status (*fetch)(backend *b, const char *name, int64_t bytes, void *dst);
    drv_status (*arrive)(backend *b, int n_oldest);
    // Selects the slot of tensors in a pool that later programs, writes and reads use: `slot`, or,
    // if the plan places memory, the memory at these offsets of spans, which must live until the
    // next call. NULL: backend_compile refuses graphs of a pipeline; only these have such tensors.
    void (*use_slot)(backend *b, int slot, const int64_t *spans);
    // Write and read part of a state tensor, as bytes. Only inputs have to be written before each
    // run.
    drv_status (
            *write)(backend *b, const char *name, int64_t offset, int64_t bytes, const void *src);
    drv_status (*read)(backend *b, const char *name, int64_t offset, int64_t bytes, void *dst);
    // Returns the bytes of state and arenas. NULL: the plan does not place memory.
    int64_t (*held_bytes)(backend *b);
    // Describes the memory of a loaded program. False: unknown. NULL: it is what the plan says.
    bool (*memory)(backend *b, const executable *e, backend_memory *out);
    // Returns facts about the compiled code of a loaded program; *matters: whether the device is an
    // accelerator, for which slow code deserves a warning. False or NULL: unknown.
    bool (*facts)(backend *b, const executable *e, program_facts *out, bool *matters);
    // Returns the bytes that programs may use on its device; 0: unknown. NULL: the host's memory is
    // the limit.
    int64_t (*capacity)(backend *b);
    // Switches the timing of nodes in all loaded programs on or off, and discards earlier
    // measurements. node_seconds returns the seconds of each node of a program since then, by its
    // index in the graph, negative if it computes nothing; *n_runs: the number of runs of the
    // program. Both NULL: it compiles programs as a whole, so nodes cannot be timed.
    void (*time_nodes)(backend *b, bool on);
    const double *(*node_seconds)(const executable *e, int64_t *n_runs);
    const char *(*device)(backend *b); // "AMD EPYC"; belongs to the back end
    void (*describe)(backend *b, backend_info *out);
    // Describes its arithmetic in one line, the same in every run on this machine with these
    // settings.
    const char *(*arithmetic)(backend *b);
    // Measures the highest FLOP/s of products of a type in its own arithmetic; more `tries` measure
    // more sizes (2: some 40 ms on two cores). 0, or NULL: unknown.
    drv_status (*peak)(backend *b, dtype dt, int tries, double *flops_per_s);
    // Measures the memory bandwidth of all threads beyond caches, reading or reading and writing,
    // in bytes/s: the highest of `tries`. 0, or NULL: unknown.
    drv_status (*memory_rate)(backend *b, int tries, double *bytes_per_s);
    // Measures the best FLOP/s of `tries` runs of one product; *by names the way in which a run
    // multiplies it. NULL: the back end cannot time products alone.
    drv_status (*time_product)(backend *b, const backend_product *p, int tries, double *flops_per_s,
            const char **by);
    void (*close)(backend *b);
} backend_vtable;

struct backend {
    const backend_vtable *v;
    int64_t step;  // the training step being computed, for messages of pjrt; 0: none
    int64_t n_run; // pjrt: programs started on the device; one that it refuses is not counted and
                   // changes no state
    bool refused;  // pjrt: the devices of all ranks refused the last program
};

// The calls of the vtable.
static inline void backend_join(backend *b, comm *c, const mesh *m) {
    if (b->v->join) b->v->join(b, c, m);
}
static inline const char *backend_name(const backend *b) { // its name in a config
    return b->v->name;
}
static inline bool backend_has_steps(const backend *b) { // whether it loads step_parts
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
// Check whether `bytes`, or the memory of a program, fit on the device. DRV_E_DEVICE: they do not;
// `expected` ends the message. If the device's memory or the program's needs are unknown the check
// passes.
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

// Measures the peak FLOP/s of this rank, the base of MFU: DROVER_PEAK_FLOPS if it is set, else the
// higher peak of fp32 and bf16, each measured repeatedly until two measurements agree (at most
// eight, or 0.4 s); 0: unknown. DRV_E_USAGE: the variable is not a valid number.
DRV_CHECKED drv_status backend_peak_flops(backend *b, double *flops_per_s);

// Devices that ranks of one process share, each a thread with a back end of its own.
typedef struct device_pool device_pool;

// Options with which a back end is opened; zero: its defaults.
typedef struct backend_opts {
    bool portable; // cpu: the arithmetic that gives the same bits on any processor (docs/adr/0036)
    // pjrt: name or path of the plugin (backend/pjrt/runtime/plugin.h), options of its compiler as
    // NAME=VALUE, and the share of a GPU's memory that it reserves
    const char *plugin;
    const char *const *flags;
    int n_flags;
    double memory_fraction;
    double give_up_s;      // pjrt: a device that does not answer for this long has failed; 0: never
    bool nondeterministic; // pjrt: the order of sums may differ between runs, if that is faster
    const char *target;    // "cuda:h200": programs are only compiled, for this target; NULL: none
    const char *cache_dir; // of compiled programs; NULL: the user's; "none"
    int64_t cache_max_bytes; // of all files in it; 0: no limit
    // The number of programs that are compiled at a time; 0: as many as there are cores. The memory
    // of the host that they may take together; 0: three quarters of what this process can still
    // have.
    int compile_jobs;
    int64_t compile_max_bytes;
    // Uses one device of a pool, which must be closed after the back end; the options above are
    // then those of the pool. NULL: opens a device itself.
    device_pool *pool;
    int device;
    comm *cluster; // several processes, each with one device; NULL: only this process
} backend_opts;

// Opens the first n_devices devices of a plugin or, with a target, as many of the target.
// DRV_E_DEVICE: there are fewer.
DRV_CHECKED drv_status device_pool_open(arena *a, const backend_opts *opts, int n_devices,
        device_pool **out);
void device_pool_close(device_pool *p);

// Opens the back end with the name of a config; NULL or "": cpu. DRV_E_USAGE: there is no such back
// end, or no such plugin; DRV_E_DEVICE: it cannot be opened.
DRV_CHECKED drv_status backend_open(arena *a, const char *name, const backend_opts *opts,
        backend **out);
// Opens the back end that computes on this host's processor, with the default options.
DRV_CHECKED drv_status backend_open_host(arena *a, backend **out);
// Makes a back end that plans as the host's does, or as that of devices. It computes nothing and
// holds nothing, so it need not be closed.
backend *backend_open_planner(arena *a, bool devices);

// Plans a graph for a back end.
plan *backend_plan(arena *a, backend *b, graph *g);
// Tries to load all of them; each request gets its own status, and the returned status is an error
// that concerns all.
DRV_CHECKED drv_status backend_load_all(arena *a, backend *b, load_request *requests, int n);
// Checks that a back end can run a pipeline. DRV_E_DEVICE: it has no slots, which graphs of a
// pipeline need.
DRV_CHECKED drv_status backend_check_pipeline(const backend *b);
// Plans a graph and loads it.
DRV_CHECKED drv_status backend_compile(arena *a, backend *b, graph *g, plan **p, executable **out);
