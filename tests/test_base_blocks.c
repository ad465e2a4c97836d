// LoRA beside a base in blocks (model.base_dtype): the bits of one whose weights are what the
// blocks say, on one rank and on several; bytes as planned; the blocks of a GGUF file; what does
// not divide.
#include "layout_bits.h"

#include "ckpt/model_writer.h"
#include "gguf/gguf_builder.h"
#include "weights/lora_state.h"

#define ZERO3 "parallel.zero=3"
#define LORA  "lora.rank=4"
#define ALL   "lora.target_modules=all-linear"

// Rows of every matrix are whole blocks of 256, on two tensor ranks too.
static const char *const wide[] = {"model.hidden_size=256", "model.num_attention_heads=4",
        "model.num_key_value_heads=2", "model.head_dim=128", "model.intermediate_size=512",
        "model.num_hidden_layers=2", "data.sequence_length=24", LORA, ALL};
enum { N_WIDE = sizeof wide / sizeof *wide };

static int add_wide(const char **sets) {
    for (int i = 0; i < N_WIDE; i++)
        sets[i] = wide[i];
    return N_WIDE;
}

// --- a base of what the blocks say
// Opens the same run with its base in blocks, and puts what they widen to in place of the base.
static drv_status widen_base(comm *self, arena *a, programs *p, const char *const *sets, int n_sets,
        const char *type_key) {
    const char *all[MAX_SETS];
    rank_run held;
    for (int i = 0; i < n_sets; i++)
        all[i] = sets[i];
    all[n_sets] = type_key;
    DRV_TRY(rank_run_open(self, a, all, n_sets + 1, "cpu", NULL, &held));
    int n_held = 0;
    for (int i = 0; i < held.built.held.params.n; i++) {
        const param *w = &held.built.held.params.p[i], *plain = &p->held.params.p[i];
        if (!w->blocks) continue;
        n_held++;
        assert_null(plain->blocks);
        const int64_t bytes = block_matrix_bytes(w->blocks), columns = w->dim[1];
        char *blocks = mem_alloc((size_t)bytes);
        float *row = mem_alloc(sizeof *row * (size_t)columns);
        DRV_TRY(backend_read(held.device, w->name, 0, bytes, blocks));
        for (int64_t r = 0; r < w->dim[0]; r++) {
            const quant_type *type;
            const int64_t at = block_row_at(w->blocks, r, &type);
            block_widen(type, blocks + at, 0, columns, row);
            DRV_TRY(held_write_weight(&p->held, plain, r * columns, columns, row));
        }
        free(blocks), free(row);
    }
    assert_int_equal(n_held, 2 * 4 + (p->held.params.head == p->held.params.embedding ? 1 : 2));
    backend_close(held.device);
    return DRV_OK;
}

static const char *base_of_widened; // of the run that widen_before is the hook of

static drv_status widen_before(comm *self, arena *a, const layout_run *run, programs *p) {
    return widen_base(self, a, p, run->sets, run->n_sets, base_of_widened);
}

TEST(blocks_have_the_bits_of_what_they_say) {
    static const char *const cases[][4] = {{"model.base_dtype=q8_0", "training.precision=bf16",
                                                   "model.tie_word_embeddings=false",
                                                   "training.recompute=none"},
            {"model.base_dtype=q4_k", "training.precision=bf16", "model.tie_word_embeddings=true",
                    "training.recompute=full"},
            {"model.base_dtype=q4_k", "training.precision=fp32", "model.tie_word_embeddings=false",
                    "lora.dropout=0.2"}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const char *all[MAX_SETS];
        int n = add_wide(all);
        for (int i = 1; i < 4; i++)
            all[n++] = cases[c][i];
        base_of_widened = cases[c][0];
        before_steps = widen_before;
        layout_run widened = run_case(&alone, all, n);
        before_steps = NULL;
        if (c == 0) { // they are another base than that which was quantised
            layout_run other = run_case(&alone, all, n);
            assert_true(other.loss[0] != widened.loss[0]);
            free(other.weights);
        }
        all[n++] = cases[c][0];
        layout_run held = run_case(&alone, all, n);
        expect_same_bits(&held, &widened);
        free(held.weights), free(widened.weights);
    }
}

TEST(ranks_have_the_bits_of_one) {
    static const bits_case meshes[][3] = {{{2, 1, 2, 1, {WHOLE, ZERO0}},
                                                  {1, 1, 1, 2, {"parallel.schedule=zb-h1"}},
                                                  {1, 1, 2, 1, {ZERO3}}},
            {{2, 1, 1, 1, {SHARED}}, {2, 1, 1, 2, {SHARED, "training.recompute=full"}},
                    {2, 1, 4, 1, {ZERO3, "parallel.zero_group=2", "training.recompute=full"}}}};
    static const char *const types[] = {"model.base_dtype=q8_0", "model.base_dtype=q4_k"};
    for (size_t t = 0; t < 2; t++) {
        const char *all[MAX_SETS];
        int n = add_wide(all);
        all[n++] = types[t];
        all[n++] = t ? "model.tie_word_embeddings=true" : "model.tie_word_embeddings=false";
        same_bits_on(meshes[t], 3, all, n);
    }
}

// --- bytes
static int64_t weight_bytes(const char *const *sets, int n_sets) {
    arena *a = arena_new("plan");
    run_config cfg;
    programs p;
    backend *null;
    OK(config_load(a, NULL, sets, n_sets, &cfg));
    null = backend_open_planner(a, false);
    OK(programs_build(a, &cfg, &p));
    OK(programs_load(a, null, &p));
    const int64_t bytes = programs_memory(&p).weights;
    backend_close(null);
    arena_free(a);
    return bytes;
}

// 34 bytes for 32 numbers; 144 for 256 but for the output weight. (Runs hold what was planned:
// rank_run_open checks it.)
TEST(plans_count_blocks) {
    const double layers = 32.0 * (4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3.0 * 4096 * 14336),
                 table = 128256.0 * 4096, norms = 4 * 65 * 4096;
    const double rank8 = 2 * 32 * 8 * (4096.0 * 3 + 1024);
    const struct {
        const char *type;
        double bytes;
    } cases[] = {{"model.base_dtype=auto", 2 * (layers + 2 * table)},
            {"model.base_dtype=bf16", 2 * (layers + 2 * table)},
            {"model.base_dtype=q8_0", 34.0 / 32 * (layers + 2 * table)},
            {"model.base_dtype=q4_k", 144.0 / 256 * (layers + table) + 34.0 / 32 * table}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *sets[] = {"model.preset=llama-3.1-8b", "data.sequence_length=512",
                "lora.rank=8", cases[i].type};
        const double got = (double)weight_bytes(sets, 4), want = cases[i].bytes + norms + rank8;
        if (fabs(got / want - 1) > 1e-4)
            fail_msg("%s: %.0f bytes of weights, expected %.0f", cases[i].type, got, want);
    }
}

// --- what does not divide
static void refuse(const char *const *sets, int n_sets, const char *text) {
    const char *all[MAX_SETS] = {"model.preset=tiny", LORA};
    arena *a = arena_new("refused");
    run_config cfg;
    programs p;
    for (int i = 0; i < n_sets; i++)
        all[2 + i] = sets[i];
    OK(config_load(a, NULL, all, 2 + n_sets, &cfg));
    FAILS(programs_build(a, &cfg, &p), DRV_E_USAGE, text);
    arena_free(a);
}

TEST(rows_that_are_no_blocks_are_refused) {
    refuse((const char *[]){"model.base_dtype=q4_k", "model.hidden_size=128"}, 2,
            "key \"model.base_dtype\" is q4_k, but \"model.layers.0.self_attn.q_proj.weight\" has rows "
            "of 128 numbers, expected a multiple of 256, the numbers of a block of Q4_K");
    refuse((const char *[]){"model.base_dtype=q8_0", "model.hidden_size=64",
                   "model.intermediate_size=96", "parallel.tensor=2"},
            4,
            "\"model.layers.0.mlp.down_proj.weight\" has rows of 48 numbers on each of 2 tensor "
            "ranks (96 in all), expected a multiple of 32");
    expect_refused("model.base_dtype=q8_0", "lora.rank=0", "without a section lora");
    run_config cfg;
    const char *pjrt[] = {"model.preset=tiny", LORA, "backend=pjrt", "model.base_dtype=q8_0"},
               *gguf[] = {"model.preset=tiny", LORA, "model.base_dtype=gguf"};
    FAILS(config_load(a, NULL, pjrt, 4, &cfg), DRV_E_USAGE, "which backend pjrt does not widen");
    FAILS(config_load(a, NULL, gguf, 3, &cfg), DRV_E_USAGE, "expected model.from");
}

// --- the blocks of a GGUF file
static void put_blocks(gguf_builder *header, str *data) {
    static const struct {
        const char *name;
        int type;
        int64_t columns, rows;
    } tensors[] = {{"token_embd.weight", QUANT_Q4_K, 256, 64},
            {"output_norm.weight", QUANT_F32, 256, 1}, {"output.weight", QUANT_Q6_K, 256, 64},
            {"blk.0.attn_norm.weight", QUANT_F32, 256, 1},
            {"blk.0.attn_q.weight", QUANT_Q4_K, 256, 512},
            {"blk.0.attn_k.weight", QUANT_Q4_K, 256, 256},
            {"blk.0.attn_v.weight", QUANT_Q6_K, 256, 256},
            {"blk.0.attn_output.weight", QUANT_Q8_0, 512, 256},
            {"blk.0.ffn_norm.weight", QUANT_F32, 256, 1}, {"blk.0.ffn_gate.weight", 13, 256, 512},
            {"blk.0.ffn_up.weight", QUANT_F16, 256, 512},
            {"blk.0.ffn_down.weight", QUANT_Q6_K, 512, 256}};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        const quant_type *type = quant_type_of((uint32_t)tensors[i].type);
        const int64_t dim[] = {tensors[i].columns, tensors[i].rows},
                      n = gguf_put_tensor(header, tensors[i].name, (quant_id)tensors[i].type, dim,
                              tensors[i].rows > 1 ? 2 : 1);
        for (int64_t b = 0; b < n / type->block_bytes; b++) {
            unsigned char block[256] = {0};
            const float one = 1, small = (float)noise(i + 3, (uint64_t)b) / 16;
            const uint16_t scale = f32_to_f16(2e-3f / (type->block == 256 ? 16 : 32)),
                           half = f32_to_f16(small);
            for (int k = 0; k < type->block_bytes; k++)
                block[k] = (unsigned char)(128 * (1 + noise(i, (uint64_t)(b * 256 + k))));
            if (tensors[i].type == QUANT_F32) memcpy(block, &one, 4);
            if (tensors[i].type == QUANT_F16) memcpy(block, &half, 2);
            if (type->block > 1)
                memcpy(block + (tensors[i].type == QUANT_Q6_K ? 208 : 0), &scale, 2);
            if (type->block == 256 && tensors[i].type != QUANT_Q6_K) memcpy(block + 2, &scale, 2);
            str_add(data, (const char *)block, (size_t)type->block_bytes);
        }
        static const char zeros[GGUF_ALIGNMENT];
        str_add(data, zeros, (size_t)gguf_padding(n));
    }
}

// A Llama of one layer with matrices of many types, those of one projection among them, as the
// folder that ckpt import --keep-blocks makes.
static const char *gguf_folder(arena *a) {
    const char *dir = temporary_dir(a), *file = path_join(a, dir, "mixed.gguf"),
               *folder = path_join(a, dir, "base");
    gguf_builder header = {0};
    str text = {0}, data = {0};
    const struct {
        const char *key;
        uint32_t value;
    } numbers[] = {{"llama.vocab_size", 64}, {"llama.context_length", 128},
            {"llama.embedding_length", 256}, {"llama.block_count", 1},
            {"llama.feed_forward_length", 512}, {"llama.attention.head_count", 4},
            {"llama.attention.head_count_kv", 2}, {"llama.attention.key_length", 128},
            {"llama.attention.value_length", 128}, {"llama.rope.dimension_count", 128}};
    gguf_put_text(&header, "general.architecture", "llama");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        gguf_put_u32(&header, numbers[i].key, numbers[i].value);
    gguf_put_f32(&header, "llama.rope.freq_base", 10000);
    gguf_put_f32(&header, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    put_blocks(&header, &data);
    gguf_builder_header(&header, &text);
    str_add(&text, data.p, data.n);
    OK(file_write_atomic(file, text.p, text.n));
    model_source source;
    model_written written;
    OK(model_source_open(a, file, &source));
    OK(model_write(a, &source, NULL, 0, folder,
            &(model_write_opts){.verb = "import", .keep_blocks = true}, &written));
    assert_int_equal(written.bytes, (int64_t)text.n);
    model_source_close(&source);
    gguf_builder_free(&header);
    str_free(&text), str_free(&data);
    return folder;
}

static drv_status load_before(comm *self, arena *a, const layout_run *run, programs *p) {
    json_t *hashes;
    (void)self, (void)a, (void)run;
    DRV_TRY(lora_load_base(&p->held, p->held.config->from, &hashes));
    json_decref(hashes);
    return DRV_OK;
}

TEST(blocks_of_a_gguf_file_stay_as_they_are) {
    const char *from = arena_printf(a, "model.from=%s", gguf_folder(a));
    const char *sets[] = {"model.preset=", from, "model.num_hidden_layers=1",
            "data.sequence_length=24", LORA, ALL, "model.base_dtype=gguf"};
    static const bits_case two = {2, 1, 1, 1, {SHARED}}, shards = {1, 1, 4, 1, {ZERO3}};
    before_steps = load_before;
    layout_run widened = run_case(&alone, sets, 6), held = run_case(&alone, sets, 7),
               ranks = run_case(&two, sets, 7), sharded = run_case(&shards, sets, 7);
    before_steps = NULL;
    expect_same_bits(&held, &widened);
    expect_same_bits(&ranks, &held);
    expect_same_bits(&sharded, &held);
    free(widened.weights), free(held.weights), free(ranks.weights), free(sharded.weights);
}
