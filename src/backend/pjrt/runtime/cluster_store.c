// The threads of all ranks meet to exchange new entries: first their sizes, then their bytes.
// Meetings are frequent while there are new entries, and become rarer while there are none.
#include "backend/pjrt/runtime/cluster_store.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "base/task.h"

enum { SHORTEST_MS = 1, LONGEST_MS = 64 }; // pause between two meetings

typedef struct store_entry {
    str key, value;
} store_entry;

struct cluster_store {
    comm *c; // used by the thread
    pthread_t thread;
    pthread_mutex_t lock; // protects all below
    pthread_cond_t changed;
    store_entry *entries;
    int n, cap;
    str untold;  // entries to send: sizes of key and value, int64 each, then their bytes
    bool leaves; // this rank wants to leave
    bool ended;  // meetings have ended for all ranks
};

// --- entries, with the lock
static store_entry *find(cluster_store *s, const char *key, size_t n) {
    for (int i = 0; i < s->n; i++)
        if (s->entries[i].key.n == n && memcmp(s->entries[i].key.p, key, n) == 0)
            return &s->entries[i];
    return NULL;
}

static void keep(cluster_store *s, const char *key, size_t key_size, const char *value,
        size_t value_size) {
    store_entry *e = find(s, key, key_size);
    if (!e) {
        MEM_GROW(s->entries, s->n, s->cap);
        e = &s->entries[s->n++];
        *e = (store_entry){0};
        str_add(&e->key, key, key_size);
    }
    str_clear(&e->value);
    str_add(&e->value, value, value_size);
}

// Keeps the entries that a rank sent, which its store_put made.
static void keep_all(cluster_store *s, const char *p, int64_t bytes) {
    for (int64_t offset = 0; offset < bytes;) {
        int64_t size[2];
        memcpy(size, p + offset, sizeof size);
        offset += (int64_t)sizeof size;
        keep(s, p + offset, (size_t)size[0], p + offset + size[0], (size_t)size[1]);
        offset += size[0] + size[1];
    }
}

// --- meetings
typedef struct news { // the size of what a rank sends
    int64_t bytes, leaves;
} news;

// *over: a rank leaves; *heard: a rank sent entries.
static drv_status meet(cluster_store *store, const str *mine, bool leaves, bool *over,
        bool *heard) {
    const int n = comm_size(store->c);
    news own = {(int64_t)mine->n, leaves}, *of = mem_alloc(sizeof *of * (size_t)n);
    int64_t *bytes = mem_alloc(sizeof *bytes * (size_t)n), all = 0;
    drv_status status = comm_all_gather(comm_all_ranks(store->c), &own, sizeof own, NULL, of);
    for (int i = 0; i < n && status == DRV_OK; i++) {
        bytes[i] = of[i].bytes;
        all += bytes[i];
        *over |= of[i].leaves != 0;
    }
    *heard = all > 0;
    char *told = mem_alloc((size_t)all + 1);
    if (status == DRV_OK && all > 0)
        status = comm_all_gather(comm_all_ranks(store->c), mine->p, 0, bytes, told);
    pthread_mutex_lock(&store->lock);
    if (status == DRV_OK) keep_all(store, told, all);
    if (*heard) pthread_cond_broadcast(&store->changed);
    pthread_mutex_unlock(&store->lock);
    free(told);
    free(bytes);
    free(of);
    return status;
}

static void *serve(void *arg) {
    cluster_store *store = arg;
    drv_status status = DRV_OK;
    bool over = false;
    for (int pause_ms = SHORTEST_MS; status == DRV_OK && !over;) {
        bool heard;
        pthread_mutex_lock(&store->lock);
        str mine = store->untold;
        store->untold = (str){0};
        const bool leaves = store->leaves;
        pthread_mutex_unlock(&store->lock);
        status = meet(store, &mine, leaves, &over, &heard);
        str_free(&mine);
        pause_ms = heard ? SHORTEST_MS : 2 * pause_ms < LONGEST_MS ? 2 * pause_ms : LONGEST_MS;
        const struct timespec until = monotonic_after(1e-3 * pause_ms);
        pthread_mutex_lock(&store->lock);
        while (status == DRV_OK && !over && store->untold.n == 0 && store->leaves == leaves)
            if (pthread_cond_timedwait(&store->changed, &store->lock, &until) == ETIMEDOUT) break;
        pthread_mutex_unlock(&store->lock);
    }
    pthread_mutex_lock(&store->lock);
    store->ended = true;
    pthread_cond_broadcast(&store->changed);
    pthread_mutex_unlock(&store->lock);
    return NULL;
}

static void free_store(cluster_store *s) {
    comm_duplicate_close(s->c);
    for (int i = 0; i < s->n; i++) {
        str_free(&s->entries[i].key);
        str_free(&s->entries[i].value);
    }
    free(s->entries);
    str_free(&s->untold);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->changed);
    free(s);
}

drv_status cluster_store_open(comm *c, cluster_store **out) {
    cluster_store *s = mem_zeroed(sizeof *s);
    s->c = comm_duplicate(c);
    pthread_mutex_init(&s->lock, NULL);
    cond_init_monotonic(&s->changed);
    const drv_status status = thread_start(&s->thread, serve, s);
    if (status == DRV_OK)
        *out = s;
    else
        free_store(s);
    return status;
}

void cluster_store_close(cluster_store *s) {
    pthread_mutex_lock(&s->lock);
    s->leaves = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    free_store(s);
}

// --- requests of a plugin
void store_put(cluster_store *s, const char *key, size_t key_size, const char *value,
        size_t value_size) {
    const int64_t size[] = {(int64_t)key_size, (int64_t)value_size};
    pthread_mutex_lock(&s->lock);
    str_add(&s->untold, size, sizeof size);
    str_add(&s->untold, key, key_size);
    str_add(&s->untold, value, value_size);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

store_answer store_get(cluster_store *s, const char *key, size_t key_size, int timeout_ms,
        char **value, size_t *value_size) {
    const struct timespec until = monotonic_after(1e-3 * timeout_ms);
    const store_entry *e;
    bool late = timeout_ms == 0;
    pthread_mutex_lock(&s->lock);
    while (!(e = find(s, key, key_size)) && !s->ended && !late)
        late = pthread_cond_timedwait(&s->changed, &s->lock, &until) == ETIMEDOUT;
    const store_answer answer = e ? STORE_FOUND : s->ended ? STORE_ENDED : STORE_MISSING;
    if (e) {
        *value = mem_alloc(e->value.n + 1);
        *value_size = e->value.n;
        memcpy(*value, e->value.p, e->value.n);
    }
    pthread_mutex_unlock(&s->lock);
    return answer;
}
