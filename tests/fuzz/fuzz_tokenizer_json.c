// tokenizer.json from outside: whatever is accepted encodes and decodes without harm.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "tok/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

// A folder of our own: other files beside tokenizer.json would be read too.
static char dir[] = "/tmp/drover-fuzz-XXXXXX";

static void remove_dir(void) {
    if (dir_remove(dir) != DRV_OK) fprintf(stderr, "%s\n", drv_message());
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes) {
    static const char text[] = "Hello  w\xC3\xB6rld 123\n<s>";
    static bool made;
    if (!made) {
        made = mkdtemp(dir) != NULL;
        if (!made) abort();
        atexit(remove_dir);
    }
    arena *a = arena_new("fuzz");
    const char *path = path_join(a, dir, "tokenizer.json");
    tokenizer *t;
    if (file_write_atomic(path, bytes, n_bytes) == DRV_OK &&
            tokenizer_open(a, path, &t) == DRV_OK) {
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
    arena_free(a);
    return 0;
}
