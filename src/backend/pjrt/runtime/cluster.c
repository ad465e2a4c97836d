// Answers a plugin's requests to its key-value store from the store of the ranks (cluster_store.h).
// A plugin calls from threads of its own.
#include "backend/pjrt/runtime/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pjrt_error *complain(pjrt_make_error *make, int code, const char *what, const char *key,
        size_t key_size) {
    char text[256];
    const int n = snprintf(text, sizeof text, "%s \"%.*s\"", what,
            (int)(key_size < 128 ? key_size : 128), key);
    return (*make)(code, text, (size_t)n);
}

static void free_value(char *value) {
    free(value);
}

static pjrt_error *answer(store_answer found, int missing, pjrt_make_error *make, const char *key,
        size_t key_size) {
    if (found == STORE_MISSING)
        return complain(make, missing, "no rank has put the key", key, key_size);
    if (found == STORE_ENDED)
        return complain(make, PJRT_CODE_ABORTED, "another rank has left; key", key, key_size);
    return NULL;
}

static pjrt_error *get(pjrt_kv_get_args *args) {
    const store_answer found = store_get(args->arg, args->key, args->key_size, args->timeout_ms,
            &args->value, &args->value_size);
    args->free_value = free_value;
    return answer(found, PJRT_CODE_DEADLINE_EXCEEDED, args->error, args->key, args->key_size);
}

static pjrt_error *try_get(pjrt_kv_try_get_args *args) {
    const store_answer found =
            store_get(args->arg, args->key, args->key_size, 0, &args->value, &args->value_size);
    args->free_value = free_value;
    return answer(found, PJRT_CODE_NOT_FOUND, args->error, args->key, args->key_size);
}

static pjrt_error *put(pjrt_kv_put_args *args) {
    store_put(args->arg, args->key, args->key_size, args->value, args->value_size);
    return NULL;
}

void cluster_callbacks(cluster_store *s, pjrt_client_create_args *out) {
    out->kv_get = get;
    out->kv_put = put;
    out->kv_try_get = try_get;
    out->kv_get_arg = out->kv_put_arg = out->kv_try_get_arg = s;
}

int cluster_place_on_host(const comm *c) {
    int n = 0;
    for (int rank = 0; rank < comm_rank(c); rank++)
        n += strcmp(comm_host(c, rank), comm_host(c, comm_rank(c))) == 0;
    return n;
}
