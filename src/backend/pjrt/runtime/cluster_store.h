// The key-value store of several processes of one cluster: what a plugin tells its other processes
// while it is opened and while its collectives find each other (which devices there are, NCCL's
// ids). Jax serves it by a coordinator of its own; here the ranks tell each other: a thread of each
// exchanges what has been put since the last time with all others, so each has all of it.
#pragma once
#include "comm/comm.h"

typedef struct cluster_store cluster_store; // thread-safe

// Every rank opens one, in the same order among its duplicates (comm.h). Belongs to the caller.
cluster_store *cluster_store_open(comm *c);
// Ends it for all ranks, as soon as they have heard what this one has put: what one asks for after
// another has left may never come.
void cluster_store_close(cluster_store *s);

// Keys and values are bytes; a later value takes the place of an earlier one.
void store_put(cluster_store *s, const char *key, size_t key_size, const char *value,
        size_t value_size);
// Waits up to timeout_ms (0: does not) for a key that any rank puts. STORE_FOUND: *value is the
// caller's to free; STORE_ENDED: a rank has left or failed.
typedef enum store_answer { STORE_FOUND, STORE_MISSING, STORE_ENDED } store_answer;
store_answer store_get(cluster_store *s, const char *key, size_t key_size, int timeout_ms,
        char **value, size_t *value_size);
