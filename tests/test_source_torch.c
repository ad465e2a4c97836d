// Models in files of torch.save (tools/golden_torch.py): a folder with an index, checkpoints of
// trainers, an adapter; and Meta's own files (tools/golden_meta.py).
// Legend: s the source.
#include "harness.h"

#include "base/json.h"
#include "ckpt/adapter.h"
#include "config/config.h"
#include "infer/resolve.h"

static const char *folder(arena *a, const char *name) {
    return golden_path(a, arena_printf(a, "torch_save/%s", name));
}

static float *read_all(arena *a, const model_source *s, const source_tensor *t) {
    float *values = ARENA_ARRAY(a, float, t->rows * t->cols + 1);
    for (int64_t row = 0; row < t->rows; row++)
        OK(source_read_f32(s, t, row, 1, values + row * t->cols));
    return values;
}

// Every tensor has the bits of the truth, or with `sign` -1 all of them but the sign's.
static void is_model(arena *a, const model_source *s, const char *path, float sign) {
    st_file truth;
    OK(st_open(a, path, &truth));
    assert_int_equal(s->n, truth.n);
    for (int i = 0; i < truth.n; i++) {
        const st_tensor *expected = &truth.tensors[i];
        const source_tensor *t = model_source_find(s, expected->name);
        if (!t) fail_msg("no tensor \"%s\"", expected->name);
        assert_string_equal(t->type_name, expected->type_name);
        assert_int_equal(t->rows * t->cols, expected->elements);
        assert_int_equal(t->dim[0], expected->dim[0]);
        float *values = ARENA_ARRAY(a, float, expected->elements), *got = read_all(a, s, t);
        OK(st_read_f32(&truth, expected, 0, expected->elements, values));
        for (int64_t k = 0; k < expected->elements; k++)
            if (got[k] != sign * values[k]) fail_msg("%s differs at %lld", t->name, (long long)k);
        uint16_t *raw = ARENA_ARRAY(a, uint16_t, expected->elements),
                 *stored = ARENA_ARRAY(a, uint16_t, expected->elements);
        OK(source_read_raw(s, t, 0, t->rows, raw));
        OK(st_read_raw(&truth, expected, 0, expected->bytes, stored));
        if (sign > 0) assert_memory_equal(raw, stored, (size_t)expected->bytes);
    }
    st_close(&truth);
}

static void is_the_model(arena *a, const model_source *s, float sign) {
    is_model(a, s, folder(a, "index/truth.safetensors"), sign);
}

TEST(a_folder_with_an_index) {
    model_source s;
    json_t *config;
    OK(model_source_open(a, folder(a, "index"), &s));
    is_the_model(a, &s, 1);
    OK(model_source_config(&s, &config));
    assert_int_equal(json_integer_value(json_object_get(config, "vocab_size")), 48);
    json_decref(config);
    model_source_close(&s);
}

TEST(checkpoints_of_trainers) {
    const char *two = folder(a, "trainer/two.pt");
    model_source s;
    OK(model_source_open(a, folder(a, "trainer/last.ckpt"), &s)); // state_dict, and "model."
    is_the_model(a, &s, 1);
    model_source_close(&s);
    FAILS(model_source_open(a, two, &s), DRV_E_DATA,
            "has tensors under the keys \"model\", \"ema\"; choose one: drover ckpt import ");
    OK(model_source_open_torch(a, two, "model", &s));
    is_the_model(a, &s, 1);
    model_source_close(&s);
    OK(model_source_open_torch(a, two, "ema", &s));
    is_the_model(a, &s, -1);
    model_source_close(&s);
    FAILS(model_source_open_torch(a, two, "emma", &s), DRV_E_DATA,
            "nothing under the key \"emma\", expected one of its keys: \"model\", \"ema\"");
}

TEST(an_adapter) {
    adapter ours, theirs;
    OK(adapter_open(a, folder(a, "adapter"), &ours));
    OK(adapter_open(a, golden_path(a, "adapters/plain"), &theirs));
    assert_int_equal(ours.n, theirs.n);
    assert_true(ours.n > 0);
    for (int i = 0; i < ours.n; i++) {
        const adapter_module *m = &ours.modules[i], *other = adapter_find(&theirs, m->weight);
        bool same = false;
        assert_non_null(other);
        OK(model_source_same(&ours.tensors, m->a, &theirs.tensors, other->a, &same));
        assert_true(same);
        OK(model_source_same(&ours.tensors, m->b, &theirs.tensors, other->b, &same));
        assert_true(same);
    }
    adapter_close(&ours);
    adapter_close(&theirs);
}

// Copies the folder with one change of its index: `key` gets `value`, or goes away (NULL).
static const char *with_index(arena *a, const char *key, const char *value) {
    static const char *const files[] = {"pytorch_model-00001-of-00002.bin",
            "pytorch_model-00002-of-00002.bin"};
    const char *dir = temporary_dir(a), *from = folder(a, "index");
    char *bytes;
    size_t n;
    json_t *index;
    for (int i = 0; i < 2; i++) {
        OK(file_read(a, path_join(a, from, files[i]), &bytes, &n));
        OK(file_write_atomic(path_join(a, dir, files[i]), bytes, n));
    }
    OK(json_read_file(path_join(a, from, "pytorch_model.bin.index.json"), &index));
    json_t *map = json_object_get(index, "weight_map");
    if (value)
        json_object_set_new(map, key, json_string(value));
    else
        json_object_del(map, key);
    OK(json_write_file(path_join(a, dir, "pytorch_model.bin.index.json"), index));
    return dir;
}

TEST(an_index_that_lies) {
    static const struct {
        const char *key, *value, *says;
    } cases[] = {{"lm_head.weight", NULL, "leaves out \"lm_head.weight\" of "},
            {"lm_head.weight", "pytorch_model-00001-of-00002.bin", "too, not only in"},
            {"lm_head.weight", "../x.bin", "is not a file name"},
            {"more.weight", "pytorch_model-00001-of-00002.bin",
                    "but that file does not contain it"},
            {"more.weight", "none.bin", "names \"none.bin\", which is not there"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        model_source s;
        const char *dir = with_index(a, cases[i].key, cases[i].value);
        const drv_status status = model_source_open(a, dir, &s);
        assert_int_not_equal(status, DRV_OK);
        if (!strstr(drv_message(), cases[i].says)) fail_msg("%s", drv_message());
    }
}

// Shards by columns of the table, by rows with heads of keys in several, and one file alone.
TEST(files_of_meta) {
    static const struct {
        const char *name;
        int64_t kv_heads;
        bool tied;
        double factor;
    } cases[] = {{"columns", 2, false, 0}, {"rows", 2, true, 4}, {"one", 4, false, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = golden_path(a, arena_printf(a, "meta/%s", cases[i].name));
        model_source s;
        json_t *config;
        OK(model_source_open(a, path, &s));
        is_model(a, &s, path_join(a, path, "truth.safetensors"), 1);
        OK(model_source_config(&s, &config));
        assert_int_equal(json_integer_value(json_object_get(config, "num_key_value_heads")),
                cases[i].kv_heads);
        assert_int_equal(json_integer_value(json_object_get(config, "intermediate_size")), 48);
        assert_int_equal(json_integer_value(json_object_get(config, "vocab_size")), 48);
        assert_int_equal(json_is_true(json_object_get(config, "tie_word_embeddings")),
                cases[i].tied);
        const json_t *scaling = json_object_get(config, "rope_scaling");
        assert_true(json_number_value(json_object_get(scaling, "factor")) == cases[i].factor);
        json_decref(config);
        model_source_close(&s);
    }
}

static void copy_file(arena *a, const char *from, const char *dir, const char *to) {
    char *bytes;
    size_t n;
    OK(file_read(a, from, &bytes, &n));
    OK(file_write_atomic(path_join(a, dir, to), bytes, n));
}

// Copies a file of the golden folders of Meta to another name in `dir`.
static void copy_shard(arena *a, const char *dir, const char *from, const char *to) {
    copy_file(a, golden_path(a, arena_printf(a, "meta/%s", from)), dir, to);
}

static void loads(arena *a, const char *from, const char *tokenizer, run_config *out) {
    const char *set = arena_printf(a, "model.from=%s", from),
               *other = arena_printf(a, "tokenizer=%s", tokenizer);
    OK(config_load(a, NULL, (const char *const[]){set, other}, *tokenizer ? 2 : 1, out));
    assert_int_equal(out->model.hidden_size, 16);
    assert_int_equal(out->model.num_key_value_heads, 2);
    assert_int_equal(out->model.bos_token_id, 1);
    assert_true(config_loads_weights(out));
}

// A run begins with them: its sizes are the model's, and so is its tokenizer, which lies beside.
TEST(models_that_a_run_begins_with) {
    const char *trainer = temporary_dir(a), *meta = golden_path(a, "meta/rows");
    const char *checkpoint = path_join(a, trainer, "last.ckpt");
    run_config cfg;
    loads(a, meta, "", &cfg);
    assert_string_equal(cfg.tokenizer, "");
    assert_int_equal(cfg.model.rope_type, ROPE_LLAMA3);
    assert_true(cfg.model.tie_word_embeddings);
    copy_file(a, folder(a, "trainer/last.ckpt"), trainer, "last.ckpt");
    copy_file(a, folder(a, "trainer/config.json"), trainer, "config.json");
    loads(a, checkpoint, "", &cfg);
    assert_string_equal(cfg.tokenizer, "");
    OK(file_write_atomic(path_join(a, trainer, "qwen.tiktoken"), "", 0));
    loads(a, checkpoint, "", &cfg);
    assert_string_equal(cfg.tokenizer, trainer);
    loads(a, checkpoint, path_join(a, trainer, "qwen.tiktoken"), &cfg); // its ids are the model's
}

// A config.json that is named counts, whatever the folder has; what has its own sizes takes none.
TEST(a_config_from_elsewhere) {
    const char *dir = temporary_dir(a), *config = path_join(a, dir, "other.json"),
               *file = path_join(a, dir, "last.ckpt");
    model_source s;
    json_t *read;
    copy_file(a, folder(a, "trainer/last.ckpt"), dir, "last.ckpt");
    copy_file(a, folder(a, "trainer/config.json"), dir, "other.json");
    for (int i = 0; i < 2; i++) {
        OK(model_source_open_with(a, file, config, &s));
        OK(model_source_config(&s, &read));
        assert_int_equal(json_integer_value(json_object_get(read, "vocab_size")), 48);
        json_decref(read);
        model_source_close(&s);
        OK(file_write_atomic(path_join(a, dir, "config.json"), "{}", 2));
    }
    FAILS(model_source_open_with(a, golden_path(a, "meta/rows"), config, &s), DRV_E_USAGE,
            "has the sizes of its model itself");
}

// An adapter names its base by the file.
TEST(a_base_that_is_a_file) {
    const char *dir = temporary_dir(a), *trainer = temporary_dir(a);
    const char *base = path_join(a, trainer, "last.ckpt");
    model_ref ref;
    model_source s;
    json_t *config;
    copy_file(a, folder(a, "trainer/last.ckpt"), trainer, "last.ckpt");
    copy_file(a, folder(a, "trainer/config.json"), trainer, "config.json");
    copy_file(a, folder(a, "adapter/adapter_model.bin"), dir, "adapter_model.bin");
    OK(json_read_file(folder(a, "adapter/adapter_config.json"), &config));
    json_object_set_new(config, "base_model_name_or_path", json_string(base));
    OK(json_write_file(path_join(a, dir, "adapter_config.json"), config));
    OK(model_resolve(a, dir, NULL, &ref));
    assert_string_equal(ref.adapter, dir);
    OK(model_source_open(a, ref.folder, &s));
    is_the_model(a, &s, 1);
    model_source_close(&s);
}

// Verbs that use a model take these files as they are: a folder is made for them.
TEST(models_that_are_used_as_they_are) {
    const char *meta = temporary_dir(a), *trainer = temporary_dir(a);
    const char *checkpoint = path_join(a, trainer, "last.ckpt");
    model_ref ref;
    model_source s;
    copy_shard(a, meta, "columns/consolidated.00.pth", "consolidated.00.pth");
    copy_shard(a, meta, "columns/consolidated.01.pth", "consolidated.01.pth");
    copy_shard(a, meta, "columns/params.json", "params.json");
    FAILS(model_resolve(a, meta, NULL, &ref), DRV_E_DATA, "has no tokenizer");
    OK(file_write_atomic(path_join(a, meta, "tokenizer.json"), "{}", 2));
    OK(model_resolve(a, arena_printf(a, "%s/", meta), NULL, &ref));
    assert_true(file_exists(path_join(a, ref.folder, "config.json")));
    OK(model_source_open(a, ref.folder, &s));
    is_model(a, &s, golden_path(a, "meta/columns/truth.safetensors"), 1);
    model_source_close(&s);
    copy_file(a, folder(a, "trainer/last.ckpt"), trainer, "last.ckpt");
    copy_file(a, folder(a, "trainer/config.json"), trainer, "config.json");
    OK(file_write_atomic(path_join(a, trainer, "tokenizer.json"), "{}", 2));
    OK(model_resolve(a, checkpoint, NULL, &ref));
    OK(model_source_open(a, ref.folder, &s));
    is_the_model(a, &s, 1);
    model_source_close(&s);
    copy_file(a, arena_printf(a, "%s/golden/foreign/alone.nemo", TEST_DIR), trainer, "llm.nemo");
    // Where there has to be a folder of safetensors, as for a push, the message says how to make it.
    FAILS(ckpt_resolve(a, meta, &ref.folder), DRV_E_USAGE, "drover ckpt import");
    FAILS(ckpt_resolve(a, path_join(a, trainer, "llm.nemo"), &ref.folder), DRV_E_USAGE,
            "drover ckpt import");
}

TEST(files_of_meta_that_do_not_fit) {
    static const struct {
        const char *params, *second, *says;
    } cases[] = {{"{}", "columns/consolidated.01.pth", "params.json: \"dim\" is missing"},
            {"{\"dim\": 16, \"n_layers\": 2, \"n_heads\": 3, \"norm_eps\": 1e-5}",
                    "columns/consolidated.01.pth", "do not divide one another"},
            {"{\"dim\": 16, \"n_layers\": 2, \"n_heads\": 4, \"norm_eps\": 0}",
                    "columns/consolidated.01.pth", "\"norm_eps\" is missing"},
            {"{\"dim\": 16, \"n_layers\": 1, \"n_heads\": 4, \"norm_eps\": 1e-5}",
                    "columns/consolidated.01.pth", "has no place in a Llama of 1 layers"},
            {"{\"dim\": 16, \"n_layers\": 3, \"n_heads\": 4, \"norm_eps\": 1e-5}",
                    "columns/consolidated.01.pth", "n_layers is 3, but "},
            {"{\"dim\": 16, \"n_layers\": 2000000000, \"n_heads\": 4, \"norm_eps\": 1e-5}",
                    "columns/consolidated.01.pth", "n_layers is 2000000000"},
            {"{\"dim\": 16, \"n_layers\": 2, \"n_heads\": 4, \"norm_eps\": 1e-5, \"moe\": {}}",
                    "columns/consolidated.01.pth", "is a model with experts"},
            {"{\"dim\": 16, \"n_layers\": 2, \"n_heads\": 4, \"norm_eps\": 1e-5}",
                    "rows/consolidated.01.pth", "has another shape or type than in"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *dir = temporary_dir(a);
        model_source s;
        copy_shard(a, dir, "columns/consolidated.00.pth", "consolidated.00.pth");
        copy_shard(a, dir, cases[i].second, "consolidated.01.pth");
        OK(file_write_atomic(path_join(a, dir, "params.json"), cases[i].params,
                strlen(cases[i].params)));
        const drv_status status = model_source_open(a, dir, &s);
        if (status != DRV_E_DATA || !strstr(drv_message(), cases[i].says))
            fail_msg("case %zu: %s", i, drv_message());
    }
}

// Of four files the last one is missing, or one in the middle.
TEST(files_of_meta_of_which_one_is_missing) {
    for (int missing = 2; missing < 4; missing++) {
        const char *dir = temporary_dir(a);
        model_source s;
        copy_shard(a, dir, "rows/params.json", "params.json");
        for (int i = 0; i < 4; i++) {
            const char *name = arena_printf(a, "consolidated.%02d.pth", i);
            if (i != missing) copy_shard(a, dir, arena_printf(a, "rows/%s", name), name);
        }
        FAILS(model_source_open(a, dir, &s), DRV_E_DATA,
                "expected 16 as dim in params.json: is a file missing?");
    }
}
