// Holds a model and the caches of one sequence. A prompt is computed in blocks, new tokens one at a
// time.
#include "infer/generator.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/dtype.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory_limit.h"
#include "base/str.h"
#include "ir/program_inputs.h"
#include "weights/base_blocks.h"
#include "weights/lora_state.h"
#include "setup/process_bytes.h"
#include "infer/prefix.h"
#include "infer/resolve.h"
#include "weights/state.h"

// Tokens in a block of a prompt, in ascending order; there is a program for each size.
static const int64_t block_tokens[] = {16, 64, 256};
enum { N_BLOCKS = sizeof block_tokens / sizeof *block_tokens, MAX_BLOCK = 256 };

struct generator {
    arena *a;
    const generator_opts *opts;
    tokenizer *tokenizer;
    held_model held;
    run_config config;
    executable *block[N_BLOCKS], *decode;
    int64_t capacity; // tokens that the caches hold; 0: not loaded
    id_list sequence; // its first n_cached tokens are in the caches
    int64_t n_cached;
    float *logits;
    uint16_t *words; // the logits of a bf16 model before conversion; NULL: fp32
    id_list ends;    // each ends a text
};

// --- opening
static json_t *read_optional(arena *a, const char *folder, const char *name) {
    const char *path = path_join(a, folder, name);
    json_t *value = NULL;
    if (file_exists(path) && json_read_file(path, &value) != DRV_OK) return NULL;
    return value;
}

bool generator_says_bf16(arena *a, const char *folder) {
    json_t *config = read_optional(a, folder, "config.json"),
           *run = read_optional(a, folder, "trainer.json");
    const char *type = json_string_value(json_object_get(config, "dtype"));
    if (!type) type = json_string_value(json_object_get(config, "torch_dtype"));
    bool bf16 = type && strcmp(type, "bfloat16") == 0;
    type = json_string_value(json_object_get(json_object_get(run, "config"), "training.precision"));
    bf16 |= type && strcmp(type, "bf16") == 0;
    json_decref(config);
    json_decref(run);
    return bf16;
}

void generator_add_end(generator *g, int64_t id) {
    if (id >= 0 && id < g->config.model.vocab_size && !generator_is_end(g, (int32_t)id))
        id_list_add(&g->ends, (int32_t)id);
}

// transformers ends texts by generation_config.json. Chat models name the token that ends a turn
// there, while config.json has only the one that ends a text.
static void add_ends_of(generator *g, const char *folder) {
    json_t *config = read_optional(g->a, folder, "generation_config.json");
    const json_t *eos = json_object_get(config, "eos_token_id");
    if (json_is_integer(eos)) generator_add_end(g, json_integer_value(eos));
    for (size_t i = 0; i < json_array_size(eos); i++)
        if (json_is_integer(json_array_get(eos, i)))
            generator_add_end(g, json_integer_value(json_array_get(eos, i)));
    json_decref(config);
}

static void collect_ends(generator *g) {
    const model_config *model = &g->config.model;
    for (int i = 0; i < model->n_eos; i++)
        generator_add_end(g, model->eos_token_id[i]);
    generator_add_end(g, tokenizer_role(g->tokenizer, ROLE_EOS));
    add_ends_of(g, g->opts->folder);
    if (*g->config.lora.adapter) add_ends_of(g, g->config.lora.adapter);
}

drv_status generator_open(arena *a, const generator_opts *opts, generator **out) {
    generator *g = ARENA_NEW(a, generator);
    *g = (generator){.a = a, .opts = opts};
    g->config.lora.adapter = opts->adapter ? opts->adapter : "";
    DRV_TRY(model_config_read(opts->folder, &g->config.model));
    DRV_TRY(tokenizer_open(a, model_tokenizer_folder(a, opts->folder, opts->adapter),
            &g->tokenizer));
    collect_ends(g);
    *out = g;
    return DRV_OK;
}

void generator_close(generator *g) {
    if (!g) return;
    if (g->held.b) backend_close(g->held.b);
    tokenizer_close(g->tokenizer);
    id_list_free(&g->sequence);
    id_list_free(&g->ends);
}

// --- loading
static drv_status compile(generator *g, llama_mode mode, int64_t n_tokens, executable **out) {
    // The padding of the last block of a prompt may exceed the capacity.
    const llama_opts opts = {.rows = 1,
            .seq = n_tokens,
            .dt = g->held.dt,
            .capacity = g->capacity + MAX_BLOCK};
    graph *program = llama_build(g->a, &g->held.params, mode, &opts);
    DRV_TRY(graph_verify(program, STAGE_BUILT));
    DRV_TRY(backend_compile(g->a, g->held.b, program, NULL, out));
    return backend_check_program(g->held.b, program->name, *out,
            g->held.dt == DT_F32 ? "expected fewer tokens or --precision bf16"
                                 : "expected fewer tokens or a smaller model");
}

// Compares the planned memory, whose pages are not touched yet, with the free memory of this
// machine.
static drv_status check_memory(const generator *g) {
    const model_config *m = &g->config.model;
    const memory_limit limit = memory_limit_read("");
    const int64_t needed = backend_held_bytes(g->held.b) + process_bytes(&g->config);
    const int64_t per_token = 2 * m->num_hidden_layers * m->num_key_value_heads * m->head_dim *
                              dtype_bytes(g->held.dt);
    if (needed <= limit.free) return DRV_OK;
    return drv_fail(DRV_E_DEVICE,
            "\"%s\" with a context of %lld tokens needs %s of memory, %s of it for keys and values, "
            "but %s are %s; expected a smaller model%s",
            g->opts->folder, (long long)g->capacity, str_bytes((double)needed),
            str_bytes((double)(per_token * (g->capacity + MAX_BLOCK))),
            str_bytes((double)limit.free), limit.what,
            g->held.dt == DT_F32 ? ", fewer tokens or --precision bf16" : " or fewer tokens");
}

drv_status generator_load(generator *gen, int64_t capacity) {
    const model_layout layout = layout_of(&gen->config.model);
    const char *adapter = gen->config.lora.adapter;
    const int64_t context = generator_context(gen), n_vocab = gen->config.model.vocab_size;
    DRV_ASSERT(gen->capacity == 0, "a generator is loaded twice");
    if (capacity > context)
        return drv_fail(DRV_E_USAGE, "%lld tokens are more than the model's context of %lld",
                (long long)capacity, (long long)context);
    gen->capacity = capacity ? capacity : context;
    const generate_precision asked = gen->opts->precision;
    const bool bf16 = asked == GENERATE_BF16 ||
                      (asked == GENERATE_AUTO && generator_says_bf16(gen->a, gen->opts->folder));
    lora_set branches;
    DRV_TRY(lora_of_run(gen->a, &gen->config, &branches));
    gen->held = (held_model){.config = &gen->config,
            .dt = bf16 ? DT_BF16 : DT_F32,
            .params = llama_params(gen->a, &layout, &branches)};
    if (asked == GENERATE_BLOCKS)
        DRV_TRY(base_blocks_hold(gen->a, &gen->config, gen->opts->folder, DT_F32,
                &gen->held.params));
    DRV_TRY(backend_open(gen->a, gen->opts->backend, &gen->opts->device, &gen->held.b));
    for (int i = 0; i < N_BLOCKS; i++)
        DRV_TRY(compile(gen, LLAMA_PREFILL, block_tokens[i], &gen->block[i]));
    DRV_TRY(compile(gen, LLAMA_DECODE, 1, &gen->decode));
    DRV_TRY(backend_prepare(gen->held.b));
    DRV_TRY(check_memory(gen));
    DRV_TRY(*adapter ? lora_load_eval(&gen->held, gen->opts->folder, adapter)
                     : state_load_eval_weights(&gen->held, gen->opts->folder));
    gen->logits = ARENA_ARRAY(gen->a, float, n_vocab);
    if (bf16) gen->words = ARENA_ARRAY(gen->a, uint16_t, n_vocab);
    return DRV_OK;
}

// --- properties
const tokenizer *generator_tokenizer(const generator *g) {
    return g->tokenizer;
}

const model_config *generator_model(const generator *g) {
    return &g->config.model;
}

int64_t generator_context(const generator *g) {
    return g->config.model.max_position_embeddings;
}

int64_t generator_capacity(const generator *g) {
    return g->capacity;
}

const char *generator_weights(const generator *g) {
    if (g->config.base_dtype == BASE_GGUF) return "GGUF";
    return g->held.dt == DT_BF16 ? "bf16" : "fp32";
}

bool generator_is_end(const generator *g, int32_t id) {
    for (int64_t i = 0; i < g->ends.n; i++)
        if (g->ends.p[i] == id) return true;
    return false;
}

bool generator_interrupted(const generator *g) {
    return g->opts->interrupted && g->opts->interrupted(g->opts->ctx);
}

drv_status generator_encode(const generator *g, const char *text, size_t n, bool specials,
        id_list *ids) {
    encoder *e = encoder_new(g->tokenizer);
    const int64_t begin = ids->n;
    str clean = {0};
    utf8_sanitize(text, n, &clean);
    encoder_run(e, clean.p ? clean.p : "", clean.n, specials, ids);
    encoder_free(e);
    str_free(&clean);
    if (specials && tokenizer_begin_once(g->tokenizer, ids, begin, NULL))
        log_info("the prompt begins with %s already, which the tokenizer would add: it is added only once",
                tokenizer_token_text(g->tokenizer, ids->p[begin]));
    return prefix_check_ids(ids->p + begin, ids->n - begin, g->config.model.vocab_size);
}

// --- the sequence
const id_list *generator_sequence(const generator *g) {
    return &g->sequence;
}

// Computes the next n tokens of the sequence with a program of `size` tokens. The rest is padding,
// whose keys and values in the caches are overwritten before they are read.
static drv_status run_tokens(generator *g, executable *e, const char *program, int64_t size,
        int64_t n) {
    int32_t ids[MAX_BLOCK] = {0}, position[MAX_BLOCK];
    memcpy(ids, g->sequence.p + g->n_cached, sizeof *ids * (size_t)n);
    for (int64_t i = 0; i < size; i++)
        position[i] = (int32_t)(g->n_cached + i);
    char name[32];
    snprintf(name, sizeof name, "%s.%s", program, program_inputs[INPUT_TOKENS].name);
    DRV_TRY(backend_write(g->held.b, name, 0, 4 * size, ids));
    snprintf(name, sizeof name, "%s.%s", program, program_inputs[INPUT_POSITION].name);
    DRV_TRY(backend_write(g->held.b, name, 0, 4 * size, position));
    DRV_TRY(backend_run(g->held.b, e));
    g->n_cached += n;
    return DRV_OK;
}

// Chooses the block for the n tokens that are left: the smallest that holds all of them, or, if
// more than half of it would be padding, the largest that they fill.
static int choose_block(int64_t n) {
    int i = 0;
    while (i < N_BLOCKS - 1 && block_tokens[i] < n && block_tokens[i + 1] < 2 * n)
        i++;
    return i;
}

static drv_status run_block(generator *g, int64_t n_left) {
    const int i = choose_block(n_left);
    const int64_t size = block_tokens[i], n = n_left < size ? n_left : size;
    char program[32];
    snprintf(program, sizeof program, "prefill.%lld", (long long)size);
    return run_tokens(g, g->block[i], program, size, n);
}

drv_status generator_prompt(generator *gen, const int32_t *ids, int64_t n_tokens,
        prompt_cost *out) {
    DRV_ASSERT(n_tokens > 0 && n_tokens <= gen->capacity,
            "a sequence of %lld tokens for room of %lld", (long long)n_tokens,
            (long long)gen->capacity);
    const double begin = clock_s();
    int64_t common = 0;
    while (common < n_tokens && common < gen->n_cached && gen->sequence.p[common] == ids[common])
        common++;
    // generator_logits computes the last token.
    gen->n_cached = common < n_tokens - 1 ? common : n_tokens - 1;
    gen->sequence.n = 0;
    id_list_append(&gen->sequence, ids, n_tokens);
    const int64_t first = gen->n_cached;
    drv_status status = DRV_OK;
    while (status == DRV_OK && gen->n_cached < n_tokens - 1) {
        if (generator_interrupted(gen))
            status = drv_fail(DRV_STOPPED, "interrupted while reading the prompt");
        else
            status = run_block(gen, n_tokens - 1 - gen->n_cached);
        if (clock_s() - begin > 1)
            progress("reading the prompt: token %lld of %lld", (long long)gen->n_cached,
                    (long long)n_tokens);
    }
    progress_end();
    *out = (prompt_cost){gen->n_cached - first, clock_s() - begin};
    return status;
}

drv_status generator_logits(generator *g, float **out) {
    const int64_t n_vocab = g->config.model.vocab_size;
    backend *b = g->held.b;
    while (g->n_cached < g->sequence.n)
        DRV_TRY(run_tokens(g, g->decode, "decode", 1, 1));
    *out = g->logits;
    if (!g->words) return backend_read(b, "logits", 0, 4 * n_vocab, g->logits);
    DRV_TRY(backend_read(b, "logits", 0, 2 * n_vocab, g->words));
    for (int64_t i = 0; i < n_vocab; i++)
        g->logits[i] = bf16_to_f32(g->words[i]);
    return DRV_OK;
}

void generator_add(generator *g, int32_t id) {
    DRV_ASSERT(g->sequence.n < g->capacity, "more tokens than the caches hold");
    id_list_add(&g->sequence, id);
}
