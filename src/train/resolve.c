// A model by the name of a folder, a run or a config.
#include "train/resolve.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "ckpt/ckpt.h"
#include "config/config.h"

static drv_status newest_in(arena *a, const char *dir, const char *run, const char **folder) {
    DRV_TRY(ckpt_newest(a, dir, folder));
    if (!*folder)
        return drv_fail(DRV_E_DATA, "\"%s\" has no checkpoint yet: %s holds no step-NNNNNN", run,
                dir);
    log_info("model: %s", *folder);
    return DRV_OK;
}

drv_status ckpt_of_run(arena *a, const char *run_dir, const char **folder) {
    return newest_in(a, path_join(a, run_dir, "checkpoints"), run_dir, folder);
}

static bool looks_like_checkpoints(arena *a, const char *dir) {
    char **names;
    int n;
    return ckpt_list(a, dir, &names, &n) == DRV_OK && n > 0;
}

drv_status ckpt_resolve(arena *a, const char *name, const char **folder) {
    struct stat st;
    run_config cfg;
    if (stat(name, &st) != 0)
        return drv_fail(DRV_E_IO,
                "could not open \"%s\": %s; expected a Hugging Face folder, a run directory or a config",
                name, strerror(errno));
    if (!S_ISDIR(st.st_mode) && str_ends(name, ".gguf"))
        return drv_fail(DRV_E_USAGE,
                "\"%s\" is a GGUF file; make a folder of it first: drover ckpt import %s --out DIR",
                name, name);
    if (!S_ISDIR(st.st_mode)) {
        DRV_TRY(config_load(a, name, NULL, 0, &cfg));
        return ckpt_of_run(a, cfg.run_dir, folder);
    }
    if (file_exists(path_join(a, name, "config.json"))) {
        *folder = name;
        return DRV_OK;
    }
    if (file_is_dir(path_join(a, name, "checkpoints"))) return ckpt_of_run(a, name, folder);
    if (looks_like_checkpoints(a, name)) return newest_in(a, name, name, folder);
    return drv_fail(DRV_E_DATA,
            "\"%s\" is no model: it has neither config.json (a Hugging Face folder) nor checkpoints/ (a run directory)",
            name);
}
