// Stages state: the host writes and reads pieces, the device gets whole values.
#include "backend/pjrt/pjrt_state.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

// States up to this size keep their staging buffer: inputs of every step, losses.
enum { KEPT_BYTES = 1 << 16 };

void state_table_open(arena *a, const device_client *c, int device, state_table *out) {
    *out = (state_table){.a = a, .client = c, .device = device, .map.a = a};
    pthread_mutex_init(&out->lock, NULL);
}

void state_table_close(state_table *s) {
    for (; s->n_fetched; s->n_fetched--) { // the plugin may still write what nobody reads now
        if (plugin_wait(s->client->plugin, s->ranks, s->fetched[s->first_fetched].event) != DRV_OK)
            log_file_only("%s", drv_message());
        s->first_fetched = (s->first_fetched + 1) % MAX_FETCHED;
    }
    for (int i = 0; i < s->n; i++) {
        client_buffer_free(s->client, s->all[i]->buffer);
        free(s->all[i]->staging);
    }
    free(s->all);
    pthread_mutex_destroy(&s->lock);
}

device_state *state_table_find(state_table *s, const char *name) {
    return name_map_get(&s->map, name);
}

static void add_state(state_table *s, device_state *d, const lowered_state *like) {
    *d = (device_state){.name = arena_strdup(s->a, like->name),
            .n_slots = 1,
            .host = like->host,
            .pool = like->pool,
            .shape = like->shape};
    MEM_GROW(s->all, s->n, s->cap);
    s->all[s->n++] = d;
}

device_state *state_table_get(state_table *s, const lowered_state *like) {
    device_state *d = state_table_find(s, like->name);
    if (d) {
        DRV_ASSERT((d->n_slots > 1 ? d->n_slots : 0) == (like->n_slots > 1 ? like->n_slots : 0),
                "\"%s\" has other slots", like->name);
        DRV_ASSERT(d->host == like->host && buffer_bytes(&d->shape) == buffer_bytes(&like->shape),
                "\"%s\" has two sizes", like->name);
        return d;
    }
    d = ARENA_NEW(s->a, device_state);
    add_state(s, d, like);
    if (like->n_slots > 1) {
        d->n_slots = like->n_slots;
        d->slots = ARENA_ARRAY(s->a, device_state, d->n_slots);
        for (int i = 0; i < d->n_slots; i++)
            add_state(s, &d->slots[i], like);
    }
    name_map_set(&s->map, d->name, d);
    return d;
}

int64_t state_bytes(const device_state *d) {
    return buffer_bytes(&d->shape) / dtype_bytes(d->shape.dt) * dtype_bytes(d->host);
}

// --- types: f64 on the host may be f32 on the device
static bool is_converted(const device_state *d) {
    return d->host != d->shape.dt;
}

// Waits for the value and copies it to dst in the device's type.
static drv_status download(const state_table *s, const device_state *d, void *dst) {
    pjrt_event *done;
    DRV_TRY(client_download_start(s->client, d->buffer, &d->shape, dst, &done));
    return plugin_wait(s->client->plugin, s->ranks, done);
}

static float *to_device_type(const device_state *d) {
    const int64_t n = state_bytes(d) / (int64_t)sizeof(double);
    const double *from = (const double *)(const void *)d->staging;
    float *to = mem_alloc(sizeof *to * (size_t)n);
    for (int64_t i = 0; i < n; i++)
        to[i] = (float)from[i];
    return to;
}

static drv_status download_converted(const state_table *s, const device_state *d) {
    const int64_t n = state_bytes(d) / (int64_t)sizeof(double);
    double *to = (double *)(void *)d->staging;
    float *from = mem_alloc(sizeof *from * (size_t)n);
    const drv_status status = download(s, d, from);
    for (int64_t i = 0; status == DRV_OK && i < n; i++)
        to[i] = (double)from[i];
    free(from);
    return status;
}

// --- staging, with the lock held
static void drop_staging(device_state *d) {
    if (d->newer || state_bytes(d) <= KEPT_BYTES) return;
    free(d->staging);
    d->staging = NULL;
    d->holds_value = false;
}

// Makes a staging buffer that holds the value.
static drv_status stage(state_table *s, device_state *d) {
    if (d->holds_value) return DRV_OK;
    if (!d->staging) d->staging = mem_zeroed((size_t)state_bytes(d));
    if (d->buffer)
        DRV_TRY_CTX(is_converted(d) ? download_converted(s, d) : download(s, d, d->staging),
                "\"%s\"", d->name);
    d->holds_value = true;
    return DRV_OK;
}

static void check_piece(const device_state *d, int64_t offset, int64_t bytes) {
    DRV_ASSERT(offset >= 0 && bytes >= 0 && offset + bytes <= state_bytes(d),
            "\"%s\": %lld bytes at %lld of %lld", d->name, (long long)bytes, (long long)offset,
            (long long)state_bytes(d));
}

drv_status state_write(state_table *s, device_state *d, int64_t offset, int64_t bytes,
        const void *src) {
    check_piece(d, offset, bytes);
    pthread_mutex_lock(&s->lock);
    const drv_status status = stage(s, d);
    if (status == DRV_OK) d->newer = true; // keeps the staging buffer from now on
    pthread_mutex_unlock(&s->lock);
    if (status == DRV_OK) memcpy(d->staging + offset, src, (size_t)bytes);
    return status;
}

drv_status state_read(state_table *s, device_state *d, int64_t offset, int64_t bytes, void *dst) {
    check_piece(d, offset, bytes);
    pthread_mutex_lock(&s->lock);
    if (s->last_read && s->last_read != d) drop_staging(s->last_read);
    s->last_read = d;
    const drv_status status = stage(s, d);
    if (status == DRV_OK) memcpy(dst, d->staging + offset, (size_t)bytes);
    pthread_mutex_unlock(&s->lock);
    return status;
}

// --- downloads in progress
drv_status state_fetch(state_table *s, device_state *d, int64_t number, int64_t bytes, void *dst) {
    DRV_ASSERT(s->n_fetched < MAX_FETCHED && bytes <= FETCHED_BYTES && bytes == state_bytes(d),
            "fetch of \"%s\"", d->name);
    fetched_state *f = &s->fetched[(s->first_fetched + s->n_fetched) % MAX_FETCHED];
    *f = (fetched_state){.state = d, .number = number, .bytes = bytes, .dst = dst};
    DRV_TRY_CTX(client_download_start(s->client, d->buffer, &d->shape, f->raw, &f->event), "\"%s\"",
            d->name);
    s->n_fetched++;
    return DRV_OK;
}

int64_t state_fetched_from(const state_table *s, int n_oldest) {
    DRV_ASSERT(n_oldest > 0 && n_oldest <= s->n_fetched, "%d values of %d", n_oldest, s->n_fetched);
    return s->fetched[(s->first_fetched + n_oldest - 1) % MAX_FETCHED].number;
}

static void deliver(const fetched_state *f) {
    double *numbers = f->dst;
    if (!is_converted(f->state)) {
        memcpy(f->dst, f->raw, (size_t)f->bytes);
        return;
    }
    for (size_t i = 0; i < (size_t)f->bytes / sizeof *numbers; i++) {
        float x;
        memcpy(&x, f->raw + i * sizeof x, sizeof x);
        numbers[i] = (double)x;
    }
}

drv_status state_arrive(state_table *s, int n_oldest) {
    drv_status status = DRV_OK;
    DRV_ASSERT(n_oldest <= s->n_fetched, "%d values of %d", n_oldest, s->n_fetched);
    for (int i = 0; i < n_oldest; i++) {
        const fetched_state *f = &s->fetched[s->first_fetched];
        const drv_status waited = plugin_wait(s->client->plugin, s->ranks, f->event);
        if (waited == DRV_OK)
            deliver(f);
        else
            status = drv_context(waited, "\"%s\"", f->state->name);
        s->first_fetched = (s->first_fetched + 1) % MAX_FETCHED;
    }
    s->n_fetched -= n_oldest;
    return status;
}

static drv_status upload(state_table *s, device_state *d) {
    pjrt_buffer *made;
    if (d->buffer && !d->newer) return DRV_OK;
    DRV_TRY(stage(s, d)); // zeros if nothing was written
    float *converted = is_converted(d) ? to_device_type(d) : NULL;
    const void *from = converted ? (const void *)converted : d->staging;
    const drv_status status = client_upload(s->client, s->device, &d->shape, from, &made);
    free(converted);
    if (status != DRV_OK) return drv_context(status, "\"%s\"", d->name);
    client_buffer_free(s->client, d->buffer);
    d->buffer = made;
    d->newer = false;
    drop_staging(d);
    return DRV_OK;
}

drv_status state_upload(state_table *s, device_state *d) {
    pthread_mutex_lock(&s->lock);
    const drv_status status = upload(s, d);
    pthread_mutex_unlock(&s->lock);
    return status;
}

void state_take(state_table *s, device_state *d, pjrt_buffer *made) {
    pthread_mutex_lock(&s->lock);
    client_buffer_free(s->client, d->buffer);
    d->buffer = made;
    d->newer = d->holds_value = false;
    drop_staging(d);
    pthread_mutex_unlock(&s->lock);
}

void state_drop(state_table *s, device_state *d) {
    state_take(s, d, NULL);
}
