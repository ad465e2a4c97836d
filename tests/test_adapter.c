// PEFT's adapter folders: those that PEFT saved (tools/golden_adapters.py), and those that must be
// refused.
#include "harness.h"

#include <math.h>

#include "ckpt/adapter.h"

static const char *folder(arena *a, const char *name) {
    return golden_path(a, arena_printf(a, "adapters/%s", name));
}

// The tensors of a base's file, all of which its model has.
static drv_status check_base(arena *a, const adapter *ad, const model_source *base) {
    ckpt_tensor *list = ARENA_ARRAY(a, ckpt_tensor, base->n);
    for (int i = 0; i < base->n; i++)
        list[i].entry =
                (st_entry){.name = base->tensors[i].name, .n_dims = base->tensors[i].n_dims};
    return adapter_check_base(ad, base, list, base->n);
}

// --- what PEFT saved
TEST(folders_of_peft) {
    static const struct {
        const char *name, *base, *weight;
        int n_modules;
        int64_t rank;
        double scale;
    } cases[] = {
            {"plain", "tied", "model.layers.1.self_attn.v_proj.weight", 4, 4, 2},
            {"one_layer", "tied", "model.layers.1.self_attn.o_proj.weight", 1, 2, 1},
            {"patterns", "untied_llama3", "lm_head.weight", 15, 8, 1.4142135623730951},
            {"patterns", "untied_llama3", "model.layers.0.self_attn.k_proj.weight", 15, 8,
                    1.4142135623730951},
            {"patterns", "untied_llama3", "model.layers.1.self_attn.k_proj.weight", 15, 2,
                    2.8284271247461903},
            {"patterns", "untied_llama3", "model.layers.1.mlp.down_proj.weight", 15, 8,
                    1.0606601717798212},
            {"patterns", "untied_llama3", "model.layers.0.self_attn.o_proj.weight", 15, 8,
                    0.35355339059327373},
            {"expressions", "tied", "model.layers.1.self_attn.q_proj.weight", 11, 2, 2.5},
            {"expressions", "tied", "model.layers.0.self_attn.v_proj.weight", 11, 3, 5.0 / 3},
            {"expressions", "tied", "model.layers.1.mlp.down_proj.weight", 11, 4, 0.75},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        adapter ad;
        model_source base;
        OK(adapter_open(a, folder(a, cases[i].name), &ad));
        OK(model_source_open(a, golden_path(a, cases[i].base), &base));
        OK(check_base(a, &ad, &base));
        assert_int_equal(ad.n, cases[i].n_modules);
        const adapter_module *m = adapter_find(&ad, cases[i].weight);
        assert_non_null(m);
        assert_int_equal(m->rank, cases[i].rank);
        assert_true(fabs(m->scale - cases[i].scale) < 1e-15);
        assert_null(adapter_find(&ad, "model.norm.weight"));
        adapter_close(&ad);
        model_source_close(&base);
    }
}

TEST(another_base) {
    adapter plain, patterns;
    model_source tied, untied;
    OK(adapter_open(a, folder(a, "plain"), &plain));
    OK(adapter_open(a, folder(a, "patterns"), &patterns));
    OK(model_source_open(a, golden_path(a, "tied"), &tied));
    OK(model_source_open(a, golden_path(a, "untied_llama3"), &untied));
    FAILS(check_base(a, &plain, &untied), DRV_E_DATA, "the adapter is another model's");
    FAILS(check_base(a, &patterns, &tied), DRV_E_DATA,
            "\"base_model.model.lm_head.lora_A.weight\" belongs to \"lm_head.weight\", of which base");
    const char *names[] = {"q_proj", "o_proj"};
    plain.config.targets = names;
    FAILS(check_base(a, &plain, &tied), DRV_E_DATA,
            "names \"model.layers.0.self_attn.o_proj\", but there are no tensors for it");
    plain.config.excluded = names + 1;
    plain.config.n_excluded = 1;
    OK(check_base(a, &plain, &tied));
    adapter_close(&plain);
    adapter_close(&patterns);
    model_source_close(&tied);
    model_source_close(&untied);
}

// --- what is refused
#define PLAIN                                                                                      \
    "\"peft_type\": \"LORA\", \"r\": 4, \"lora_alpha\": 8, \"target_modules\": [\"q_proj\"]"

typedef struct config_case {
    const char *text, *says; // NULL: it is read
} config_case;

static void check_configs(const config_case *cases, size_t n) {
    for (size_t i = 0; i < n; i++) {
        arena *a = arena_new("config");
        json_t *root;
        adapter_config c;
        OK(json_read_bytes("adapter_config.json", cases[i].text, strlen(cases[i].text), &root));
        if (cases[i].says)
            FAILS(adapter_config_parse(a, "adapter_config.json", root, &c), DRV_E_DATA,
                    cases[i].says);
        else
            OK(adapter_config_parse(a, "adapter_config.json", root, &c));
        json_decref(root);
        arena_free(a);
    }
}

TEST(configs) {
    static const config_case cases[] = {
            {"{" PLAIN "}", NULL},
            {"{" PLAIN ", \"made_up_later\": null, \"another\": {}}", NULL},
            {"{" PLAIN ", \"made_up_later\": 3}",
                    "\"made_up_later\" is set, which drover does not support"},
            {"{" PLAIN ", \"use_dora\": true}", "\"use_dora\" is set: DoRA's magnitudes"},
            {"{" PLAIN ", \"modules_to_save\": [\"lm_head\"]}",
                    "\"modules_to_save\" is set: modules"},
            {"{" PLAIN ", \"fan_in_fan_out\": true}", "lie transposed"},
            {"{" PLAIN ", \"bias\": \"all\"}", "\"bias\" is \"all\", expected \"none\""},
            {"{" PLAIN ", \"lora_bias\": true}", "a bias of B"},
            {"{" PLAIN ", \"init_lora_weights\": \"pissa_niter_4\"}",
                    "changes the base before training"},
            {"{" PLAIN ", \"init_lora_weights\": \"gaussian\"}", NULL},
            {"{" PLAIN ", \"rank_pattern\": {\"q.*\": 3}}", NULL},
            {"{" PLAIN ", \"rank_pattern\": {\"q(\": 3}}",
                    "key \"rank_pattern\": the regular expression \"q(\" is malformed at character 3"},
            {"{" PLAIN ", \"exclude_modules\": \"[\"}",
                    "\"exclude_modules\": the regular expression"},
            {"{" PLAIN ", \"layers_to_transform\": [\"0\"]}", "expected numbers of layers"},
            {"{" PLAIN ", \"layers_pattern\": \"layers\", \"layers_to_transform\": 1}", NULL},
            {"{\"peft_type\": \"LORA\", \"lora_alpha\": null, \"target_modules\": [\"q_proj\"]}",
                    "\"lora_alpha\" is null, expected a number"},
            {"{\"peft_type\": \"LORA\", \"r\": null, \"target_modules\": [\"q_proj\"]}",
                    "\"r\" is null"},
            {"{" PLAIN ", \"rank_pattern\": {\"q_proj\": 2.5}}", "expected whole numbers"},
            {"{" PLAIN ", \"rank_pattern\": {\"q_proj\": 0}}", "an object from module to number"},
            {"{" PLAIN ", \"alpha_pattern\": []}", "an object from module to number"},
            {"{" PLAIN ", \"lora_dropout\": 1}", "\"lora_dropout\" is 1"},
            {"{" PLAIN ", \"use_rslora\": 1}", "\"use_rslora\" is wrong, expected true or false"},
            {"{\"peft_type\": \"LOHA\"}", "\"peft_type\" is \"LOHA\", expected \"LORA\""},
            {"{\"peft_type\": \"LORA\"}", "\"target_modules\" is wrong, expected a list"},
            {"{\"peft_type\": \"LORA\", \"target_modules\": [\"q_proj\"], \"r\": 0}", "\"r\" is 0"},
            {"{\"peft_type\": \"LORA\", \"target_modules\": [\"q_proj\"], \"r\": \"x\"}",
                    "\"r\" is \"x\", expected a whole number"},
            {"{\"peft_type\": \"LORA\", \"target_modules\": [\"q_proj\"], \"lora_alpha\": -1}",
                    "\"lora_alpha\" is -1"},
            {"[]", "no JSON object"},
    };
    check_configs(cases, sizeof cases / sizeof *cases);
}

TEST(odd_configs) {
    static const config_case cases[] = {
            {"{" PLAIN ", \"layers_to_transform\": \"1\"}",
                    "\"layers_to_transform\" is wrong, expected numbers of layers"},
            {"{" PLAIN ", \"layers_to_transform\": {\"1\": 1}}",
                    "\"layers_to_transform\" is wrong, expected numbers of layers"},
            {"{" PLAIN ", \"layers_pattern\": [3], \"layers_to_transform\": [1]}",
                    "\"layers_pattern\" is wrong, expected a list of names"},
            {"{" PLAIN ", \"layers_pattern\": {\"h\": 1}, \"layers_to_transform\": [1]}",
                    "\"layers_pattern\" is wrong, expected a list of names"},
            {"{" PLAIN ", \"layers_pattern\": \"h(\", \"layers_to_transform\": [1]}",
                    "\"layers_pattern\": the regular expression \"h(\""},
            {"{" PLAIN ", \"layers_pattern\": [\"h\"], \"layers_to_transform\": []}", NULL},
            {"{" PLAIN ", \"exclude_modules\": [\"\"]}",
                    "\"exclude_modules\" is wrong, expected a list of names"},
            {"{" PLAIN ", \"exclude_modules\": {\"o_proj\": 1}}",
                    "\"exclude_modules\" is wrong, expected a list of names or a regular"},
            {"{" PLAIN ", \"rank_pattern\": [1]}", "\"rank_pattern\" is wrong, expected an object"},
            {"{" PLAIN ", \"rank_pattern\": {\"q_proj\": 1048577}}", "expected whole numbers"},
            {"{" PLAIN ", \"alpha_pattern\": {\"q_proj\": \"2\"}}", "\"alpha_pattern\" is wrong"},
            {"{" PLAIN ", \"lora_dropout\": null}", "\"lora_dropout\" is null, expected a number"},
            {"{" PLAIN ", \"lora_dropout\": -0.1}", "\"lora_dropout\" is -0.1, expected 0 to less"},
            {"{" PLAIN ", \"init_lora_weights\": 3}", "\"init_lora_weights\" is \"?\", which"},
            {"{" PLAIN ", \"use_rslora\": null, \"fan_in_fan_out\": \"\"}", NULL},
            {"{\"peft_type\": \"LORA\", \"target_modules\": [\"q_proj\"], \"r\": 1048577}",
                    "\"r\" is 1048577"},
            {"{\"peft_type\": \"LORA\", \"target_modules\": []}", "\"target_modules\" is wrong"},
            {"{\"peft_type\": \"LORA\", \"target_modules\": [null]}", "expected a list of names"},
            {"{\"peft_type\": \"LORA\", \"target_modules\": \"(\"}",
                    "\"target_modules\": the regular expression"},
    };
    check_configs(cases, sizeof cases / sizeof *cases);
}

// A safetensors file of zeros with these tensors.
static void write_adapter(arena *a, const char *dir, const st_entry *list, int n) {
    str file = {0};
    st_header(list, n, &file);
    int64_t bytes = 0;
    for (int i = 0; i < n; i++)
        bytes += st_entry_bytes(&list[i]);
    str_add(&file, arena_alloc(a, (size_t)bytes), (size_t)bytes);
    OK(file_write_atomic(path_join(a, dir, "adapter_model.safetensors"), file.p, file.n));
    str_free(&file);
}

TEST(tensors) {
#define Q "base_model.model.model.layers.0.self_attn.q_proj."
#define E "base_model.model.model.embed_tokens."
#define MATRIX(name, rows, cols)                                                                   \
    { name, 2, {rows, cols}, ST_F32 }
    static const struct {
        st_entry list[3];
        int n;
        const char *says;
    } cases[] = {
            {{MATRIX(Q "lora_A.weight", 4, 8), MATRIX(Q "lora_B.weight", 8, 4)}, 2, NULL},
            {{MATRIX(Q "lora_A.weight", 4, 8)}, 1, "is there, but not its .lora_B.weight"},
            {{MATRIX(Q "lora_B.weight", 8, 4)}, 1, "is there, but not its .lora_A.weight"},
            {{MATRIX(Q "lora_A.weight", 3, 8), MATRIX(Q "lora_B.weight", 8, 4)}, 2,
                    "has 3 rows and 8 columns, expected the rank of adapter_config.json, 4, as rows"},
            {{MATRIX(Q "lora_A.weight", 4, 8), MATRIX(Q "lora_B.weight", 4, 8)}, 2, "as columns"},
            {{MATRIX(E "base_layer.weight", 9, 8), MATRIX(E "lora_embedding_A", 4, 9),
                     MATRIX(E "lora_embedding_B", 8, 4)},
                    3, "is an adapter of an embedding"},
            {{MATRIX(Q "lora_A.weight", 4, 8), MATRIX(Q "lora_B.weight", 8, 4),
                     MATRIX(Q "lora_magnitude_vector", 8, 1)},
                    3, "DoRA's magnitudes"},
            {{MATRIX("base_model.model.lm_head.weight", 4, 8)}, 1, "trained in full"},
            {{MATRIX("model.layers.0.self_attn.q_proj.lora_A.weight", 4, 8)}, 1, "not PEFT's name"},
            {{MATRIX("base_model.model.model.layers.0.mlp.up_proj.lora_A.weight", 4, 8),
                     MATRIX("base_model.model.model.layers.0.mlp.up_proj.lora_B.weight", 8, 4)},
                    2, "belongs to no module of target_modules"},
            {{MATRIX("", 0, 0)}, 0, "has no tensors of an adapter"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *dir = temporary_dir(a), *config = path_join(a, dir, "adapter_config.json");
        adapter ad;
        FAILS(adapter_open(a, dir, &ad), DRV_E_DATA, "has no adapter_config.json");
        OK(file_write_atomic(config, "{" PLAIN "}", strlen("{" PLAIN "}")));
        OK(file_write_atomic(path_join(a, dir, "adapter_model.bin"), "", 0));
        FAILS(adapter_open(a, dir, &ad), DRV_E_DATA, "is not a file of torch.save");
        write_adapter(a, dir, cases[i].list, cases[i].n);
        if (cases[i].says)
            FAILS(adapter_open(a, dir, &ad), DRV_E_DATA, cases[i].says);
        else
            OK(adapter_open(a, dir, &ad));
        adapter_close(&ad);
    }
}

TEST(names) {
    assert_string_equal(adapter_tensor_name(a, "model.layers.3.mlp.up_proj.weight", 'B'),
            "base_model.model.model.layers.3.mlp.up_proj.lora_B.weight");
}
