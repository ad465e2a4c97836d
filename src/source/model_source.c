// Functions common to all formats of models: detects the format of a path, finds tensors by name,
// and checks that every value is finite.
#include "source/model_source.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/file.h"
#include "base/hub_name.h"
#include "base/json.h"
#include "source/checkpoint_names.h"
#include "source/foreign_state.h"
#include "source/rank_files.h"
#include "model/family/model_files.h"
#include "gguf/gguf.h"
#include "pickle/torch_file.h"

const char *const ckpt_carried_names[] = {"tokenizer.json", "tokenizer_config.json",
        "special_tokens_map.json", "added_tokens.json", "tokenizer.model", "vocab.json",
        "merges.txt", "chat_template.jinja", TOOL_TEMPLATE_FILE, "chat_template.json",
        "generation_config.json"};
const int n_ckpt_carried_names = sizeof ckpt_carried_names / sizeof *ckpt_carried_names;

// --- which format
static bool is_model_folder(arena *a, const char *path) {
    return file_exists(path_join(a, path, "model.safetensors")) ||
           file_exists(path_join(a, path, "model.safetensors.index.json"));
}

// --- names
#define EMBEDDING "model.embed_tokens.weight"
#define HEAD      "lm_head.weight"

// Removes the names that torch's wrappers of a module put before those inside of it.
static const char *without_wrappers(arena *a, const char *name) {
    static const char *const wrappers[] = {"_orig_mod.", "_fsdp_wrapped_module.",
            "_checkpoint_wrapped_module."};
    for (size_t i = 0; i < sizeof wrappers / sizeof *wrappers; i++)
        for (const char *found; (found = strstr(name, wrappers[i]));)
            name = arena_printf(a, "%.*s%s", (int)(found - name), name,
                    found + strlen(wrappers[i]));
    return name;
}

// Returns the text before "model." in all names: trainers save a model inside of others, which put
// "module." or the name of a field there. *is_base: it is the text before the names of a model that
// was saved without its output weight, which lack "model.".
static const char *prefix_of(arena *a, const model_source *s, bool *is_base) {
    static const char base[] = "embed_tokens.weight";
    const char *prefix = "";
    *is_base = false;
    if (model_source_find(s, EMBEDDING)) return prefix;
    for (int i = 0; i < s->n; i++) {
        const char *name = s->tensors[i].name;
        const size_t n = strlen(name), n_base = strlen(base);
        if (!str_ends(name, base) || (n > n_base && name[n - n_base - 1] != '.')) continue;
        *is_base = !str_ends(name, EMBEDDING);
        prefix = arena_strndup(a, name, n - (*is_base ? n_base : strlen(EMBEDDING)));
        if (!*is_base) break;
    }
    return prefix;
}

static drv_status index_names(arena *a, model_source *s) {
    s->by_name = (name_map){.a = a};
    for (int i = 0; i < s->n; i++) {
        source_tensor *t = &s->tensors[i];
        if (model_source_find(s, t->name))
            return drv_fail(DRV_E_DATA,
                    "%s: two tensors are \"%.80s\", apart from what trainers put before names",
                    t->file, t->name);
        name_map_set(&s->by_name, t->name, t);
    }
    return DRV_OK;
}

static drv_status remove_prefixes(arena *a, model_source *s) {
    bool is_base;
    for (int i = 0; i < s->n; i++)
        s->tensors[i].name = without_wrappers(a, s->tensors[i].name);
    DRV_TRY(index_names(a, s));
    const char *prefix = prefix_of(a, s, &is_base);
    for (int i = 0; i < s->n; i++) {
        const char **name = &s->tensors[i].name;
        if (!str_starts(*name, prefix)) continue;
        *name += strlen(prefix);
        if (is_base && strcmp(*name, HEAD) != 0) *name = arena_printf(a, "model.%s", *name);
    }
    return index_names(a, s);
}

// A tied model may have its one table stored as the output weight alone. transformers takes that
// for the embedding, and so does this.
static drv_status name_tied_table(arena *a, model_source *s) {
    json_t *config = NULL;
    if (model_source_find(s, EMBEDDING) || !model_source_find(s, HEAD)) return DRV_OK;
    if (json_read_file(path_join(a, s->folder, "config.json"), &config) != DRV_OK) return DRV_OK;
    const bool tied = json_is_true(json_object_get(config, "tie_word_embeddings"));
    json_decref(config);
    for (int i = 0; tied && i < s->n; i++)
        if (strcmp(s->tensors[i].name, HEAD) == 0) s->tensors[i].name = EMBEDDING;
    return index_names(a, s);
}

drv_status model_source_rename(drv_status opened, arena *a, model_source *s) {
    drv_status status = opened;
    if (status == DRV_OK) status = remove_prefixes(a, s);
    if (status == DRV_OK) status = name_tied_table(a, s);
    if (opened == DRV_OK && status != DRV_OK) model_source_close(s);
    return status;
}

// --- formats
static drv_status open_model_folder(arena *a, const char *path, model_source *out) {
    return model_source_rename(model_source_open_folder(a, path, "model", out), a, out);
}

static bool is_gguf(arena *a DRV_UNUSED, const char *path) {
    return !file_is_dir(path) && gguf_is_gguf(path);
}

// Returns whether a folder is one that ckpt import --keep-blocks makes.
static bool is_gguf_folder(arena *a, const char *path) {
    return file_is_dir(path) && is_gguf(a, path_join(a, path, SOURCE_GGUF));
}

static drv_status open_gguf_folder(arena *a, const char *path, model_source *out) {
    return model_source_open_gguf(a, path_join(a, path, SOURCE_GGUF), out);
}

static drv_status open_dcp(arena *a, const char *path, model_source *out) {
    return source_open_dcp(a, path, NULL, out);
}

static drv_status open_ranks(arena *a, const char *path, model_source *out) {
    return source_open_ranks(a, path, NULL, out);
}

static bool is_torch_folder(arena *a, const char *path) {
    return model_source_is_torch_folder(a, path, "pytorch_model");
}

static drv_status open_torch_folder(arena *a, const char *path, model_source *out) {
    return model_source_rename(model_source_open_torch_folder(a, path, "pytorch_model", out), a,
            out);
}

static bool is_torch_file(arena *a DRV_UNUSED, const char *path) {
    return !file_is_dir(path) && !str_starts(path_name(path), "consolidated.") &&
           torch_is_file(path);
}

static drv_status open_torch_file(arena *a, const char *path, model_source *out) {
    return model_source_open_torch(a, path, NULL, out);
}

static const struct {
    bool (*recognises)(arena *a, const char *path);
    drv_status (*open)(arena *a, const char *path, model_source *out);
    bool has_sizes; // it needs no config.json
} formats[] = {{is_model_folder, open_model_folder, false}, {is_gguf, model_source_open_gguf, true},
        {is_gguf_folder, open_gguf_folder, true}, {source_is_dcp, open_dcp, false},
        {rank_files_are_there, open_ranks, false}, {is_torch_folder, open_torch_folder, false},
        {model_source_is_meta_folder, model_source_open_meta, true},
        {is_torch_file, open_torch_file, false}};

// Common formats that drover does not read, and advice for each.
static const struct {
    const char *file, *advice;
} refused[] = {
        {"consolidated.00.pth",
                "one of Meta's own files; name the folder that they lie in, with params.json"},
        {"consolidated.safetensors",
                "Mistral's own layout; the same model is published as model.safetensors"},
        {"params.json",
                "one of Meta's own files; their weights, consolidated.00.pth, are not there"},
        {"zero_to_fp32.py",
                "the script of a checkpoint of DeepSpeed; python zero_to_fp32.py . OUT writes OUT/pytorch_model.bin, beside which config.json and the tokenizer belong"},
        {"adapter_config.json",
                "an adapter without its base; drover ckpt merge BASE ADAPTER --out DIR makes a model of it"},
};

// Returns whether a file has an extension of torch.save's; a .bin with an .idx next to it has
// tokens.
static bool is_called_torch(arena *a, const char *path) {
    const int stem = (int)(strlen(path) - strlen(".bin"));
    return torch_is_called_so(path) &&
           !(str_ends(path, ".bin") && file_exists(arena_printf(a, "%.*s.idx", stem, path)));
}

const char *model_source_foreign(arena *a, const char *folder) {
    char **names;
    int n = 0;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (file_exists(path_join(a, folder, refused[i].file)))
            return arena_printf(a, "%s: that is %s", refused[i].file, refused[i].advice);
    if (dir_list(a, folder, &names, &n) != DRV_OK) return NULL;
    for (int i = 0; i < n; i++)
        if (is_called_torch(a, path_join(a, folder, names[i])))
            return arena_printf(a,
                    "%s: this is a file of PyTorch; give its own path, with config.json in the same folder: %s/%s",
                    names[i], folder, names[i]);
    return NULL;
}

static drv_status refuse_file(arena *a, const char *path) {
    const char *name = path_name(path);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (strcmp(name, refused[i].file) == 0)
            return drv_fail(DRV_E_DATA, "\"%s\" is %s", path, refused[i].advice);
    if (str_ends(path, ".safetensors"))
        return drv_fail(DRV_E_DATA,
                "\"%s\" is a file of weights, expected its folder, with config.json", path);
    if (is_called_torch(a, path))
        return drv_fail(DRV_E_DATA,
                "\"%s\" is not a file of torch.save, neither a zip file nor one of the older form",
                path);
    return drv_fail(DRV_E_DATA,
            "\"%s\" is not a model, expected a Hugging Face folder, a GGUF file or a file of torch.save",
            path);
}

static drv_status refuse(arena *a, const char *path) {
    if (!file_exists(path))
        return drv_fail(DRV_E_IO, "\"%s\" does not exist%s", path, hub_hint(a, path));
    if (!file_is_dir(path)) return refuse_file(a, path);
    const char *run = ckpt_run_hint(a, path), *foreign = model_source_foreign(a, path);
    if (run) return drv_fail(DRV_E_DATA, "\"%s\" is %s", path, run);
    if (foreign)
        return drv_fail(DRV_E_DATA, "\"%s\" has no model.safetensors, but %s", path, foreign);
    return drv_fail(DRV_E_DATA, "\"%s\" has neither model.safetensors nor its index", path);
}

// Returns the number of a path's format; -1: none.
static int format_of(arena *a, const char *path) {
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i].recognises(a, path)) return (int)i;
    return -1;
}

bool model_source_is(arena *a, const char *path) {
    return format_of(a, path) >= 0;
}

drv_status model_source_open_with(arena *a, const char *path, const char *config_file,
        model_source *out) {
    const int format = format_of(a, path);
    *out = (model_source){.path = path, .config_file = config_file};
    if (format < 0) return refuse(a, path);
    if (config_file && formats[format].has_sizes)
        return drv_fail(DRV_E_USAGE,
                "\"%s\" has the sizes of its model itself, expected no other config.json (\"%s\")",
                path, config_file);
    DRV_TRY(formats[format].open(a, path, out));
    if (!out->reader->config) out->config_file = config_file; // other readers have read it
    return DRV_OK;
}

drv_status model_source_open(arena *a, const char *path, model_source *out) {
    return model_source_open_with(a, path, NULL, out);
}

void model_source_keep_masters(arena *a, model_source *s) {
    const int n = s->n;
    s->n = 0;
    s->by_name = (name_map){.a = a};
    for (int i = 0; i < n; i++) {
        source_tensor t = s->tensors[i];
        if (!str_starts(t.name, CKPT_MASTER)) continue;
        t.name += strlen(CKPT_MASTER);
        s->tensors[s->n] = t;
        name_map_set(&s->by_name, t.name, &s->tensors[s->n++]);
    }
}

// --- two as one
typedef struct joined {
    model_source part[2];
} joined;

// The type of a joined tensor's `origin`.
typedef struct joined_tensor {
    const model_source *source;
    const source_tensor *tensor;
} joined_tensor;

// Reads rows as fp32, unchecked; those of 16 bits come into the second half of `out` first.
static drv_status read_f32(const model_source *s, const source_tensor *t, int64_t row, int64_t n,
        float *out) {
    const int64_t count = n * t->cols;
    if (s->reader->read_f32) return s->reader->read_f32(s, t, row, n, out);
    if (t->type == ST_F32) return s->reader->read_raw(s, t, row, n, out);
    if (t->type == ST_OTHER)
        return drv_fail(DRV_E_DATA, "%s: tensor \"%s\" is %s, expected F32, BF16, F16 or F64",
                t->file, t->name, t->type_name);
    if (t->type != ST_F64) {
        char *halves = (char *)out + 2 * count;
        DRV_TRY(s->reader->read_raw(s, t, row, n, halves));
        st_widen(t->type, halves, count, out);
        return DRV_OK;
    }
    double *wide = mem_alloc(sizeof *wide * (size_t)count + 1);
    const drv_status status = s->reader->read_raw(s, t, row, n, wide);
    for (int64_t i = 0; i < count && status == DRV_OK; i++)
        out[i] = (float)wide[i];
    free(wide);
    return status;
}

drv_status model_source_config(const model_source *s, json_t **out) {
    str path = {0};
    if (s->reader->config) return s->reader->config(s, out);
    if (s->config_file) return json_read_file(s->config_file, out);
    str_printf(&path, "%s/config.json", s->folder);
    const drv_status status = json_read_file(path.p, out);
    str_free(&path);
    return status;
}

drv_status model_source_files(arena *a, const model_source *s, ckpt_carried **list, int *n) {
    if (s->reader->files) return s->reader->files(a, s, list, n);
    return model_folder_files(a, s->folder, list, n);
}

static drv_status read_joined_raw(const model_source *s DRV_UNUSED, const source_tensor *t,
        int64_t row, int64_t n, void *out) {
    const joined_tensor *from = t->origin;
    return from->source->reader->read_raw(from->source, from->tensor, row, n, out);
}

static drv_status read_joined_f32(const model_source *s DRV_UNUSED, const source_tensor *t,
        int64_t row, int64_t n, float *out) {
    const joined_tensor *from = t->origin;
    return read_f32(from->source, from->tensor, row, n, out);
}

static drv_status read_joined_config(const model_source *s, json_t **out) {
    return model_source_config(&((const joined *)s->state)->part[1], out);
}

static drv_status read_joined_files(arena *a, const model_source *s, ckpt_carried **list, int *n) {
    return model_source_files(a, &((const joined *)s->state)->part[1], list, n);
}

static void close_joined(model_source *s) {
    joined *both = s->state;
    model_source_close(&both->part[0]);
    model_source_close(&both->part[1]);
}

void model_source_join(arena *a, model_source *first, const model_source *more) {
    joined *both = ARENA_NEW(a, joined);
    source_reader *reader = ARENA_NEW(a, source_reader);
    *both = (joined){.part = {*first, *more}};
    *reader = (source_reader){.format = more->reader->format,
            .read_raw = read_joined_raw,
            .read_f32 = read_joined_f32,
            .config = read_joined_config,
            .files = read_joined_files,
            .close = close_joined};
    *first = (model_source){.path = more->path,
            .reader = reader,
            .tensors = ARENA_ARRAY(a, source_tensor, first->n + more->n + 1),
            .by_name = {.a = a},
            .state = both};
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < both->part[k].n; i++) {
            const source_tensor *t = &both->part[k].tensors[i];
            if (name_map_get(&first->by_name, t->name)) continue;
            joined_tensor *from = ARENA_NEW(a, joined_tensor);
            *from = (joined_tensor){&both->part[k], t};
            first->tensors[first->n] = *t;
            first->tensors[first->n].origin = from;
            name_map_set(&first->by_name, t->name, &first->tensors[first->n++]);
        }
}

drv_status model_source_open_masters(arena *a, const char *path, model_source *out) {
    model_source model;
    *out = (model_source){.path = path};
    if (!file_exists(path_join(a, path, "optimizer.safetensors")))
        return model_source_open(a, path, out);
    DRV_TRY(model_source_open_folder(a, path, "optimizer", out));
    model_source_keep_masters(a, out);
    if (out->n == 0) {
        model_source_close(out);
        return model_source_open(a, path, out);
    }
    const drv_status status = model_source_open_folder(a, path, "model", &model);
    if (status == DRV_OK)
        model_source_join(a, out, &model);
    else
        model_source_close(out);
    return status;
}

void model_source_close(model_source *s) {
    if (s->reader) s->reader->close(s);
    *s = (model_source){.path = s->path};
}

const source_tensor *model_source_find(const model_source *s, const char *name) {
    return name_map_get(&s->by_name, name);
}

// --- values
static drv_status not_finite(const source_tensor *t, int64_t element, bool nan) {
    char where[64];
    if (t->n_dims == 2)
        snprintf(where, sizeof where, "[%lld, %lld]", (long long)(element / t->cols),
                (long long)(element % t->cols));
    else
        snprintf(where, sizeof where, "[%lld]", (long long)element);
    return drv_fail(DRV_E_DATA, "%s: tensor \"%s\" is %s at %s, expected finite numbers", t->file,
            t->name, nan ? "NaN" : "infinite", where);
}

static void check_range(const source_tensor *t, int64_t row, int64_t n) {
    DRV_ASSERT(row >= 0 && n >= 0 && row + n <= t->rows, "rows of \"%s\"", t->name);
}

// Values that are looked at together: with a known count the compiler makes vectors of them.
enum { CHECKED = 64 };

// In an infinite value or a NaN all bits of the exponent are set: adding one at its end carries
// into the bit of the sign, which was cleared.
static bool finite_32(const float *p, int64_t n) {
    uint32_t bits[CHECKED], sums = 0;
    int64_t i = 0;
    for (; i + CHECKED <= n; i += CHECKED) {
        memcpy(bits, p + i, sizeof bits);
        for (int k = 0; k < CHECKED; k++)
            sums |= (bits[k] & 0x7F800000) + 0x00800000;
    }
    for (; i < n; i++) {
        memcpy(bits, p + i, sizeof *bits);
        sums |= (*bits & 0x7F800000) + 0x00800000;
    }
    return !(sums >> 31);
}

static bool finite_16(const uint16_t *p, int64_t n, uint16_t exponent) {
    const uint16_t one = exponent & (uint16_t)-exponent;
    uint16_t sums = 0;
    int64_t i = 0;
    for (; i + CHECKED <= n; i += CHECKED)
        for (int k = 0; k < CHECKED; k++)
            sums |= (uint16_t)((p[i + k] & exponent) + one);
    for (; i < n; i++)
        sums |= (uint16_t)((p[i] & exponent) + one);
    return !(sums >> 15);
}

static drv_status check_32(const source_tensor *t, int64_t row, int64_t n, const float *values) {
    if (finite_32(values, n * t->cols)) return DRV_OK;
    int64_t i = 0;
    while (isfinite(values[i]))
        i++;
    return not_finite(t, row * t->cols + i, isnan(values[i]));
}

static drv_status check_16(const source_tensor *t, int64_t row, int64_t n, const uint16_t *p) {
    const uint16_t exponent = t->type == ST_BF16 ? 0x7F80 : 0x7C00;
    if (finite_16(p, n * t->cols, exponent)) return DRV_OK;
    int64_t i = 0;
    while ((p[i] & exponent) != exponent)
        i++;
    return not_finite(t, row * t->cols + i, p[i] & (0x7FFF ^ exponent));
}

drv_status source_read_f32(const model_source *s, const source_tensor *t, int64_t row, int64_t n,
        float *out) {
    check_range(t, row, n);
    DRV_TRY(read_f32(s, t, row, n, out));
    return check_32(t, row, n, out);
}

drv_status source_read_raw(const model_source *s, const source_tensor *t, int64_t row, int64_t n,
        void *out) {
    check_range(t, row, n);
    DRV_ASSERT(t->type == ST_F32 || t->type == ST_F16 || t->type == ST_BF16,
            "\"%s\" is %s: no raw values", t->name, t->type_name);
    DRV_TRY(s->reader->read_raw(s, t, row, n, out));
    return t->type == ST_F32 ? check_32(t, row, n, out) : check_16(t, row, n, out);
}

drv_status source_read_blocks(const model_source *s, const source_tensor *t, int64_t row, int64_t n,
        void *out) {
    check_range(t, row, n);
    DRV_ASSERT(t->quant, "\"%s\" is %s: no blocks", t->name, t->type_name);
    return s->reader->read_raw(s, t, row, n, out);
}

int64_t source_piece_rows(const source_tensor *t, int64_t bytes) {
    const int64_t rows = t->cols ? bytes / (4 * t->cols) : t->rows;
    return rows < 1 ? 1 : rows;
}

drv_status model_source_same(const model_source *s, const source_tensor *t,
        const model_source *other, const source_tensor *u, bool *same) {
    *same = t->rows == u->rows && t->cols == u->cols;
    const int64_t rows = source_piece_rows(t, 1 << 18);
    float *x = mem_alloc(sizeof *x * (size_t)(rows * t->cols + 1)),
          *y = mem_alloc(sizeof *y * (size_t)(rows * t->cols + 1));
    drv_status status = DRV_OK;
    for (int64_t row = 0; *same && row < t->rows; row += rows) {
        const int64_t n = t->rows - row < rows ? t->rows - row : rows;
        status = source_read_f32(s, t, row, n, x);
        if (status == DRV_OK) status = source_read_f32(other, u, row, n, y);
        *same = status == DRV_OK && memcmp(x, y, sizeof *x * (size_t)(n * t->cols)) == 0;
    }
    free(x);
    free(y);
    return status;
}

// --- what is not read
// The output weight of a model that ties it to the embedding. transformers ignores it, so one that
// differs would give another model here and there.
static drv_status check_tied(const model_source *s, const source_tensor *head) {
    const source_tensor *embedding = model_source_find(s, EMBEDDING);
    bool same = false;
    if (embedding) DRV_TRY(model_source_same(s, head, s, embedding, &same));
    if (same) return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "%s: \"lm_head.weight\" differs from \"model.embed_tokens.weight\", but tie_word_embeddings is true",
            head->file);
}

drv_status model_source_drops(const model_source *s, const source_tensor *t, bool *drops) {
    *drops = str_ends(t->name, "rotary_emb.inv_freq");
    if (*drops || strcmp(t->name, HEAD) != 0) return DRV_OK;
    *drops = true;
    return check_tied(s, t);
}
