// Removes the unfinished folders of killed writers, and finds the newest checkpoint that is whole.
#include <string.h>

#include "base/log.h"
#include "base/file.h"
#include "ckpt/ckpt.h"

drv_status ckpt_clean(const char *dir) {
    arena *a = arena_new("checkpoint clean");
    char **names;
    int n = 0;
    drv_status status = file_is_dir(dir) ? dir_list(a, dir, &names, &n) : DRV_OK;
    for (int i = 0; i < n && status == DRV_OK; i++)
        if (str_starts(names[i], "step-") && str_ends(names[i], FILE_ASIDE)) {
            log_info("removing \"%s/%s\", left by a writer that was stopped", dir, names[i]);
            status = dir_remove(path_join(a, dir, names[i]));
        }
    arena_free(a);
    return status;
}

// --- the newest
// Sends the names that rank 0 has read to all ranks.
static drv_status share_names(arena *a, const ckpt_ranks *ranks, char ***names, int *n) {
    if (ckpt_size(ranks) == 1) return DRV_OK;
    comm_group *all_ranks = comm_all_ranks(ranks->comm);
    DRV_TRY(comm_broadcast(all_ranks, 0, n, sizeof *n));
    if (ckpt_rank(ranks) != 0) *names = ARENA_ARRAY(a, char *, *n + 1);
    for (int i = 0; i < *n; i++) {
        int64_t bytes = ckpt_rank(ranks) == 0 ? (int64_t)strlen((*names)[i]) + 1 : 0;
        DRV_TRY(comm_broadcast(all_ranks, 0, &bytes, sizeof bytes));
        if (ckpt_rank(ranks) != 0) (*names)[i] = arena_alloc(a, (size_t)bytes);
        DRV_TRY(comm_broadcast(all_ranks, 0, (*names)[i], bytes));
    }
    return DRV_OK;
}

// Chooses the newest checkpoint that is whole, or, with `weights_do`, whose weights are.
static drv_status choose(arena *a, const ckpt_ranks *ranks, const char *dir, char **names,
        int n_names, bool weights_do, const char **path) {
    str reasons = {0};
    for (int i = n_names - 1; i >= 0; i--) {
        const char *candidate = path_join(a, dir, names[i]);
        const drv_status whole =
                weights_do ? ckpt_verify_weights(candidate) : ckpt_verify_shared(ranks, candidate);
        if (whole == DRV_E_PEER || whole == DRV_STOPPED) return whole;
        if (whole == DRV_OK) {
            *path = candidate;
            str_free(&reasons);
            return DRV_OK;
        }
        log_warn("checkpoint \"%s\" is not used: %s", candidate, drv_message());
        if (n_names - i <= 3) str_printf(&reasons, "%s%s", reasons.n ? "; " : "", drv_message());
        if (n_names - i == 4) str_puts(&reasons, "; ...");
    }
    if (n_names == 0) return DRV_OK;
    drv_status status = drv_fail(DRV_E_DATA, "%s: %s refused: %s", dir,
            n_names == 1 ? "the only checkpoint is" : "all checkpoints are", reasons.p);
    str_free(&reasons);
    return status;
}

drv_status ckpt_newest(arena *a, const ckpt_ranks *ranks, const char *dir, int64_t below,
        const char **path) {
    char **names = NULL;
    int n_names = 0;
    *path = NULL;
    DRV_TRY(ckpt_agree(ranks,
            ckpt_rank(ranks) == 0 ? ckpt_list(a, dir, &names, &n_names) : DRV_OK));
    DRV_TRY(share_names(a, ranks, &names, &n_names));
    while (n_names > 0 && ckpt_step_of(names[n_names - 1]) >= below)
        n_names--;
    return choose(a, ranks, dir, names, n_names, false, path);
}

drv_status ckpt_newest_weights(arena *a, const char *dir, const char **path) {
    char **names = NULL;
    int n_names = 0;
    *path = NULL;
    DRV_TRY(ckpt_list(a, dir, &names, &n_names));
    return choose(a, NULL, dir, names, n_names, true, path);
}
