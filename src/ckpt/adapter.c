// Adapters as PEFT saves them: pairs of matrices, each pair belonging to one weight of a base.
#include "ckpt/adapter.h"

#include <string.h>

#include "base/file.h"

#define PREFIX      "base_model.model."
#define SUFFIX_A    ".lora_A.weight"
#define SUFFIX_B    ".lora_B.weight"
#define SUFFIX_COPY ".base_layer.weight"

const char *adapter_tensor_name(arena *a, const char *weight, char which) {
    const size_t n = strlen(weight), suffix = strlen(".weight");
    DRV_ASSERT(str_ends(weight, ".weight"), "\"%s\" is not a weight of a module", weight);
    return arena_printf(a, PREFIX "%.*s%s", (int)(n - suffix), weight,
            which == 'A' ? SUFFIX_A : SUFFIX_B);
}

bool adapter_is_folder(arena *a, const char *path) {
    return file_exists(path_join(a, path, "adapter_config.json"));
}

// "model.layers.0.self_attn.q_proj" of a name; NULL: it does not end that way.
static const char *module_of(arena *a, const char *name, const char *suffix) {
    if (!str_starts(name, PREFIX) || !str_ends(name, suffix)) return NULL;
    return arena_strndup(a, name + strlen(PREFIX), strlen(name) - strlen(PREFIX) - strlen(suffix));
}

static drv_status refuse_tensor(const source_tensor *t) {
    static const struct {
        const char *part, *meaning;
    } known[] = {{"lora_magnitude_vector", "DoRA's magnitudes"},
            {"lora_embedding_", "an adapter of an embedding"}, {".bias", "a bias"},
            {".lora_", "not PEFT's name for A or B"}};
    const char *meaning = "a module that is trained in full (modules_to_save)";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strstr(t->name, known[i].part)) {
            meaning = known[i].meaning;
            break;
        }
    return drv_fail(DRV_E_DATA,
            "%s: tensor \"%.120s\" is %s, expected " PREFIX "MODULE" SUFFIX_A " and " SUFFIX_B,
            t->file, t->name, meaning);
}

static drv_status wrong_shape(const source_tensor *t, const char *expected) {
    return drv_fail(DRV_E_DATA, "%s: tensor \"%.120s\" has %lld rows and %lld columns, expected %s",
            t->file, t->name, (long long)t->rows, (long long)t->cols, expected);
}

static drv_status add_module(arena *a, adapter *ad, const char *module,
        const source_tensor *tensor) {
    adapter_module *added = &ad->modules[ad->n];
    adapter_choice choice;
    DRV_TRY(adapter_choose(&ad->config, module, &choice));
    *added = (adapter_module){.weight = arena_printf(a, "%s.weight", module),
            .a = tensor,
            .rank = choice.rank,
            .scale = choice.scale};
    added->b = model_source_find(&ad->tensors, adapter_tensor_name(a, added->weight, 'B'));
    added->copy = model_source_find(&ad->tensors, arena_printf(a, PREFIX "%s" SUFFIX_COPY, module));
    if (!added->b)
        return drv_fail(DRV_E_DATA, "%s: \"%.120s\" is there, but not its " SUFFIX_B, tensor->file,
                tensor->name);
    if (!choice.targeted)
        return drv_fail(DRV_E_DATA,
                "%s: tensor \"%.120s\" belongs to no module of target_modules in adapter_config.json",
                tensor->file, tensor->name);
    if (tensor->n_dims != 2 || tensor->rows != added->rank)
        return wrong_shape(tensor, arena_printf(a, "the rank of adapter_config.json, %lld, as rows",
                                           (long long)added->rank));
    if (added->b->n_dims != 2 || added->b->cols != added->rank)
        return wrong_shape(added->b,
                arena_printf(a, "the rank of adapter_config.json, %lld, as columns",
                        (long long)added->rank));
    name_map_set(&ad->by_weight, added->weight, added);
    ad->n++;
    return DRV_OK;
}

// Checks a tensor that is not an A: it must be B, or a copy of the base's weight, of a module that
// has an A.
static drv_status check_other(arena *a, const adapter *ad, const source_tensor *t) {
    const char *module = module_of(a, t->name, SUFFIX_B);
    if (!module) module = module_of(a, t->name, SUFFIX_COPY);
    if (!module) return refuse_tensor(t);
    if (model_source_find(&ad->tensors, arena_printf(a, PREFIX "%s" SUFFIX_A, module)))
        return DRV_OK;
    const source_tensor *other =
            model_source_find(&ad->tensors, arena_printf(a, PREFIX "%s.lora_embedding_A", module));
    if (other) return refuse_tensor(other);
    return drv_fail(DRV_E_DATA, "%s: \"%.120s\" is there, but not its " SUFFIX_A, t->file, t->name);
}

static drv_status add_modules(arena *a, adapter *ad) {
    const model_source *s = &ad->tensors;
    ad->modules = ARENA_ARRAY(a, adapter_module, s->n + 1);
    ad->by_weight = (name_map){.a = a};
    for (int i = 0; i < s->n; i++) {
        const source_tensor *t = &s->tensors[i];
        const char *module = module_of(a, t->name, SUFFIX_A);
        DRV_TRY(module ? add_module(a, ad, module, t) : check_other(a, ad, t));
    }
    if (ad->n == 0) return drv_fail(DRV_E_DATA, "\"%s\" has no tensors of an adapter", ad->path);
    return DRV_OK;
}

static drv_status open_all(arena *a, adapter *ad) {
    const char *config = path_join(a, ad->path, "adapter_config.json");
    json_t *root;
    if (!file_exists(config))
        return drv_fail(DRV_E_DATA,
                "\"%s\" has no adapter_config.json, expected a folder that PEFT or drover saved",
                ad->path);
    DRV_TRY(json_read_file(config, &root));
    drv_status status = adapter_config_parse(a, config, root, &ad->config);
    json_decref(root);
    DRV_TRY(status);
    const bool torch = !file_exists(path_join(a, ad->path, "adapter_model.safetensors")) &&
                       model_source_is_torch_folder(a, ad->path, "adapter_model");
    DRV_TRY((torch ? model_source_open_torch_folder : model_source_open_folder)(a, ad->path,
            "adapter_model", &ad->tensors));
    return add_modules(a, ad);
}

drv_status adapter_open(arena *a, const char *path, adapter *out) {
    *out = (adapter){.path = arena_strdup(a, path)};
    drv_status status = open_all(a, out);
    if (status != DRV_OK) adapter_close(out);
    return status;
}

void adapter_close(adapter *ad) {
    model_source_close(&ad->tensors);
    ad->n = 0;
}

const adapter_module *adapter_find(const adapter *ad, const char *weight) {
    return name_map_get(&ad->by_weight, weight);
}

// --- the base
static drv_status refuse_module(const adapter *ad, const model_source *base,
        const adapter_module *m) {
    const bool head = strcmp(m->weight, "lm_head.weight") == 0;
    return drv_fail(DRV_E_DATA, "%s: \"%.120s\" belongs to \"%.120s\", %s base \"%s\" has %s",
            ad->path, m->a->name, m->weight, head ? "of which" : "which", base->path,
            head ? "none of its own (tie_word_embeddings is true); untie the base first: store the "
                   "embedding as lm_head.weight too, and set tie_word_embeddings to false in config.json"
                 : "not");
}

static drv_status check_module(const adapter *ad, const model_source *base, const name_map *wanted,
        const adapter_module *m) {
    const source_tensor *w = model_source_find(base, m->weight);
    if (!w || !name_map_get(wanted, m->weight)) return refuse_module(ad, base, m);
    if (w->n_dims == 2 && m->a->cols == w->cols && m->b->rows == w->rows) {
        bool same = true;
        if (m->copy) DRV_TRY(model_source_same(&ad->tensors, m->copy, base, w, &same));
        if (same) return DRV_OK;
        return drv_fail(DRV_E_DATA,
                "%s: \"%.120s\" differs from \"%.120s\" of base \"%s\": it was trained on another base",
                m->copy->file, m->copy->name, m->weight, base->path);
    }
    return drv_fail(DRV_E_DATA,
            "%s: B A of \"%.120s\" is [%lld, %lld], but in base \"%s\" it is [%lld, %lld]: the adapter is another model's",
            ad->path, m->weight, (long long)m->b->rows, (long long)m->a->cols, base->path,
            (long long)w->rows, (long long)w->cols);
}

static drv_status check_complete(const adapter *ad, const st_entry *w) {
    char module[512];
    const size_t n = strlen(w->name), suffix = strlen(".weight");
    if (w->n_dims != 2 || !str_ends(w->name, ".weight") || n - suffix >= sizeof module)
        return DRV_OK;
    snprintf(module, sizeof module, "%.*s", (int)(n - suffix), w->name);
    if (adapter_find(ad, w->name)) return DRV_OK;
    adapter_choice choice;
    DRV_TRY(adapter_choose(&ad->config, module, &choice));
    if (!choice.targeted) return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "%s: target_modules of adapter_config.json names \"%s\", but there are no tensors for it",
            ad->path, module);
}

drv_status adapter_check_base(const adapter *ad, const model_source *base, const ckpt_tensor *list,
        int n) {
    arena *a = arena_new("weights of a base");
    name_map wanted = {.a = a};
    drv_status status = DRV_OK;
    for (int i = 0; i < n; i++)
        name_map_set(&wanted, list[i].entry.name, (void *)(uintptr_t)&list[i]);
    for (int i = 0; i < ad->n && status == DRV_OK; i++)
        status = check_module(ad, base, &wanted, &ad->modules[i]);
    for (int i = 0; i < n && status == DRV_OK; i++)
        status = check_complete(ad, &list[i].entry);
    arena_free(a);
    return status;
}
