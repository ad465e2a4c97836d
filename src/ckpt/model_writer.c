// Copies tensors from a source into a folder, piece by piece.
#include "ckpt/model_writer.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "ckpt/tensor_writer.h"

enum { PIECE = 4 << 20 }; // bytes in fp32

drv_status model_write_check(const char *path, bool force) {
    arena *a = arena_new("look at a folder");
    char **names;
    int n = 0;
    drv_status status = DRV_OK;
    if (file_exists(path) && !file_is_dir(path))
        status = drv_fail(DRV_E_USAGE, "\"%s\" is a file, expected a folder to write to", path);
    else if (file_exists(path))
        status = dir_list(a, path, &names, &n);
    if (status == DRV_OK && n > 0 && !force)
        status = drv_fail(DRV_E_USAGE,
                "\"%s\" has files in it, as \"%s\", expected a new or an empty folder; --force "
                "writes into it",
                path, names[0]);
    arena_free(a);
    return status;
}

// What a tensor becomes.
static st_type type_for(const source_tensor *t, const model_write_opts *opts) {
    if (opts->has_type) return opts->type;
    return t->type == ST_F16 || t->type == ST_BF16 ? t->type : ST_F32;
}

typedef struct copying {
    const model_source *source;
    tensor_writer *out;
    int64_t done, total; // bytes written
    double began;
    const char *verb;
} copying;

static void show_progress(const copying *c, int i, int n) {
    const double s = clock_s() - c->began,
                 rest = c->done ? s / (double)c->done * (double)(c->total - c->done) : 0;
    progress("%s: tensor %d of %d, %s of %s, %s/s, %s left", c->verb, i + 1, n,
            str_bytes((double)c->done), str_bytes((double)c->total),
            str_bytes(s > 0 ? (double)c->done / s : 0), str_duration(rest));
}

static drv_status copy_tensor(copying *c, const source_tensor *t, st_type type) {
    const int64_t rows = source_piece_rows(t, PIECE), row_bytes = t->cols * st_type_bytes(type);
    const bool raw = t->type == type;
    float *values = raw ? NULL : mem_alloc(sizeof *values * (size_t)(rows * t->cols));
    void *bytes = mem_alloc((size_t)(rows * row_bytes));
    drv_status status = DRV_OK;
    for (int64_t row = 0; row < t->rows && status == DRV_OK; row += rows) {
        const int64_t n = t->rows - row < rows ? t->rows - row : rows;
        if (raw)
            status = source_read_raw(c->source, t, row, n, bytes);
        else
            status = source_read_f32(c->source, t, row, n, values);
        if (status == DRV_OK && !raw)
            status = tensor_round(t->name, type, values, n * t->cols, bytes);
        if (status == DRV_OK) status = tensor_writer_add(c->out, bytes, n * row_bytes);
        c->done += n * row_bytes;
    }
    free(values);
    free(bytes);
    return status;
}

// The type of most bytes: what config.json names.
static st_type main_type(const st_entry *list, int n) {
    int64_t bytes[ST_OTHER + 1] = {0};
    st_type most = ST_F32;
    for (int i = 0; i < n; i++)
        bytes[list[i].type] += st_entry_bytes(&list[i]);
    for (st_type type = 0; type < ST_OTHER; type++)
        if (bytes[type] > bytes[most]) most = type;
    return most;
}

static const char *torch_name(st_type type) {
    return type == ST_BF16 ? "bfloat16" : type == ST_F16 ? "float16" : "float32";
}

// transformers 5 calls it "dtype", earlier ones "torch_dtype".
static drv_status write_config(const model_source *s, out_folder *o, st_type type) {
    json_t *config;
    DRV_TRY(s->reader->config(s, &config));
    const char *key = json_object_get(config, "dtype") ? "dtype" : "torch_dtype";
    if (json_object_get(config, "dtype")) json_object_del(config, "torch_dtype");
    json_object_set_new(config, key, json_string(torch_name(type)));
    char *text = json_dumps(config, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    drv_status status = out_folder_put(o, "config.json", text, strlen(text));
    free(text);
    json_decref(config);
    return status;
}

static drv_status write_files(arena *a, const model_source *s, out_folder *o) {
    ckpt_carried *files;
    int n;
    DRV_TRY(s->reader->files(a, s, &files, &n));
    for (int i = 0; i < n; i++)
        DRV_TRY(out_folder_put(o, files[i].name, files[i].bytes, files[i].n));
    return DRV_OK;
}

static drv_status write_tensors(const model_source *s, const st_entry *list, int n, out_folder *o,
        const model_write_opts *opts) {
    copying c = {.source = s, .began = clock_s(), .verb = opts->verb};
    for (int i = 0; i < n; i++)
        c.total += st_entry_bytes(&list[i]);
    drv_status status = tensor_writer_open(o, "model", list, n, opts->shard_bytes, &c.out);
    for (int i = 0; i < n && status == DRV_OK; i++) {
        show_progress(&c, i, n);
        status = copy_tensor(&c, model_source_find(s, list[i].name), list[i].type);
    }
    progress_end();
    return tensor_writer_close(c.out, status);
}

static drv_status write_all(arena *a, const model_source *s, const st_entry *list, int n,
        const char *path, const model_write_opts *opts) {
    out_folder o;
    DRV_TRY(out_folder_begin(a, path, &o));
    drv_status status = write_files(a, s, &o); // what is refused here is, before the long work
    if (status == DRV_OK) status = write_config(s, &o, main_type(list, n));
    if (status == DRV_OK) status = write_tensors(s, list, n, &o, opts);
    if (status == DRV_OK) status = out_folder_sync(&o);
    if (status == DRV_OK)
        status = file_exists(o.path) && opts->force ? out_folder_commit_into(&o, o.path)
                                                    : out_folder_commit(&o, o.path);
    if (status != DRV_OK) out_folder_discard(&o);
    return status;
}

drv_status model_write(const model_source *s, const st_entry *list, int n, const char *path,
        const model_write_opts *opts, model_written *out) {
    arena *a = arena_new("model writer");
    const double began = clock_s();
    st_entry *typed = ARENA_ARRAY(a, st_entry, n + 1);
    for (int i = 0; i < n; i++) {
        typed[i] = list[i];
        typed[i].type = type_for(model_source_find(s, list[i].name), opts);
    }
    drv_status status = model_write_check(path, opts->force);
    if (status == DRV_OK) status = write_all(a, s, typed, n, path, opts);
    if (status == DRV_OK) {
        *out = (model_written){.n_tensors = n,
                .type = main_type(typed, n),
                .seconds = clock_s() - began};
        for (int i = 0; i < n; i++)
            out->bytes += st_entry_bytes(&typed[i]);
    }
    arena_free(a);
    return status;
}
