// Writes the journal and the status of a run, while it trains and when it ends.
#include "record/run_record.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/exit_status.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "base/version.h"
#include "watch/files/run_events.h"
#include "watch/files/run_owner.h"
#include "watch/files/run_status.h"

#define STATUS_S  1.0  // between two writes of status.json during the run
#define SPEAKER_S 0.25 // that a rank waits for lower ones before it writes in place of rank 0

enum { TEXT = 2048, HOST = 64 };

struct run_record {
    const run_config *cfg;
    comm *comm;
    arena *a;
    bool leads;
    run_owner *owner; // rank 0's
    bool moved;       // to another directory, which has no owner
    int dir_fd;
    run_events *events; // NULL on ranks other than 0 while rank 0 is alive
    int64_t attempt;
    pthread_mutex_t lock; // protects what follows
    run_status status;
    double written_s;
    bool failing, ended;
    bool begun;         // its first step has begun
    const char *before; // status.json of the last attempt, if that recorded its end; else NULL
    run_end end_before;
    char message[TEXT], host[HOST], failed_host[HOST];
};

// --- writing
// Warns once: a failure to write about a run does not end it.
static void note(run_record *self, drv_status status) {
    if (status != DRV_OK && !self->failing)
        log_warn("the journal of the run: %s; training continues without it", drv_message());
    self->failing |= status != DRV_OK;
}

// A process that was paused may wake up in the directory of a later attempt, whose files it must
// not write. Its next save reports that.
static bool is_taken_over(const run_record *self) {
    return self->owner && !self->moved && run_owner_is_taken(self->owner);
}

static void add_event(run_record *self, run_event_kind kind, json_t *fields) {
    if (!self || !self->events || is_taken_over(self)) {
        json_decref(fields);
        return;
    }
    note(self, run_events_add(self->events, kind, fields));
}

// Call it with the lock held.
static void write_status(run_record *self, bool lasts) {
    if (self->dir_fd < 0 || is_taken_over(self)) return;
    self->written_s = clock_s();
    self->status.steps = self->cfg->steps; // training.epochs gives them once the data is open
    note(self, run_status_write(self->dir_fd, &self->status, lasts));
}

// Call it with the lock held.
static void restore_status(run_record *self) {
    if (self->dir_fd < 0 || is_taken_over(self)) return;
    note(self, run_status_put(self->dir_fd, self->before, strlen(self->before), true));
}

static void set_state(run_record *self, run_state_kind state) {
    if (!self || !self->leads) return;
    pthread_mutex_lock(&self->lock);
    if (!self->ended && self->status.state != state) {
        self->status.state = state;
        write_status(self, false);
    }
    pthread_mutex_unlock(&self->lock);
}

// --- opening
static run_record *new_record(arena *a, const run_config *cfg, comm *c, int64_t attempt) {
    run_record *self = ARENA_NEW(a, run_record);
    *self = (run_record){.cfg = cfg,
            .comm = c,
            .a = a,
            .leads = comm_rank(c) == 0,
            .dir_fd = -1,
            .attempt = attempt,
            .status = run_status_new()};
    pthread_mutex_init(&self->lock, NULL);
    snprintf(self->host, sizeof self->host, "%s", comm_host(c, 0));
    self->status.host = self->host;
    self->status.message = self->message;
    self->status.failed_host = self->failed_host;
    self->status.attempt = attempt;
    self->status.ranks = comm_size(c);
    self->status.nodes = comm_hosts(c);
    self->status.pid = self->leads ? getpid() : -1;
    return self;
}

static json_t *restarts(void) {
    int64_t n;
    const char *value = getenv("SLURM_RESTART_COUNT");
    return value && str_to_i64(value, &n) ? json_integer(n) : json_null();
}

static void add_start(run_record *self) {
    json_t *fields = json_object(), *job = json_string(run_job());
    json_object_set_new(fields, "version", json_string(drover_version()));
    json_object_set_new(fields, "ranks", json_integer(self->status.ranks));
    json_object_set_new(fields, "nodes", json_integer(self->status.nodes));
    json_object_set_new(fields, "host", json_string(self->host));
    json_object_set_new(fields, "pid", json_integer(self->status.pid));
    json_object_set_new(fields, "job", job ? job : json_string(""));
    json_object_set_new(fields, "restarts", restarts());
    json_object_set_new(fields, "steps",
            json_of_count(self->cfg->steps > 0 ? self->cfg->steps : -1));
    json_object_set_new(fields, "backend", json_string(self->cfg->backend));
    add_event(self, EVENT_START, fields);
}

// `fd`: the run directory, in which status.json is written; -1 with errno: it could not be opened.
static void set_dir(run_record *self, int fd) {
    self->dir_fd = fd;
    if (fd < 0) note(self, file_fail("open folder", self->cfg->run_dir));
}

// Keeps the status.json of the last attempt, if that recorded its end.
static void keep_last_status(run_record *self) {
    const char *path = path_join(self->a, self->cfg->run_dir, "status.json");
    run_status status;
    char *text;
    size_t n;
    if (run_status_text(self->a, self->cfg->run_dir, &text, &n) != DRV_OK ||
            run_status_parse(self->a, path, text, n, &status) != DRV_OK ||
            status.end == RUN_GOES_ON)
        return;
    self->before = arena_strndup(self->a, text, n);
    self->end_before = status.end;
}

drv_status record_take(arena *a, const run_config *cfg, comm *c, run_record **out) {
    run_owner *owner;
    run_events *events = NULL;
    DRV_TRY(run_owner_take(a, cfg->run_dir, NULL, &owner));
    const drv_status opened = run_events_open(a, cfg->run_dir, 0, &events);
    run_record *self = new_record(a, cfg, c, events ? run_events_attempt(events) : 1);
    self->owner = owner;
    self->events = events;
    note(self, opened);
    set_dir(self, fcntl(run_owner_dir(owner), F_DUPFD_CLOEXEC, 0));
    add_start(self);
    keep_last_status(self);
    pthread_mutex_lock(&self->lock);
    write_status(self, true);
    pthread_mutex_unlock(&self->lock);
    *out = self;
    return DRV_OK;
}

drv_status record_share(arena *a, const run_config *cfg, comm *c, run_record **self) {
    int64_t attempt = *self ? (*self)->attempt : 0;
    if (comm_size(c) == 1) return DRV_OK;
    DRV_TRY(comm_broadcast(comm_all_ranks(c), 0, &attempt, sizeof attempt));
    if (!*self) {
        *self = new_record(a, cfg, c, attempt);
        set_dir(*self, open(cfg->run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    }
    return DRV_OK;
}

drv_status record_check(run_record *self) {
    return self && self->owner ? run_owner_check(self->owner) : DRV_OK;
}

void record_move(run_record *self, const char *run_dir) {
    if (!self) return;
    pthread_mutex_lock(&self->lock);
    self->moved = true;
    if (self->dir_fd >= 0) close(self->dir_fd);
    self->dir_fd = open(run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (self->leads) {
        run_events_close(self->events);
        self->events = NULL;
        note(self, run_events_open(self->a, run_dir, self->attempt, &self->events));
        self->status.saved_step = -1;
    }
    pthread_mutex_unlock(&self->lock);
}

void record_close(run_record *self) {
    if (!self) return;
    run_events_close(self->events);
    if (self->dir_fd >= 0) close(self->dir_fd);
    run_owner_release(self->owner);
    pthread_mutex_destroy(&self->lock);
}

// --- what happens
void record_resume(run_record *self, int64_t step, const char *from, const lost_metrics *lost) {
    if (!self) return;
    add_event(self, EVENT_RESUME,
            json_pack("{s:I, s:o, s:I, s:o}", "step", (json_int_t)step, "from", json_of_text(from),
                    "lost_steps", (json_int_t)lost->steps, "lost_s", json_of_f64(lost->seconds)));
    pthread_mutex_lock(&self->lock);
    self->status.step = step;
    if (from) self->status.saved_step = step;
    if (self->leads && !self->ended) write_status(self, false);
    pthread_mutex_unlock(&self->lock);
}

void record_running(run_record *self, int64_t step, const char *energy, json_t *planned) {
    add_event(self, EVENT_RUNNING,
            json_pack("{s:I, s:o, s:o}", "step", (json_int_t)step, "energy", json_of_text(energy),
                    "plan", planned ? planned : json_null()));
    if (self) self->begun = true;
    set_state(self, RUN_RUNNING);
}

void record_step(run_record *self, const step_metrics *m) {
    if (!self) return;
    pthread_mutex_lock(&self->lock);
    self->status.step = m->step;
    self->status.loss = m->loss;
    self->status.tokens_per_s = m->tokens_per_s;
    self->status.eta_s = m->eta_s;
    if (self->leads && !self->ended && clock_s() >= self->written_s + STATUS_S)
        write_status(self, false);
    pthread_mutex_unlock(&self->lock);
}

void record_saving(run_record *self) {
    set_state(self, RUN_SAVING);
}

void record_saved(run_record *self, int64_t step, double seconds, double blocked_s, int64_t bytes) {
    if (!self) return;
    add_event(self, EVENT_SAVE,
            json_pack("{s:I, s:o, s:o, s:I}", "step", (json_int_t)step, "seconds",
                    json_of_f64(seconds), "blocked_s", json_of_f64(blocked_s), "bytes",
                    (json_int_t)bytes));
    pthread_mutex_lock(&self->lock);
    self->status.saved_step = step;
    pthread_mutex_unlock(&self->lock);
    set_state(self, RUN_RUNNING);
}

void record_evaluation(run_record *self, int64_t step, double seconds, double val_loss) {
    add_event(self, EVENT_EVALUATION,
            json_pack("{s:I, s:o, s:o}", "step", (json_int_t)step, "seconds", json_of_f64(seconds),
                    "val_loss", json_of_f64(val_loss)));
}

void record_straggler(run_record *self, const straggler *told, const char *host) {
    json_t *fields = json_object();
    json_object_set_new(fields, "rank", json_integer(told->rank));
    json_object_set_new(fields, "host", json_string(host));
    json_object_set_new(fields, "hosts_all", json_boolean(told->whole_host));
    if (told->over) {
        json_object_set_new(fields, "step", json_integer(told->step));
    } else {
        json_object_set_new(fields, "reason", json_string(told->reason));
        json_object_set_new(fields, "ratio", json_real(round(told->ratio * 1e3) / 1e3));
        json_object_set_new(fields, "since_step", json_integer(told->step));
    }
    add_event(self, told->over ? EVENT_STRAGGLER_OVER : EVENT_STRAGGLER, fields);
}

void record_stop(run_record *self, int64_t step, const char *signal, const char *reason) {
    json_t *fields = json_object();
    json_object_set_new(fields, "step", json_integer(step));
    if (signal) json_object_set_new(fields, "signal", json_string(signal));
    if (reason) json_object_set_new(fields, "reason", json_string(reason));
    add_event(self, EVENT_STOP, fields);
    set_state(self, RUN_STOPPING);
}

// --- the end
// Returns whether the journal has the end of this attempt already, or a later attempt.
static bool is_written(const run_record *self, const char *run_dir) {
    run_event_list list;
    bool found = false;
    if (run_events_read(run_dir, &list) != DRV_OK) return false;
    for (int64_t i = 0; i < list.n; i++)
        found |= list.events[i].attempt > self->attempt ||
                 (list.events[i].kind == EVENT_END && list.events[i].attempt == self->attempt);
    run_events_free(&list);
    return found;
}

// Rank 0 writes how a job ended. If it may be the rank that was lost, the lowest remaining rank
// writes, and the lowest one on another host, since a whole host may be lost.
static bool may_write(const run_record *self, const comm_blame *blame) {
    const comm *c = self->comm;
    int lowest = -1, elsewhere = -1;
    if (self->leads) return true;
    if (blame->rank < 0 || self->dir_fd < 0) return false;
    for (int rank = comm_size(c) - 1; rank >= 0; rank--) {
        if (rank != blame->rank) lowest = rank;
        if (strcmp(comm_host(c, rank), comm_host(c, blame->rank)) != 0) elsewhere = rank;
    }
    return comm_rank(c) == lowest || comm_rank(c) == elsewhere;
}

// Opens the journal for a rank that may write in place of rank 0. False: another rank has written.
static bool open_in_its_place(run_record *self) {
    const struct timespec pause = {0, (long)(SPEAKER_S * 1e9)};
    char here[64]; // the directory, whatever its present name is
    if (self->leads) return true;
    nanosleep(&pause, NULL);
    snprintf(here, sizeof here, "/proc/self/fd/%d", self->dir_fd);
    if (is_written(self, here)) return false;
    if (run_events_open(self->a, here, self->attempt, &self->events) != DRV_OK) self->events = NULL;
    return true;
}

static const char *cause_of(drv_status status, const comm_blame *blame) {
    if (status != DRV_E_PEER) return run_cause(status);
    return blame->silent ? "hang" : run_cause(blame->rank >= 0 ? blame->status : status);
}

static void add_failure(run_record *self) {
    const run_status *s = &self->status;
    json_t *fields = json_object(), *message = json_string(s->message);
    json_object_set_new(fields, "rank", json_of_count(s->failed_rank));
    json_object_set_new(fields, "host", json_of_words(s->failed_host));
    json_object_set_new(fields, "cause", json_string(s->cause));
    json_object_set_new(fields, "message",
            message ? message : json_string("")); // not UTF-8
    json_object_set_new(fields, "step", json_integer(s->step));
    add_event(self, EVENT_FAILURE, fields);
}

static void add_end(run_record *self) {
    const run_status *s = &self->status;
    add_event(self, EVENT_END,
            json_pack("{s:s, s:I, s:s, s:I, s:o}", "state", run_end_name(s->end), "status",
                    (json_int_t)s->exit_status, "cause", s->cause, "step", (json_int_t)s->step,
                    "saved_step", json_of_count(s->saved_step)));
}

// Call it with the lock held.
static void fill_end(run_record *self, drv_status status, const char *cause, const char *message,
        const comm_blame *blame) {
    run_status *s = &self->status;
    const bool lost = status == DRV_E_PEER;
    const drv_status of_job = lost && blame->rank >= 0 ? blame->status : status;
    s->state = RUN_ENDED;
    s->end = status == DRV_OK ? RUN_DONE : status == DRV_STOPPED ? RUN_STOPPED : RUN_FAILED;
    s->exit_status = exit_status(of_job);
    s->cause = cause && !lost ? cause : cause_of(status, blame);
    s->eta_s = (double)NAN;
    snprintf(self->message, sizeof self->message, "%s",
            lost && *blame->text ? blame->text : message);
    if (s->end != RUN_FAILED || blame->rank < 0) return;
    s->failed_rank = blame->rank;
    snprintf(self->failed_host, sizeof self->failed_host, "%s", comm_host(self->comm, blame->rank));
}

// Returns whether a failed attempt leaves the end of the last one in status.json. It must have
// failed before its first step, for wrong usage or after the last attempt had done all steps.
static bool leaves_status(const run_record *self, drv_status status) {
    return self->before && !self->begun && self->status.end == RUN_FAILED &&
           (status == DRV_E_USAGE || self->end_before == RUN_DONE);
}

void record_end(run_record *self, drv_status status, const char *cause, const char *message,
        bool alone) {
    if (!self) return;
    comm_blame blame = comm_blamed(self->comm);
    if (blame.rank < 0 && alone) blame.rank = comm_rank(self->comm);
    const struct timespec until = clock_after(1); // a disk that hangs must not keep a failed job
    if (!may_write(self, &blame) || pthread_mutex_timedlock(&self->lock, &until) != 0) return;
    if (!self->ended && open_in_its_place(self)) {
        fill_end(self, status, cause, message, &blame);
        if (self->status.end == RUN_FAILED) add_failure(self);
        add_end(self);
        if (leaves_status(self, status))
            restore_status(self);
        else
            write_status(self, true);
    }
    self->ended = true;
    pthread_mutex_unlock(&self->lock);
}
