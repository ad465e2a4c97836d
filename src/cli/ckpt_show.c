// drover ckpt show: the tensors of a Hugging Face folder, or of a file of torch.save.
#include "cli/ckpt_convert.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "source/safetensors.h"
#include "pickle/torch_file.h"

// Returns what safetensors say of a tensor, and the file that holds it.
static json_t *tensor_json(const char *file, const st_tensor *t) {
    json_t *shape = json_array();
    for (int d = 0; d < t->n_dims; d++)
        json_array_append_new(shape, json_integer(t->dim[d]));
    return json_pack("{s:o, s:o, s:s, s:o, s:I}", "file", json_of_text(file), "name",
            json_of_text(t->name), "dtype", t->type_name, "shape", shape, "bytes",
            (json_int_t)t->bytes);
}

// Adds a tensor to a list, or prints it if there is no list.
static void show_tensor(json_t *list, const char *file, const st_tensor *t) {
    if (list) {
        json_array_append_new(list, tensor_json(file, t));
        return;
    }
    printf("%-24s %-60s %-5s [", file, t->name, t->type_name);
    for (int d = 0; d < t->n_dims; d++)
        printf(d ? ", %lld" : "%lld", (long long)t->dim[d]);
    puts("]");
}

static drv_status show_safetensors(arena *a, const char *path, const char *file, json_t *list) {
    st_file f;
    DRV_TRY(st_open(a, path, &f));
    for (int i = 0; i < f.n; i++)
        show_tensor(list, file, &f.tensors[i]);
    st_close(&f);
    return DRV_OK;
}

static drv_status show_torch(arena *a, const char *path, const char *file, const char *key,
        json_t *list) {
    torch_file f;
    DRV_TRY(torch_open(a, path, &(torch_opts){.key = key}, &f));
    for (int i = 0; i < f.n; i++) {
        const torch_tensor *t = &f.tensors[i];
        st_tensor shown = {.name = t->name,
                .type_name = t->type->st_name,
                .n_dims = t->n_dims,
                .bytes = t->elements * t->type->bytes};
        memcpy(shown.dim, t->dim, sizeof shown.dim);
        show_tensor(list, file, &shown);
    }
    torch_close(&f);
    return DRV_OK;
}

// Shows the files of a folder that have tensors; *n: how many they are.
static drv_status show_folder(arena *a, const char *path, const char *key, json_t *list, int *n) {
    char **names;
    int n_names;
    DRV_TRY(dir_list(a, path, &names, &n_names));
    for (int i = 0; i < n_names; i++) {
        const char *file = path_join(a, path, names[i]);
        if (!key && str_ends(names[i], ".safetensors"))
            DRV_TRY(show_safetensors(a, file, names[i], list));
        else if (torch_is_called_so(names[i]) && torch_is_file(file))
            DRV_TRY(show_torch(a, file, names[i], key, list));
        else
            continue;
        ++*n;
    }
    return DRV_OK;
}

static drv_status show(arena *a, const char *path, const char *key, json_t *list, int *n) {
    if (!file_exists(path) || file_is_dir(path)) return show_folder(a, path, key, list, n);
    *n = 1;
    if (!key && str_ends(path, ".safetensors"))
        return show_safetensors(a, path, path_name(path), list);
    return show_torch(a, path, path_name(path), key, list);
}

drv_status ckpt_show(arena *a, const cli_args *args) {
    const char *path, *key = cli_get(args, "--key", NULL);
    DRV_TRY(ckpt_find(a, args->positional[0], &path));
    json_t *list = cli_has(args, "--json") ? json_array() : NULL;
    int n_files = 0;
    drv_status status = show(a, path, key, list, &n_files);
    if (status == DRV_OK && n_files == 0)
        status = drv_fail(DRV_E_DATA, "\"%s\" has no file of %s, expected a checkpoint", path,
                key ? "torch.save, in which --key chooses a dict"
                    : "tensors (.safetensors, or of torch.save)");
    if (status == DRV_OK && list) {
        json_t *all = json_pack("{s:o, s:O}", "path", json_of_text(path), "tensors", list);
        cli_puts_json(all, json_dumps(all, JSON_INDENT(2) | JSON_ENSURE_ASCII));
    }
    json_decref(list);
    return status;
}
