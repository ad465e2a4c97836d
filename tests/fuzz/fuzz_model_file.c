// A tokenizer's model file from outside, of sentencepiece or tiktoken: whatever is accepted
// encodes, decodes and converts without harm.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "tok/model_file.h"
#include "tok/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static char dir[] = "/tmp/drover-fuzz-XXXXXX"; // other files beside a tokenizer are read, too

static void remove_dir(void) {
    if (dir_remove(dir) != DRV_OK) fprintf(stderr, "%s\n", drv_message());
}

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

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes) {
    static bool made;
    if (!made) {
        made = mkdtemp(dir) != NULL;
        if (!made) abort();
        atexit(remove_dir);
    }
    arena *a = arena_new("fuzz");
    const char *path = path_join(a, dir, "tokenizer.model"), *folder = path_join(a, dir, "out");
    tokenizer *t;
    if (file_write_atomic(path, bytes, n_bytes) == DRV_OK &&
            tokenizer_open(a, path, &t) == DRV_OK) {
        use(t);
        tokenizer_close(t);
        if (dir_make(folder) == DRV_OK && model_file_convert(path, folder) == DRV_OK &&
                tokenizer_open(a, folder, &t) == DRV_OK) {
            use(t);
            tokenizer_close(t);
        }
    }
    arena_free(a);
    return 0;
}
