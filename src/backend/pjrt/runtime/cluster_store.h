// The key-value store of a cluster of processes, by which plugins in different processes exchange
// the list of devices and NCCL's ids. Jax runs a coordinator for it. Here a thread of each rank
// sends new entries to all others, so each rank has all entries.
#pragma once
#include "comm/comm.h"

typedef struct cluster_store cluster_store; // thread-safe

// Every rank opens one, in the same order among its duplicates (comm.h). Belongs to the caller.
// DRV_E_DEVICE: the system provides no thread for it.
DRV_CHECKED drv_status cluster_store_open(comm *c, cluster_store **out);
// Closes the store for all ranks once they have received this rank's entries, since a key that is
// requested after another rank has left may never be put.
void cluster_store_close(cluster_store *s);

// Keys and values are bytes; a later value replaces an earlier one.
void store_put(cluster_store *s, const char *key, size_t key_size, const char *value,
        size_t value_size);
// Waits up to timeout_ms (0: not at all) until any rank has put the key. STORE_FOUND: the caller
// frees *value; STORE_ENDED: a rank has left or failed.
typedef enum store_answer { STORE_FOUND, STORE_MISSING, STORE_ENDED } store_answer;
store_answer store_get(cluster_store *s, const char *key, size_t key_size, int timeout_ms,
        char **value, size_t *value_size);
