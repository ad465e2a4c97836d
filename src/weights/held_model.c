// Manages the programs and the parameters of a held model.
#include "weights/held_model.h"

#include <stdio.h>
#include <string.h>

#include "ir/rounding.h"
#include "ir/weight_shard.h"

void held_add(arena *a, held_model *model, graph *g, executable **run, bool each_micro_batch) {
    ARENA_GROW(a, model->all, model->n_all, model->cap_all);
    model->all[model->n_all++] = (built_program){g, NULL, run, each_micro_batch};
}

const built_program *held_find(const held_model *model, const char *name) {
    for (int i = 0; i < model->n_all; i++)
        if (strcmp(model->all[i].graph->name, name) == 0) return &model->all[i];
    return NULL;
}

int64_t held_trained(const held_model *model) {
    return model->lora.n ? lora_parameters(&model->lora, &model->config->model)
                         : model_parameters(&model->config->model);
}

bool held_by_muon(const held_model *model, const param *w) {
    return model->config->optimizer != OPTIMIZER_ADAMW && w->trainable && w->n_dims == 2 &&
           !w->is_adapter && str_starts(w->name, "model.layers.");
}

bool held_has_owners(const held_model *model) {
    return model->zero && !config_backend(model->config)->has_devices; // devices run one program
}

bool held_has(const held_model *model, const char *name) {
    for (int i = 0; i < model->n_all; i++)
        if (graph_find(model->all[i].graph, name)) return true;
    return false;
}

dtype held_state_type(const held_model *model, const char *name) {
    for (int i = 0; i < model->n_all; i++) {
        const tensor *t = graph_find(model->all[i].graph, name);
        if (t) return t->dt;
    }
    DRV_ASSERT(false, "no program has \"%s\"", name);
    return DT_F32;
}

held_shard held_shard_of(const held_model *model, const param *w) {
    const int64_t n = param_elements(w);
    const mesh m = run_mesh(model->config), update = mesh_of_update(&m);
    const int ranks = update.size[AXIS_DATA], place = mesh_shard_of(&m, (int)model->config->rank);
    if (!model->zero) return (held_shard){0, n};
    return (held_shard){shard_first(n, ranks, place), shard_count(n, ranks, place)};
}

held_shard held_weight_of(const held_model *model, const param *w) {
    const int64_t n = param_elements(w);
    if (model->zero < 3) return (held_shard){0, n};
    const mesh m = run_mesh(model->config), update = mesh_of_update(&m);
    const int groups = mesh_groups(&m), ranks = update.size[AXIS_DATA] / groups,
              place = mesh_shard_of(&m, (int)model->config->rank) / groups;
    const int64_t first = weight_shard_first(n, ranks, groups, place);
    return (held_shard){first, weight_shard_first(n, ranks, groups, place + 1) - first};
}

int64_t held_weight_bytes(const held_model *model, const param *w) {
    const held_shard here = held_weight_of(model, w);
    const dtype dt = param_dtype(w, model->dt);
    return weight_bytes_before(dt, w->blocks, here.first + here.n) -
           weight_bytes_before(dt, w->blocks, here.first);
}

// --- extents for stochastic rounding
// Describes the elements of the model that this rank's part of a weight holds (ir/rounding.h).
static void fill_extent(const held_model *model, const param *w, uint32_t extent[N_EXTENT_WORDS]) {
    const uint64_t seed = (uint64_t)model->config->seed;
    extent[EXTENT_COLUMNS] = w->n_dims == 2 ? (uint32_t)w->dim[1] : 1;
    extent[EXTENT_ALL_COLUMNS] = w->n_dims == 2 ? (uint32_t)w->all_columns : 1;
    extent[EXTENT_FIRST_COLUMN] = w->n_dims == 2 ? (uint32_t)w->first_column : 0;
    extent[EXTENT_FIRST] = (uint32_t)held_shard_of(model, w).first;
    for (int k = 0; k < EXTENT_MAX_PARTS; k++) {
        uint32_t *words = extent + EXTENT_PARTS + k * PART_WORDS;
        memset(words, 0, sizeof *words * PART_WORDS);
        words[PART_ROW] = EXTENT_NO_ROW;
        if (k >= w->n_parts) continue;
        const param_part *part = &w->part[k];
        const rounding_keys update = rounding_keys_of(seed, RNG_UPDATE, part->hf_name),
                            gradient = rounding_keys_of(seed, RNG_GRADIENT, part->hf_name);
        words[PART_ROW] = (uint32_t)part->row;
        words[PART_FIRST_ROW] = (uint32_t)part->first_row;
        memcpy(words + PART_UPDATE, update.key, sizeof update.key);
        memcpy(words + PART_GRADIENT, gradient.key, sizeof gradient.key);
    }
}

// Writes the extents that a program reads.
drv_status held_write_extents(held_model *model) {
    uint32_t extent[N_EXTENT_WORDS];
    char name[256];
    for (int i = 0; i < model->params.n; i++) {
        const param *w = &model->params.p[i];
        snprintf(name, sizeof name, "extent.%s", w->name);
        bool used = false;
        for (int k = 0; k < model->n_all; k++)
            used |= graph_find(model->all[k].graph, name) != NULL;
        if (!used) continue;
        fill_extent(model, w, extent);
        DRV_TRY(backend_write(model->b, name, 0, sizeof extent, extent));
    }
    return DRV_OK;
}
