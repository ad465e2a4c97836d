// Checkpoints of other trainers as sources, against the Hugging Face folder that they were made
// from (tools/golden_foreign.py), and what is wrong with them.
//
// Legend: s a source
#include "harness.h"

#include <math.h>

#include "source/foreign_state.h"
#include "pickle/dcp_metadata.h"
#include "pickle/tar.h"

static const char *golden(arena *a, const char *name) {
    return golden_path(a, arena_printf(a, "foreign/%s", name));
}

// --- what the readers give
static void check_tensor(arena *a, const model_source *s, const model_source *model,
        const source_tensor *expected) {
    const source_tensor *t = model_source_find(s, expected->name);
    if (!t) fail_msg("%s has no %s", s->path, expected->name);
    assert_int_equal(t->type, expected->type);
    assert_int_equal(t->n_dims, expected->n_dims);
    assert_memory_equal(t->dim, expected->dim, sizeof *t->dim * (size_t)t->n_dims);
    const size_t n = (size_t)(t->rows * t->row_bytes);
    char *x = arena_alloc(a, n), *y = arena_alloc(a, n);
    float *f = ARENA_ARRAY(a, float, t->rows * t->cols),
          *g = ARENA_ARRAY(a, float, t->rows * t->cols);
    OK(source_read_raw(model, expected, 0, t->rows, y));
    OK(source_read_f32(model, expected, 0, t->rows, g));
    for (int64_t n_rows = 1; n_rows <= 3; n_rows++) { // by pieces that fit no chunk
        for (int64_t row = 0, k; row < t->rows; row += k) {
            k = t->rows - row < n_rows ? t->rows - row : n_rows;
            OK(source_read_raw(s, t, row, k, x + row * t->row_bytes));
            OK(source_read_f32(s, t, row, k, f + row * t->cols));
        }
        if (memcmp(x, y, n) != 0) fail_msg("%s: %s differs", s->path, t->name);
        assert_memory_equal(f, g, sizeof *f * (size_t)(t->rows * t->cols));
    }
}

static void check_model(const char *name, const char *config) {
    arena *a = arena_new("foreign");
    model_source s, model;
    OK(model_source_open(a, golden(a, "model"), &model));
    OK(model_source_open_with(a, golden(a, name), config ? golden(a, config) : NULL, &s));
    assert_int_equal(s.n, model.n);
    for (int i = 0; i < model.n; i++)
        check_tensor(a, &s, &model, &model.tensors[i]);
    model_source_close(&s);
    model_source_close(&model);
    arena_free(a);
}

TEST(models_are_the_same) {
    check_model("dcp", NULL);
    check_model("dcp", "model/config.json");
    check_model("mcore", "model/config.json");
    check_model("mcore/iter_0000007", "model/config.json");
    check_model("classic", "model/config.json");
    check_model("nxd", "model/config.json");
    check_model("nxd/model", "model/config.json");
    check_model("xser", "model/config.json");
    check_model("nnm", "model/config.json");
    check_model("ranks.nemo", "model/config.json");
    check_model("alone.nemo", "model/config.json");
}

// Megatron's arguments are a config.json, but for the size of the vocabulary before it was padded.
TEST(arguments_are_a_config) {
    model_source s;
    json_t *config;
    OK(model_source_open(a, golden(a, "mcore"), &s));
    OK(model_source_config(&s, &config));
    char *text = json_dumps(config, JSON_SORT_KEYS | JSON_COMPACT);
    assert_string_equal(text,
            "{\"architectures\":[\"LlamaForCausalLM\"],\"head_dim\":4,\"hidden_act\":\"silu\","
            "\"hidden_size\":16,\"intermediate_size\":24,\"max_position_embeddings\":64,"
            "\"model_type\":\"llama\",\"num_attention_heads\":4,\"num_hidden_layers\":2,"
            "\"num_key_value_heads\":2,\"rms_norm_eps\":1.0000000000000001e-5,\"rope_theta\":10000.0,"
            "\"tie_word_embeddings\":false,\"vocab_size\":32}");
    free(text);
    json_decref(config);
    assert_int_equal(model_source_find(&s, "lm_head.weight")->rows, 32);
    model_source_close(&s);
    FAILS(model_source_open(a, golden(a, "classic"), &s), DRV_E_DATA, "without a config.json");
}

// --- .metadata
TEST(metadata_is_checked) {
    static const struct {
        const char *file, *error;
    } cases[] = {
            {"good", NULL},
            {"overlap", "\"tok_embeddings.weight\" has chunks that overlap"},
            {"missing_chunk", "\"tok_embeddings.weight\" has chunks of 4 elements, expected 8"},
            {"beyond", "has a chunk that reaches beyond it"},
            {"no_place", "has a chunk that no file has"},
            {"no_such_chunk", "has a place for a chunk that it has not"},
            {"two_places", "has a place for a chunk that it has not"},
            {"other_folder", "lies in \"../x\", expected a file of the folder"},
            {"dimensions", "has a chunk without offsets and sizes of its dimensions"},
            {"complex", "torch.complex64"},
            {"of_nothing", "a place belongs to no tensor (\"norm.weight\")"},
            {"compressed", "was transformed as it was written"},
            {"huge", "has too many elements"},
            {"no_dict", "has no dict state_dict_metadata"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dcp_metadata m;
        char *bytes;
        size_t n;
        OK(file_read(a, golden(a, arena_printf(a, "bad/%s.metadata", cases[i].file)), &bytes, &n));
        if (cases[i].error)
            FAILS(dcp_metadata_parse(a, "m", bytes, n, &m), DRV_E_DATA, cases[i].error);
        else
            OK(dcp_metadata_parse(a, "m", bytes, n, &m));
        for (size_t k = 0; k < n; k++) // cut anywhere
            FAILS(dcp_metadata_parse(a, "m", bytes, k, &m), DRV_E_DATA, "m: ");
    }
}

// --- harmed folders
static const char *copy_of(arena *a, const char *name) {
    const char *dir = temporary_dir(a);
    files_copy(a, golden(a, name), dir);
    return dir;
}

// The folder that NeMo 2 or Accelerate made around the checkpoint stands for it.
TEST(checkpoints_in_a_folder_below) {
    static const char *const names[] = {"weights", "pytorch_model_fsdp_0"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *dir = temporary_dir(a), *below = path_join(a, dir, names[i]);
        model_source s;
        OK(dir_make(below));
        files_copy(a, golden(a, "dcp"), below);
        assert_int_equal(rename(path_join(a, below, "config.json"),
                                 path_join(a, dir, "config.json")),
                0);
        OK(model_source_open(a, dir, &s));
        assert_non_null(model_source_find(&s, "model.norm.weight"));
        model_source_close(&s);
    }
}

// The files of two tensor ranks, harmed in one.
TEST(ranks_that_disagree) {
    static const struct {
        const char *rank, *from, *to, *error;
    } cases[] = {
            {"mp_rank_01", "", NULL, "lacks the file of tensor rank 0 and pipeline rank 0"},
            {"mp_rank_01", "final_layernorm", "final_layernorn",
                    "has no tensor \"language_model.encoder.final_layernorm.weight\""},
            {"mp_rank_00", "final_layernorm", "final_layernorn", "none of a Llama's"},
            {"mp_rank_00", "_rebuild_tensor_v2", "_rebuild_tensor_v9", "_rebuild_tensor_v9"},
            {"mp_rank_01", "BFloat16Storage", "HalfStorage", "mp_rank_01"},
            {"mp_rank_01", "PK\x01\x02", "PK\x01\x03", "mp_rank_01"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *dir = temporary_dir(a), *rank = path_join(a, dir, cases[i].rank);
        model_source s;
        for (int k = 0; k < 2; k++) {
            char *bytes, *of = arena_printf(a, "mp_rank_%02d", k);
            size_t n;
            OK(file_read(a,
                    golden(a, arena_printf(a, "classic/iter_0000007/%s/model_optim_rng.pt", of)),
                    &bytes, &n));
            OK(dir_make(path_join(a, dir, of)));
            OK(file_write_atomic(arena_printf(a, "%s/%s/model_optim_rng.pt", dir, of), bytes, n));
        }
        if (cases[i].to)
            file_replace(a, path_join(a, rank, "model_optim_rng.pt"), cases[i].from, cases[i].to);
        else
            OK(dir_remove(path_join(a, dir, "mp_rank_00")));
        FAILS(model_source_open_with(a, dir, golden(a, "model/config.json"), &s), DRV_E_DATA,
                cases[i].error);
    }
}

TEST(harm_is_named) {
    static const struct {
        const char *file, *from, *to; // no `from`: cut in the middle; no `to`: removed
        const char *error;
    } cases[] = {
            {"__1_0.distcp", NULL, NULL, "is it truncated?"},
            {"__1_0.distcp", "", NULL, "names \"__1_0.distcp\", which is not there"},
            {"__1_0.distcp", "BFloat16Storage", "HalfStorage", "__1_0.distcp"},
            {"__1_0.distcp", "_rebuild_tensor_v2", "_rebuild_tensor_v9", "_rebuild_tensor_v9"},
            {".metadata", "ChunkStorageMetadata", "ChunkStorageMetadatb", "ChunkStorageMetadatb"},
            {".metadata", "feed_forward.w1.weight", "feed_forward.w9.weight",
                    "tensor \"layers.0.feed_forward.w9.weight\" is none of a Llama's"},
            {".metadata", "tok_embeddings.weight", "tok_embeddingz.weight",
                    "no tensor is the embedding of a Llama"},
            {".metadata", "layers.1.", "layers.2.", "of another number of layers than 2"},
            {"config.json", "", NULL, "without a config.json"},
            {"config.json", "\"num_attention_heads\": 4", "\"num_attention_heads\": 0",
                    "\"num_attention_heads\" is missing or no size"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *dir = copy_of(a, "dcp");
        char *file = path_join(a, dir, cases[i].file), *bytes;
        size_t n;
        model_source s;
        OK(file_read(a, file, &bytes, &n));
        if (!cases[i].from)
            OK(file_write_atomic(file, bytes, n / 2));
        else if (!cases[i].to)
            OK(dir_remove(file));
        else
            file_replace(a, file, cases[i].from, cases[i].to);
        FAILS(model_source_open(a, dir, &s), DRV_E_DATA, cases[i].error);
    }
}

// --- archives
TEST(archives_have_members) {
    static const char *const forms[] = {"pax", "gnu", "ustar"};
    for (int i = 0; i < 3; i++) {
        char *bytes, read[600], *name = arena_printf(a, "tar/%s.tar", forms[i]);
        size_t n_bytes;
        tar_file tar;
        OK(file_read(a, golden(a, name), &bytes, &n_bytes));
        file_part part = {.path = "t",
                .fd = -1,
                .memory = (const unsigned char *)bytes,
                .size = (int64_t)n_bytes};
        assert_true(tar_is_tar(&part));
        OK(tar_read(a, &part, &tar));
        assert_int_equal(tar.n, 3);
        assert_int_equal(strlen(tar.members[0].name), strlen("folder/") + 88 + strlen("/name"));
        assert_true(str_starts(tar.members[0].name, "folder/longlong"));
        assert_true(str_ends(tar.members[0].name, "long/name"));
        assert_int_equal(tar.members[0].part.size, 5);
        OK(file_part_read(&tar.members[0].part, 0, 5, read));
        assert_memory_equal(read, "first", 5);
        assert_string_equal(tar.members[1].name, "second");
        assert_int_equal(tar.members[1].part.size, 513);
        OK(file_part_read(&tar.members[1].part, 512, 1, read));
        assert_int_equal(read[0], '2');
        assert_string_equal(tar.members[2].name, "empty");
        for (; part.size > 0; part.size--) // cut anywhere but in the empty blocks at its end
            if (tar_read(a, &part, &tar) != DRV_OK) assert_true(str_starts(drv_message(), "t: "));
    }
}

TEST(harmed_archives_are_named) {
    static const struct {
        const char *name, *from, *to, *error; // no `from`: cut in the middle
    } cases[] = {
            {"ranks.nemo", NULL, NULL, "reaches beyond the end of the archive"},
            {"ranks.nemo", "ustar", "ustbr", "is not a tar archive, or is compressed"},
            {"ranks.nemo", "tp_rank_01_pp_rank_001", "tp_rank_01_pp_rank_002",
                    "has a header that does not fit its checksum"},
            {"ranks.nemo", "model_weights.ckpt", "model_weights.ckqs", "has no model_weights.ckpt"},
            {"alone.nemo", "model_weights.ckpt", "model_weights/ckps",
                    "has a distributed checkpoint"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *file = path_join(a, temporary_dir(a), "m.nemo");
        model_source s;
        char *bytes;
        size_t n;
        OK(file_read(a, golden(a, cases[i].name), &bytes, &n));
        OK(file_write_atomic(file, bytes, cases[i].from ? n : n / 2));
        if (cases[i].from) file_replace(a, file, cases[i].from, cases[i].to);
        FAILS(model_source_open_with(a, file, golden(a, "model/config.json"), &s), DRV_E_DATA,
                cases[i].error);
    }
}

// --- optimizers of ranks
static char *states(arena *a, const char *name) {
    return arena_printf(a, "%s/golden/rank_states/%s", TEST_DIR, name);
}

// Against the full tensors that they were made from (tools/golden_rank_states.py).
TEST(optimizers_of_ranks_are_the_same) {
    static const struct {
        const char *name, *truth;
        int64_t samples;
    } cases[] = {{"float16", "model", -1}, {"distributed", "model", 224}, {"zero", "model", -1},
            {"nnm", "model", 224}, {"nnm_zero", "model", 224},
            {"nnm_zero/mp_rank_00", "model", 224}, {"tied", "tied", -1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *truth = states(a, cases[i].truth);
        model_source s, full;
        foreign_progress progress;
        OK(model_source_open_folder(a, truth, "state", &full));
        OK(model_source_open_optimizer(a, states(a, cases[i].name),
                path_join(a, truth, "config.json"), &s, &progress));
        assert_int_equal(s.n, full.n);
        for (int k = 0; k < full.n; k++)
            check_tensor(a, &s, &full, &full.tensors[k]);
        assert_int_equal(progress.step, 7);
        assert_int_equal(progress.updates, 7);
        assert_int_equal(progress.samples, cases[i].samples);
        assert_true(fabs(progress.learning_rate - 0.00125) < 1e-12);
        model_source_close(&s);
        model_source_close(&full);
    }
}

static void copy_tree(arena *a, const char *from, const char *to) {
    char **names, *bytes;
    int n;
    size_t n_bytes;
    OK(dir_make(to));
    OK(dir_list(a, from, &names, &n));
    for (int i = 0; i < n; i++) {
        const char *file = path_join(a, from, names[i]), *copy = path_join(a, to, names[i]);
        if (file_is_dir(file)) {
            copy_tree(a, file, copy);
            continue;
        }
        OK(file_read(a, file, &bytes, &n_bytes));
        OK(file_write_atomic(copy, bytes, n_bytes));
    }
}

#define SHARD    "optim/dp_rank_00_tp_rank_00_pp_rank_00.pt"
#define MEGATRON "iter_0000007/mp_rank_00_000/model_optim_rng.pt"
#define BUFFERS  "iter_0000007/mp_rank_00_000/distrib_optim.pt"

TEST(harmed_optimizers_are_named) {
    static const struct {
        const char *name, *file, *from, *to; // no `from`: `to` of the folder bad; no `to`: removed
        const char *error;
    } cases[] = {
            {"zero", SHARD, "", NULL,
                    "is not there, expected the optimizer's files of 2 data ranks"},
            {"zero", SHARD, "base_state", "base_statf", "has no base_state"},
            {"zero", SHARD, "exp_avg_sq", "exp_avg_sr", "the optimizer has no exp_avg_sq of \""},
            {"zero", SHARD, "sharded_master_weights", "sharded_master_weightt",
                    "master weight of \""},
            {"zero", SHARD, NULL, "bad/groups.pt", "do not identify their weights"},
            {"zero", SHARD, NULL, "bad/size.pt", "has another size than the weight"},
            {"zero", SHARD, NULL, "bad/step.pt", "the optimizer's step is 7, expected 8"},
            {"zero", SHARD, NULL, "bad/type.pt", "is of float32, expected bfloat16"},
            {"zero", SHARD, NULL, "bad/buckets.pt", "has no base_state"},
            {"zero", SHARD, NULL, "model/config.json", SHARD},
            {"zero", "optim", "", NULL, "has no optimizer state"},
            {"nnm_zero", "mp_rank_00/optim/dp_rank_001", "", NULL,
                    "are of other sizes than the rank's weights"},
            {"float16", MEGATRON, "fp32_from_fp16_params", "fp32_from_fp16_paramt",
                    "the optimizer has master weights, that of"},
            {"float16", MEGATRON, "param_groups", "param_groupt", "has 0 parameters, expected"},
            {"distributed", BUFFERS, "", NULL, "is not there, expected the state of the optimizer"},
            {"distributed", BUFFERS, "buckets_coalesced", "buckets_coalescee",
                    "as Megatron-Core before 0.7 wrote them"},
            {"distributed", "iter_0000007/mp_rank_00_001/distrib_optim.pt", NULL, "bad/buckets.pt",
                    "the ends of buckets are not known"},
            {"distributed", BUFFERS, NULL, "bad/size.pt", "as Megatron-Core before 0.7 wrote them"},
            {"distributed", BUFFERS, "exp_avg_sq", "exp_avg_sr", "has no \"exp_avg_sq\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *dir = temporary_dir(a), *file = path_join(a, dir, cases[i].file);
        model_source s;
        foreign_progress progress;
        char *bytes;
        size_t n;
        copy_tree(a, states(a, cases[i].name), dir);
        if (!cases[i].to)
            OK(dir_remove(file));
        else if (cases[i].from)
            file_replace(a, file, cases[i].from, cases[i].to);
        else {
            OK(file_read(a, states(a, cases[i].to), &bytes, &n));
            OK(file_write_atomic(file, bytes, n));
        }
        FAILS(model_source_open_optimizer(a, dir, states(a, "model/config.json"), &s, &progress),
                DRV_E_DATA, cases[i].error);
    }
}
