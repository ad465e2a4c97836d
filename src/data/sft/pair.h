// Records of preference pairs -> two documents of tokens each: the prompt and the chosen response,
// the prompt and the rejected one. The text is that of a chat template; what it adds after the text
// of the prompt, with the generation prompt, is the response (as in TRL); if that cannot be
// determined, the response is what the template's {% generation %} blocks mark. Without a template
// texts are used unchanged, with the tokenizer's end-of-text token after the response.
#pragma once
#include "data/sft/pair_record.h"
#include "data/sft/sft.h"

// Opens the format of texts without a template. DRV_E_USAGE: the tokenizer names no
// end-of-text token.
DRV_CHECKED drv_status pair_texts_open(arena *a, const tokenizer *tok, const char *folder,
        const sft_format **out);
// Appends both documents of one line of JSON, and the number of tokens of the first as
// x->n_chosen: ROLE_LAST_ANSWER marks the responses. Fails as sft_encode does.
DRV_CHECKED drv_status pair_encode(const sft_format *f, encoder *e, const char *line, size_t n,
        sft_example *x);
