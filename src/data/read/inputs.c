#include "data/read/inputs.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/str.h"

typedef struct lister {
    arena *a;
    input_file *files;
    int n, cap;
} lister;

// False: the ending says nothing.
static bool classify(const char *path, input_file *f) {
    static const struct {
        const char *ending;
        input_kind kind;
    } known[] = {{".txt", INPUT_TEXT}, {".md", INPUT_TEXT}, {".jsonl", INPUT_JSONL},
            {".json", INPUT_JSONL}, {".ndjson", INPUT_JSONL}, {".parquet", INPUT_PARQUET}};
    char base[4096];
    snprintf(base, sizeof base, "%s", path);
    f->packing = str_ends(base, ".gz")    ? PACKED_GZIP
                 : str_ends(base, ".zst") ? PACKED_ZSTD
                                          : PACKED_NOT;
    if (f->packing != PACKED_NOT) base[strlen(base) - (f->packing == PACKED_GZIP ? 3 : 4)] = 0;
    f->kind = INPUT_TEXT;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (str_ends(base, known[i].ending)) {
            f->kind = known[i].kind;
            return true;
        }
    return false;
}

static drv_status add_file(lister *l, const char *path, bool named) {
    input_file f = {.path = arena_strdup(l->a, path)};
    f.guessed = !classify(path, &f);
    if (f.guessed && !named) return DRV_OK;
    if (f.kind == INPUT_PARQUET && f.packing != PACKED_NOT)
        return drv_fail(DRV_E_DATA, "\"%s\": a packed parquet file; unpack it first", path);
    if (strcmp(path, "-") != 0) f.bytes = file_size(path);
    MEM_GROW(l->files, l->n, l->cap);
    l->files[l->n++] = f;
    return DRV_OK;
}

static drv_status add_path(lister *l, const char *path, bool named) {
    if (!file_is_dir(path)) return add_file(l, path, named);
    char **names;
    int n;
    DRV_TRY(dir_list(l->a, path, &names, &n));
    for (int i = 0; i < n; i++)
        if (names[i][0] != '.') DRV_TRY(add_path(l, path_join(l->a, path, names[i]), false));
    return DRV_OK;
}

static drv_status add_input(lister *l, const char *input) {
    if (strcmp(input, "-") == 0) return add_file(l, input, true);
    if (file_exists(input)) return add_path(l, input, true);
    if (!strpbrk(input, "*?["))
        return drv_fail(DRV_E_IO, "could not open \"%s\": %s", input, strerror(errno));
    glob_t g;
    const int code = glob(input, 0, NULL, &g);
    if (code == GLOB_NOMATCH) return drv_fail(DRV_E_IO, "no file matches \"%s\"", input);
    if (code != 0) return drv_fail(DRV_E_IO, "could not look for \"%s\"", input);
    drv_status s = DRV_OK;
    for (size_t i = 0; s == DRV_OK && i < g.gl_pathc; i++)
        s = add_path(l, g.gl_pathv[i], true);
    globfree(&g);
    return s;
}

drv_status inputs_list(arena *a, const char *const *inputs, int n, input_file **files,
        int *n_files) {
    lister l = {.a = a};
    drv_status s = DRV_OK;
    for (int i = 0; s == DRV_OK && i < n; i++)
        s = add_input(&l, inputs[i]);
    if (s == DRV_OK && l.n == 0)
        s = drv_fail(DRV_E_DATA, "no .txt, .jsonl or .parquet file (or .gz, .zst of one) in \"%s\"",
                n ? inputs[0] : "");
    *files = ARENA_ARRAY(a, input_file, l.n + 1);
    if (l.n) memcpy(*files, l.files, sizeof *l.files * (size_t)l.n);
    *n_files = l.n;
    free(l.files);
    return s;
}
