// State of a rank by name: a value on its device, and on the host a staging copy while it is
// written or read in pieces. Buffers of a device are written and read whole and never change, so
// pieces are gathered here and cross when a program needs them (docs/adr/0013).
#pragma once
#include <pthread.h>

#include "backend/pjrt/lower.h"
#include "base/name_map.h"

typedef struct device_state {
    const char *name;
    dtype host;          // its type in staging
    buffer_shape shape;  // on the device
    pjrt_buffer *buffer; // NULL: none yet
    char *staging;       // NULL: none
    bool holds_value;    // staging is what the device has, or newer
    bool newer;          // staging has been written and not uploaded
} device_state;

// Reads and writes may come from several threads; upload and take from one at a time.
typedef struct state_table {
    arena *a;
    const device_client *client;
    int device;
    name_map map;
    device_state **all;
    int n, cap;
    pthread_mutex_t lock;
    device_state *last_read; // its staging is kept for the next piece
} state_table;

void state_table_open(arena *a, const device_client *c, int device, state_table *out);
void state_table_close(state_table *s);

// The state of an argument or a result, made when it is new: without a value, which reads as zero.
device_state *state_table_get(state_table *s, const lowered_state *like);
device_state *state_table_find(state_table *s, const char *name);

// Bytes of the value as the host has it.
DRV_CHECKED drv_status state_write(state_table *s, device_state *d, int64_t offset, int64_t bytes,
        const void *src);
DRV_CHECKED drv_status state_read(state_table *s, device_state *d, int64_t offset, int64_t bytes,
        void *dst);
// Brings the device's value up to date.
DRV_CHECKED drv_status state_upload(state_table *s, device_state *d);
// The state takes over a buffer that a program has made; the old one is freed.
void state_take(state_table *s, device_state *d, pjrt_buffer *made);
