// Files by their names.
#include "push/push_files.h"

#include <fnmatch.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/str.h"
#include "ckpt/adapter.h"
#include "source/model_source.h"
#include "model/family/model_files.h"

static bool matches(const char *name, const char *const *patterns, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (fnmatch(patterns[i], name, 0) == 0) return true;
    return false;
}
#define MATCHES(name, ...)                                                                         \
    matches(name, (const char *const[]){__VA_ARGS__},                                              \
            sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static bool is_safetensors(const char *name) {
    return MATCHES(name, "model*.safetensors", "adapter_model*.safetensors");
}

static bool is_weights(const char *name, bool has_safetensors) {
    return is_safetensors(name) || (!has_safetensors && MATCHES(name, "pytorch_model*.bin",
                                                                "adapter_model*.bin", SOURCE_GGUF));
}

static bool is_state(const char *name) {
    return MATCHES(name, "optimizer*.safetensors", "optimizer.safetensors.index.json",
            "trainer.json", "manifest.json");
}

static bool is_text(const char *name, bool has_safetensors) {
    return str_index(name, ckpt_carried_names, n_ckpt_carried_names) >= 0 ||
           MATCHES(name, "config.json", "adapter_config.json", "verify.json", "README.md",
                   "LICENSE*", "NOTICE*", "USE_POLICY*", "*model.safetensors.index.json") ||
           (!has_safetensors && MATCHES(name, "pytorch_model.bin.index.json"));
}

static drv_status add(arena *a, const char *folder, const char *name, push_list *out) {
    struct stat st;
    const char *path = path_join(a, folder, name), *kind = file_odd_kind(path);
    if (stat(path, &st) != 0) return file_fail("open", path);
    if (kind) return drv_fail(DRV_E_DATA, "\"%s\" is %s, expected a file", path, kind);
    out->files[out->n++] = (push_file){.name = name,
            .path = path,
            .size = st.st_size,
            .changed_ns = st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec};
    return DRV_OK;
}

// Opens the model, so that no incomplete folder is published.
static drv_status check(arena *a, const char *folder, bool is_adapter) {
    if (is_adapter) {
        adapter opened;
        DRV_TRY(adapter_open(a, folder, &opened));
        adapter_close(&opened);
        return DRV_OK;
    }
    model_source source;
    DRV_TRY(model_source_open(a, folder, &source));
    model_source_close(&source);
    return DRV_OK;
}

drv_status push_files_list(arena *a, const char *folder, bool optimizer, push_list *out) {
    char **names;
    int n_names;
    bool has_safetensors = false, has_config = false;
    *out = (push_list){0};
    DRV_TRY(dir_list(a, folder, &names, &n_names));
    for (int i = 0; i < n_names; i++) {
        has_safetensors |= is_safetensors(names[i]);
        has_config |= strcmp(names[i], "config.json") == 0;
        out->is_adapter |= strcmp(names[i], "adapter_config.json") == 0;
        out->has_card |= strcmp(names[i], "README.md") == 0;
    }
    out->is_adapter &= !has_config;
    DRV_TRY(check(a, folder, out->is_adapter));
    out->files = ARENA_ARRAY(a, push_file, n_names + 2); // with a card and the template in a folder
    out->left_out = ARENA_ARRAY(a, const char *, n_names + 1);
    for (int weights = 1; weights >= 0; weights--) {
        if (!weights && !out->n)
            return drv_fail(DRV_E_DATA,
                    "\"%s\" has no weights in a format of the hub (*.safetensors); make a "
                    "folder of it first: drover ckpt import %s --out DIR",
                    folder, path_for_shell(a, folder));
        for (int i = 0; i < n_names; i++) {
            const char *name = names[i];
            if (weights && is_weights(name, has_safetensors)) DRV_TRY(add(a, folder, name, out));
            if (weights || is_weights(name, has_safetensors)) continue;
            if (is_text(name, has_safetensors) || (optimizer && is_state(name)))
                DRV_TRY(add(a, folder, name, out));
            else if (!str_starts(TOOL_TEMPLATE_FILE, arena_printf(a, "%s/", name)))
                out->left_out[out->n_left_out++] = name;
        }
    }
    if (file_exists(path_join(a, folder, TOOL_TEMPLATE_FILE)))
        DRV_TRY(add(a, folder, TOOL_TEMPLATE_FILE, out));
    return DRV_OK;
}

void push_files_add_text(arena *a, push_list *list, const char *name, const char *text) {
    int i = 0;
    while (i < list->n && strcmp(list->files[i].name, name) != 0)
        i++;
    if (i == list->n) list->n++;
    list->files[i] =
            (push_file){.name = arena_strdup(a, name), .text = text, .size = (int64_t)strlen(text)};
}
