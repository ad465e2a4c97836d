// config.json of Hugging Face -> a model's shape, and back. What differs between families of models
// is in model/family/model_family.h; what none of them has is refused here.
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "config/key.h"
#include "config/model_config.h"

#define ROPE "rope_scaling." // the section of the keys of YAML for the rotary settings

// Returns the value at a path of names with dots; NULL: there is none.
static const value *find_value(const value *v, const char *path) {
    for (int i = 0; i < v->n; i++) {
        const value *item = &v->items[i];
        if (v->kind != VALUE_MAP || !str_starts(path, item->path)) continue;
        const char end = path[strlen(item->path)];
        if (end == 0) return item;
        if (end == '.') return find_value(item, path);
    }
    return NULL;
}

// Model types that no family here can represent, with the reason. Sources: modeling_*.py of
// transformers.
static const struct {
    const char *model_type, *differs;
} relatives[] = {
        {"qwen2_moe", "a mixture of experts"},
        {"qwen3_moe", "a mixture of experts"},
        {"mixtral", "a mixture of experts"},
        {"deepseek_v2", "multi-head latent attention and a mixture of experts"},
        {"deepseek_v3", "multi-head latent attention and a mixture of experts"},
        {"minicpm3", "multi-head latent attention"},
        {"falcon_h1", "state-space layers beside attention"},
        {"mamba", "state-space layers and no attention"},
        {"mamba2", "state-space layers and no attention"},
        {"falcon_mamba", "state-space layers and no attention"},
        {"llama4", "a mixture of experts and layers without rotary embedding"},
        {"llama4_text", "a mixture of experts and layers without rotary embedding"},
        {"gemma", "a scaled embedding, norms that add 1 to their weight, and GELU"},
        {"gemma2", "norms after each part, capped logits and sliding windows"},
        {"gemma3", "norms of queries and keys and sliding windows"},
        {"gemma3_text", "norms of queries and keys and sliding windows"},
        {"phi3", "fused weights qkv_proj and gate_up_proj"},
        {"granite", "multipliers on the embedding, attention, residual stream and logits"},
        {"olmo", "norms without weights"},
        {"olmo2", "norms after each part, and of queries and keys"},
        {"stablelm", "layer norms, and a part of each head without rotary embedding"},
        {"starcoder2", "layer norms and biases"},
        {"internlm2", "a fused weight wqkv"},
        {"cohere", "layer norms, and attention beside the feed-forward layer"},
        {"gpt2", "learned positions, layer norms and GELU"},
        {"gpt_neox", "layer norms, GELU, and attention beside the feed-forward layer"},
};

// Fields that tell what a model of a type that is not in the list has.
static const struct {
    const char *field, *has;
} marks[] = {{"kv_lora_rank", "multi-head latent attention"},
        {"n_routed_experts", "a mixture of experts"}, {"num_local_experts", "a mixture of experts"},
        {"num_experts", "a mixture of experts"}, {"moe_num_experts", "a mixture of experts"},
        {"mamba_d_state", "state-space layers"}, {"mamba_d_ssm", "state-space layers"},
        {"ssm_state_size", "state-space layers"}, {"state_size", "state-space layers"}};

// "multi-head latent attention and a mixture of experts"; NULL: nothing is known. Lives in `a`.
static const char *marked(arena *a, const value *root) {
    const char *all = NULL;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        const value *v = find_value(root, marks[i].field);
        double x;
        if (!v || v->kind != VALUE_TEXT || !str_to_f64(v->text, &x) || !(x > 0)) continue;
        if (all && strstr(all, marks[i].has)) continue;
        all = all ? arena_printf(a, "%s and %s", all, marks[i].has) : marks[i].has;
    }
    return all;
}

// "llama", "mistral" or ...; in `a`.
static const char *family_names(arena *a) {
    const char *names = "";
    for (int i = 0; i < n_model_families; i++)
        names = arena_printf(a, "%s%s\"%s\"", names,
                i == 0                      ? ""
                : i + 1 == n_model_families ? " or "
                                            : ", ",
                model_families[i].model_type);
    return names;
}

// A config.json without a type describes a Llama.
static drv_status find_family(arena *a, const value *root, const model_family **out) {
    const value *type = find_value(root, "model_type");
    *out = model_family_of_type("llama");
    if (!type || type->kind == VALUE_NULL) return DRV_OK;
    const key expected = {.expected = family_names(a)};
    if (type->kind != VALUE_TEXT) return key_refuse(&expected, type);
    const model_family *family = model_family_of_type(type->text);
    if (family) *out = family;
    if (family) return DRV_OK;
    const char *differs = marked(a, root);
    for (size_t i = 0; i < sizeof relatives / sizeof *relatives; i++)
        if (strcmp(type->text, relatives[i].model_type) == 0) differs = relatives[i].differs;
    if (!differs) return key_refuse(&expected, type);
    return drv_fail(DRV_E_DATA, "%s: model_type is \"%s\", which has %s; expected %s", type->where,
            type->text, differs, expected.expected);
}

// The same text, or the same number.
static bool same_value(const char *text, const char *other) {
    double x, y;
    if (strcmp(text, other) == 0) return true;
    return str_to_f64(text, &x) && str_to_f64(other, &y) && x == y;
}

// Finds the object of the rotary settings as transformers 5 does (modeling_rope_utils.py,
// convert_rope_params_to_dict): rope_scaling, the name of earlier releases, unless it is null or
// empty, else rope_parameters. NULL: there is none.
static const value *find_rope(const value *root) {
    const value *rope = find_value(root, "rope_scaling");
    if (!rope || rope->n == 0) rope = find_value(root, "rope_parameters");
    return rope && rope->kind == VALUE_MAP ? rope : NULL;
}

static const value *find_in(const value *map, const char *name) {
    for (int i = 0; map && i < map->n; i++)
        if (strcmp(map->items[i].name, name) == 0) return &map->items[i];
    return NULL;
}

static drv_status check_rope_forms(const value *root) {
    for (int i = 0; i < 2; i++) {
        const value *rope = find_value(root, i ? "rope_parameters" : "rope_scaling");
        if (!rope || rope->kind == VALUE_NULL || rope->kind == VALUE_MAP) continue;
        return key_refuse(&(key){.expected = "null or an object"}, rope);
    }
    const value *rope = find_rope(root);
    for (int i = 0; rope && i < rope->n; i++)
        if (rope->items[i].kind == VALUE_MAP)
            return key_refuse(&(key){.expected = "one object for all layers: rotary settings for "
                                                 "each type of layer are not supported"},
                    &rope->items[i]);
    return DRV_OK;
}

// Checks what holds for every family here, where config.json could say something else.
static drv_status check_fixed(const value *root) {
    static const struct {
        const char *name, *text, *alias, *expected;
    } fixed[] = {{"hidden_act", "silu", "swish", "\"silu\", or \"swish\", its other name"},
            {"attention_bias", "false", NULL, "false: biases on q, k, v and o are not supported"},
            {"mlp_bias", "false", NULL,
                    "false: biases of the feed-forward layer are not supported"},
            {"partial_rotary_factor", "1", NULL,
                    "1: rotary positions in a part of a head are not supported"}};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        const value *v = find_in(find_rope(root), fixed[i].name);
        if (!v) v = find_value(root, fixed[i].name);
        if (!v || v->kind == VALUE_NULL) continue;
        if (v->kind == VALUE_TEXT && same_value(v->text, fixed[i].text)) continue;
        if (v->kind == VALUE_TEXT && fixed[i].alias && strcmp(v->text, fixed[i].alias) == 0)
            continue;
        const key k = {.expected = fixed[i].expected};
        return key_refuse(&k, v);
    }
    const value *quantized = find_value(root, "quantization_config");
    if (quantized && quantized->kind != VALUE_NULL)
        return drv_fail(DRV_E_DATA,
                "%s: key \"quantization_config\" is there, expected a model that is not quantized",
                root->where);
    return DRV_OK;
}

// Keys of YAML that the family says in config.json.
static bool is_of_family(const key *k) {
    return k->offset == offsetof(model_config, qkv_bias) ||
           k->offset == offsetof(model_config, qk_norm) ||
           k->offset == offsetof(model_config, sliding_window) ||
           k->offset == offsetof(model_config, max_window_layers) ||
           k->offset == offsetof(model_config, no_rope_layer_interval);
}

static const key *key_of(size_t offset) {
    int i = 0;
    while (model_keys[i].offset != offset)
        i++;
    return &model_keys[i];
}

// Reads a key that is there, or is what the family says.
static drv_status read_or(arena *a, const value *root, size_t offset, int64_t otherwise,
        model_config *out) {
    const key *k = key_of(offset);
    const value *v = find_value(root, k->path);
    *(int64_t *)((char *)out + offset) = otherwise;
    return v ? k->type->parse(a, k, v, out) : DRV_OK;
}

static drv_status read_window(arena *a, const value *root, const model_family *family,
        model_config *out) {
    static const key is_used = {.path = "use_sliding_window", .type = &type_bool};
    const value *switched = find_value(root, is_used.path);
    bool used = family->window == WINDOW_OF_ALL;
    if (family->window == WINDOW_SWITCHED && switched)
        DRV_TRY(type_bool.parse(a, &is_used, switched, &used));
    if (!used) return DRV_OK;
    const size_t window = offsetof(model_config, sliding_window),
                 layers = offsetof(model_config, max_window_layers);
    DRV_TRY(read_or(a, root, window, family->sliding_window, out));
    return family->window == WINDOW_OF_ALL
                   ? DRV_OK
                   : read_or(a, root, layers, family->max_window_layers, out);
}

// no_rope_layers says of each layer whether it has rotary embedding (1: it has); null or absent:
// no_rope_layer_interval says it. Layers without must come at an interval, as in all models so far.
static drv_status read_no_rope(arena *a, const value *root, const model_family *family,
        model_config *out) {
    static const key list_key = {.path = "no_rope_layers"},
                     window_key = {.expected = "false: windows of layers without rotary embedding "
                                               "are not supported"};
    if (!family->no_rope_layer_interval) return DRV_OK;
    const value *window = find_value(root, "use_sliding_window"),
                *list = find_value(root, list_key.path);
    if (window && window->kind != VALUE_NULL &&
            !(window->kind == VALUE_TEXT && strcmp(window->text, "false") == 0))
        return key_refuse(&window_key, window);
    DRV_TRY(read_or(a, root, offsetof(model_config, no_rope_layer_interval),
            family->no_rope_layer_interval, out));
    if (!list || list->kind == VALUE_NULL) return DRV_OK;
    const char *expected = arena_printf(a, "null or a list of 0 or 1 for each of %lld layers",
            (long long)out->num_hidden_layers);
    if (list->kind != VALUE_LIST || list->n < out->num_hidden_layers)
        return key_refuse(&(key){.expected = expected}, list);
    out->no_rope_layer_interval = 0;
    for (int64_t i = 0; i < out->num_hidden_layers; i++) {
        const value *item = &list->items[i];
        const bool has = item->kind == VALUE_TEXT && same_value(item->text, "1");
        if (!has && !(item->kind == VALUE_TEXT && same_value(item->text, "0")))
            return key_refuse(&(key){.expected = "0 or 1"}, item);
        if (!has && !out->no_rope_layer_interval) out->no_rope_layer_interval = i + 1;
        if (has == model_layer_rotates(out, i)) continue;
        expected = arena_printf(a, "%d, as layers without rotary embedding are %lld apart here",
                !has, (long long)out->no_rope_layer_interval);
        return key_refuse(&(key){.expected = expected}, item);
    }
    return DRV_OK;
}

// layer_types says the same once more, layer by layer.
static drv_status check_layer_types(const value *root, const model_config *m) {
    const value *types = find_value(root, "layer_types");
    for (int i = 0; types && types->kind == VALUE_LIST && i < types->n; i++) {
        const value *type = &types->items[i];
        const bool has_window = m->sliding_window && i >= m->max_window_layers;
        const char *expected = has_window ? "sliding_attention" : "full_attention";
        if (type->kind == VALUE_TEXT && strcmp(type->text, expected) == 0) continue;
        return key_refuse(&(key){.expected = has_window
                                                     ? "\"sliding_attention\", by max_window_layers"
                                                     : "\"full_attention\""},
                type);
    }
    return DRV_OK;
}

// A null num_key_value_heads or head_dim follows from the number of heads, as in transformers, also
// in a family with a default of its own.
static bool follows_if_null(const key *k, const value *v, model_config *out) {
    const bool follows = k->offset == offsetof(model_config, num_key_value_heads) ||
                         k->offset == offsetof(model_config, head_dim);
    if (!follows || v->kind != VALUE_NULL) return false;
    *(int64_t *)((char *)out + k->offset) = 0;
    return true;
}

static drv_status read_fields(arena *a, const value *root, const model_family *family,
        model_config *out) {
    *out = model_config_defaults();
    out->num_key_value_heads = family->num_key_value_heads;
    out->head_dim = family->head_dim;
    if (family->max_position_embeddings)
        out->max_position_embeddings = family->max_position_embeddings;
    if (family->rope_theta > 0) out->rope_theta = family->rope_theta;
    out->tie_word_embeddings = family->tie_word_embeddings;
    out->qkv_bias = family->qkv_bias;
    out->qk_norm = family->qk_norm;
    for (int i = 0; i < n_model_keys; i++) {
        const key *k = &model_keys[i];
        if (is_of_family(k) || str_starts(k->path, ROPE)) continue;
        const value *v = find_value(root, k->path);
        if (v && follows_if_null(k, v, out)) continue;
        if (v) DRV_TRY(k->type->parse(a, k, v, out));
    }
    return DRV_OK;
}

// Reads the rotary settings. transformers prefers a rope_theta in their object to one beside it,
// and the context before scaling beside the object to one in it; that of a llama3 without either is
// max_position_embeddings (standardize_rope_params in modeling_rope_utils.py).
static drv_status read_rope(arena *a, const value *root, model_config *out) {
    const value *rope = find_rope(root);
    for (int i = 0; i < n_model_keys; i++) {
        const key *k = &model_keys[i];
        const bool scales = str_starts(k->path, ROPE);
        if (!scales && k->offset != offsetof(model_config, rope_theta)) continue;
        const char *name = scales ? k->path + strlen(ROPE) : k->path;
        const value *v = find_in(rope, name);
        if (!v && k->offset == offsetof(model_config, rope_type)) v = find_in(rope, "type");
        if (v) DRV_TRY(k->type->parse(a, k, v, out));
    }
    if (out->rope_type != ROPE_LLAMA3) return DRV_OK;
    const key *context = key_of(offsetof(model_config, rope_original_context));
    const char *name = context->path + strlen(ROPE);
    const value *v = find_value(root, name);
    if (v && v->kind != VALUE_NULL) return context->type->parse(a, context, v, out);
    if (!find_in(rope, name)) out->rope_original_context = out->max_position_embeddings;
    return DRV_OK;
}

static drv_status read_json(arena *a, const char *path, const json_t *json, model_config *out) {
    const value root = value_of_json(a, path, "", json);
    if (root.kind != VALUE_MAP)
        return drv_fail(DRV_E_DATA, "%s: expected a JSON object, found %s", path,
                value_shown(a, &root));
    const model_family *family;
    DRV_TRY(find_family(a, &root, &family));
    DRV_TRY(check_rope_forms(&root));
    DRV_TRY(check_fixed(&root));
    DRV_TRY(read_fields(a, &root, family, out));
    DRV_TRY(read_rope(a, &root, out));
    DRV_TRY(read_window(a, &root, family, out));
    DRV_TRY(read_no_rope(a, &root, family, out));
    DRV_TRY(check_layer_types(&root, out)); // before a window as long as the context is dropped
    return model_config_check(path, "", out);
}

drv_status model_config_of_json(const char *path, const json_t *json, model_config *out) {
    arena *a = arena_new("config.json");
    model_config m;
    const drv_status status = read_json(a, path, json, &m);
    arena_free(a);
    if (status != DRV_OK)
        return status == DRV_E_USAGE ? DRV_E_DATA : status; // it is not a command line
    *out = m;
    return DRV_OK;
}

drv_status model_config_read(const char *path, model_config *out) {
    arena *a = arena_new("path of config.json");
    json_t *json = NULL;
    if (file_is_dir(path)) path = path_join(a, path, "config.json");
    drv_status status = json_read_file(path, &json);
    if (status == DRV_OK) status = model_config_of_json(path, json, out);
    json_decref(json);
    arena_free(a);
    return status;
}

// Puts a value at a path of names with dots.
static void put_json(json_t *o, const char *path, json_t *x) {
    const char *dot = strchr(path, '.');
    if (!dot) {
        json_object_set_new(o, path, x);
        return;
    }
    char section[64];
    snprintf(section, sizeof section, "%.*s", (int)(dot - path), path);
    if (!json_object_get(o, section)) json_object_set_new(o, section, json_object());
    put_json(json_object_get(o, section), dot + 1, x);
}

const model_family *model_config_family(const model_config *m) {
    const family_window least = m->sliding_window == 0      ? WINDOW_NEVER
                                : m->max_window_layers == 0 ? WINDOW_OF_ALL
                                                            : WINDOW_SWITCHED;
    for (int i = 0; i < n_model_families; i++) {
        const model_family *family = &model_families[i];
        if (family->qkv_bias == m->qkv_bias && family->qk_norm == m->qk_norm &&
                (family->no_rope_layer_interval > 0) == (m->no_rope_layer_interval > 0) &&
                family->window >= least)
            return family;
    }
    return NULL;
}

static void put_window(json_t *o, const model_config *m, const model_family *family) {
    if (family->window == WINDOW_NEVER) return;
    json_object_set_new(o, "sliding_window",
            m->sliding_window ? json_integer(m->sliding_window) : json_null());
    if (family->window == WINDOW_OF_ALL) return;
    json_object_set_new(o, "use_sliding_window", json_boolean(m->sliding_window > 0));
    json_object_set_new(o, "max_window_layers", json_integer(m->max_window_layers));
}

json_t *model_config_json(const model_config *m) {
    const model_family *family = model_config_family(m);
    json_t *o = json_pack("{s:[s], s:s, s:s, s:b, s:s}", "architectures", family->architecture,
            "model_type", family->model_type, "hidden_act", "silu", "mlp_bias", 0, "torch_dtype",
            "float32");
    // It says whether q, k, v and o have biases; a family whose q, k and v have them has no such
    // field.
    if (!family->qkv_bias) json_object_set_new(o, "attention_bias", json_false());
    put_window(o, m, family);
    if (m->no_rope_layer_interval)
        json_object_set_new(o, "no_rope_layer_interval", json_integer(m->no_rope_layer_interval));
    for (int i = 0; i < n_model_keys; i++) {
        const key *k = &model_keys[i];
        if (m->rope_type == ROPE_DEFAULT && str_starts(k->path, ROPE)) continue;
        if (is_of_family(k)) continue;
        json_t *x = k->type->json(k, m);
        if (x) put_json(o, k->path, x);
    }
    return o;
}
