// Finds a module's settings in an adapter's config by PEFT's rules (peft/tuners/tuners_utils.py,
// check_target_module_exists; peft/utils/other.py, get_pattern_key).
#include <math.h>
#include <string.h>

#include "base/python_re.h"
#include "ckpt/adapter_config.h"

// The whole path, or its end after a dot.
static bool names(const char *name, const char *module) {
    const size_t n = strlen(name), m = strlen(module);
    return m >= n && strcmp(module + m - n, name) == 0 && (m == n || module[m - n - 1] == '.');
}

static bool any_names(const char *const *list, int n, const char *module) {
    for (int i = 0; i < n; i++)
        if (names(list[i], module)) return true;
    return false;
}

static drv_status value_for(arena *a, const adapter_pattern *list, int n, const char *module,
        double *value) {
    for (int i = 0; i < n; i++) {
        bool fits;
        const char *regex = arena_printf(a, "(.*\\.)?(%s)", list[i].module);
        DRV_TRY(python_re_fullmatch(regex, module, &fits));
        if (!fits) continue;
        *value = list[i].value;
        return DRV_OK;
    }
    return DRV_OK;
}

// The first number between dots, or that after the name of a list, is one of the layers.
static drv_status is_in_layers(arena *a, const adapter_config *c, const char *module, bool *is) {
    *is = false;
    for (int k = 0; k < c->n_layer_lists || k == 0; k++) {
        const char *before = c->n_layer_lists == 0
                                     ? ".*?\\.[^.]*"
                                     : arena_printf(a, "(?:^|.*?\\.)(?:%s)", c->layer_lists[k]);
        bool numbered = false;
        DRV_TRY(python_re_fullmatch(arena_printf(a, "%s\\.\\d+\\..*", before), module, &numbered));
        for (int i = 0; i < c->n_layers && numbered && !*is; i++)
            DRV_TRY(python_re_fullmatch(arena_printf(a, "(?>%s\\.(?=\\d+\\.))0*%lld\\..*", before,
                                                (long long)c->layers[i]),
                    module, is));
        if (numbered) return DRV_OK;
    }
    return DRV_OK;
}

static drv_status is_targeted(arena *a, const adapter_config *c, const char *module, bool *is) {
    *is = any_names(c->excluded, c->n_excluded, module);
    if (c->excluded_pattern) DRV_TRY(python_re_fullmatch(c->excluded_pattern, module, is));
    if (*is) {
        *is = false;
        return DRV_OK;
    }
    if (c->target_pattern && strcmp(c->target_pattern, "all-linear") == 0) {
        *is = strcmp(module, "lm_head") != 0 && strcmp(module, "model.embed_tokens") != 0;
        return DRV_OK;
    }
    if (c->target_pattern) return python_re_fullmatch(c->target_pattern, module, is);
    *is |= str_index(module, c->targets, c->n_targets) >= 0;
    if (*is || !any_names(c->targets, c->n_targets, module)) return DRV_OK;
    *is = true;
    return c->n_layers > 0 ? is_in_layers(a, c, module, is) : DRV_OK;
}

static drv_status choose(arena *a, const adapter_config *c, const char *module,
        adapter_choice *out) {
    double rank = (double)c->rank, alpha = c->alpha;
    DRV_TRY(value_for(a, c->rank_patterns, c->n_rank_patterns, module, &rank));
    DRV_TRY(value_for(a, c->alpha_patterns, c->n_alpha_patterns, module, &alpha));
    out->rank = (int64_t)rank;
    out->scale = alpha / (c->rslora ? sqrt(rank) : rank);
    return is_targeted(a, c, module, &out->targeted);
}

drv_status adapter_choose(const adapter_config *c, const char *module, adapter_choice *out) {
    arena *a = arena_new("module of an adapter");
    const drv_status status = choose(a, c, module, out);
    arena_free(a);
    return status;
}
