// Targets of LoRA by name and by expression.
#include "model/lora.h"

#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>

typedef struct projection {
    const char *name; // in its layer
    int64_t in, out;
} projection;
enum { N_PROJECTIONS = 7, MODULE_NAME = 96 };

static void projections_of(const model_layout *l, projection out[N_PROJECTIONS]) {
    const projection all[N_PROJECTIONS] = {{"self_attn.q_proj", l->hidden, l->q_width},
            {"self_attn.k_proj", l->hidden, l->kv_width},
            {"self_attn.v_proj", l->hidden, l->kv_width},
            {"self_attn.o_proj", l->q_width, l->hidden}, {"mlp.gate_proj", l->hidden, l->ffn},
            {"mlp.up_proj", l->hidden, l->ffn}, {"mlp.down_proj", l->ffn, l->hidden}};
    memcpy(out, all, sizeof all);
}

double lora_scale(const lora_config *lora) {
    const double rank = (double)lora->rank;
    return lora->alpha / (lora->use_rslora ? sqrt(rank) : rank);
}

static bool is_suffix(const char *module, const char *target) {
    const size_t n = strlen(module), m = strlen(target);
    if (m > n || strcmp(module + n - m, target) != 0) return false;
    return m == n || module[n - m - 1] == '.';
}

// The text in anchors, so that it matches all of a name. False: no expression, or too long.
static bool compile(const char *target, regex_t *out) {
    char anchored[1024];
    const int n = snprintf(anchored, sizeof anchored, "^(%s)$", target);
    return n < (int)sizeof anchored && regcomp(out, anchored, REG_EXTENDED | REG_NOSUB) == 0;
}

static bool target_fits(const char *target, const char *module) {
    regex_t regex;
    if (strcmp(target, "all-linear") == 0 || is_suffix(module, target)) return true;
    if (!compile(target, &regex)) return false;
    const bool fits = regexec(&regex, module, 0, NULL, 0) == 0;
    regfree(&regex);
    return fits;
}

bool lora_targets(const lora_config *lora, const char *module) {
    for (int i = 0; i < lora->n_target_modules; i++)
        if (target_fits(lora->target_modules[i], module)) return true;
    return false;
}

static drv_status check_target(const char *target, const model_layout *l,
        const projection projections[N_PROJECTIONS]) {
    static const char expected[] =
            "q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, all-linear, or a regular "
            "expression that matches all of a name like model.layers.0.self_attn.q_proj";
    char module[MODULE_NAME];
    regex_t regex;
    for (int i = 0; i < l->n_layers * N_PROJECTIONS; i++) {
        snprintf(module, sizeof module, "model.layers.%d.%s", i / N_PROJECTIONS,
                projections[i % N_PROJECTIONS].name);
        if (target_fits(target, module)) return DRV_OK;
    }
    const bool is_regex = compile(target, &regex);
    if (is_regex) regfree(&regex);
    return drv_fail(DRV_E_USAGE, "lora.target_modules: \"%.80s\" %s, expected %s", target,
            is_regex ? "is no projection of the model" : "is no regular expression", expected);
}

drv_status lora_check(const lora_config *lora, const model_layout *l) {
    projection projections[N_PROJECTIONS];
    projections_of(l, projections);
    for (int i = 0; lora->rank > 0 && i < lora->n_target_modules; i++)
        DRV_TRY(check_target(lora->target_modules[i], l, projections));
    return DRV_OK;
}

int64_t lora_parameters(const lora_config *lora, const model_layout *l) {
    projection projections[N_PROJECTIONS];
    char module[MODULE_NAME];
    int64_t n = 0;
    projections_of(l, projections);
    for (int i = 0; lora->rank > 0 && i < l->n_layers * N_PROJECTIONS; i++) {
        const projection *p = &projections[i % N_PROJECTIONS];
        snprintf(module, sizeof module, "model.layers.%d.%s", i / N_PROJECTIONS, p->name);
        if (lora_targets(lora, module)) n += lora->rank * (p->in + p->out);
    }
    return n;
}
