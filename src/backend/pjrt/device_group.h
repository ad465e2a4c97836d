// Devices that run programs together. A pool is one client with its devices; a process opens it
// once. A device group is the devices of a pool that run the same programs. Each rank is a thread
// with its own back end and device. The ranks of a group synchronise at each program: they compile
// it once and start it on all of their devices in one call. A single rank is a group of one.
//
// Legend: b the back end of a rank; l a lowered program; n the number of elements of the argument
// before it.
#pragma once
#include <pthread.h>

#include <xxhash.h>

#include "backend/backend.h"
#include "backend/pjrt/compiler_flags.h"
#include "backend/pjrt/runtime/compile_cache.h"
#include "backend/pjrt/runtime/compile_gate.h"
#include "backend/pjrt/stablehlo/lower.h"

// Thread-safe.
struct device_pool {
    arena *a; // with the lock
    pjrt_plugin *plugin;
    device_client *client;
    compile_cache cache;
    compile_gate gate;
    comm *cluster;        // of several processes, one device each; else NULL
    cluster_store *store; // that the client uses; NULL: it needs none
    compiler_flags flags;
    bool deterministic; // set by the flags
    pthread_mutex_t lock;
    struct device_group *groups;
};

typedef struct device_group device_group; // thread-safe; belongs to its pool

// Returns the group of devices [first, first + n), of which this process has the first n_here. All
// calls with the same arguments return the same group.
device_group *device_group_of(device_pool *pool, int first, int n, int n_here);

// One rank in its device group. A rank that waits for the others polls `c` (NULL: none) and returns
// its failure.
typedef struct device_member {
    device_group *group;
    int place; // among the ranks of the device group in this process
    comm *c;
    bool met; // the last synchronisation succeeded: all ranks here have its status
} device_member;

// A program that was compiled. It belongs to the device group; a failed one must not be run.
typedef struct group_program {
    device_program program;
    XXH128_hash_t text; // hash of the text, which every rank must have printed
    bool from_cache;
    double seconds;
    drv_saved ended; // the result
} group_program;

// All ranks of a device group compile the same programs in the same order. Each of the n programs
// is compiled by one of them, in parallel as far as the pool's gate allows. `in` and `out` of a
// program live as long as the pool. A failure of a program is in out[i]->ended.
DRV_CHECKED drv_status group_compile(device_member *self, const lowered *l, int n,
        group_program **out);
// Starts a program on the devices of all ranks of the device group, with this rank's arguments,
// once the last of them has called. *done is the event of this rank.
DRV_CHECKED drv_status group_execute(device_member *self, device_program *p,
        pjrt_buffer **arguments, pjrt_buffer **results, pjrt_event **done);
