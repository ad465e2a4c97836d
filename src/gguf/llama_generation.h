// generation_config.json <-> general.sampling of a GGUF file. transformers draws where do_sample is
// true, and else takes the likeliest token whatever the temperature; llama.cpp takes that where the
// temperature is 0, and draws by settings of its own where the file says nothing.
#pragma once
#include "gguf/gguf_builder.h"
#include "gguf/llama_meta.h"

// The caller owns the value.
DRV_CHECKED drv_status llama_generation_json(const gguf_file *f, const llama_meta *m, json_t **out);
// Converts in the other direction. Omits the settings that have no effect unless do_sample is true.
void llama_generation_put(const json_t *generation, gguf_builder *out);
// Names the keys of a config whose value another one has not, in that order: "top_p 0.9,
// eos_token_id [2, 0] becomes 2"; NULL: none. Lives in `a`.
const char *llama_config_lost(arena *a, const json_t *before, const json_t *after);
