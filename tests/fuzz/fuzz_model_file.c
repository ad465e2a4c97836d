// A tokenizer's model file from outside, of sentencepiece or tiktoken: whatever is accepted
// encodes, decodes and converts without harm.
#include "fuzz.h"

#include "tok/model_file.h"
#include "tok/tokenizer.h"

static void use(const tokenizer *t) {
    static const char text[] = " Hello  w\xC3\xB6rld\xEF\xAC\x81 \xE2\x96\x81 123\n<s>ab ";
    id_list ids = {0};
    offset_list begins = {0};
    str out = {0};
    encoder *e = encoder_new(t);
    encoder_piece_traced(e, &(text_piece){text, sizeof text - 1, true, true}, true, &ids, &begins);
    tokenizer_decode(t, ids.p, ids.n, true, &out);
    encoder_free(e);
    id_list_free(&ids);
    offset_list_free(&begins);
    str_free(&out);
}

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    const char *path = fuzz_file(a, "tokenizer.model", bytes, n_bytes),
               *folder = path_join(a, fuzz_folder(), "out");
    tokenizer *t;
    if (tokenizer_open(a, path, &t) == DRV_OK) {
        use(t);
        tokenizer_close(t);
        if (dir_make(folder) == DRV_OK && model_file_convert(path, folder) == DRV_OK &&
                tokenizer_open(a, folder, &t) == DRV_OK) {
            use(t);
            tokenizer_close(t);
        }
    }
}
