// Finds a model by the name of a folder, a run or a config.
#include "infer/resolve.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/hub_name.h"
#include "base/log.h"
#include "ckpt/adapter.h"
#include "ckpt/ckpt.h"
#include "source/model_source.h"
#include "config/config.h"
#include "infer/model_view.h"
#include "tok/model_file.h"

static drv_status newest_in(arena *a, const char *dir, const char *run, const char **folder) {
    DRV_TRY(ckpt_newest_weights(a, dir, folder));
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
                "could not open \"%s\": %s; expected a Hugging Face folder, a run directory or a config%s",
                name, strerror(errno), hub_hint(a, name));
    if (model_view_is_for(a, name) || (!S_ISDIR(st.st_mode) && model_source_is(a, name)))
        return drv_fail(DRV_E_USAGE,
                "\"%s\" is a model in another format; make a Hugging Face folder of it first: drover ckpt import %s --out DIR",
                name, path_for_shell(a, name));
    if (!S_ISDIR(st.st_mode)) {
        DRV_TRY(config_load(a, name, NULL, 0, &cfg));
        return ckpt_of_run(a, cfg.run_dir, folder);
    }
    DRV_TRY(dir_may_enter(name));
    if (file_exists(path_join(a, name, "config.json")) || adapter_is_folder(a, name)) {
        *folder = name;
        return DRV_OK;
    }
    if (file_is_dir(path_join(a, name, "checkpoints"))) return ckpt_of_run(a, name, folder);
    if (looks_like_checkpoints(a, name)) return newest_in(a, name, name, folder);
    const char *foreign = model_source_foreign(a, name);
    if (foreign) return drv_fail(DRV_E_DATA, "\"%s\" has no config.json, but %s", name, foreign);
    return drv_fail(DRV_E_DATA,
            "\"%s\" is not a model: it has neither config.json (a Hugging Face folder), adapter_config.json (an adapter) nor checkpoints/ (a run directory)",
            name);
}

drv_status model_base_folder(arena *a, const char *path, const char **folder) {
    if (model_view_is_for(a, path)) return model_view_make(a, path, folder);
    *folder = path;
    return DRV_OK;
}

static bool is_base(arena *a, const char *path) {
    return file_is_dir(path) || model_view_is_for(a, path);
}

// Finds the base that an adapter names: as a path, or relative to the adapter's folder.
static drv_status base_of(arena *a, const char *folder, const char **out) {
    adapter ad;
    DRV_TRY(adapter_open(a, folder, &ad));
    const char *named = ad.config.base, *beside = path_join(a, folder, named);
    adapter_close(&ad);
    const char *found = *named && is_base(a, named) ? named : beside;
    if (*named && is_base(a, found)) {
        log_info("base: %s", found);
        return model_base_folder(a, found, out);
    }
    return drv_fail(DRV_E_DATA,
            "%s/adapter_config.json: base_model_name_or_path is \"%s\", %s; give the base as MODEL and this folder by --adapter",
            folder, named,
            *named ? "which is not a model on this machine" : "so the base is unknown");
}

// Opens a model in another format, which needs a tokenizer unless the adapter may have one.
static drv_status open_view(arena *a, const char *name, const char *beside, const char **folder) {
    DRV_TRY(model_view_make(a, name, folder));
    if (beside || tokenizer_file_of(a, *folder)) return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "\"%s\" has no tokenizer; make a folder of it, and put one there: drover ckpt import %s --out DIR",
            name, path_for_shell(a, name));
}

drv_status model_resolve(arena *a, const char *name, const char *beside, model_ref *out) {
    *out = (model_ref){NULL, ""};
    if (name && model_view_is_for(a, name))
        DRV_TRY(open_view(a, name, beside, &out->folder));
    else if (name)
        DRV_TRY(ckpt_resolve(a, name, &out->folder));
    if (name && adapter_is_folder(a, out->folder)) {
        if (beside)
            return drv_fail(DRV_E_USAGE,
                    "\"%s\" is an adapter itself, and --adapter names \"%s\"; expected a base",
                    name, beside);
        out->adapter = out->folder;
        out->folder = NULL;
    }
    if (beside) DRV_TRY(ckpt_resolve(a, beside, &out->adapter));
    if (beside && !adapter_is_folder(a, out->adapter))
        return drv_fail(DRV_E_USAGE,
                "--adapter \"%s\" has no adapter_config.json: it is not an adapter", beside);
    if (out->folder) return DRV_OK;
    if (!*out->adapter) return drv_fail(DRV_E_USAGE, "no model: expected MODEL or --adapter");
    return base_of(a, out->adapter, &out->folder);
}

const char *model_tokenizer_folder(arena *a, const char *folder, const char *beside) {
    const bool own = beside && *beside && tokenizer_file_of(a, beside);
    return own ? beside : folder;
}
