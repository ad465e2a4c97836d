// Opens a model and checks it against its own config; hashes all of its weights.
#include "convert/model.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "ckpt/block_hash.h"

static void list_tensors(model *m) {
    const param_list *list = &m->params;
    m->tensors = ARENA_ARRAY(m->a, ckpt_tensor, MAX_PARTS * list->n);
    for (int i = 0; i < list->n; i++)
        for (int k = 0; k < list->p[i].n_parts; k++) {
            const param *w = &list->p[i];
            const int64_t cols = w->n_dims == 2 ? w->dim[1] : 0;
            m->tensors[m->n_tensors++].entry = (st_entry){.name = w->part[k].hf_name,
                    .n_dims = w->n_dims,
                    .dim = {w->part[k].rows, cols}};
        }
}

static drv_status check_source(model *m) {
    DRV_TRY(model_source_config(&m->source, &m->config_json));
    const char *given = m->source.config_file,
               *file = given                  ? given
                       : file_is_dir(m->path) ? path_join(m->a, m->path, "config.json")
                                              : m->path;
    DRV_TRY(model_config_of_json(file, m->config_json, &m->config));
    const model_layout layout = layout_of(&m->config);
    m->params = llama_params(m->a, &layout, NULL);
    list_tensors(m);
    return ckpt_check(&m->source, m->tensors, m->n_tensors);
}

drv_status model_of_source(drv_status opened, arena *a, const char *path, model *m) {
    *m = (model){.a = a, .path = arena_strdup(a, path), .source = m->source};
    const drv_status status = opened == DRV_OK ? check_source(m) : opened;
    if (status != DRV_OK) model_close(m);
    return status;
}

drv_status model_open(arena *a, const char *path, model *out) {
    return model_of_source(model_source_open(a, path, &out->source), a, path, out);
}

void model_close(model *m) {
    model_source_close(&m->source);
    json_decref(m->config_json);
    m->config_json = NULL;
}

const source_tensor *model_main_tensor(const model *m) {
    const source_tensor *most = NULL;
    int64_t most_elements = -1;
    for (int i = 0; i < m->source.n; i++) {
        int64_t elements = 0;
        const source_tensor *t = &m->source.tensors[i];
        if (most && strcmp(most->type_name, t->type_name) == 0) continue;
        for (int k = 0; k < m->source.n; k++)
            if (strcmp(m->source.tensors[k].type_name, t->type_name) == 0)
                elements += m->source.tensors[k].rows * m->source.tensors[k].cols;
        if (elements > most_elements) most = t, most_elements = elements;
    }
    return most;
}

// --- the hash
drv_status model_hash(const model *m, char hex[33]) {
    XXH3_state_t *state = XXH3_createState();
    DRV_MEMORY(state, "to hash in");
    XXH3_128bits_reset(state);
    drv_status status = DRV_OK;
    for (int i = 0; i < m->n_tensors && status == DRV_OK; i++) {
        const char *name = m->tensors[i].entry.name;
        XXH3_128bits_update(state, name, strlen(name) + 1);
        status = source_hash_add(&m->source, model_source_find(&m->source, name), state);
    }
    hash_state_hex(state, hex);
    XXH3_freeState(state);
    return status;
}
