// A model that is open for generation: its weights, and the keys and values of one sequence of
// tokens. Text, draws and ends are in generate.h.
//
//     generator_open      config.json and tokenizer: now a prompt can be encoded and measured
//     generator_load      weights, and room for so many tokens
//     generator_prompt    the sequence so far; what is known of it already is not computed again
//     generator_logits    of the token that comes next
//     generator_add       the token that was chosen
#pragma once
#include "backend/backend.h"
#include "base/arena.h"
#include "base/status.h"
#include "config/model_config.h"
#include "tok/tokenizer.h"

typedef enum generate_precision {
    GENERATE_AUTO, // bf16 where config.json's dtype or the run that wrote the checkpoint says so
    GENERATE_BF16,
    GENERATE_FP32,
    GENERATE_BLOCKS, // fp32 numbers of the blocks of a GGUF file, which the weights stay in
} generate_precision;

typedef struct generator_opts {
    const char *folder;  // a Hugging Face folder with its tokenizer (model_tokenizer_folder)
    const char *adapter; // PEFT's folder, used with it; NULL or "": none
    generate_precision precision;
    const char *backend; // NULL: cpu
    backend_opts device; // what it is opened with
    // Asked between the blocks of a prompt and between tokens: true ends the work there. NULL: never.
    bool (*interrupted)(void *ctx);
    void *ctx; // of `interrupted`
} generator_opts;

typedef struct generator generator; // single owner

// Returns whether the weights of a folder are bf16: what config.json calls its dtype, or, where a
// checkpoint was saved in fp32, what its run computed in.
bool generator_says_bf16(arena *a, const char *folder);

// Reads config.json and the tokenizer. `opts` and what it points to must outlive the generator,
// which lives in `a`.
DRV_CHECKED drv_status generator_open(arena *a, const generator_opts *opts, generator **out);
// Once: plans the programs, reads the weights and makes room for `capacity` tokens (0: the model's
// whole context). DRV_E_USAGE: more than the model's context. DRV_E_DEVICE: this machine has not
// the memory, told before the weights are read.
DRV_CHECKED drv_status generator_load(generator *gen, int64_t capacity);
void generator_close(generator *g); // NULL is allowed

const tokenizer *generator_tokenizer(const generator *g);
const model_config *generator_model(const generator *g);
int64_t generator_context(const generator *g);  // tokens that the model was made for
int64_t generator_capacity(const generator *g); // tokens; 0 before generator_load
// Names the type of the weights: "bf16", "fp32" or "GGUF".
const char *generator_weights(const generator *g);
// Returns whether a token ends a text, as config.json, generation_config.json (also an adapter's),
// the tokenizer or generator_add_end say.
bool generator_is_end(const generator *g, int32_t id);
// Makes a token an end, as that of a chat template's turns; what is no id of the model is not.
void generator_add_end(generator *g, int64_t id);
bool generator_interrupted(const generator *g);

// Appends the ids of a text; bytes that are not UTF-8 become U+FFFD. `specials`: with what the
// tokenizer puts around a text (a chat template has that in its own text). DRV_E_DATA: an id is
// beyond the model's vocabulary.
DRV_CHECKED drv_status generator_encode(const generator *g, const char *text, size_t n,
        bool specials, id_list *ids);

typedef struct prompt_cost {
    int64_t n_tokens; // that had to be computed
    double seconds;
} prompt_cost;

// Makes ids[0, n) the sequence, 0 < n <= capacity. What it has in common with the sequence before,
// from the first token on, is kept: a conversation is handed over whole at each turn, and only its
// new part is computed. The bits of what follows do not depend on how a prompt came in pieces, but
// a token that was added or whose logits were asked for has gone through alone, and has other sums
// than in a prompt, within rounding. DRV_STOPPED: interrupted; what is done is kept for the next
// call.
DRV_CHECKED drv_status generator_prompt(generator *gen, const int32_t *ids, int64_t n_tokens,
        prompt_cost *out);
// Returns the sequence: the prompt and what was added.
const id_list *generator_sequence(const generator *g);
// Returns the logits of what follows the sequence, [vocab_size]: the caller may change them; the
// next call overwrites them.
DRV_CHECKED drv_status generator_logits(generator *g, float **out);
// Adds one more token, 0 <= id < vocab_size; the sequence must be shorter than the capacity.
void generator_add(generator *g, int32_t id);
