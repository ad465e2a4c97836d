// The key-value store that ranks serve to a plugin: what one puts the others get, at once or after
// having waited for it; what nobody puts is missing; the end of a rank ends a wait.
#include "ranks.h"

#include "backend/pjrt/runtime/cluster_store.h"

enum { RANKS = 4, MANY = 40 };

static bool holds(cluster_store *store, const char *key, int timeout_ms, const char *value,
        size_t n) {
    char *got;
    size_t size;
    if (store_get(store, key, strlen(key), timeout_ms, &got, &size) != STORE_FOUND) return false;
    const bool same = size == n && memcmp(got, value, n) == 0;
    free(got);
    return same;
}

static drv_status exchange(comm *self, void *ctx) {
    (void)ctx;
    static const char zero[] = {'a', 0, 'b', 0};
    cluster_store *store;
    DRV_TRY(cluster_store_open(self, &store));
    const int rank = comm_rank(self);
    char key[32], value[32], *got;
    size_t size;
    // Each waits for what the next one puts only after it has got what the one before it has put.
    if (rank == 0) store_put(store, "turn 0", 6, "", 0);
    snprintf(key, sizeof key, "turn %d", rank);
    EXPECT(self, holds(store, key, 60000, "", 0));
    snprintf(key, sizeof key, "turn %d", rank + 1);
    store_put(store, key, strlen(key), zero, rank + 1 < RANKS ? 0 : sizeof zero);
    EXPECT(self, holds(store, "turn 4", 60000, zero, sizeof zero));
    // Many at a time, of all.
    for (int i = 0; i < MANY; i++) {
        const int n_key = snprintf(key, sizeof key, "%d/%d", rank, i),
                  n_value = snprintf(value, sizeof value, "%d", 100 * rank + i);
        store_put(store, key, (size_t)n_key, value, (size_t)n_value);
    }
    for (int i = 0; i < RANKS * MANY; i++) {
        snprintf(key, sizeof key, "%d/%d", i / MANY, i % MANY);
        snprintf(value, sizeof value, "%d", 100 * (i / MANY) + i % MANY);
        EXPECT(self, holds(store, key, 60000, value, strlen(value)));
    }
    EXPECT(self, store_get(store, "nobody", 6, 0, &got, &size) == STORE_MISSING);
    EXPECT(self, store_get(store, "nobody", 6, 20, &got, &size) == STORE_MISSING);
    DRV_TRY(comm_barrier(comm_all_ranks(self)));
    cluster_store_close(store);
    return DRV_OK;
}

TEST(what_one_puts) {
    OK(comm_run_threads(RANKS, 1, NULL, exchange, NULL));
}

static drv_status one_leaves(comm *self, void *ctx) {
    (void)ctx;
    char *got;
    size_t size;
    cluster_store *store;
    DRV_TRY(cluster_store_open(self, &store));
    if (comm_rank(self) == 1) {
        const drv_status status = drv_fail(DRV_E_DATA, "rank 1 gives up");
        comm_abort(self, status);
        cluster_store_close(store);
        return drv_fail(DRV_E_DATA, "rank 1 gives up");
    }
    EXPECT(self, store_get(store, "never", 5, 600000, &got, &size) == STORE_ENDED);
    cluster_store_close(store);
    return comm_check(self);
}

static drv_status one_leaves_early(comm *self, void *ctx) {
    (void)ctx;
    char *got;
    size_t size;
    cluster_store *store;
    DRV_TRY(cluster_store_open(self, &store));
    const bool leaves = comm_rank(self) == 2;
    if (!leaves) EXPECT(self, store_get(store, "never", 5, 600000, &got, &size) == STORE_ENDED);
    cluster_store_close(store);
    return DRV_OK;
}

TEST(a_rank_that_leaves) {
    OK(comm_run_threads(RANKS, 1, NULL, one_leaves_early, NULL));
}

TEST(a_rank_that_fails) {
    FAILS(comm_run_threads(RANKS, 1, NULL, one_leaves, NULL), DRV_E_DATA, "rank 1 gives up");
}
