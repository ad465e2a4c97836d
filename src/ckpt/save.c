// A checkpoint is written by a thread of its own, file by file, each hashed on the way. Of several
// ranks each has such a thread; they write the tensors together, and rank 0 all else.
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "ckpt/ckpt.h"
#include "ckpt/block_hash.h"
#include "ckpt/shared_writer.h"

// A checkpoint of this folder whose bytes were checked once: written here, or verified by retain.
typedef struct known_checkpoint {
    int64_t step;
    bool valid;
} known_checkpoint;

struct ckpt_saver {
    const char *dir;
    int64_t keep, step;
    ckpt_ranks mine;         // a duplicate of the run's ranks
    const ckpt_ranks *ranks; // NULL: one
    ckpt_read read;
    void *ctx;
    ckpt_content content;
    arena *a;    // of the save under way
    char *final; // its path
    out_folder folder;
    int64_t unsynced; // step of a checkpoint that is in place, but whose name is perhaps not on the
                      // disk yet; -1: none. Valid on rank 0.
    known_checkpoint *known;
    int n_known, cap_known;
    pthread_t thread;
    bool running, has_thread, state_read, done;
    pthread_mutex_t lock; // of state_read and done
    pthread_cond_t changed;
    drv_saved ended;
    drv_status (*is_ours)(void *ctx); // NULL: nobody else can have the folder
    void *ours_ctx;
    double begun_s, seconds;
    int64_t n_bytes;
};

// --- the files
static drv_status write_text(ckpt_saver *saver, const char *name, const char *text) {
    return out_folder_put(&saver->folder, name, text, strlen(text));
}

static drv_status write_model(ckpt_saver *saver) {
    const ckpt_content *c = &saver->content;
    ckpt_tensor *list = ARENA_ARRAY(saver->a, ckpt_tensor, c->n_model);
    for (int i = 0; i < c->n_model; i++) {
        list[i] = c->model[i];
        list[i].entry.type = c->is_adapter ? ST_F32 : c->model_type;
    }
    return shared_write(saver->ranks, &saver->folder, c->is_adapter ? "adapter_model" : "model",
            list, c->n_model, 0, saver->read, saver->ctx);
}

// Weights go along as they are where the model file has them rounded.
static drv_status write_optimizer(ckpt_saver *saver) {
    const ckpt_content *c = &saver->content;
    ckpt_tensor *list = ARENA_ARRAY(saver->a, ckpt_tensor, c->n_optimizer + c->n_model);
    int n = 0;
    for (int i = 0; i < c->n_optimizer; i++)
        list[n++] = c->optimizer[i];
    for (int i = 0; i < c->n_model && c->model_type != ST_F32 && !c->is_adapter; i++) {
        if (c->model[i].entry.type == c->model_type) continue;
        list[n] = c->model[i];
        list[n++].entry.name = arena_printf(saver->a, CKPT_MASTER "%s", c->model[i].entry.name);
    }
    return shared_write(saver->ranks, &saver->folder, "optimizer", list, n, INT64_MAX, saver->read,
            saver->ctx);
}

static drv_status check_ours(const ckpt_saver *saver) {
    return saver->is_ours ? saver->is_ours(saver->ours_ctx) : DRV_OK;
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

void ckpt_saver_refuse(ckpt_saver *saver, int64_t step) {
    note_known(saver, step, false);
}

static bool was_refused(const ckpt_saver *saver, int64_t step) {
    for (int i = 0; i < saver->n_known; i++)
        if (saver->known[i].step == step) return !saver->known[i].valid;
    return false;
}

static bool is_valid(ckpt_saver *saver, int64_t step, const char *path) {
    for (int i = 0; i < saver->n_known; i++)
        if (saver->known[i].step == step) return saver->known[i].valid;
    const bool valid = ckpt_verify(path) == DRV_OK;
    if (!valid) log_warn("checkpoint \"%s\" is kept, but not used: %s", path, drv_message());
    note_known(saver, step, valid);
    return valid;
}

// Removes old checkpoints: of those up to this one that are whole, the newest `keep` stay. One that
// is newer or could not be verified is never removed, nor does it count. A removed one is renamed
// first, so that no part of one is ever seen, whenever this ends or stops; a start removes what is
// left.
static drv_status retain(ckpt_saver *saver) {
    char **names;
    int n;
    int64_t kept = 0;
    if (saver->keep == 0) return DRV_OK;
    DRV_TRY(ckpt_list(saver->a, saver->dir, &names, &n));
    if (n <= saver->keep) return DRV_OK; // nothing to remove, nor to verify
    for (int i = n - 1; i >= 0; i--) {
        char *path = path_join(saver->a, saver->dir, names[i]);
        const int64_t step = ckpt_step_of(path);
        if (step > saver->step || !is_valid(saver, step, path) || kept++ < saver->keep) continue;
        char *aside = arena_printf(saver->a, "%s" FILE_ASIDE, path);
        DRV_TRY(dir_remove(aside));
        DRV_TRY(check_ours(saver));
        if (rename(path, aside) != 0)
            return drv_fail(DRV_E_IO, "could not remove \"%s\": %s", path, strerror(errno));
        DRV_TRY(dir_remove(aside));
    }
    return DRV_OK;
}

// Renames the folder in the way, which was refused when the run was resumed: it may be all that is
// left of something. One that is whole is another attempt's, which has taken the directory since
// check_ours looked.
static drv_status move_aside(ckpt_saver *saver) {
    if (access(saver->final, F_OK) != 0 && errno == ENOENT) return DRV_OK;
    if (!was_refused(saver, saver->step) && ckpt_verify(saver->final) == DRV_OK)
        return drv_fail(DRV_E_IO, "\"%s\" is there, written by another drover", saver->final);
    const char *aside =
            path_unused(saver->a, arena_printf(saver->a, "%s.refused", saver->final), "");
    log_warn("\"%s\", which was refused, is renamed to \"%s\"", saver->final, aside);
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

static drv_status begin(ckpt_saver *saver) {
    const ckpt_ranks *ranks = saver->ranks;
    out_folder *o = &saver->folder;
    out_folder_follow(saver->a, saver->final, o);
    if (ckpt_rank(ranks) == 0) DRV_TRY(out_folder_begin(saver->a, saver->final, o));
    return block_bytes_of_new(&o->block_bytes);
}

static drv_status broadcast(const ckpt_saver *saver, void *from_first, int64_t n) {
    if (ckpt_size(saver->ranks) == 1) return DRV_OK;
    return comm_broadcast(comm_all_ranks(saver->ranks->comm), 0, from_first, n);
}

// Syncs the name of the checkpoint that is in place. Until that succeeds, its step stays unsynced.
static drv_status sync_name(ckpt_saver *saver) {
    saver->unsynced = saver->step;
    DRV_TRY(file_sync_placed(saver->dir, saver->final));
    saver->unsynced = -1;
    return DRV_OK;
}

// Another save of a step whose checkpoint this saver has put in place without syncing its name: the
// run has the same state as then, so only the sync is done again. The checkpoint is written anew if
// it was removed or damaged in the meantime.
static bool only_lacks_sync(const ckpt_saver *saver) {
    return ckpt_rank(saver->ranks) == 0 && saver->unsynced == saver->step &&
           ckpt_verify(saver->final) == DRV_OK;
}

static drv_status sync_again(ckpt_saver *saver) {
    if (ckpt_rank(saver->ranks) != 0) return DRV_OK;
    DRV_TRY(check_ours(saver));
    return sync_name(saver);
}

// Does rank 0's part: writes texts and the manifest, renames the folder into place.
static drv_status finish(ckpt_saver *saver) {
    const ckpt_content *c = &saver->content;
    if (ckpt_rank(saver->ranks) != 0) return DRV_OK;
    DRV_TRY(write_text(saver, c->is_adapter ? "adapter_config.json" : "config.json",
            c->config_json));
    DRV_TRY(write_text(saver, "trainer.json", c->trainer_json));
    for (int i = 0; i < c->n_carried; i++)
        DRV_TRY(out_folder_put(&saver->folder, c->carried[i].name, c->carried[i].bytes,
                c->carried[i].n));
    DRV_TRY(out_folder_sync(&saver->folder));
    DRV_TRY(out_folder_manifest(&saver->folder, saver->step));
    DRV_TRY(check_ours(saver));
    saver->n_bytes = 0;
    for (int i = 0; i < saver->folder.n; i++)
        saver->n_bytes += saver->folder.files[i].bytes;
    DRV_TRY(move_aside(saver));
    DRV_TRY(out_folder_rename(&saver->folder, saver->final));
    return sync_name(saver);
}

static drv_status save(ckpt_saver *saver) {
    bool in_place = only_lacks_sync(saver);
    DRV_TRY(broadcast(saver, &in_place, sizeof in_place));
    if (in_place) {
        read_done(saver);
        return ckpt_agree(saver->ranks, sync_again(saver));
    }
    DRV_TRY(ckpt_agree(saver->ranks, begin(saver)));
    // The block size of rank 0, since the environments of other hosts may differ.
    int64_t *block_bytes = &saver->folder.block_bytes;
    DRV_TRY(broadcast(saver, block_bytes, sizeof *block_bytes));
    DRV_TRY(write_model(saver));
    DRV_TRY(write_optimizer(saver));
    read_done(saver);
    return ckpt_agree(saver->ranks, finish(saver));
}

// That an old one could not be removed is no failure.
static void retain_or_warn(ckpt_saver *saver) {
    if (retain(saver) != DRV_OK) log_warn("old checkpoints: %s", drv_message());
}

static void in_place(ckpt_saver *saver) {
    if (ckpt_rank(saver->ranks) != 0) return;
    saver->seconds = clock_s() - saver->begun_s;
    note_known(saver, saver->step, true);
    retain_or_warn(saver);
    log_info("checkpoint: %s", saver->final);
}

static void *end_thread(ckpt_saver *saver) {
    pthread_mutex_lock(&saver->lock);
    saver->state_read = saver->done = true;
    pthread_cond_broadcast(&saver->changed);
    pthread_mutex_unlock(&saver->lock);
    return NULL;
}

static void *save_thread(void *arg) {
    ckpt_saver *saver = arg;
    drv_save(save(saver), &saver->ended);
    if (saver->ended.status != DRV_OK) {
        if (ckpt_rank(saver->ranks) == 0 && check_ours(saver) == DRV_OK)
            out_folder_discard(&saver->folder);
    } else {
        in_place(saver);
    }
    return end_thread(saver);
}

static void *retain_thread(void *arg) {
    ckpt_saver *saver = arg;
    note_known(saver, saver->step, true); // the run has resumed from it
    retain_or_warn(saver);
    return end_thread(saver);
}

ckpt_saver *ckpt_saver_new(const char *dir, int64_t keep, const ckpt_ranks *ranks, ckpt_read read,
        void *ctx) {
    ckpt_saver *saver = mem_alloc(sizeof *saver);
    *saver = (ckpt_saver){.dir = dir,
            .keep = keep,
            .unsynced = -1,
            .read = read,
            .ctx = ctx,
            .state_read = true};
    if (ranks) {
        saver->mine = *ranks;
        saver->mine.comm = comm_duplicate(ranks->comm);
        saver->ranks = &saver->mine;
    }
    pthread_mutex_init(&saver->lock, NULL);
    pthread_cond_init(&saver->changed, NULL);
    return saver;
}

void ckpt_saver_guard(ckpt_saver *saver, drv_status (*is_ours)(void *ctx), void *ctx) {
    saver->is_ours = is_ours;
    saver->ours_ctx = ctx;
}

void ckpt_saved(const ckpt_saver *saver, double *seconds, int64_t *n_bytes) {
    *seconds = saver->seconds;
    *n_bytes = saver->n_bytes;
}

drv_status ckpt_wait(ckpt_saver *saver) {
    if (!saver->running) return DRV_OK;
    if (saver->has_thread) pthread_join(saver->thread, NULL);
    saver->running = false;
    const drv_status status = drv_restore(&saver->ended);
    if (status != DRV_OK && status != DRV_E_PEER)
        drv_fail(status, "could not save checkpoint \"%s\": %s; older checkpoints are untouched",
                saver->final, saver->ended.message);
    arena_free(saver->a);
    saver->a = NULL;
    return status;
}

static void begin_thread(ckpt_saver *saver, void *(*work)(void *saver)) {
    saver->state_read = saver->done = false;
    saver->begun_s = clock_s();
    saver->running = true;
    saver->has_thread = pthread_create(&saver->thread, NULL, work, saver) == 0;
    if (!saver->has_thread) work(saver); // other ranks count on this one
}

void ckpt_saver_retain(ckpt_saver *saver, int64_t step) {
    if (ckpt_rank(saver->ranks) != 0) return;
    saver->a = arena_new("old checkpoints");
    saver->step = step;
    saver->ended = (drv_saved){.status = DRV_OK};
    begin_thread(saver, retain_thread);
}

drv_status ckpt_start(ckpt_saver *saver, int64_t step, const ckpt_content *content) {
    DRV_TRY(ckpt_wait(saver));
    saver->a = arena_new("checkpoint");
    saver->step = step;
    saver->content = *content;
    saver->content.trainer_json = arena_strdup(saver->a, content->trainer_json);
    saver->final = arena_printf(saver->a, "%s/step-%06lld", saver->dir, (long long)step);
    saver->folder = (out_folder){0};
    begin_thread(saver, save_thread);
    return DRV_OK;
}

// `what` is one of the two that are guarded by the lock.
static bool wait_until(ckpt_saver *saver, const bool *what, double at_most_s) {
    const struct timespec end = clock_after(at_most_s);
    pthread_mutex_lock(&saver->lock);
    for (bool late = at_most_s <= 0; !*what && !late;)
        late = pthread_cond_timedwait(&saver->changed, &saver->lock, &end) != 0;
    const bool reached = *what;
    pthread_mutex_unlock(&saver->lock);
    return reached;
}

bool ckpt_was_read(ckpt_saver *saver, double at_most_s) {
    return wait_until(saver, &saver->state_read, at_most_s);
}

bool ckpt_ended(ckpt_saver *saver, double at_most_s) {
    return saver->running && wait_until(saver, &saver->done, at_most_s);
}

void ckpt_saver_free(ckpt_saver *saver) {
    if (!saver) return;
    const drv_status status = ckpt_wait(saver);
    if (status != DRV_OK && status != DRV_E_PEER) log_warn("%s", drv_message()); // a peer's is said
    if (saver->ranks) comm_duplicate_close(saver->mine.comm);
    free(saver->known);
    pthread_mutex_destroy(&saver->lock);
    pthread_cond_destroy(&saver->changed);
    free(saver);
}
