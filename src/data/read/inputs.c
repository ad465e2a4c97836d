// Walks folders and globs, derives the kind of a file from its extension, and counts the files that
// it ignores.
#include "data/read/inputs.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "data/read/hub_folder.h"
#include "data/read/mds_index.h"
#include "data/read/saved_dataset.h"

typedef struct skipped { // files of a folder that are not read
    const char *ending;
    int n;
} skipped;

typedef struct lister {
    arena *a;
    const inputs_opts *o;
    input_file *files;
    int n, cap;
    skipped *skipped;
    int n_skipped, cap_skipped;
    bool has_folder; // among the inputs
} lister;

// Ignores case, since some systems write extensions in capitals.
static bool has_ending(const char *path, const char *ending) {
    const size_t n = strlen(path), k = strlen(ending);
    return n >= k && strcasecmp(path + n - k, ending) == 0;
}

// Returns whether the user named this extension, as "py" or ".py".
static bool is_asked_for(const inputs_opts *o, const char *base) {
    for (const char *const *ending = o->endings; ending && *ending; ending++) {
        const size_t n = strlen(base), k = strlen(*ending);
        const bool dotted = **ending == '.' || (n > k && base[n - k - 1] == '.');
        if (n > k && dotted && has_ending(base, *ending)) return true;
    }
    return false;
}

static bool is_table(const inputs_opts *o, const char *base, bool named, input_file *file) {
    if (o->tables == TABLES_NOT || (o->tables == TABLES_NAMED && !named)) return false;
    const bool comma = has_ending(base, ".csv");
    if (!comma && !has_ending(base, ".tsv")) return false;
    file->kind = comma ? INPUT_CSV : INPUT_TSV;
    return true;
}

// Recognises formats that are read only if the user names the file, by its path or a pattern: in a
// folder a file with such an extension may be anything.
static bool is_named_format(const char *base, bool named, input_file *file) {
    static const struct {
        const char *ending;
        input_kind kind;
    } formats[] = {{".bin", INPUT_BIN}, {".npy", INPUT_NPY}, {".mds", INPUT_MDS},
            {".mds.zstd", INPUT_MDS}, {".tar", INPUT_TAR}, {".tgz", INPUT_TAR}};
    for (size_t i = 0; named && i < sizeof formats / sizeof *formats; i++)
        if (has_ending(base, formats[i].ending)) {
            file->kind = formats[i].kind;
            return true;
        }
    return false;
}

// Derives the kind of a file from its extension; false: the extension is not known.
static bool classify(const inputs_opts *opts, const char *path, bool named, input_file *file) {
    static const struct {
        const char *ending;
        input_kind kind;
    } known[] = {{".txt", INPUT_TEXT}, {".md", INPUT_TEXT}, {".jsonl", INPUT_JSONL},
            {".json", INPUT_JSONL}, {".ndjson", INPUT_JSONL}, {".parquet", INPUT_PARQUET},
            {".arrow", INPUT_ARROW}};
    char base[4096];
    snprintf(base, sizeof base, "%s", path);
    file->packing = has_ending(base, ".gz")    ? PACKED_GZIP
                    : has_ending(base, ".zst") ? PACKED_ZSTD
                                               : PACKED_NOT;
    if (file->packing != PACKED_NOT)
        base[strlen(base) - (file->packing == PACKED_GZIP ? 3 : 4)] = 0;
    file->kind = INPUT_TEXT;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (has_ending(base, known[i].ending)) {
            file->kind = known[i].kind;
            return true;
        }
    return is_table(opts, base, named, file) || is_named_format(base, named, file) ||
           (!named && is_asked_for(opts, base));
}

// ".html", ".tar.gz", or "without an ending".
static const char *ending_of(const char *path) {
    const char *name = path_name(path);
    const char *dot = strrchr(name, '.');
    if (!dot || dot == name) return "without an ending";
    if (!has_ending(dot, ".gz") && !has_ending(dot, ".zst") && !has_ending(dot, ".zstd"))
        return dot;
    const char *inner = dot;
    while (inner > name + 1 && inner[-1] != '.')
        inner--;
    return inner > name + 1 ? inner - 1 : dot;
}

static void count_skipped(lister *l, const char *path) {
    const char *ending = ending_of(path);
    for (int i = 0; i < l->n_skipped; i++)
        if (strcmp(l->skipped[i].ending, ending) == 0) {
            l->skipped[i].n++;
            return;
        }
    MEM_GROW(l->skipped, l->n_skipped, l->cap_skipped);
    l->skipped[l->n_skipped++] = (skipped){arena_strdup(l->a, ending), 1};
}

static int by_count(const void *x, const void *y) {
    const skipped *p = x, *q = y;
    return p->n != q->n ? (p->n < q->n) - (p->n > q->n) : strcmp(p->ending, q->ending);
}

// "skipped 12 files: 10 .html, 2 .pdf"
static void report_skipped(const lister *l) {
    enum { NAMED = 8 };
    int n = 0;
    str list = {0};
    if (!l->n_skipped) return;
    qsort(l->skipped, (size_t)l->n_skipped, sizeof *l->skipped, by_count);
    for (int i = 0; i < l->n_skipped; i++) {
        n += l->skipped[i].n;
        if (i < NAMED)
            str_printf(&list, "%s%d %s", i ? ", " : "", l->skipped[i].n, l->skipped[i].ending);
    }
    if (l->n_skipped > NAMED) str_printf(&list, " and %d more endings", l->n_skipped - NAMED);
    log_info("skipped %d file%s: %s", n, str_plural(n), list.p);
    str_free(&list);
}

static drv_status add_file(lister *l, const char *path, bool named) {
    input_file file = {.path = arena_strdup(l->a, path)};
    file.name = strcmp(path, "-") == 0 ? "standard input" : file.path;
    file.guessed = !classify(l->o, path, named, &file);
    if (file.guessed && !named) {
        count_skipped(l, path);
        return DRV_OK;
    }
    if ((file.kind == INPUT_PARQUET || file.kind == INPUT_ARROW) && file.packing != PACKED_NOT)
        return drv_fail(DRV_E_DATA, "\"%s\": a packed %s file; unpack it first", path,
                file.kind == INPUT_ARROW ? "Arrow" : "Parquet");
    if (strcmp(path, "-") != 0) file.bytes = file_size(path);
    MEM_GROW(l->files, l->n, l->cap);
    l->files[l->n++] = file;
    return DRV_OK;
}

// A folder and those that it was reached by.
typedef struct folder {
    dev_t device;
    ino_t inode;
    const struct folder *above;
} folder;

static bool is_above(const folder *f, const struct stat *st) {
    for (; f; f = f->above)
        if (f->device == st->st_dev && f->inode == st->st_ino) return true;
    return false;
}

// Returns whether a file is ignored because it is a pipe or the like, for which reading would wait,
// or a folder that datasets did not complete. It is read only if the user names it by its path.
static bool passes_over(const char *path) {
    const bool is_dir = file_is_dir(path);
    const char *kind = !is_dir                         ? file_odd_kind(path)
                       : str_ends(path, ".incomplete") ? "incomplete"
                                                       : NULL;
    if (!kind) return false;
    log_warn("%s is %s and is ignored; to read it, name it as an input", path, kind);
    return true;
}

static void add_shards(lister *l, const input_file *files, int n) {
    for (int i = 0; i < n; i++) {
        MEM_GROW(l->files, l->n, l->cap);
        l->files[l->n++] = files[i];
    }
}

static drv_status add_path(lister *self, const char *path, bool named, const folder *above) {
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) return add_file(self, path, named);
    if (is_above(above, &st)) { // its files would come again and again
        log_warn("%s leads back to a folder above it and is ignored", path);
        return DRV_OK;
    }
    self->has_folder = true;
    const folder here = {st.st_dev, st.st_ino, above};
    char **names;
    int n_names;
    bool is_saved;
    DRV_TRY(saved_dataset_files(self->a, path, &is_saved, &names, &n_names));
    for (int i = 0; is_saved && i < n_names; i++)
        DRV_TRY(add_file(self, names[i], true));
    if (is_saved) return DRV_OK;
    input_file *shards;
    bool is_mds;
    DRV_TRY(mds_index_files(self->a, path, &is_mds, &shards, &n_names));
    if (is_mds) {
        add_shards(self, shards, n_names);
        return DRV_OK;
    }
    const char *snapshot;
    DRV_TRY(hub_folder_snapshot(self->a, path, &snapshot));
    if (snapshot) return add_path(self, snapshot, false, &here);
    DRV_TRY(dir_list(self->a, path, &names, &n_names));
    for (int i = 0; i < n_names; i++)
        if (names[i][0] != '.') {
            const char *inner = path_join(self->a, path, names[i]);
            if (!passes_over(inner)) DRV_TRY(add_path(self, inner, false, &here));
        }
    return DRV_OK;
}

// Adds the files of an input: the file itself, or the training data of a folder.
static drv_status add_named(lister *l, const char *input) {
    const int first = l->n;
    DRV_TRY(add_path(l, input, true, NULL));
    int n = l->n - first;
    if (n == 0 || !file_is_dir(input)) return DRV_OK;
    hub_folder_choose(input, l->files + first, &n);
    l->n = first + n;
    return DRV_OK;
}

static drv_status add_input(lister *l, const char *input) {
    if (strcmp(input, "-") == 0) return add_file(l, input, true);
    if (file_is_dir(input)) return add_named(l, input);
    if (file_exists(input)) {
        DRV_TRY(add_named(l, input));
        l->files[l->n - 1].named = true;
        return DRV_OK;
    }
    if (!strpbrk(input, "*?[")) return file_fail("open", input);
    glob_t g;
    const int code = glob(input, 0, NULL, &g);
    if (code == GLOB_NOMATCH) return drv_fail(DRV_E_IO, "no file matches \"%s\"", input);
    if (code != 0) return drv_fail(DRV_E_IO, "could not look for \"%s\"", input);
    drv_status status = DRV_OK;
    for (size_t i = 0; status == DRV_OK && i < g.gl_pathc; i++)
        if (!passes_over(g.gl_pathv[i])) status = add_named(l, g.gl_pathv[i]);
    globfree(&g);
    return status;
}

// Returns the error for a folder without a usable file. It names the most frequent extension of the
// ignored files, and says how to have these read.
static drv_status no_file(const lister *list, const char *input) {
    const skipped *most = NULL;
    for (int i = 0; i < list->n_skipped; i++)
        if (list->skipped[i].ending[0] == '.' && (!most || list->skipped[i].n > most->n))
            most = &list->skipped[i];
    const drv_status status = drv_fail(DRV_E_DATA,
            "no .txt, .jsonl, .parquet or .arrow file (or .gz, .zst of a text) in \"%s\"", input);
    if (!most || !list->o->others) return status;
    const char *why = arena_strdup(list->a, drv_message()), *ending = most->ending,
               *pattern = path_for_shell(list->a, arena_printf(list->a, "%s/*%s", input, ending));
    if (list->o->tables == TABLES_NAMED &&
            (strcasecmp(ending, ".csv") == 0 || strcasecmp(ending, ".tsv") == 0))
        return drv_fail(status,
                "%s; it has %d %s: --text-column NAME takes a column of them, a pattern in quotes names them: %s",
                why, most->n, ending, pattern);
    input_file file;
    if (is_named_format(ending, true, &file))
        return drv_fail(status, "%s; it has %d %s%s: a pattern in quotes names them: %s", why,
                most->n, ending,
                file.kind == INPUT_MDS ? " without the index.json that lists them" : "", pattern);
    return drv_fail(status,
            "%s; it has %d %s: %s %s takes them as texts, and so does a pattern in quotes: %s", why,
            most->n, ending, list->o->others, ending + 1, pattern);
}

drv_status inputs_list(arena *a, const char *const *inputs, int n, const inputs_opts *opts,
        input_file **files, int *n_files) {
    lister l = {.a = a, .o = opts};
    drv_status status = DRV_OK;
    for (int i = 0; status == DRV_OK && i < n; i++)
        status = add_input(&l, inputs[i]);
    if (status == DRV_OK && opts->endings && *opts->endings && !l.has_folder)
        status = drv_fail(DRV_E_USAGE,
                "%s has no effect on \"%s\": expected a folder among the inputs", opts->others,
                inputs[0]);
    if (status == DRV_OK && l.n == 0) status = no_file(&l, n ? inputs[0] : "");
    report_skipped(&l);
    *files = ARENA_ARRAY(a, input_file, l.n + 1);
    if (l.n) memcpy(*files, l.files, sizeof *l.files * (size_t)l.n);
    *n_files = l.n;
    free(l.files);
    free(l.skipped);
    return status;
}
