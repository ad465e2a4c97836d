// Takes, holds and releases a run directory, by its lock and owner.json.
#include "watch/files/run_owner.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "base/task.h"
#include "watch/files/run_events.h"

enum { TOKEN = 33, NAME = 64 };
// A heartbeat is overwritten in place, so it has a fixed length: 10 digits, a point and 3 digits.
#define BEAT_FORMAT "%014.3f"

typedef struct owner_text { // the fields of owner.json
    char token[TOKEN], host[NAME], job[NAME], boot[NAME];
    int64_t attempt, pid;
    double since, heartbeat;
} owner_text;

struct run_owner {
    const char *run_dir, *lock_path, *owner_path;
    run_owner_opts opts;
    int dir_fd, lock_fd, file_fd; // file_fd: of owner.json
    int64_t beat_at;              // where the heartbeat is in it
    bool has_lock;                // the file system has locks
    bool keeps_inodes;            // an inode number stays the same for as long as the file exists
    owner_text mine;
    pthread_t thread;
    pthread_mutex_t lock; // protects file_fd, beat_at and ends
    pthread_cond_t changed;
    bool has_thread, ends;
};

const char *run_job(void) {
    static const char *const names[] = {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value && *value) return value;
    }
    return "";
}

// --- owner.json
// Identifies one boot of a machine, whatever its host names: its containers share both the boot and
// the locks.
static void read_boot(char out[NAME]) {
    const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    const int64_t n = fd >= 0 ? file_read_at(fd, out, NAME - 1, 0) : 0;
    if (fd >= 0) close(fd);
    out[n > 0 ? n : 0] = 0;
    out[strcspn(out, "\n")] = 0;
}

static void make_token(char out[TOKEN]) {
    uint64_t bits[2];
    if (getrandom(bits, sizeof bits, 0) != (ssize_t)sizeof bits) {
        bits[0] = (uint64_t)(clock_utc_s() * 1e9);
        bits[1] = (uint64_t)getpid();
    }
    snprintf(out, TOKEN, "%016llx%016llx", (unsigned long long)bits[0],
            (unsigned long long)bits[1]);
}

static owner_text describe_self(int64_t attempt) {
    owner_text text = {.attempt = attempt, .pid = getpid(), .since = clock_utc_s()};
    make_token(text.token);
    if (gethostname(text.host, sizeof text.host - 1) != 0) memcpy(text.host, "?", 2);
    snprintf(text.job, sizeof text.job, "%s", run_job());
    read_boot(text.boot);
    return text;
}

static void take_text(const json_t *o, const char *key, char *out, size_t size) {
    const char *value = json_string_value(json_object_get(o, key));
    snprintf(out, size, "%s", value ? value : "");
}

// Returns false if the file does not exist or cannot be read.
static bool read_owner(const char *path, owner_text *out) {
    arena *a = arena_new("owner.json");
    json_t *o = NULL;
    char *text;
    size_t n;
    *out = (owner_text){0};
    if (file_exists(path) && file_read(a, path, &text, &n) == DRV_OK && n < 4096 &&
            json_read_bytes(path, text, n, &o) == DRV_OK) {
        take_text(o, "token", out->token, sizeof out->token);
        take_text(o, "host", out->host, sizeof out->host);
        take_text(o, "job", out->job, sizeof out->job);
        take_text(o, "boot", out->boot, sizeof out->boot);
        out->attempt = json_integer_value(json_object_get(o, "attempt"));
        out->pid = json_integer_value(json_object_get(o, "pid"));
        out->since = json_number_value(json_object_get(o, "since"));
        out->heartbeat = json_number_value(json_object_get(o, "heartbeat"));
    }
    json_decref(o);
    arena_free(a);
    return *out->token != 0;
}

// "host n1, process 4711, job 17, since 2026-11-23 22:47:22 UTC"
static const char *name_owner(const owner_text *who, char *out, size_t size) {
    char since[32] = "", job[NAME + 8] = "";
    const time_t seconds = who->since > 0 && who->since < 1e11 ? (time_t)who->since : 0;
    struct tm tm;
    strftime(since, sizeof since, "%Y-%m-%d %H:%M:%S UTC", gmtime_r(&seconds, &tm));
    if (*who->job) snprintf(job, sizeof job, ", job %s", who->job);
    snprintf(out, size, "host %s, process %lld%s, since %s", who->host, (long long)who->pid, job,
            since);
    return out;
}

static const char beat_key[] = "\"heartbeat\": ";

static void add_text(str *out, const char *key, const char *value) {
    str_printf(out, "\"%s\": ", key);
    json_print_to(out, json_of_text(value), JSON_ENCODE_ANY);
    str_puts(out, ", ");
}

// The heartbeat is the last field.
static void print_owner(const owner_text *mine, str *out) {
    str_puts(out, "{");
    add_text(out, "job", mine->job);
    str_printf(out, "\"attempt\": %lld, ", (long long)mine->attempt);
    add_text(out, "host", mine->host);
    str_printf(out, "\"pid\": %lld, ", (long long)mine->pid);
    add_text(out, "boot", mine->boot);
    str_printf(out, "\"since\": %.3f, ", mine->since);
    add_text(out, "token", mine->token);
    str_printf(out, "%s" BEAT_FORMAT "}\n", beat_key, clock_utc_s());
}

static drv_status put_owner(const run_owner *self, const char *aside, const str *text, int *out) {
    const int fd = openat(self->dir_fd, aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return file_fail("create", self->owner_path);
    drv_status status = file_write_all(fd, self->owner_path, text->p, text->n);
    if (status == DRV_OK && fsync(fd) != 0) status = file_fail("sync", self->owner_path);
    if (status == DRV_OK && renameat(self->dir_fd, aside, self->dir_fd, "owner.json") != 0)
        status = file_fail("rename into place", self->owner_path);
    if (status == DRV_OK) {
        *out = fd;
        return DRV_OK;
    }
    unlinkat(self->dir_fd, aside, 0);
    close(fd);
    return status;
}

// Replaces owner.json by ours. The file stays open for heartbeats. Once another attempt has
// replaced it, nobody sees our heartbeats any more.
static drv_status write_owner(run_owner *self) {
    char aside[64];
    int fd = -1;
    str text = {0};
    print_owner(&self->mine, &text);
    snprintf(aside, sizeof aside, "owner.json.%.8s.tmp", self->mine.token);
    pthread_mutex_lock(&self->lock);
    const drv_status status = put_owner(self, aside, &text, &fd);
    if (status == DRV_OK) {
        if (self->file_fd >= 0) close(self->file_fd);
        self->file_fd = fd;
        self->beat_at = strstr(text.p, beat_key) - text.p + (int64_t)strlen(beat_key);
    }
    pthread_mutex_unlock(&self->lock);
    str_free(&text);
    return status;
}

// --- the heartbeat
static void write_beat(const run_owner *self) {
    char text[32];
    const int n = snprintf(text, sizeof text, BEAT_FORMAT, clock_utc_s());
    // If the disk refuses heartbeats for long, others will believe that this owner is gone.
    if (pwrite(self->file_fd, text, (size_t)n, self->beat_at) == n) fdatasync(self->file_fd);
}

static void *beat_main(void *arg) {
    run_owner *self = arg;
    pthread_mutex_lock(&self->lock);
    while (!self->ends) {
        const struct timespec until = clock_after(self->opts.beat_s);
        pthread_cond_timedwait(&self->changed, &self->lock, &until);
        if (!self->ends) write_beat(self);
    }
    pthread_mutex_unlock(&self->lock);
    return NULL;
}

static drv_status start_beat(run_owner *self) {
    DRV_TRY(thread_start(&self->thread, beat_main, self));
    self->has_thread = true;
    return DRV_OK;
}

// --- taking
static drv_status held_by_another(const run_owner *self, const owner_text *who) {
    char name[256], more[288] = "";
    if (*who->token) snprintf(more, sizeof more, " (%s)", name_owner(who, name, sizeof name));
    return drv_fail(DRV_E_BUSY, "run directory \"%s\" is in use by another drover%s", self->run_dir,
            more);
}

static drv_status take_lock(run_owner *self) {
    struct stat held, there;
    owner_text who;
    self->lock_fd = open(self->lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (self->lock_fd < 0) return file_fail("create", self->lock_path);
    self->has_lock = flock(self->lock_fd, LOCK_EX | LOCK_NB) == 0;
    if (!self->has_lock && errno == EWOULDBLOCK) {
        read_owner(self->owner_path, &who);
        return held_by_another(self, &who);
    }
    if (!self->has_lock && errno != ENOSYS && errno != ENOTSUP && errno != ENOLCK)
        return file_fail("lock", self->lock_path);
    if (!self->has_lock)
        log_warn("\"%s\": %s: the file system has no locks; owner.json alone keeps other runs away",
                self->lock_path, strerror(errno));
    self->keeps_inodes = fstat(self->lock_fd, &held) == 0 && stat(self->lock_path, &there) == 0 &&
                         held.st_ino == there.st_ino && held.st_dev == there.st_dev;
    return DRV_OK;
}

static void rest(double seconds) {
    const struct timespec pause = {(time_t)seconds, (long)(1e9 * (seconds - floor(seconds)))};
    nanosleep(&pause, NULL);
}

// On this machine the lock shows whether the previous owner has ended; elsewhere, or without locks,
// only its heartbeat does. Clocks of two machines may differ, so we watch whether the heartbeat
// changes instead of comparing it with our time.
static drv_status watch_owner(const run_owner *self) {
    owner_text before, now;
    char name[256];
    if (!read_owner(self->owner_path, &before)) return DRV_OK;
    if (self->has_lock && strcmp(before.boot, self->mine.boot) == 0) return DRV_OK;
    log_info("\"%s\" was held by %s: watching its heartbeat for %g s", self->run_dir,
            name_owner(&before, name, sizeof name), self->opts.watch_s);
    for (const double end = clock_s() + self->opts.watch_s; clock_s() < end;) {
        rest(self->opts.beat_s / 8);
        if (!read_owner(self->owner_path, &now)) return DRV_OK; // it has released the directory
        if (strcmp(now.token, before.token) != 0 || now.heartbeat != before.heartbeat)
            return held_by_another(self, &now);
    }
    log_warn("\"%s\" is taken over from %s: its heartbeat has stopped", self->run_dir, name);
    return DRV_OK;
}

// Without locks two attempts may start at the same time: the one whose file remains is the owner.
static drv_status settle(const run_owner *self) {
    owner_text now;
    if (self->has_lock) return DRV_OK;
    rest(self->opts.settle_s);
    if (!read_owner(self->owner_path, &now) || strcmp(now.token, self->mine.token) == 0)
        return DRV_OK;
    return held_by_another(self, &now);
}

static drv_status take(run_owner *self) {
    int64_t n_starts;
    self->dir_fd = open(self->run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (self->dir_fd < 0) return file_fail("open folder", self->run_dir);
    DRV_TRY(take_lock(self));
    DRV_TRY(run_events_count_starts(self->run_dir, &n_starts));
    self->mine = describe_self(n_starts + 1);
    DRV_TRY(watch_owner(self));
    DRV_TRY(write_owner(self));
    DRV_TRY(settle(self));
    return start_beat(self);
}

static double or_default(double given, double otherwise) {
    return given > 0 ? given : otherwise;
}

static void init(run_owner *self, arena *a, const char *run_dir, const run_owner_opts *opts) {
    *self = (run_owner){.run_dir = arena_strdup(a, run_dir),
            .lock_path = path_join(a, run_dir, ".lock"),
            .owner_path = path_join(a, run_dir, "owner.json"),
            .opts = {or_default(opts ? opts->beat_s : 0, 2),
                    or_default(opts ? opts->watch_s : 0, 10),
                    or_default(opts ? opts->settle_s : 0, 1.5)},
            .dir_fd = -1,
            .lock_fd = -1,
            .file_fd = -1};
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->changed, NULL);
}

drv_status run_owner_take(arena *a, const char *run_dir, const run_owner_opts *opts,
        run_owner **out) {
    run_owner *self = ARENA_NEW(a, run_owner);
    init(self, a, run_dir, opts);
    const drv_status status = take(self);
    if (status != DRV_OK) {
        drv_saved refused;
        drv_save(status, &refused);
        run_owner_release(self);
        return drv_restore(&refused);
    }
    *out = self;
    return DRV_OK;
}

// --- holding
static drv_status check_place(const run_owner *self) {
    struct stat held, there;
    if (!self->keeps_inodes) return DRV_OK;
    if (stat(self->lock_path, &there) != 0) {
        if (errno != ENOENT && errno != ENOTDIR)
            return DRV_OK; // a fault of the disk, which the save will report
        return drv_fail(DRV_E_IO, "run directory \"%s\" was moved or removed while the run went on",
                self->run_dir);
    }
    const bool known = fstat(self->lock_fd, &held) == 0;
    if ((known && held.st_ino == there.st_ino && held.st_dev == there.st_dev) ||
            (!known && errno != ESTALE))
        return DRV_OK;
    return drv_fail(DRV_E_IO,
            "run directory \"%s\" was moved or removed while the run went on, and another is in its place",
            self->run_dir);
}

// An attempt that has ended has removed its owner.json, but its start is still in the journal.
static bool has_follower(const run_owner *self, const char *run_dir) {
    int64_t n_starts;
    return run_events_count_starts(run_dir, &n_starts) == DRV_OK && n_starts > self->mine.attempt;
}

drv_status run_owner_check(run_owner *self) {
    owner_text now;
    char name[256];
    DRV_TRY(check_place(self));
    if (!read_owner(self->owner_path, &now)) { // removed, or not readable
        if (!has_follower(self, self->run_dir)) return write_owner(self);
        return drv_fail(DRV_E_IO, "another drover has been in the run directory \"%s\"",
                self->run_dir);
    }
    if (strcmp(now.token, self->mine.token) == 0) return DRV_OK;
    return drv_fail(DRV_E_IO, "run directory \"%s\" was taken over by another drover (%s)",
            self->run_dir, name_owner(&now, name, sizeof name));
}

bool run_owner_is_taken(const run_owner *self) {
    char dir[40], path[64];
    owner_text now;
    snprintf(dir, sizeof dir, "/proc/self/fd/%d", self->dir_fd);
    snprintf(path, sizeof path, "%s/owner.json", dir);
    return read_owner(path, &now) ? strcmp(now.token, self->mine.token) != 0
                                  : has_follower(self, dir);
}

int run_owner_dir(const run_owner *self) {
    return self->dir_fd;
}

void run_owner_release(run_owner *self) {
    if (!self) return;
    owner_text now;
    if (self->has_thread) {
        pthread_mutex_lock(&self->lock);
        self->ends = true;
        pthread_cond_broadcast(&self->changed);
        pthread_mutex_unlock(&self->lock);
        pthread_join(self->thread, NULL);
    }
    const bool ours = self->file_fd >= 0 && check_place(self) == DRV_OK &&
                      read_owner(self->owner_path, &now) &&
                      strcmp(now.token, self->mine.token) == 0;
    if (ours) unlinkat(self->dir_fd, "owner.json", 0);
    if (self->file_fd >= 0) close(self->file_fd);
    if (self->lock_fd >= 0) close(self->lock_fd);
    if (self->dir_fd >= 0) close(self->dir_fd);
    pthread_mutex_destroy(&self->lock);
    pthread_cond_destroy(&self->changed);
}
