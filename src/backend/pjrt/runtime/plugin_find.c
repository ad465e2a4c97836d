// Finds plugins in their folders.
#include <stdlib.h>
#include <string.h>

#include "backend/devices.h"
#include "backend/pjrt/runtime/plugin.h"
#include "base/file.h"
#include "base/str.h"

const char *const plugin_names[N_PLUGIN_NAMES] = {"cuda", "rocm", "tpu", "neuron", "cpu"};

const char *plugin_folder(arena *a) {
    const char *dir = getenv("DROVER_PJRT_DIR"), *cache = path_user_cache(a, "drover/pjrt");
    if (dir && *dir) return dir;
    return cache ? cache : ".cache/drover/pjrt";
}

static bool is_path(const char *s) {
    return strchr(s, '/') || str_ends(s, ".so");
}

// Returns the first file of FOLDER/NAME that ends in .so; NULL: none.
static const char *file_of(arena *a, const char *name) {
    const char *dir = path_join(a, plugin_folder(a), name);
    char **files;
    int n;
    if (!file_is_dir(dir) || dir_list(a, dir, &files, &n) != DRV_OK) return NULL;
    for (int i = 0; i < n; i++)
        if (str_ends(files[i], ".so")) return path_join(a, dir, files[i]);
    return NULL;
}

static const char *how_to_get(const char *name) {
    static const struct {
        const char *name, *how;
    } rows[] = {{"cpu", "; tools/fetch_pjrt.py gets it"},
            {"cuda", "; tools/fetch_pjrt.py cuda gets it"},
            {"rocm",
                    "; pip install --target DIR jax-rocm7-pjrt brings one, whose .so pjrt.plugin names"},
            {"tpu", "; pip install --target DIR libtpu brings DIR/libtpu/libtpu.so, which pjrt.plugin names"},
            {"neuron",
                    "; pip install libneuronxla (AWS's index) brings libneuronxla/libneuronpjrt.so, which pjrt.plugin names"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(name, rows[i].name) == 0) return rows[i].how;
    return "";
}

static drv_status find_name(arena *a, const char *wanted, const char **path) {
    bool known = false;
    for (int i = 0; i < N_PLUGIN_NAMES; i++)
        known = known || strcmp(wanted, plugin_names[i]) == 0;
    if (!known) {
        const char *nearest = str_nearest(wanted, plugin_names, N_PLUGIN_NAMES);
        return drv_fail(DRV_E_USAGE,
                "plugin \"%s\" is unknown, expected cuda, rocm, tpu, neuron, cpu or the path of a "
                "file%s%s%s",
                wanted, nearest ? "; did you mean \"" : "", nearest ? nearest : "",
                nearest ? "\"?" : "");
    }
    *path = file_of(a, wanted);
    if (!*path)
        return drv_fail(DRV_E_DEVICE,
                "plugin \"%s\" is not there, expected a file \"%s/%s/*.so\"%s", wanted,
                plugin_folder(a), wanted, how_to_get(wanted));
    return DRV_OK;
}

drv_status plugin_find(arena *a, const char *wanted, const char **name, const char **path) {
    if (!wanted || !*wanted) wanted = getenv("DROVER_PJRT_PLUGIN");
    if (wanted && *wanted && is_path(wanted)) {
        const char *slash = strrchr(wanted, '/');
        *name = slash && slash[1] ? slash + 1 : wanted;
        // dlopen searches the system's folders for a name without a slash.
        *path = slash ? wanted : arena_printf(a, "./%s", wanted);
        if (!file_exists(*path))
            return drv_fail(DRV_E_DEVICE, "plugin \"%s\" is not there, expected a file", wanted);
        return DRV_OK;
    }
    if (wanted && *wanted) {
        *name = wanted;
        return find_name(a, wanted, path);
    }
    for (int i = 0; i < N_PLUGIN_NAMES; i++) {
        *name = plugin_names[i];
        *path = file_of(a, *name);
        if (*path) return DRV_OK;
    }
    return drv_fail(DRV_E_DEVICE,
            "found no PJRT plugin, expected one in \"%s/NAME/*.so\" (NAME: cuda, rocm, tpu, "
            "neuron, cpu); tools/fetch_pjrt.py gets one, pjrt.plugin or DROVER_PJRT_PLUGIN names one",
            plugin_folder(a));
}

const char *plugin_name_of(arena *a, const char *wanted) {
    const char *name = "", *path;
    const drv_status there = plugin_find(a, wanted, &name, &path);
    (void)there; // a plan does not need it
    return name;
}
