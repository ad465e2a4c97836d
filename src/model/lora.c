// Matches the targets of LoRA, by name and by expression.
#include "model/lora.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/python_re.h"

// --- the projections of a model
typedef struct projection {
    const char *name; // in its layer
    int64_t in, out;
} projection;
enum { N_PROJECTIONS = 7, MODULE_NAME = 96 };

// The i-th projection, counted through all layers, and the name of its module.
static projection projection_at(const model_config *model, int64_t i, char module[MODULE_NAME]) {
    const int64_t hidden = model->hidden_size, ffn = model->intermediate_size,
                  q_width = model->num_attention_heads * model->head_dim,
                  kv_width = model->num_key_value_heads * model->head_dim;
    const projection all[N_PROJECTIONS] = {{"self_attn.q_proj", hidden, q_width},
            {"self_attn.k_proj", hidden, kv_width}, {"self_attn.v_proj", hidden, kv_width},
            {"self_attn.o_proj", q_width, hidden}, {"mlp.gate_proj", hidden, ffn},
            {"mlp.up_proj", hidden, ffn}, {"mlp.down_proj", ffn, hidden}};
    const projection *p = &all[i % N_PROJECTIONS];
    snprintf(module, MODULE_NAME, "model.layers.%lld.%s", (long long)(i / N_PROJECTIONS), p->name);
    return *p;
}

static int64_t n_projections(const model_config *model) {
    return model->num_hidden_layers * N_PROJECTIONS;
}

bool lora_is_projection(const char *module, const model_config *model) {
    char name[MODULE_NAME];
    for (int64_t i = 0; i < n_projections(model); i++) {
        projection_at(model, i, name);
        if (strcmp(name, module) == 0) return true;
    }
    return false;
}

// --- sets
lora_set lora_set_new(arena *a, int n) {
    return (lora_set){.branches = ARENA_ARRAY(a, lora_branch, n + 1), .by_module = {.a = a}};
}

void lora_set_add(lora_set *set, const lora_branch *branch) {
    set->branches[set->n] = *branch;
    name_map_set(&set->by_module, branch->module, &set->branches[set->n]);
    set->n++;
}

const lora_branch *lora_find(const lora_set *set, const char *module) {
    return name_map_get(&set->by_module, module);
}

int64_t lora_parameters_of(const lora_set *set, const model_config *model, int64_t first_layer,
        int64_t n_layers) {
    char module[MODULE_NAME];
    int64_t n = 0;
    for (int64_t i = first_layer * N_PROJECTIONS; i < (first_layer + n_layers) * N_PROJECTIONS;
            i++) {
        const projection p = projection_at(model, i, module);
        const lora_branch *branch = lora_find(set, module);
        if (branch) n += branch->rank * (p.in + p.out);
    }
    return n;
}

int64_t lora_parameters(const lora_set *set, const model_config *model) {
    return lora_parameters_of(set, model, 0, model->num_hidden_layers);
}

// --- targets of the config
// Returns the scale of a branch: alpha / rank, or alpha / sqrt(rank) for rsLoRA.
static double scale_of(const lora_config *lora) {
    const double rank = (double)lora->rank;
    return lora->alpha / (lora->use_rslora ? sqrt(rank) : rank);
}

typedef struct target {
    const char *text;
    bool is_regex, fits_some;
} target;

static bool is_suffix(const char *module, const char *end) {
    const size_t n = strlen(module), m = strlen(end);
    if (m > n || strcmp(module + n - m, end) != 0) return false;
    return m == n || module[n - m - 1] == '.';
}

// A text that is not a regular expression matches nothing; check_target reports it.
static bool matches(target *t, const char *module) {
    bool all = false;
    t->is_regex = python_re_fullmatch(t->text, module, &all) == DRV_OK;
    return all;
}

static bool target_fits(target *t, const char *module) {
    const bool fits =
            strcmp(t->text, "all-linear") == 0 || is_suffix(module, t->text) || matches(t, module);
    t->fits_some |= fits;
    return fits;
}

static drv_status check_target(const target *t) {
    if (t->fits_some) return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "lora.target_modules: \"%.80s\" is not a %s, expected q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, all-linear, or a regular expression that matches all of a name like model.layers.0.self_attn.q_proj",
            t->text, t->is_regex ? "projection of the model" : "regular expression");
}

drv_status lora_of_config(arena *a, const lora_config *lora, const model_config *model,
        lora_set *out) {
    const int n_targets = lora->rank > 0 ? lora->n_target_modules : 0;
    target *targets = ARENA_ARRAY(a, target, n_targets + 1);
    char module[MODULE_NAME];
    drv_status status = DRV_OK;
    *out = lora_set_new(a, (int)n_projections(model));
    for (int t = 0; t < n_targets; t++)
        targets[t].text = lora->target_modules[t];
    for (int64_t i = 0; i < n_projections(model); i++) {
        bool fits = false;
        projection_at(model, i, module);
        for (int t = 0; t < n_targets; t++)
            fits |= target_fits(&targets[t], module);
        if (!fits) continue;
        const lora_branch branch = {arena_strdup(a, module), lora->rank, scale_of(lora)};
        lora_set_add(out, &branch);
    }
    for (int t = 0; t < n_targets && status == DRV_OK; t++)
        status = check_target(&targets[t]);
    return status;
}
