// Reads PEFT's adapter_config.json. A key that is not listed here must be off.
#include "ckpt/adapter_config.h"

#include <math.h>
#include <string.h>

#include "base/python_re.h"

// --- keys that are only checked
// Keys that may only be null, false, "", [] or {}: anything else is another model.
static const struct {
    const char *key, *meaning;
} must_be_off[] = {
        {"fan_in_fan_out", "weights that lie transposed, as in GPT-2"},
        {"modules_to_save", "modules that are trained in full"},
        {"use_dora", "DoRA's magnitudes"},
        {"lora_bias", "a bias of B"},
        {"layer_replication", "layers that are copied"},
        {"use_qalora", "pooled inputs"},
        {"corda_config", "a base that was changed before training"},
        {"alora_invocation_tokens", "an adapter that begins at a token"},
        {"trainable_token_indices", "rows of the embedding that are trained"},
        {"target_parameters", "parameters that are not modules"},
};

static bool is_off(const json_t *v) {
    return !v || json_is_null(v) || json_is_false(v) ||
           (json_is_string(v) && json_string_length(v) == 0) ||
           (json_is_array(v) && json_array_size(v) == 0) ||
           (json_is_object(v) && json_object_size(v) == 0);
}

static drv_status check_key(const char *path, const char *key, const json_t *v) {
    // These are read below.
    if (STR_ONE_OF(key, "peft_type", "r", "lora_alpha", "lora_dropout", "use_rslora", "bias",
                "base_model_name_or_path", "target_modules", "exclude_modules",
                "layers_to_transform", "layers_pattern", "rank_pattern", "alpha_pattern",
                "init_lora_weights"))
        return DRV_OK;
    // These describe the training or the program that wrote the file.
    if (STR_ONE_OF(key, "peft_version", "task_type", "auto_mapping", "revision", "inference_mode",
                "megatron_config", "megatron_core", "loftq_config", "eva_config",
                "qalora_group_size", "ensure_weight_tying"))
        return DRV_OK;
    if (is_off(v)) return DRV_OK; // a key of a later PEFT too, as it is not used
    for (size_t i = 0; i < sizeof must_be_off / sizeof *must_be_off; i++)
        if (strcmp(must_be_off[i].key, key) == 0)
            return drv_fail(DRV_E_DATA, "%s: key \"%s\" is set: %s; drover does not do that", path,
                    key, must_be_off[i].meaning);
    return drv_fail(DRV_E_DATA,
            "%s: key \"%.80s\" is set, which drover does not support and which may change the model",
            path, key);
}

// --- values
static drv_status wrong(const char *path, const char *key, const char *expected) {
    return drv_fail(DRV_E_DATA, "%s: key \"%s\" is wrong, expected %s", path, key, expected);
}

static drv_status get_bool(const char *path, const json_t *o, const char *key, bool *out) {
    const json_t *v = json_object_get(o, key);
    if (v && !json_is_boolean(v) && !json_is_null(v)) return wrong(path, key, "true or false");
    *out = json_is_true(v);
    return DRV_OK;
}

// LoraConfig has defaults for missing fields, but null is not replaced by a default.
static drv_status check_numbers(const char *path, const json_t *o) {
    static const char *const keys[] = {"r", "lora_alpha", "lora_dropout"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (json_is_null(json_object_get(o, keys[i])))
            return drv_fail(DRV_E_DATA, "%s: key \"%s\" is null, expected a number", path, keys[i]);
    return DRV_OK;
}

// Ways to begin that leave the base as it is. The others (pissa, olora, corda, loftq, lora_ga) take
// something out of it, so that the adapter fits a base that nobody has.
static drv_status check_initial(const char *path, const json_t *o) {
    const json_t *v = json_object_get(o, "init_lora_weights");
    const char *name = json_string_value(v);
    if (!v || json_is_null(v) || json_is_boolean(v)) return DRV_OK;
    if (STR_ONE_OF(name, "gaussian", "eva", "orthogonal")) return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "%s: key \"init_lora_weights\" is \"%.40s\", which changes the base before training; convert the adapter with PEFT (save_pretrained(..., path_initial_model_for_weight_conversion=...))",
            path, name ? name : "?");
}

// An expression that no module tries may still be malformed.
static drv_status check_regex(const char *path, const char *key, const char *regex) {
    bool ignored;
    DRV_TRY_CTX(python_re_fullmatch(regex, "", &ignored), "%s: key \"%s\"", path, key);
    return DRV_OK;
}

// A list of names, or, where *pattern may be set, a regular expression.
static drv_status read_names(arena *a, const char *path, const json_t *root, const char *key,
        const char ***list, int *n, const char **pattern) {
    const json_t *v = json_object_get(root, key);
    if (pattern && json_is_string(v)) {
        *pattern = arena_strdup(a, json_string_value(v));
        return check_regex(path, key, *pattern);
    }
    if (!json_is_array(v)) return wrong(path, key, "a list of names or a regular expression");
    *list = ARENA_ARRAY(a, const char *, json_array_size(v) + 1);
    for (size_t i = 0; i < json_array_size(v); i++) {
        const char *name = json_string_value(json_array_get(v, i));
        if (!name || !*name) return wrong(path, key, "a list of names");
        (*list)[(*n)++] = arena_strdup(a, name);
    }
    return DRV_OK;
}

static drv_status read_targets(arena *a, const char *path, const json_t *root,
        adapter_config *out) {
    static const char excluded[] = "exclude_modules";
    DRV_TRY(read_names(a, path, root, "target_modules", &out->targets, &out->n_targets,
            &out->target_pattern));
    if (!out->target_pattern && out->n_targets == 0)
        return wrong(path, "target_modules", "a list of names or a regular expression");
    if (is_off(json_object_get(root, excluded))) return DRV_OK;
    return read_names(a, path, root, excluded, &out->excluded, &out->n_excluded,
            &out->excluded_pattern);
}

// One layer or a list of them, and the names of the list that they are counted in.
static drv_status read_layers(arena *a, const char *path, const json_t *root, adapter_config *out) {
    static const char key[] = "layers_to_transform", lists[] = "layers_pattern";
    const json_t *v = json_object_get(root, key), *names = json_object_get(root, lists);
    const size_t n = json_is_integer(v) ? 1 : json_array_size(v);
    if (is_off(v)) return DRV_OK;
    out->layers = ARENA_ARRAY(a, int64_t, n + 1);
    for (size_t i = 0; i < n; i++) {
        const json_t *layer = json_is_integer(v) ? v : json_array_get(v, i);
        if (!json_is_integer(layer)) return wrong(path, key, "numbers of layers");
        out->layers[out->n_layers++] = json_integer_value(layer);
    }
    if (n == 0) return wrong(path, key, "numbers of layers");
    if (is_off(names)) return DRV_OK;
    if (!json_is_string(names))
        return read_names(a, path, root, lists, &out->layer_lists, &out->n_layer_lists, NULL);
    out->layer_lists = ARENA_NEW(a, const char *);
    out->layer_lists[out->n_layer_lists++] = arena_strdup(a, json_string_value(names));
    return check_regex(path, lists, out->layer_lists[0]);
}

static drv_status read_patterns(arena *a, const char *path, const json_t *root, const char *key,
        adapter_pattern **list, int *n) {
    const json_t *o = json_object_get(root, key);
    const char *name;
    json_t *v;
    *n = 0;
    if (!o || json_is_null(o)) return DRV_OK;
    if (!json_is_object(o)) return wrong(path, key, "an object from module to number");
    *list = ARENA_ARRAY(a, adapter_pattern, json_object_size(o) + 1);
    json_object_foreach((json_t *)(uintptr_t)o, name, v) {
        DRV_TRY(check_regex(path, key, name));
        if (!json_is_number(v) || !(json_number_value(v) > 0))
            return wrong(path, key, "an object from module to number");
        (*list)[(*n)++] = (adapter_pattern){arena_strdup(a, name), json_number_value(v)};
    }
    return DRV_OK;
}

static drv_status check_ranks(const char *path, const adapter_config *c) {
    if (c->rank < 1 || c->rank > 1 << 20)
        return drv_fail(DRV_E_DATA, "%s: key \"r\" is %lld, expected at least 1", path,
                (long long)c->rank);
    if (!isfinite(c->alpha) || !(c->alpha > 0))
        return drv_fail(DRV_E_DATA, "%s: key \"lora_alpha\" is %g, expected a number above 0", path,
                c->alpha);
    if (!(c->dropout >= 0 && c->dropout < 1))
        return drv_fail(DRV_E_DATA, "%s: key \"lora_dropout\" is %g, expected 0 to less than 1",
                path, c->dropout);
    for (int i = 0; i < c->n_rank_patterns; i++) {
        const double r = c->rank_patterns[i].value;
        if (r != floor(r) || r > 1 << 20) return wrong(path, "rank_pattern", "whole numbers");
    }
    return DRV_OK;
}

drv_status adapter_config_parse(arena *a, const char *path, const json_t *root,
        adapter_config *out) {
    const char *key, *type = "", *bias = "none", *base = "";
    json_t *given;
    *out = (adapter_config){.rank = 8, .alpha = 8}; // LoraConfig's own defaults
    if (!json_is_object(root)) return drv_fail(DRV_E_DATA, "%s: no JSON object", path);
    DRV_TRY(json_get_str(path, root, "peft_type", &type));
    if (strcmp(type, "LORA") != 0)
        return drv_fail(DRV_E_DATA, "%s: key \"peft_type\" is \"%.40s\", expected \"LORA\"", path,
                type);
    json_object_foreach((json_t *)(uintptr_t)root, key, given) {
        DRV_TRY(check_key(path, key, given));
    }
    DRV_TRY(check_numbers(path, root));
    DRV_TRY(json_get_i64(path, root, "r", &out->rank));
    DRV_TRY(json_get_f64(path, root, "lora_alpha", &out->alpha));
    DRV_TRY(json_get_f64(path, root, "lora_dropout", &out->dropout));
    DRV_TRY(get_bool(path, root, "use_rslora", &out->rslora));
    DRV_TRY(json_get_str(path, root, "base_model_name_or_path", &base));
    DRV_TRY(json_get_str(path, root, "bias", &bias));
    if (strcmp(bias, "none") != 0)
        return drv_fail(DRV_E_DATA, "%s: key \"bias\" is \"%.40s\", expected \"none\"", path, bias);
    out->base = arena_strdup(a, base);
    DRV_TRY(check_initial(path, root));
    DRV_TRY(read_targets(a, path, root, out));
    DRV_TRY(read_layers(a, path, root, out));
    DRV_TRY(read_patterns(a, path, root, "rank_pattern", &out->rank_patterns,
            &out->n_rank_patterns));
    DRV_TRY(read_patterns(a, path, root, "alpha_pattern", &out->alpha_patterns,
            &out->n_alpha_patterns));
    return check_ranks(path, out);
}

// --- writing
// PEFT writes whole numbers as such, and reads r as nothing else.
static json_t *number(double x) {
    return x == floor(x) && fabs(x) < 1e15 ? json_integer((json_int_t)x) : json_real(x);
}

static json_t *patterns_json(const adapter_pattern *list, int n) {
    json_t *o = json_object();
    for (int i = 0; i < n; i++)
        json_object_set_new(o, list[i].module, number(list[i].value));
    return o;
}

json_t *adapter_config_json(const adapter_config *c) {
    json_t *targets = c->target_pattern ? json_string(c->target_pattern) : json_array();
    for (int i = 0; i < c->n_targets; i++)
        json_array_append_new(targets, json_string(c->targets[i]));
    return json_pack("{s:s, s:s, s:I, s:o, s:o, s:b, s:s*, s:o, s:s, s:b, s:b, s:n, s:o, s:o, s:b, "
                     "s:b, s:n}",
            "peft_type", "LORA", "task_type", "CAUSAL_LM", "r", (json_int_t)c->rank, "lora_alpha",
            number(c->alpha), "lora_dropout", json_real(c->dropout), "use_rslora", c->rslora,
            "base_model_name_or_path", c->base && *c->base ? c->base : NULL, "target_modules",
            targets, "bias", "none", "fan_in_fan_out", 0, "inference_mode", 1, "modules_to_save",
            "rank_pattern", patterns_json(c->rank_patterns, c->n_rank_patterns), "alpha_pattern",
            patterns_json(c->alpha_patterns, c->n_alpha_patterns), "init_lora_weights", 1,
            "use_dora", 0, "layers_to_transform");
}
