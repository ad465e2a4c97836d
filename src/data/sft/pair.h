// Records of preference pairs -> two documents of tokens each: the prompt and the chosen response,
// the prompt and the rejected one. A chat template renders the text. The response is the text that
// follows the rendered prompt and generation prompt (as in TRL); where that cannot be determined,
// the template's {% generation %} blocks mark it. Without a template the texts are used unchanged,
// and the tokenizer's end-of-text token follows the response.
#pragma once
#include "data/sft/pair_record.h"
#include "data/sft/sft.h"

// Creates the format for texts without a template. DRV_E_USAGE: the tokenizer has no end-of-text
// token.
DRV_CHECKED drv_status pair_texts_open(arena *a, const tokenizer *tok, const char *folder,
        const sft_format **out);
// Appends both documents of one line of JSON and sets x->n_chosen to the number of tokens of the
// first. The responses have ROLE_LAST_ANSWER. Fails as sft_encode does.
DRV_CHECKED drv_status pair_encode(const sft_format *f, encoder *e, const char *line, size_t n,
        sft_example *x);
