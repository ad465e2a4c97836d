// A checkpoint is written by a thread of its own, file by file, each hashed on the way.
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
    const char *name;
    int64_t bytes;
    XXH128_hash_t hash;
} saved_file;

// A checkpoint of this folder whose bytes were checked once: written here, or verified by retain.
typedef struct known_checkpoint {
    int64_t step;
    bool valid;
} known_checkpoint;

struct ckpt_saver {
    const char *dir;
    int64_t keep, step;
    ckpt_read read;
    void *ctx;
    ckpt_content content;
    arena *a; // of the save under way
    char *tmp, *final;
    saved_file *files;
    int n_files, cap_files;
    known_checkpoint *known;
    int n_known, cap_known;
    pthread_t thread;
    bool running, state_read, done;
    pthread_mutex_t lock; // of state_read and done
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

// Adds the file to the manifest. An error of close is one of the data (NFS, quotas).
static drv_status sink_close(ckpt_saver *saver, sink *k, const char *name, drv_status status) {
    if (k->fd < 0) return status;
    MEM_GROW(saver->files, saver->n_files, saver->cap_files);
    saver->files[saver->n_files++] = (saved_file){name, k->bytes, XXH3_128bits_digest(k->hash)};
    XXH3_freeState(k->hash);
    if (close(k->fd) != 0 && status == DRV_OK)
        status = drv_fail(DRV_E_IO, "could not close \"%s\": %s", k->path, strerror(errno));
    return status; // synced later, by name
}

static drv_status write_bytes(ckpt_saver *saver, const char *name, const void *p, size_t n) {
    sink k;
    drv_status status = sink_open(&k, path_join(saver->a, saver->tmp, name));
    if (status == DRV_OK) status = sink_write(&k, p, n);
    return sink_close(saver, &k, name, status);
}

static drv_status copy_tensor(ckpt_saver *saver, sink *k, const ckpt_tensor *t, char *piece) {
    const int64_t bytes = 4 * st_entry_elements(&t->entry);
    for (int64_t at = 0; at < bytes; at += PIECE) {
        const int64_t n = bytes - at < PIECE ? bytes - at : PIECE;
        DRV_TRY(saver->read(saver->ctx, t->source, t->offset + at, n, piece));
        DRV_TRY(sink_write(k, piece, (size_t)n));
    }
    return DRV_OK;
}

static drv_status write_tensors(ckpt_saver *saver, const char *name, const ckpt_tensor *t, int n) {
    st_entry *e = ARENA_ARRAY(saver->a, st_entry, n);
    for (int i = 0; i < n; i++)
        e[i] = t[i].entry;
    str header = {0};
    st_header(e, n, &header);
    sink k;
    drv_status status = sink_open(&k, path_join(saver->a, saver->tmp, name));
    if (status == DRV_OK) status = sink_write(&k, header.p, header.n);
    char *piece = mem_alloc(PIECE);
    for (int i = 0; i < n && status == DRV_OK; i++)
        status = copy_tensor(saver, &k, &t[i], piece);
    free(piece);
    str_free(&header);
    return sink_close(saver, &k, name, status);
}

// One file, or shards with an index when it would be larger than SHARD_BYTES.
static drv_status write_model(ckpt_saver *saver) {
    const ckpt_tensor *t = saver->content.model;
    const int n = saver->content.n_model;
    int64_t total = 0, in_shard = 0;
    int n_shards = 1, *shard = ARENA_ARRAY(saver->a, int, n);
    for (int i = 0; i < n; i++) {
        const int64_t bytes = 4 * st_entry_elements(&t[i].entry);
        if (in_shard && in_shard + bytes > SHARD_BYTES) n_shards++, in_shard = 0;
        shard[i] = n_shards - 1;
        in_shard += bytes;
        total += bytes;
    }
    if (n_shards == 1) return write_tensors(saver, "model.safetensors", t, n);
    json_t *map = json_object();
    drv_status status = DRV_OK;
    for (int k = 0, first = 0; k < n_shards && status == DRV_OK; k++) {
        char *name = arena_printf(saver->a, "model-%05d-of-%05d.safetensors", k + 1, n_shards);
        int end = first;
        for (; end < n && shard[end] == k; end++)
            json_object_set_new(map, t[end].entry.name, json_string(name));
        status = write_tensors(saver, name, t + first, end - first);
        first = end;
    }
    json_t *index = json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)total,
            "weight_map", map);
    char *text = json_dumps(index, JSON_INDENT(2));
    if (status == DRV_OK)
        status = write_bytes(saver, "model.safetensors.index.json", text, strlen(text));
    free(text);
    json_decref(index);
    return status;
}

static drv_status write_manifest(ckpt_saver *saver) {
    json_t *files = json_object();
    for (int i = 0; i < saver->n_files; i++) {
        char hex[33];
        snprintf(hex, sizeof hex, "%016llx%016llx", (unsigned long long)saver->files[i].hash.high64,
                (unsigned long long)saver->files[i].hash.low64);
        json_object_set_new(files, saver->files[i].name,
                json_pack("{s:I, s:s}", "bytes", (json_int_t)saver->files[i].bytes, "xxh3_128",
                        hex));
    }
    json_t *m = json_pack("{s:s, s:i, s:I, s:o}", "format", "drover checkpoint", "version", 1,
            "step", (json_int_t)saver->step, "files", files);
    return json_write_file(path_join(saver->a, saver->tmp, "manifest.json"), m);
}

static drv_status sync_files(ckpt_saver *saver) {
    for (int i = 0; i < saver->n_files; i++) {
        char *path = path_join(saver->a, saver->tmp, saver->files[i].name);
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

// --- retention
static void note_known(ckpt_saver *saver, int64_t step, bool valid) {
    for (int i = 0; i < saver->n_known; i++)
        if (saver->known[i].step == step) {
            saver->known[i].valid = valid;
            return;
        }
    MEM_GROW(saver->known, saver->n_known, saver->cap_known);
    saver->known[saver->n_known++] = (known_checkpoint){step, valid};
}

static bool is_valid(ckpt_saver *saver, int64_t step, const char *path) {
    for (int i = 0; i < saver->n_known; i++)
        if (saver->known[i].step == step) return saver->known[i].valid;
    const bool valid = ckpt_verify(path) == DRV_OK;
    if (!valid) log_warn("checkpoint \"%s\" is kept, but not used: %s", path, drv_message());
    note_known(saver, step, valid);
    return valid;
}

// Of the checkpoints up to this one, those that are whole: the newest `keep` stay. What is newer
// or could not be verified is never removed, nor does it count. A removed one loses its manifest
// first, so that a half-removed folder is never taken for a checkpoint.
static drv_status retain(ckpt_saver *saver) {
    char **names;
    int n;
    int64_t kept = 0;
    if (saver->keep == 0) return DRV_OK;
    DRV_TRY(ckpt_list(saver->a, saver->dir, &names, &n));
    for (int i = n - 1; i >= 0; i--) {
        char *path = path_join(saver->a, saver->dir, names[i]);
        const int64_t step = ckpt_step_of(path);
        if (step > saver->step || !is_valid(saver, step, path) || kept++ < saver->keep) continue;
        char *manifest = path_join(saver->a, path, "manifest.json");
        if (unlink(manifest) != 0)
            return drv_fail(DRV_E_IO, "could not remove \"%s\": %s", manifest, strerror(errno));
        DRV_TRY(dir_remove(path));
    }
    return DRV_OK;
}

// What stands in the way was refused when the run was resumed: it may be all that is left of
// something, so it is renamed.
static drv_status move_aside(ckpt_saver *saver) {
    if (access(saver->final, F_OK) != 0 && errno == ENOENT) return DRV_OK;
    char *aside = arena_printf(saver->a, "%s.refused", saver->final);
    for (int i = 2; file_exists(aside); i++)
        aside = arena_printf(saver->a, "%s.refused-%d", saver->final, i);
    log_warn("\"%s\", which was refused, is now \"%s\"", saver->final, aside);
    if (rename(saver->final, aside) == 0) return DRV_OK;
    return drv_fail(DRV_E_IO, "could not rename \"%s\" to \"%s\": %s", saver->final, aside,
            strerror(errno));
}

static void read_done(ckpt_saver *saver) {
    pthread_mutex_lock(&saver->lock);
    saver->state_read = true;
    pthread_cond_broadcast(&saver->changed);
    pthread_mutex_unlock(&saver->lock);
}

static drv_status save(ckpt_saver *saver) {
    const ckpt_content *c = &saver->content;
    DRV_TRY(dir_remove(saver->tmp));
    DRV_TRY(dir_make(saver->tmp));
    DRV_TRY(write_model(saver));
    DRV_TRY(write_tensors(saver, "optimizer.safetensors", c->optimizer, c->n_optimizer));
    read_done(saver);
    DRV_TRY(write_bytes(saver, "config.json", c->config_json, strlen(c->config_json)));
    DRV_TRY(write_bytes(saver, "trainer.json", c->trainer_json, strlen(c->trainer_json)));
    for (int i = 0; i < c->n_carried; i++)
        DRV_TRY(write_bytes(saver, c->carried[i].name, c->carried[i].bytes, c->carried[i].n));
    DRV_TRY(sync_files(saver));
    DRV_TRY(write_manifest(saver));
    DRV_TRY(file_sync_dir(saver->tmp));
    DRV_TRY(move_aside(saver));
    if (rename(saver->tmp, saver->final) != 0)
        return drv_fail(DRV_E_IO, "could not rename \"%s\" into place: %s", saver->tmp,
                strerror(errno));
    DRV_TRY(file_sync_dir(saver->dir));
    note_known(saver, saver->step, true);
    // The checkpoint is in place: that an old one could not be removed does not make it fail.
    if (retain(saver) != DRV_OK) log_warn("old checkpoints: %s", drv_message());
    return DRV_OK;
}

static void *save_thread(void *arg) {
    ckpt_saver *saver = arg;
    saver->status = save(saver);
    if (saver->status != DRV_OK) {
        snprintf(saver->message, sizeof saver->message, "%s", drv_message());
        drv_status ignored = dir_remove(saver->tmp); // frees a full disk
        (void)ignored;
    } else {
        log_info("checkpoint: %s", saver->final);
    }
    pthread_mutex_lock(&saver->lock);
    saver->state_read = saver->done = true;
    pthread_cond_broadcast(&saver->changed);
    pthread_mutex_unlock(&saver->lock);
    return NULL;
}

ckpt_saver *ckpt_saver_new(const char *dir, int64_t keep, ckpt_read read, void *ctx) {
    ckpt_saver *saver = mem_alloc(sizeof *saver);
    *saver = (ckpt_saver){.dir = dir, .keep = keep, .read = read, .ctx = ctx, .state_read = true};
    pthread_mutex_init(&saver->lock, NULL);
    pthread_cond_init(&saver->changed, NULL);
    return saver;
}

drv_status ckpt_wait(ckpt_saver *saver) {
    if (!saver->running) return DRV_OK;
    pthread_join(saver->thread, NULL);
    saver->running = false;
    drv_status status = saver->status;
    if (status != DRV_OK)
        drv_fail(status, "could not save checkpoint \"%s\": %s; older checkpoints are untouched",
                saver->final, saver->message);
    arena_free(saver->a);
    saver->a = NULL;
    return status;
}

drv_status ckpt_start(ckpt_saver *saver, int64_t step, const ckpt_content *content) {
    DRV_TRY(ckpt_wait(saver));
    saver->a = arena_new("checkpoint");
    saver->step = step;
    saver->content = *content;
    saver->content.trainer_json = arena_strdup(saver->a, content->trainer_json);
    saver->final = arena_printf(saver->a, "%s/step-%06lld", saver->dir, (long long)step);
    saver->tmp = arena_printf(saver->a, "%s.tmp", saver->final);
    saver->n_files = 0;
    saver->state_read = saver->done = false;
    saver->running = pthread_create(&saver->thread, NULL, save_thread, saver) == 0;
    if (saver->running) return DRV_OK;
    saver->state_read = true;
    return drv_fail(DRV_E_DEVICE, "could not start a thread to save in");
}

void ckpt_wait_read(ckpt_saver *saver) {
    pthread_mutex_lock(&saver->lock);
    while (!saver->state_read)
        pthread_cond_wait(&saver->changed, &saver->lock);
    pthread_mutex_unlock(&saver->lock);
}

bool ckpt_ended(ckpt_saver *saver) {
    pthread_mutex_lock(&saver->lock);
    const bool ended = saver->running && saver->done;
    pthread_mutex_unlock(&saver->lock);
    return ended;
}

void ckpt_saver_free(ckpt_saver *saver) {
    if (!saver) return;
    if (ckpt_wait(saver) != DRV_OK) log_warn("%s", drv_message());
    free(saver->files);
    free(saver->known);
    pthread_mutex_destroy(&saver->lock);
    pthread_cond_destroy(&saver->changed);
    free(saver);
}
