// Any bytes as a line of instruction data, and of preference pairs: tokens with a role each, or one
// line of refusal and nothing added.
#include "fuzz.h"

#include "data/sft/pair.h"

static const char tokenizer_text[] =
        "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"<unk>\": 0, \"a\": 1, \"b\": 2, \"ab\": 3, \"<s>\": 4, \":\": 5}, "
        "\"merges\": [\"a b\"], \"unk_token\": \"<unk>\"}, \"added_tokens\": [{\"id\": 4, \"content\": \"<s>\", "
        "\"special\": true}]}";
static const char template_text[] =
        "{% for m in messages %}{{ m.role }}:{{ m.content }}<s>{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}";

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    static const sft_format *formats[3];
    static encoder *enc;
    static arena *kept; // of the formats; static, so that it is no leak
    if (!enc) {
        tokenizer *tok;
        kept = arena_new("fuzz");
        static const char names[] = "{\"eos_token\": \"<s>\"}";
        const char *folder = fuzz_folder(),
                   *template = fuzz_file(kept, "t.jinja", template_text, sizeof template_text - 1);
        fuzz_file(a, "tokenizer.json", tokenizer_text, sizeof tokenizer_text - 1);
        fuzz_file(a, "tokenizer_config.json", names, sizeof names - 1);
        DRV_ASSERT(tokenizer_open(kept, folder, &tok) == DRV_OK &&
                           sft_format_open(kept, tok, folder, template, "2026-01-01",
                                   &formats[0]) == DRV_OK &&
                           sft_format_open(kept, tok, folder, "alpaca", "2026-01-01",
                                   &formats[1]) == DRV_OK &&
                           pair_texts_open(kept, tok, folder, &formats[2]) == DRV_OK,
                "%s", drv_message());
        enc = encoder_new(tok);
    }
    for (int i = 0; i < 5; i++) { // of pairs the last three
        sft_example x = {0};
        const char *line = (const char *)bytes;
        const drv_status status = i < 2 ? sft_encode(formats[i], enc, line, n_bytes, &x)
                                        : pair_encode(formats[i - 2], enc, line, n_bytes, &x);
        DRV_ASSERT(status == DRV_OK || status == DRV_E_DATA, "%d: %s", status, drv_message());
        DRV_ASSERT((size_t)x.ids.n == x.roles.n && (status == DRV_OK) == (x.ids.n > 0), "%s",
                drv_message());
        if (status == DRV_OK && i >= 2)
            DRV_ASSERT(x.n_chosen > 0 && x.n_chosen < x.ids.n, "%lld", (long long)x.n_chosen);
        for (size_t k = 0; k < x.roles.n; k++)
            DRV_ASSERT(x.roles.p[k] < N_SFT_ROLES, "role %d", x.roles.p[k]);
        sft_example_free(&x);
    }
}
