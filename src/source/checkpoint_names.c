// Reads a folder of checkpoints: a name counts if it is "step-" and a number.
#include "source/checkpoint_names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"

int64_t ckpt_step_of(const char *path) {
    const char *name = path_name(path);
    int64_t step;
    if (!str_starts(name, "step-") || strspn(name + 5, "0123456789") != strlen(name + 5)) return -1;
    return str_to_i64(name + 5, &step) ? step : -1;
}

static int by_step(const void *x, const void *y) {
    const int64_t a = ckpt_step_of(*(char *const *)x), b = ckpt_step_of(*(char *const *)y);
    return a < b ? -1 : a > b;
}

drv_status ckpt_list(arena *a, const char *dir, char ***names, int *n) {
    int all, kept = 0;
    *n = 0;
    if (access(dir, F_OK) != 0 && errno == ENOENT) return DRV_OK;
    DRV_TRY(dir_list(a, dir, names, &all));
    for (int i = 0; i < all; i++)
        if (ckpt_step_of((*names)[i]) >= 0) (*names)[kept++] = (*names)[i];
    if (kept) qsort(*names, (size_t)kept, sizeof **names, by_step);
    *n = kept;
    return DRV_OK;
}

const char *ckpt_run_hint(arena *a, const char *folder) {
    char **names;
    int n = 0;
    const bool run = file_is_dir(path_join(a, folder, "checkpoints")) ||
                     (file_is_dir(folder) && ckpt_list(a, folder, &names, &n) == DRV_OK && n > 0);
    return !run ? NULL
                : arena_printf(a,
                          "a run directory, expected one of its checkpoints: drover ckpt list %s",
                          path_for_shell(a, folder));
}
