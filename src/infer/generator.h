// A model that is open for generation: its weights, and the keys and values of one sequence of
// tokens. Text, draws and ends are in generate.h.
//
//     generator_open      reads config.json and the tokenizer, so that a prompt can be encoded
//     generator_load      reads the weights and allocates the caches of keys and values
//     generator_prompt    sets the sequence, and computes the part that the caches do not hold
//     generator_logits    computes the logits of the next token
//     generator_add       appends the token that was chosen
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
    GENERATE_BLOCKS, // weights stay in the blocks of a GGUF file and are converted to fp32 when
                     // they are used
} generate_precision;

typedef struct generator_opts {
    const char *folder;  // a Hugging Face folder with its tokenizer (model_tokenizer_folder)
    const char *adapter; // PEFT's folder, used with it; NULL or "": none
    generate_precision precision;
    const char *backend; // NULL: cpu
    backend_opts device; // options of the back end
    // Called between the blocks of a prompt and between tokens; true interrupts the work. May be
    // NULL.
    bool (*interrupted)(void *ctx);
    void *ctx; // for `interrupted`
} generator_opts;

typedef struct generator generator; // single owner

// Returns whether a model computes in bf16: config.json says so as its dtype, or trainer.json says
// that the run which saved the checkpoint in fp32 did.
bool generator_says_bf16(arena *a, const char *folder);

// Reads config.json and the tokenizer. `opts` and what it points to must outlive the generator,
// which lives in `a`.
DRV_CHECKED drv_status generator_open(arena *a, const generator_opts *opts, generator **out);
// Plans the programs, reads the weights and allocates caches for `capacity` tokens (0: the model's
// whole context); to be called once. DRV_E_USAGE: the capacity exceeds the model's context.
// DRV_E_DEVICE: there is not enough free memory, which is checked before the weights are read.
DRV_CHECKED drv_status generator_load(generator *gen, int64_t capacity);
void generator_close(generator *g); // NULL is allowed

const tokenizer *generator_tokenizer(const generator *g);
const model_config *generator_model(const generator *g);
int64_t generator_context(const generator *g);  // the model's context length in tokens
int64_t generator_capacity(const generator *g); // tokens; 0 before generator_load
// Names the type of the weights: "bf16", "fp32" or "GGUF".
const char *generator_weights(const generator *g);
// Returns whether a token ends a text, as config.json, generation_config.json (also an adapter's),
// the tokenizer or generator_add_end say.
bool generator_is_end(const generator *g, int32_t id);
// Makes a token an end, for example the one that ends a turn of a chat template. An id that the
// model does not have is ignored.
void generator_add_end(generator *g, int64_t id);
bool generator_interrupted(const generator *g);

// Appends the ids of a text; bytes that are not UTF-8 become U+FFFD. `specials`: add the special
// tokens that the tokenizer puts around a text (a chat template writes them itself). DRV_E_DATA: an
// id is outside the model's vocabulary.
DRV_CHECKED drv_status generator_encode(const generator *g, const char *text, size_t n,
        bool specials, id_list *ids);

typedef struct prompt_cost {
    int64_t n_tokens; // tokens that had to be computed
    double seconds;
} prompt_cost;

// Makes ids[0, n) the sequence, 0 < n <= capacity. The cached keys and values of the prefix that it
// shares with the previous sequence are kept, so a caller passes a whole conversation at each turn
// and only the new part is computed. Logits do not depend, to the bit, on how a prompt is split
// over calls; but a token that generator_add appended, or whose logits were read, was computed
// alone, and differs by rounding from the same token in a prompt. DRV_STOPPED: interrupted; the
// next call continues from the tokens that are done.
DRV_CHECKED drv_status generator_prompt(generator *gen, const int32_t *ids, int64_t n_tokens,
        prompt_cost *out);
// Returns the sequence: the prompt and the added tokens.
const id_list *generator_sequence(const generator *g);
// Returns the logits of the next token, [vocab_size]. The caller may change them; the next call
// overwrites them.
DRV_CHECKED drv_status generator_logits(generator *g, float **out);
// Adds one more token, 0 <= id < vocab_size; the sequence must be shorter than the capacity.
void generator_add(generator *g, int32_t id);
