// tokenizer.json from outside: whatever is accepted encodes and decodes without harm.
#include "fuzz.h"

#include "tok/tokenizer.h"

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    static const char text[] = "Hello  w\xC3\xB6rld 123\n<s>";
    const char *path = fuzz_file(a, "tokenizer.json", bytes, n_bytes);
    tokenizer *t;
    if (tokenizer_open(a, path, &t) == DRV_OK) {
        id_list ids = {0};
        str out = {0};
        encoder *e = encoder_new(t);
        encoder_run(e, text, sizeof text - 1, true, &ids);
        tokenizer_decode(t, ids.p, ids.n, true, &out);
        encoder_free(e);
        id_list_free(&ids);
        str_free(&out);
        tokenizer_close(t);
    }
}
