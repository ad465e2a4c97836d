#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/log.h"
#include "ckpt/ckpt.h"

enum { PIECE = 1 << 20 };
#define SHARD_BYTES (5LL << 30) // as Hugging Face's save_pretrained

typedef struct saved_file {
    char name[256];
    int64_t bytes;
    XXH128_hash_t hash;
} saved_file;

struct ckpt_saver {
    const char *dir;
    int64_t keep, step;
    ckpt_read read;
    void *ctx;
    ckpt_content content;
    arena *a; // of the save under way
    char *tmp, *final;
    saved_file files[1024];
    int n_files;
    pthread_t thread;
    bool running, state_read, done;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    drv_status status;
    char message[2048];
};

// --- one file, hashed while it is written
typedef struct sink {
    int fd;
    const char *path;
    XXH3_state_t *hash;
    int64_t bytes;
} sink;

static drv_status sink_open(sink *k, const char *path) {
    *k = (sink){open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666), path, NULL, 0};
    if (k->fd < 0) return drv_fail(DRV_E_IO, "could not create \"%s\": %s", path, strerror(errno));
    k->hash = XXH3_createState();
    XXH3_128bits_reset(k->hash);
    return DRV_OK;
}

static drv_status sink_write(sink *k, const void *p, size_t n) {
    XXH3_128bits_update(k->hash, p, n);
    k->bytes += (int64_t)n;
    return file_write_all(k->fd, k->path, p, n);
}

static void sink_close(ckpt_saver *s, sink *k, const char *name) {
    if (k->fd < 0) return;
    saved_file *f = &s->files[s->n_files++];
    snprintf(f->name, sizeof f->name, "%s", name);
    f->bytes = k->bytes;
    f->hash = XXH3_128bits_digest(k->hash);
    XXH3_freeState(k->hash);
    close(k->fd); // synced later, by name
}

static drv_status write_bytes(ckpt_saver *s, const char *name, const void *p, size_t n) {
    sink k;
    drv_status status = sink_open(&k, path_join(s->a, s->tmp, name));
    if (status == DRV_OK) status = sink_write(&k, p, n);
    sink_close(s, &k, name);
    return status;
}

static drv_status copy_tensor(ckpt_saver *s, sink *k, const ckpt_tensor *t, char *piece) {
    const int64_t bytes = 4 * st_entry_elements(&t->entry);
    for (int64_t at = 0; at < bytes; at += PIECE) {
        const int64_t n = bytes - at < PIECE ? bytes - at : PIECE;
        DRV_TRY(s->read(s->ctx, t->source, t->offset + at, n, piece));
        DRV_TRY(sink_write(k, piece, (size_t)n));
    }
    return DRV_OK;
}

static drv_status write_tensors(ckpt_saver *s, const char *name, const ckpt_tensor *t, int n) {
    st_entry *e = ARENA_ARRAY(s->a, st_entry, n);
    for (int i = 0; i < n; i++)
        e[i] = t[i].entry;
    str header = {0};
    st_header(e, n, &header);
    sink k;
    drv_status status = sink_open(&k, path_join(s->a, s->tmp, name));
    if (status == DRV_OK) status = sink_write(&k, header.p, header.n);
    char *piece = mem_alloc(PIECE);
    for (int i = 0; i < n && status == DRV_OK; i++)
        status = copy_tensor(s, &k, &t[i], piece);
    sink_close(s, &k, name);
    free(piece);
    str_free(&header);
    return status;
}

// One file, or shards with an index when it would be larger than SHARD_BYTES.
static drv_status write_model(ckpt_saver *s) {
    const ckpt_tensor *t = s->content.model;
    const int n = s->content.n_model;
    int64_t total = 0, in_shard = 0;
    int n_shards = 1, *shard = ARENA_ARRAY(s->a, int, n);
    for (int i = 0; i < n; i++) {
        const int64_t bytes = 4 * st_entry_elements(&t[i].entry);
        if (in_shard && in_shard + bytes > SHARD_BYTES) n_shards++, in_shard = 0;
        shard[i] = n_shards - 1;
        in_shard += bytes;
        total += bytes;
    }
    if (n_shards == 1) return write_tensors(s, "model.safetensors", t, n);
    json_t *map = json_object();
    drv_status status = DRV_OK;
    for (int k = 0, first = 0; k < n_shards && status == DRV_OK; k++) {
        char *name = arena_printf(s->a, "model-%05d-of-%05d.safetensors", k + 1, n_shards);
        int end = first;
        for (; end < n && shard[end] == k; end++)
            json_object_set_new(map, t[end].entry.name, json_string(name));
        status = write_tensors(s, name, t + first, end - first);
        first = end;
    }
    json_t *index = json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)total,
            "weight_map", map);
    char *text = json_dumps(index, JSON_INDENT(2));
    if (status == DRV_OK)
        status = write_bytes(s, "model.safetensors.index.json", text, strlen(text));
    free(text);
    json_decref(index);
    return status;
}

static drv_status copy_tokenizer(ckpt_saver *s) {
    static const char *const names[] = {"tokenizer.json", "tokenizer_config.json",
            "special_tokens_map.json", "tokenizer.model", "generation_config.json"};
    if (!*s->content.tokenizer) return DRV_OK;
    for (int i = 0; i < 5; i++) {
        char *path = path_join(s->a, s->content.tokenizer, names[i]), *text;
        size_t n;
        if (!file_exists(path)) continue;
        DRV_TRY(file_read(s->a, path, &text, &n));
        DRV_TRY(write_bytes(s, names[i], text, n));
    }
    return DRV_OK;
}

static drv_status write_manifest(ckpt_saver *s) {
    json_t *files = json_object();
    for (int i = 0; i < s->n_files; i++) {
        char hex[33];
        snprintf(hex, sizeof hex, "%016llx%016llx", (unsigned long long)s->files[i].hash.high64,
                (unsigned long long)s->files[i].hash.low64);
        json_object_set_new(files, s->files[i].name,
                json_pack("{s:I, s:s}", "bytes", (json_int_t)s->files[i].bytes, "xxh3_128", hex));
    }
    json_t *m = json_pack("{s:s, s:i, s:I, s:o}", "format", "drover checkpoint", "version", 1,
            "step", (json_int_t)s->step, "files", files);
    return json_write_file(path_join(s->a, s->tmp, "manifest.json"), m);
}

static drv_status sync_files(ckpt_saver *s) {
    for (int i = 0; i < s->n_files; i++) {
        char *path = path_join(s->a, s->tmp, s->files[i].name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        int bad = fd < 0 || fsync(fd) != 0;
        drv_status status =
                bad ? drv_fail(DRV_E_IO, "could not sync \"%s\": %s", path, strerror(errno))
                    : DRV_OK;
        if (fd >= 0) close(fd);
        DRV_TRY(status);
    }
    return DRV_OK;
}

// Keeps the newest `keep`; a removed one loses its manifest first, so that a half-removed folder is
// never taken for a checkpoint.
static drv_status retain(ckpt_saver *s) {
    char **names;
    int n;
    DRV_TRY(ckpt_list(s->a, s->dir, &names, &n));
    for (int i = 0; s->keep > 0 && i + s->keep < n; i++) {
        char *old = path_join(s->a, s->dir, names[i]);
        unlink(path_join(s->a, old, "manifest.json"));
        DRV_TRY(dir_remove(old));
    }
    return DRV_OK;
}

static void read_done(ckpt_saver *s) {
    pthread_mutex_lock(&s->lock);
    s->state_read = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static drv_status save(ckpt_saver *s) {
    const ckpt_content *c = &s->content;
    DRV_TRY(dir_remove(s->tmp));
    DRV_TRY(dir_make(s->tmp));
    DRV_TRY(write_model(s));
    DRV_TRY(write_tensors(s, "optimizer.safetensors", c->optimizer, c->n_optimizer));
    read_done(s);
    DRV_TRY(write_bytes(s, "config.json", c->config_json, strlen(c->config_json)));
    DRV_TRY(write_bytes(s, "trainer.json", c->trainer_json, strlen(c->trainer_json)));
    DRV_TRY(copy_tokenizer(s));
    DRV_TRY(sync_files(s));
    DRV_TRY(write_manifest(s));
    DRV_TRY(file_sync_dir(s->tmp));
    DRV_TRY(dir_remove(s->final)); // an invalid one of the same step
    if (rename(s->tmp, s->final) != 0)
        return drv_fail(DRV_E_IO, "could not rename \"%s\" into place: %s", s->tmp,
                strerror(errno));
    DRV_TRY(file_sync_dir(s->dir));
    return retain(s);
}

static void *save_thread(void *arg) {
    ckpt_saver *s = arg;
    s->status = save(s);
    if (s->status != DRV_OK) {
        snprintf(s->message, sizeof s->message, "%s", drv_message());
        drv_status ignored = dir_remove(s->tmp); // frees a full disk
        (void)ignored;
    } else {
        log_info("checkpoint: %s", s->final);
    }
    pthread_mutex_lock(&s->lock);
    s->state_read = s->done = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

ckpt_saver *ckpt_saver_new(const char *dir, int64_t keep, ckpt_read read, void *ctx) {
    ckpt_saver *s = mem_alloc(sizeof *s);
    *s = (ckpt_saver){.dir = dir, .keep = keep, .read = read, .ctx = ctx, .state_read = true};
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    return s;
}

drv_status ckpt_wait(ckpt_saver *s) {
    if (!s->running) return DRV_OK;
    pthread_join(s->thread, NULL);
    s->running = false;
    drv_status status = s->status;
    if (status != DRV_OK)
        drv_fail(status, "could not save checkpoint \"%s\": %s; older checkpoints are untouched",
                s->final, s->message);
    arena_free(s->a);
    s->a = NULL;
    return status;
}

drv_status ckpt_start(ckpt_saver *s, int64_t step, const ckpt_content *content) {
    DRV_TRY(ckpt_wait(s));
    s->a = arena_new("checkpoint");
    s->step = step;
    s->content = *content;
    s->content.trainer_json = arena_strdup(s->a, content->trainer_json);
    s->final = arena_printf(s->a, "%s/step-%06lld", s->dir, (long long)step);
    s->tmp = arena_printf(s->a, "%s.tmp", s->final);
    s->n_files = 0;
    s->state_read = s->done = false;
    if (pthread_create(&s->thread, NULL, save_thread, s) != 0)
        return drv_fail(DRV_E_DEVICE, "could not start a thread to save in");
    s->running = true;
    return DRV_OK;
}

drv_status ckpt_wait_read(ckpt_saver *s) {
    pthread_mutex_lock(&s->lock);
    while (!s->state_read)
        pthread_cond_wait(&s->changed, &s->lock);
    const bool done = s->done;
    pthread_mutex_unlock(&s->lock);
    return done ? ckpt_wait(s) : DRV_OK;
}

void ckpt_saver_free(ckpt_saver *s) {
    if (!s) return;
    if (s->running && ckpt_wait(s) != DRV_OK) log_warn("%s", drv_message());
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->changed);
    free(s);
}
