// The state of a rank by name: a buffer on its device, and a staging copy on the host while it is
// written or read in pieces. Device buffers are immutable and transferred whole, so pieces are
// collected in the staging copy and uploaded when a program needs them (docs/adr/0013).
#pragma once
#include <pthread.h>

#include "backend/pjrt/runtime/pjrt_client.h"
#include "backend/pjrt/stablehlo/lower.h"
#include "base/name_map.h"

// A tensor with several slots has a state for each; the first one is found by name.
typedef struct device_state {
    const char *name;
    int n_slots;
    struct device_state *slots; // [n_slots]; NULL: only this one
    dtype host;                 // its type in staging
    const state_pool *pool;     // the pool whose memory it uses; NULL: none
    buffer_shape shape;         // on the device
    pjrt_buffer *buffer;        // NULL: none yet
    char *staging;              // NULL: none
    bool holds_value;           // staging has the device's value, or a newer one
    bool newer;                 // staging has been written and not uploaded
} device_state;

enum { MAX_FETCHED = 8, FETCHED_BYTES = 64 };

typedef struct fetched_state { // being copied to the host
    const device_state *state;
    int64_t number; // of the program that wrote it
    pjrt_event *event;
    char raw[FETCHED_BYTES]; // in the device's type
    int64_t bytes;           // on the host
    void *dst;
} fetched_state;

// Reads and writes may come from several threads; upload and take from one at a time.
typedef struct state_table {
    arena *a;
    const device_client *client;
    int device;
    const comm *ranks; // ranks that programs of this rank may wait for; NULL: none
    name_map map;
    device_state **all;
    int n, cap;
    pthread_mutex_t lock;
    device_state *last_read;            // its staging copy is kept for the next piece
    fetched_state fetched[MAX_FETCHED]; // used only by the thread that runs programs
    int first_fetched, n_fetched; // a ring buffer: elements must not move while they are copied
} state_table;

void state_table_open(arena *a, const device_client *c, int device, state_table *out);
void state_table_close(state_table *s);

// Returns the state of an argument or a result. A new one is created without a value, which reads
// as zero.
device_state *state_table_get(state_table *s, const lowered_state *like);
device_state *state_table_find(state_table *s, const char *name);
static inline device_state *state_slot(device_state *d, int slot) {
    return d->slots ? &d->slots[slot] : d;
}
int64_t state_bytes(const device_state *d); // bytes of a slot on the host

// Write and read bytes of the value in the host's type.
DRV_CHECKED drv_status state_write(state_table *s, device_state *d, int64_t offset, int64_t bytes,
        const void *src);
DRV_CHECKED drv_status state_read(state_table *s, device_state *d, int64_t offset, int64_t bytes,
        void *dst);
// state_fetch starts to copy a small value as the program started last, `number`, leaves it.
// state_arrive waits for the n oldest copies and writes them to their `dst`; state_fetched_from
// returns the program of the last of these.
DRV_CHECKED drv_status state_fetch(state_table *s, device_state *d, int64_t number, int64_t bytes,
        void *dst);
int64_t state_fetched_from(const state_table *s, int n_oldest);
DRV_CHECKED drv_status state_arrive(state_table *s, int n_oldest);
// Uploads a staging copy that is newer than the device's value.
DRV_CHECKED drv_status state_upload(state_table *s, device_state *d);
// Discards a value that is no longer needed, and frees its memory.
void state_drop(state_table *s, device_state *d);
// Transfers the ownership of a program's result to the state, and frees the old buffer.
void state_take(state_table *s, device_state *d, pjrt_buffer *made);
