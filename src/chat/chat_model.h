// The chat template of a model's folder, and the special tokens that it sees.
#pragma once
#include "chat/chat_template.h"

typedef struct chat_model {
    const char *path;   // where the template was found; NULL: the folder has none
    const char *source; // its text
    size_t n_source;
    special_text *specials; // every ..._token of tokenizer_config.json and, where that has no
                            // added_tokens_decoder, before it of special_tokens_map.json
    int n_specials;
    bool built_in; // the text gets the tokenizer's BOS, which a model's own template writes itself
} chat_model;

// Puts the built-in template "alpaca" in the place of the folder's.
void chat_model_take_alpaca(chat_model *m);

// Looks where transformers does: chat_template.jinja and additional_chat_templates/tool_use.jinja,
// else chat_template of tokenizer_config.json, a text or several by name. "tool_use" is taken when
// there are tools, a list of none too, else "default".
DRV_CHECKED drv_status chat_model_read(arena *a, const char *folder, bool tools, chat_model *out);
