// Any bytes as a line of instruction data, and of preference pairs: tokens with a role each, or one
// line of refusal and nothing added.
#include <stdint.h>
#include <stdlib.h>

#include "base/file.h"
#include "data/sft/pair.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static const char tokenizer_text[] =
        "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"<unk>\": 0, \"a\": 1, \"b\": 2, \"ab\": 3, \"<s>\": 4, \":\": 5}, "
        "\"merges\": [\"a b\"], \"unk_token\": \"<unk>\"}, \"added_tokens\": [{\"id\": 4, \"content\": \"<s>\", "
        "\"special\": true}]}";
static const char template_text[] =
        "{% for m in messages %}{{ m.role }}:{{ m.content }}<s>{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}";

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes) {
    static arena *a;
    static const sft_format *formats[3];
    static encoder *enc;
    if (!a) {
        tokenizer *tok;
        a = arena_new("fuzz");
        char folder[] = "/tmp/drover-fuzz-sft-XXXXXX";
        DRV_ASSERT(mkdtemp(folder), "no folder");
        const char *path = path_join(a, folder, "tokenizer.json"),
                   *template = path_join(a, folder, "t.jinja"),
                   *settings = path_join(a, folder, "tokenizer_config.json");
        static const char names[] = "{\"eos_token\": \"<s>\"}";
        DRV_ASSERT(file_write_atomic(path, tokenizer_text, sizeof tokenizer_text - 1) == DRV_OK &&
                           file_write_atomic(settings, names, sizeof names - 1) == DRV_OK &&
                           file_write_atomic(template, template_text, sizeof template_text - 1) ==
                                   DRV_OK &&
                           tokenizer_open(a, folder, &tok) == DRV_OK &&
                           sft_format_open(a, tok, folder, template, "2026-01-01", &formats[0]) ==
                                   DRV_OK &&
                           sft_format_open(a, tok, folder, "alpaca", "2026-01-01", &formats[1]) ==
                                   DRV_OK &&
                           pair_texts_open(a, tok, folder, &formats[2]) == DRV_OK,
                "%s", drv_message());
        DRV_ASSERT(dir_remove(folder) == DRV_OK, "%s", drv_message());
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
    return 0;
}
