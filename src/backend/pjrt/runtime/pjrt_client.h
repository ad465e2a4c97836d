// A client of a plugin: its devices, programs compiled for them, and buffers on them. Handles of
// the plugin do not leave this interface; a failure is one line (DRV_E_DEVICE).
// Legend: c the client; a the arena of what is returned; n how many there are of what stands before
// it, or its bytes.
#pragma once
#include "backend/buffer_shape.h"
#include "backend/pjrt/runtime/cluster.h"
#include "backend/pjrt/runtime/compile_options.h"
#include "backend/pjrt/runtime/gpu_target.h"
#include "backend/pjrt/runtime/plugin.h"
#include "backend/program_facts.h"

// Single owner, but for downloads, which several threads may do at a time.
typedef struct device_client {
    const pjrt_plugin *plugin;
    pjrt_client *handle;         // NULL: of a target, for which programs are compiled and not run
    pjrt_topology *topology;     // of a target; else NULL
    pjrt_device *const *devices; // of this process; the plugin's
    int n_devices;
    // The number of each rank's device, where there are several processes of one device each. NULL:
    // alone, or a plugin that does not join processes.
    const int *rank_devices;
    const char *platform; // "cpu", "cuda"
    const char *version;  // of its libraries, as the plugin says it: "cuda 13000"; ""
    const char *kind;     // of the first device: "NVIDIA H200"
    int capability;       // of a GPU of NVIDIA's: 90 for Hopper; 0: none, or it is not said
    int64_t memory;       // bytes of a target; else 0
} device_client;

typedef struct client_options {
    int n_devices;          // virtual devices of a CPU plugin; 0: one
    double memory_fraction; // of a GPU's memory, taken at once; 0: the plugin's own share
    const comm *cluster;    // of several processes, each with a device; NULL: alone
    cluster_store *store;   // then
    int64_t place_on_host;  // then: cluster_place_on_host
} client_options;

DRV_CHECKED drv_status client_open(arena *a, const pjrt_plugin *plugin,
        const client_options *options, device_client **out);
// Stands for n_devices GPUs of one host that need not be there.
DRV_CHECKED drv_status client_open_target(arena *a, const pjrt_plugin *plugin,
        const gpu_target *gpu, int n_devices, device_client **out);
void client_close(device_client *c);

// Reads the bytes in use on a device and the most it gives; false: the plugin does not say.
bool client_memory(const device_client *c, int device, int64_t *used, int64_t *limit);
int client_device_id(const device_client *c, int device); // of a target: its number

// Returns whether a device has memory of a kind ("pinned_host"); of a target, which is not there,
// its compiler decides.
bool client_has_memory(const device_client *c, int device, const char *kind);

// The memory that the compiler plans, in bytes of one device and of the host beside it.
typedef struct compiled_memory {
    int64_t argument, output, alias, temp, code, host_temp;
} compiled_memory;

typedef struct device_program {
    const char *name;
    program_facts facts;
    bool has_facts;
    pjrt_loaded *handle;       // NULL: compiled for a target
    pjrt_executable *unloaded; // then
    int n_in, n_out;
    const buffer_shape *in, *out; // of each device; the caller's
    bool checked;                 // whether outputs have been compared with `out`
} device_program;

// Compiles StableHLO text (n bytes). program->in and ->out say what it takes and gives; they are
// set before, and live as long as the program.
DRV_CHECKED drv_status client_compile(const device_client *c, const char *text, size_t n,
        const compile_options *options, device_program *program);
// A program as bytes for a file, and back: for one plugin and one kind of device.
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
// Fills the facts of a program that was compiled from a text, where the plugin says what it made.
void client_read_facts(const device_client *c, const char *text, size_t n, device_program *program);
// False: the plugin does not say.
bool client_program_memory(const device_client *c, const device_program *p, compiled_memory *out);
void client_program_free(const device_client *c, device_program *p);

// Copies dense rows to a device; `src` is free when it returns.
DRV_CHECKED drv_status client_upload(const device_client *c, int device, const buffer_shape *shape,
        const void *src, pjrt_buffer **out);
// Starts to copy the value as dense rows: dst is filled when *done has come, whatever becomes of
// the buffer.
DRV_CHECKED drv_status client_download_start(const device_client *c, pjrt_buffer *buffer,
        const buffer_shape *shape, void *dst, pjrt_event **done);
void client_buffer_free(const device_client *c, pjrt_buffer *buffer); // NULL is allowed

// Starts a program on the n_devices devices here that it was compiled for: in[device][argument],
// out[device][output]. Each argument is compared with what the program takes: a plugin would take
// any buffer of as many bytes. Arguments that the program gives back (aliased) are gone when it
// returns, their handles are still to be freed. *done[device] is to be waited for.
DRV_CHECKED drv_status client_execute(const device_client *c, device_program *p, int n_devices,
        pjrt_buffer *const *const *in, pjrt_buffer **const *out, pjrt_event **done);
