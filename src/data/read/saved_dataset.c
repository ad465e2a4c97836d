// Reads state.json and dataset_dict.json.
#include "data/read/saved_dataset.h"

#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/str.h"

static drv_status refuse_splits(const char *folder, const json_t *splits) {
    str names = {0};
    size_t i;
    json_t *name;
    json_array_foreach(splits, i, name) if (json_is_string(name))
            str_printf(&names, "%s%s", names.n ? ", " : "", json_string_value(name));
    const drv_status status = drv_fail(DRV_E_DATA,
            "\"%s\" holds the splits %s of a data set, expected the folder of one of them", folder,
            names.n ? names.p : "none");
    str_free(&names);
    return status;
}

static drv_status list_files(arena *a, const char *folder, const char *state, const json_t *files,
        char ***paths, int *n) {
    size_t i;
    json_t *file;
    *n = 0;
    *paths = ARENA_ARRAY(a, char *, json_array_size(files) + 1);
    json_array_foreach(files, i, file) {
        const char *name = json_string_value(json_object_get(file, "filename"));
        if (!name || !*name || strchr(name, '/'))
            return drv_fail(DRV_E_DATA,
                    "%s: entry %zu of _data_files has no filename, expected one in this folder",
                    state, i);
        char *path = path_join(a, folder, name);
        if (!file_exists(path))
            return drv_fail(DRV_E_DATA, "%s names \"%s\", which is not there", state, name);
        (*paths)[(*n)++] = path;
    }
    return DRV_OK;
}

static drv_status read_state(arena *a, const char *folder, const char *state, const json_t *o,
        char ***paths, int *n) {
    const json_t *files = json_object_get(o, "_data_files"),
                 *indices = json_object_get(o, "_indices_data_files");
    if (json_array_size(indices) > 0)
        return drv_fail(DRV_E_DATA,
                "%s: rows that are chosen by indices, expected a data set that was saved after "
                "flatten_indices()",
                state);
    if (!json_is_array(files)) return drv_fail(DRV_E_DATA, "%s: no list \"_data_files\"", state);
    return list_files(a, folder, state, files, paths, n);
}

drv_status saved_dataset_files(arena *a, const char *folder, bool *is_saved, char ***paths,
        int *n) {
    const char *state = path_join(a, folder, "state.json"),
               *splits = path_join(a, folder, "dataset_dict.json");
    json_t *o;
    const bool has_splits = file_exists(splits);
    *is_saved = has_splits ||
                (file_exists(state) && file_exists(path_join(a, folder, "dataset_info.json")));
    if (!*is_saved) return DRV_OK;
    DRV_TRY(json_read_file(has_splits ? splits : state, &o));
    const drv_status status = has_splits ? refuse_splits(folder, json_object_get(o, "splits"))
                                         : read_state(a, folder, state, o, paths, n);
    json_decref(o);
    return status;
}
