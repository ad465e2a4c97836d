// The chat template of a model's folder, and the special tokens that are passed to it.
#pragma once
#include "chat/chat_template.h"

typedef struct chat_model {
    const char *path;   // where the template was found; NULL: the folder has none
    const char *source; // its text
    size_t n_source;
    special_text *specials; // every ..._token of tokenizer_config.json; if that has no
                            // added_tokens_decoder, those of special_tokens_map.json come first
    int n_specials;
    bool built_in; // the text gets the tokenizer's BOS; a model's own template writes it itself
} chat_model;

// Replaces the folder's template by the built-in one, "alpaca".
void chat_model_take_alpaca(chat_model *m);

// Reads the template where transformers does: in chat_template.jinja and
// additional_chat_templates/tool_use.jinja, else in chat_template of tokenizer_config.json, a text
// or several by name. Of several it takes "tool_use" if tools are given, even an empty list, else
// "default".
DRV_CHECKED drv_status chat_model_read(arena *a, const char *folder, bool tools, chat_model *out);
