// Copies tensors from a source into a folder, piece by piece.
#include "ckpt/model_writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "ckpt/tensor_writer.h"

enum { PIECE = 4 << 20 }; // bytes in fp32

// --- where to
static drv_status check_folder(arena *a, const char *path, bool force) {
    char **names;
    int n;
    DRV_TRY(dir_list(a, path, &names, &n));
    if (file_exists(path_join(a, path, "manifest.json")))
        return drv_fail(DRV_E_USAGE,
                "\"%s\" is a checkpoint of a run, which would be lost; expected another folder",
                path);
    int i = 0;
    while (i < n && STR_ONE_OF(names[i], OUT_FOLDER_TMP, OUT_FOLDER_LOCK))
        i++; // a killed writer left them
    if (i == n || force) return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "\"%s\" has files in it, as \"%s\", expected a new or an empty folder; --force writes into it",
            path, names[i]);
}

drv_status model_write_check(const char *source, const char *path, bool force) {
    if (!file_exists(path)) {
        struct stat link;
        if (lstat(path, &link) != 0) return DRV_OK;
        return drv_fail(DRV_E_USAGE, "\"%s\" is a link to nothing, expected a folder to write to",
                path);
    }
    if (!file_is_dir(path))
        return drv_fail(DRV_E_USAGE, "\"%s\" is a file, expected a folder to write to", path);
    if (file_is_same(source, path))
        return drv_fail(DRV_E_USAGE,
                "\"%s\" is the source itself, expected another folder to write to", path);
    arena *a = arena_new("look at a folder");
    drv_status status = check_folder(a, path, force);
    arena_free(a);
    return status;
}

drv_status model_write_open(arena *a, const char *source, const char *path, bool force,
        out_folder *o, file_lock *lock) {
    DRV_TRY(model_write_check(source, path, force));
    out_folder_name(a, path, o);
    DRV_TRY(dir_make_parent(o->path));
    return file_lock_take(a, o->lock, arena_printf(a, "\"%s\"", path), lock);
}

// Finds a disk that is too small before the work. If its free space is unknown, writing finds out.
drv_status model_write_room(const char *path, int64_t bytes) {
    struct statvfs disk;
    if (statvfs(path, &disk) != 0) return DRV_OK;
    const double room = (double)disk.f_bavail * (double)disk.f_frsize;
    if (room >= (double)bytes) return DRV_OK;
    return drv_fail(DRV_E_IO, "\"%s\" has room for %s, but %s will be written", path,
            str_bytes(room), str_bytes((double)bytes));
}

// --- tensors
// Returns the type that a tensor gets.
static st_type type_for(const source_tensor *t, const model_write_opts *opts) {
    if (opts->has_type) return opts->type;
    return t->type == ST_F16 || t->type == ST_BF16 ? t->type : ST_F32;
}

static bool is_changed(const model_change *change, const source_tensor *t) {
    return change->has && change->has(change->ctx, t);
}

typedef struct copying {
    const model_source *source;
    tensor_writer *out;
    int64_t done, total; // bytes written
    double began;
    const model_write_opts *opts;
} copying;

static void show_progress(const copying *c, int i, int n) {
    const double s = clock_s() - c->began,
                 rest = c->done ? s / (double)c->done * (double)(c->total - c->done) : 0;
    progress("%s: tensor %d of %d, %s of %s, %s/s, %s left", c->opts->verb, i + 1, n,
            str_bytes((double)c->done), str_bytes((double)c->total),
            str_bytes(s > 0 ? (double)c->done / s : 0), str_duration(rest));
}

drv_status model_read_as(const model_source *s, const model_change *change, const source_tensor *t,
        st_type type, int64_t row, int64_t n, float *values, void *bytes) {
    const bool changed = is_changed(change, t);
    if (t->type == type && !changed) return source_read_raw(s, t, row, n, bytes);
    DRV_TRY(source_read_f32(s, t, row, n, values));
    if (changed) DRV_TRY(change->rows(change->ctx, t, row, n, values));
    return tensor_round(t->name, type, values, n * t->cols, bytes);
}

static drv_status copy_tensor(copying *c, const source_tensor *t, st_type type) {
    const int64_t rows = source_piece_rows(t, PIECE);
    float *values = mem_alloc(sizeof *values * (size_t)(rows * t->cols));
    void *bytes = mem_alloc((size_t)(rows * t->cols * st_type_bytes(type)));
    drv_status status = DRV_OK;
    for (int64_t row = 0; row < t->rows && status == DRV_OK; row += rows) {
        const int64_t n = t->rows - row < rows ? t->rows - row : rows,
                      n_bytes = n * t->cols * st_type_bytes(type);
        status = model_read_as(c->source, &c->opts->change, t, type, row, n, values, bytes);
        if (status == DRV_OK) status = tensor_writer_add(c->out, bytes, n_bytes);
        c->done += n_bytes;
    }
    free(values);
    free(bytes);
    return status;
}

// The type of most bytes, which config.json names.
static st_type main_type(const st_entry *list, int n) {
    int64_t bytes[ST_OTHER + 1] = {0};
    st_type most = ST_F32;
    for (int i = 0; i < n; i++)
        bytes[list[i].type] += st_entry_bytes(&list[i]);
    for (st_type type = 0; type < ST_OTHER; type++)
        if (bytes[type] > bytes[most]) most = type;
    return most;
}

const char *model_torch_type(st_type type) {
    return type == ST_BF16 ? "bfloat16" : type == ST_F16 ? "float16" : "float32";
}

// transformers 5 calls it "dtype", earlier ones "torch_dtype".
static drv_status write_config(const model_source *s, out_folder *o, st_type type) {
    json_t *config;
    DRV_TRY(model_source_config(s, &config));
    const char *key = json_object_get(config, "dtype") ? "dtype" : "torch_dtype";
    if (json_object_get(config, "dtype")) json_object_del(config, "torch_dtype");
    json_object_set_new(config, key, json_string(model_torch_type(type)));
    return out_folder_put_json(o, "config.json", config, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
}

static drv_status write_files(arena *a, const model_source *s, const model_write_opts *opts,
        out_folder *o) {
    ckpt_carried *own;
    int n = opts->n_files;
    const ckpt_carried *files = opts->files;
    if (!files) {
        DRV_TRY(model_source_files(a, s, &own, &n));
        files = own;
    }
    const source_tensor *embedding = model_source_find(s, "model.embed_tokens.weight");
    if (embedding) DRV_TRY(carried_tokens_check(files, n, embedding->rows));
    for (int i = 0; i < n; i++)
        DRV_TRY(out_folder_put(o, files[i].name, files[i].bytes, files[i].n));
    return DRV_OK;
}

drv_status model_write_tensors(const model_source *s, const char *name, const st_entry *list, int n,
        int64_t shard_bytes, out_folder *o, const model_write_opts *opts) {
    copying c = {.source = s, .began = clock_s(), .opts = opts};
    for (int i = 0; i < n; i++)
        c.total += st_entry_bytes(&list[i]);
    DRV_TRY(model_write_room(o->tmp, c.total));
    drv_status status = tensor_writer_open(o, name, list, n, shard_bytes, &c.out);
    for (int i = 0; i < n && status == DRV_OK; i++) {
        show_progress(&c, i, n);
        status = copy_tensor(&c, model_source_find(s, list[i].name), list[i].type);
    }
    progress_end();
    return tensor_writer_close(c.out, status);
}

// --- the optimizer's state
static drv_status write_trainer(const foreign_progress *p, out_folder *o) {
    json_t *json = json_object();
    json_object_set_new(json, "step", json_of_count(p->step));
    json_object_set_new(json, "updates", json_of_count(p->updates));
    json_object_set_new(json, "bad_steps", json_integer(0));
    json_object_set_new(json, "rows_taken", json_of_count(p->samples));
    json_object_set_new(json, "tokens", json_of_count(p->tokens));
    json_object_set_new(json, "learning_rate", json_of_f64(p->learning_rate));
    return out_folder_put_json(o, "trainer.json", json, JSON_INDENT(2));
}

// One file, in the types that a run resumes from.
static drv_status write_optimizer(arena *a, const model_write_opts *opts, out_folder *o) {
    const model_source *s = opts->optimizer;
    st_entry *list = ARENA_ARRAY(a, st_entry, s->n + 1);
    for (int i = 0; i < s->n; i++) {
        const source_tensor *t = &s->tensors[i];
        list[i] = (st_entry){t->name, t->n_dims, {t->dim[0], t->n_dims > 1 ? t->dim[1] : 0},
                t->type == ST_BF16 ? ST_BF16 : ST_F32};
    }
    DRV_TRY(model_write_tensors(s, "optimizer", list, s->n, INT64_MAX, o, opts));
    return write_trainer(opts->progress, o);
}

// --- into place
// Keeps a model that failed its proof, for inspection, under a name that is not taken for the
// model's.
static drv_status put_beside(arena *a, out_folder *o, const char **path) {
    *path = path_unused(a, arena_printf(a, "%s%sunproved", o->path, o->inside ? "/" : "."), "");
    return out_placed(out_folder_commit(o, *path));
}

static drv_status finish(arena *a, out_folder *o, const model_write_opts *opts,
        model_written *out) {
    bool good = true;
    DRV_TRY(out_folder_sync(o));
    if (opts->proof.look) DRV_TRY(opts->proof.look(opts->proof.ctx, o, &good));
    DRV_TRY(out_folder_sync(o)); // what the proof added
    if (opts->optimizer) DRV_TRY(out_folder_manifest(o, opts->progress->step));
    if (!good) return put_beside(a, o, &out->unproved);
    return out_folder_place(o, opts->force);
}

// The file of a GGUF source, as it is.
static drv_status copy_file(const model_source *source, out_folder *o) {
    DRV_TRY(model_write_room(o->tmp, file_size(source->path)));
    return out_folder_copy(o, SOURCE_GGUF, source->path);
}

static drv_status write_all(arena *a, const model_source *source, const st_entry *list,
        int n_tensors, out_folder *o, const model_write_opts *opts, model_written *out) {
    DRV_TRY(out_folder_make(o));
    drv_status status = write_files(a, source, opts, o); // refuses files before the long work
    if (status == DRV_OK) status = write_config(source, o, main_type(list, n_tensors));
    if (status == DRV_OK)
        status = opts->keep_blocks ? copy_file(source, o)
                 : opts->dcp       ? dcp_write(a, source, list, n_tensors, o, opts)
                                   : model_write_tensors(source, "model", list, n_tensors,
                                             opts->shard_bytes, o, opts);
    if (status == DRV_OK && opts->optimizer) status = write_optimizer(a, opts, o);
    if (status == DRV_OK) status = finish(a, o, opts, out);
    if (status != DRV_OK) out_folder_discard(o);
    return status;
}

static st_entry *typed_list(arena *a, const model_source *s, const st_entry *list, int n,
        const model_write_opts *opts) {
    st_entry *typed = ARENA_ARRAY(a, st_entry, n + 1);
    for (int i = 0; i < n; i++) {
        typed[i] = list[i];
        typed[i].type = type_for(model_source_find(s, list[i].name), opts);
    }
    return typed;
}

drv_status model_write(arena *a, const model_source *s, const st_entry *list, int n,
        const char *path, const model_write_opts *opts, model_written *out) {
    const double began = clock_s();
    const st_entry *typed = typed_list(a, s, list, n, opts);
    file_lock lock;
    out_folder o;
    *out = (model_written){.n_tensors = n, .type = main_type(typed, n)};
    for (int i = 0; i < n && !opts->keep_blocks; i++)
        out->bytes += st_entry_bytes(&typed[i]);
    if (opts->keep_blocks) out->bytes = file_size(s->path);
    DRV_TRY(model_write_open(a, s->path, path, opts->force, &o, &lock));
    drv_status status = write_all(a, s, typed, n, &o, opts, out);
    file_lock_release(&lock);
    out->seconds = clock_s() - began;
    return status;
}
