// A client of a plugin: its devices, programs compiled for them, and buffers on them. Handles of
// the plugin do not leave this interface; a failure is one line (DRV_E_DEVICE).
// Legend: c the client; a the arena of the result; n the number of elements or bytes of the
// argument before it.
#pragma once
#include "backend/buffer_shape.h"
#include "backend/pjrt/runtime/cluster.h"
#include "backend/pjrt/runtime/compile_options.h"
#include "backend/pjrt/runtime/gpu_target.h"
#include "backend/pjrt/runtime/plugin.h"
#include "backend/program_facts.h"

// Single owner, except that several threads may download at a time.
typedef struct device_client {
    const pjrt_plugin *plugin;
    pjrt_client *handle;         // NULL: of a target, for which programs are compiled and not run
    pjrt_topology *topology;     // of a target; else NULL
    pjrt_device *const *devices; // of this process; the plugin's
    int n_devices;
    // The id of each rank's device, if there are several processes of one device each. NULL: there
    // is one process, or the plugin does not join processes.
    const int *rank_devices;
    const char *platform; // "cpu", "cuda"
    const char *version; // of its libraries, as the plugin reports it: "cuda 13000"; "": it does not
    const char *kind;    // of the first device: "NVIDIA H200"
    int capability;      // compute capability of an NVIDIA GPU: 90 for Hopper; 0: none, or unknown
    int64_t memory;      // bytes of a target; else 0
} device_client;

typedef struct client_options {
    int n_devices;          // virtual devices of a CPU plugin; 0: one
    double memory_fraction; // of a GPU's memory, reserved at once; 0: the plugin's default
    const comm *cluster;    // of several processes, each with a device; NULL: one process
    cluster_store *store;   // of the cluster
    int64_t place_on_host;  // in a cluster: cluster_place_on_host
} client_options;

DRV_CHECKED drv_status client_open(arena *a, const pjrt_plugin *plugin,
        const client_options *options, device_client **out);
// Opens a client that compiles for n_devices GPUs of one host, which need not exist.
DRV_CHECKED drv_status client_open_target(arena *a, const pjrt_plugin *plugin,
        const gpu_target *gpu, int n_devices, device_client **out);
void client_close(device_client *c);

// Gets the bytes in use on a device, and their limit. False: the plugin does not report them.
bool client_memory(const device_client *c, int device, int64_t *used, int64_t *limit);
int client_device_id(const device_client *c, int device); // of a target: `device` itself

// Returns whether a device has memory of a kind ("pinned_host"); true for a target, whose compiler
// decides.
bool client_has_memory(const device_client *c, int device, const char *kind);

typedef struct device_program {
    const char *name;
    program_facts facts;
    bool has_facts;
    pjrt_loaded *handle;       // NULL: compiled for a target
    pjrt_executable *unloaded; // of a program for a target; else NULL
    int n_in, n_out;
    const buffer_shape *in, *out; // arguments and results of each device; the caller's
    bool checked;                 // results have been compared with `out`
} device_program;

// Compiles StableHLO text (n bytes). The caller has set name, in, out, n_in and n_out, which must
// live as long as the program.
DRV_CHECKED drv_status client_compile(const device_client *c, const char *text, size_t n,
        const compile_options *options, device_program *program);
// A program as bytes, which the same plugin can load for the same kind of device.
typedef struct saved_program {
    const char *bytes;
    size_t n;
    void *owner;
    void (*free_owner)(void *);
} saved_program;
DRV_CHECKED drv_status client_save(const device_client *c, const device_program *p,
        saved_program *out);
void client_saved_free(saved_program *s);
DRV_CHECKED drv_status client_load(const device_client *c, const void *bytes, size_t n,
        device_program *program);
// Sets the facts of a program that was compiled from this text, if the plugin gives the optimised
// one.
void client_read_facts(const device_client *c, const char *text, size_t n, device_program *program);
// Sets all of *out but `elsewhere`, which is 0. False: the plugin does not report it.
bool client_program_memory(const device_client *c, const device_program *p, backend_memory *out);
void client_program_free(const device_client *c, device_program *p);

// Copies a dense array to a device; `src` may be freed when it returns.
DRV_CHECKED drv_status client_upload(const device_client *c, int device, const buffer_shape *shape,
        const void *src, pjrt_buffer **out);
// Starts to copy the value to a dense array. dst is filled once *done has occurred, even if the
// buffer is freed before.
DRV_CHECKED drv_status client_download_start(const device_client *c, pjrt_buffer *buffer,
        const buffer_shape *shape, void *dst, pjrt_event **done);
void client_buffer_free(const device_client *c, pjrt_buffer *buffer); // NULL is allowed

// Starts a program on the n_devices devices of this process for which it was compiled:
// in[device][argument], out[device][output]. Compares the type and dims of each argument with those
// of the program, since a plugin would accept any buffer with as many bytes. The values of
// arguments that become results (aliased) are gone when it returns, but the caller still frees
// their handles, and waits for done[device].
DRV_CHECKED drv_status client_execute(const device_client *c, device_program *p, int n_devices,
        pjrt_buffer *const *const *in, pjrt_buffer **const *out, pjrt_event **done);
