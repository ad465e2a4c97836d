// Checks that all ranks of a run have the same configuration. A rank with an older file, or with
// other options of mpirun, would wait forever for messages that nobody sends, or update its shard
// with other hyperparameters, which no later check could find.
#include <string.h>

#include "train/ranks.h"

static const char *line_at(arena *a, const char *begin) {
    return arena_printf(a, "%.*s", (int)strcspn(begin, "\n"), begin);
}

// Both texts have one line for each key, in the same order.
static drv_status compare(arena *a, const char *first, const char *mine) {
    while (*first && *mine) {
        const char *there = line_at(a, first), *here = line_at(a, mine);
        if (strcmp(there, here) != 0)
            return drv_fail(DRV_E_USAGE,
                    "\"%s\" here, but \"%s\" on rank 0: all ranks need the same configuration",
                    here, there);
        first += strlen(there) + 1;
        mine += strlen(here) + 1;
    }
    return DRV_OK;
}

drv_status ranks_share_config(this_rank *r) {
    if (comm_size(r->comm) == 1 || r->pool) return DRV_OK; // a process reads one file
    arena *a = arena_new("shared config");
    str mine = {0};
    config_print_shared(r->cfg, &mine);
    int64_t n = (int64_t)mine.n;
    drv_status status = comm_broadcast(comm_all_ranks(r->comm), 0, &n, sizeof n);
    if (status == DRV_OK) {
        char *first = ARENA_ARRAY(a, char, n + 1);
        if (comm_rank(r->comm) == 0) memcpy(first, mine.p, (size_t)n);
        status = comm_broadcast(comm_all_ranks(r->comm), 0, first, n);
        if (status == DRV_OK) status = compare(a, first, mine.p);
    }
    str_free(&mine);
    arena_free(a);
    return status;
}
