// Converts between generation_config.json and general.sampling of a GGUF file. transformers samples
// if do_sample is true, else takes the likeliest token at any temperature; llama.cpp takes the
// likeliest token if the temperature is 0, and has default settings for a file without any.
#pragma once
#include "gguf/gguf_builder.h"
#include "gguf/llama_meta.h"

// Makes generation_config.json of a file; the caller owns the value.
DRV_CHECKED drv_status llama_generation_json(const gguf_file *f, const llama_meta *m, json_t **out);
// Converts in the other direction. Omits the settings that have no effect unless do_sample is true.
void llama_generation_put(const json_t *generation, gguf_builder *out);
// Lists the keys of `before` whose value `after` does not have, in that order: "top_p 0.9,
// eos_token_id [2, 0] becomes 2"; NULL: none. Lives in `a`.
const char *llama_config_lost(arena *a, const json_t *before, const json_t *after);
