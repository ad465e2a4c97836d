#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "tok/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n) {
    static const char text[] = "Hello  w\xC3\xB6rld 123\n<s>";
    char path[64];
    arena *a = arena_new("fuzz");
    tokenizer *t;
    snprintf(path, sizeof path, "/tmp/drover-fuzz-%d.json", (int)getpid());
    if (file_write_atomic(path, p, n) == DRV_OK && tokenizer_open(a, path, &t) == DRV_OK) {
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
    unlink(path);
    arena_free(a);
    return 0;
}
