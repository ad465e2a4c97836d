// Opens a model and checks it against its own config; hashes all of its weights.
#include "convert/model.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

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
    const char *file = file_is_dir(m->path) ? path_join(m->a, m->path, "config.json") : m->path;
    DRV_TRY(model_config_of_json(file, m->config_json, &m->config));
    const model_layout layout = layout_of(&m->config);
    m->params = llama_params(m->a, &layout, NULL);
    list_tensors(m);
    return ckpt_check(&m->source, m->tensors, m->n_tensors);
}

// Completes a model whose source was opened with `status`.
static drv_status complete(drv_status status, arena *a, const char *path, model *m) {
    m->a = a;
    m->path = arena_strdup(a, path);
    if (status == DRV_OK) status = check_source(m);
    if (status != DRV_OK) model_close(m);
    return status;
}

drv_status model_open(arena *a, const char *path, model *out) {
    *out = (model){0};
    return complete(model_source_open(a, path, &out->source), a, path, out);
}

drv_status model_open_with(arena *a, const char *path, const char *config_file, model *out) {
    *out = (model){0};
    return complete(model_source_open_with(a, path, config_file, &out->source), a, path, out);
}

drv_status model_open_key(arena *a, const char *path, const char *key, model *out) {
    *out = (model){0};
    return complete(model_source_open_torch(a, path, key, &out->source), a, path, out);
}

drv_status model_open_masters(arena *a, const char *path, model *out) {
    *out = (model){0};
    return complete(model_source_open_masters(a, path, &out->source), a, path, out);
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
static drv_status hash_tensor(const model *m, const source_tensor *t, XXH3_state_t *state) {
    const int64_t rows = source_piece_rows(t, 1 << 20);
    float *piece = mem_alloc(sizeof *piece * (size_t)(rows * t->cols));
    drv_status status = DRV_OK;
    for (int64_t row = 0; row < t->rows && status == DRV_OK; row += rows) {
        const int64_t n = t->rows - row < rows ? t->rows - row : rows;
        status = source_read_f32(&m->source, t, row, n, piece);
        XXH3_128bits_update(state, piece, sizeof *piece * (size_t)(n * t->cols));
    }
    free(piece);
    return status;
}

drv_status model_hash(const model *m, char hex[33]) {
    XXH3_state_t *state = XXH3_createState();
    DRV_MEMORY(state, "to hash in");
    XXH3_128bits_reset(state);
    drv_status status = DRV_OK;
    for (int i = 0; i < m->n_tensors && status == DRV_OK; i++) {
        const char *name = m->tensors[i].entry.name;
        XXH3_128bits_update(state, name, strlen(name) + 1);
        status = hash_tensor(m, model_source_find(&m->source, name), state);
    }
    const XXH128_hash_t hash = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    snprintf(hex, 33, "%016llx%016llx", (unsigned long long)hash.high64,
            (unsigned long long)hash.low64);
    return status;
}
