// tokenizer_config.json from outside, beside a tokenizer.json that is whole: roles are found or the
// file is refused.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "tok/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static char dir[] = "/tmp/drover-fuzz-XXXXXX";

static void remove_dir(void) {
    if (dir_remove(dir) != DRV_OK) fprintf(stderr, "%s\n", drv_message());
}

static void make_dir(arena *a) {
    static const char model[] = "{\"pre_tokenizer\": {\"type\": \"ByteLevel\"},"
                                " \"model\": {\"type\": \"BPE\", \"merges\": [], \"vocab\":"
                                " {\"<s>\": 0, \"</s>\": 1, \"a\": 2}}}";
    if (!mkdtemp(dir)) abort();
    atexit(remove_dir);
    if (file_write_atomic(path_join(a, dir, "tokenizer.json"), model, strlen(model)) != DRV_OK)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n) {
    static bool made;
    arena *a = arena_new("fuzz");
    if (!made) make_dir(a);
    made = true;
    tokenizer *t;
    if (file_write_atomic(path_join(a, dir, "tokenizer_config.json"), p, n) == DRV_OK &&
            tokenizer_open(a, dir, &t) == DRV_OK) {
        const int32_t ids[] = {tokenizer_role(t, ROLE_BOS), tokenizer_role(t, ROLE_EOS),
                tokenizer_role(t, ROLE_PAD), tokenizer_role(t, ROLE_UNK)};
        for (int i = 0; i < 4; i++)
            if (ids[i] < -1 || ids[i] >= tokenizer_n_vocab(t)) abort();
        tokenizer_close(t);
    }
    arena_free(a);
    return 0;
}
