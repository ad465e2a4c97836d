// State of a rank by name: a value on its device, and on the host a staging copy while it is
// written or read in pieces. Buffers of a device are written and read whole and never change, so
// pieces are gathered here and cross when a program needs them (docs/adr/0013).
#pragma once
#include <pthread.h>

#include "backend/pjrt/runtime/pjrt_client.h"
#include "backend/pjrt/stablehlo/lower.h"
#include "base/name_map.h"

// A tensor with several slots is as many states, of which the first is found by name.
typedef struct device_state {
    const char *name;
    int n_slots;
    struct device_state *slots; // [n_slots]; NULL: one, this
    dtype host;                 // its type in staging
    const state_pool *pool;     // whose bytes hold it; NULL: none
    buffer_shape shape;         // on the device
    pjrt_buffer *buffer;        // NULL: none yet
    char *staging;              // NULL: none
    bool holds_value;           // staging is what the device has, or newer
    bool newer;                 // staging has been written and not uploaded
} device_state;

enum { MAX_FETCHED = 8, FETCHED_BYTES = 64 };

typedef struct fetched_state { // on its way to the host
    const device_state *state;
    int64_t number; // of the program that left it
    pjrt_event *event;
    char raw[FETCHED_BYTES]; // as the device has it
    int64_t bytes;           // on the host
    void *dst;
} fetched_state;

// Reads and writes may come from several threads; upload and take from one at a time.
typedef struct state_table {
    arena *a;
    const device_client *client;
    int device;
    const comm *ranks; // that programs of this rank may wait for; NULL: none
    name_map map;
    device_state **all;
    int n, cap;
    pthread_mutex_t lock;
    device_state *last_read;            // its staging is kept for the next piece
    fetched_state fetched[MAX_FETCHED]; // of the thread that runs programs
    int first_fetched, n_fetched;       // a ring: what is on its way must not move
} state_table;

void state_table_open(arena *a, const device_client *c, int device, state_table *out);
void state_table_close(state_table *s);

// Returns the state of an argument or a result, made when it is new: without a value, which reads
// as zero.
device_state *state_table_get(state_table *s, const lowered_state *like);
device_state *state_table_find(state_table *s, const char *name);
static inline device_state *state_slot(device_state *d, int slot) {
    return d->slots ? &d->slots[slot] : d;
}
int64_t state_bytes(const device_state *d); // of a slot, on the host

// Write and read bytes of the value as the host has it.
DRV_CHECKED drv_status state_write(state_table *s, device_state *d, int64_t offset, int64_t bytes,
        const void *src);
DRV_CHECKED drv_status state_read(state_table *s, device_state *d, int64_t offset, int64_t bytes,
        void *dst);
// Starts to copy a small value as the program that was started last, `number`, leaves it;
// state_arrive waits for the n oldest and fills in what they are for; state_fetched_from returns
// the program of the last of them.
DRV_CHECKED drv_status state_fetch(state_table *s, device_state *d, int64_t number, int64_t bytes,
        void *dst);
int64_t state_fetched_from(const state_table *s, int n_oldest);
DRV_CHECKED drv_status state_arrive(state_table *s, int n_oldest);
// Brings the device's value up to date.
DRV_CHECKED drv_status state_upload(state_table *s, device_state *d);
// Drops a value that is of no use any more: its memory can be used again.
void state_drop(state_table *s, device_state *d);
// Lets the state take over a buffer that a program has made; the old one is freed.
void state_take(state_table *s, device_state *d, pjrt_buffer *made);
