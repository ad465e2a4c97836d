// The failure ring: a TCP connection from each rank to the next, since MPI does not tell surviving
// ranks of a death (Open MPI 4.1, measured). When a process dies its sockets close, so its
// neighbours know within milliseconds and tell the others in both directions; a ring with one gap
// still reaches every rank. Four times a second each rank sends its status, and all ranks notice
// one that stops (watch.c). A thread does this, so that long computations do not delay it. A
// stop signal that one rank received reaches the others in the same way (base/stop.h).
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/exit_status.h"
#include "base/log.h"
#include "base/stop.h"
#include "base/str.h"
#include "base/task.h"
#include "comm/host_address.h"
#include "comm/ring_connect.h"

#define BEAT_S        0.25
#define HOLD_S        0.6 // no rank exits earlier: mpirun kills the others when the first one exits
#define GRACE_S       0.2 // for the main thread to exit by itself; mpirun kills survivors after 1.0 s
#define FLUSH_S       0.3
#define YIELD_S       0.15
#define REPORT_WAIT_S 5.0 // the others wait so long for the rank that gave up to print its message

enum { MAX_PENDING = 1 << 18 }; // bytes queued for a neighbour that does not read; more are dropped

typedef enum note_kind { NOTE_STATUS = 1, NOTE_FAILURE, NOTE_REPORTED, NOTE_BYE } note_kind;

typedef struct note { // a message on the ring; its length depends on its kind (note_bytes)
    uint32_t kind, beat;
    int32_t rank, failure, reason; // reason: the drv_status of a rank that gave up
    rank_status status;            // NOTE_STATUS
    char text[FAILURE_TEXT];       // NOTE_FAILURE
} note;

static size_t note_bytes(uint32_t kind) {
    return kind == NOTE_STATUS ? offsetof(note, text) : sizeof(note);
}

typedef struct neighbour {
    int fd, rank; // fd -1: gone
    bool bye;
    int n_silent, n_beats; // of host_is_unreachable, which is asked now and then
    str in, out;
} neighbour;

struct ring {
    comm *c;
    pthread_t thread;
    neighbour link[2]; // the rank before, the rank after
    int wake[2];       // pipe: main -> thread
    _Atomic bool closing, sends_failure, sends_reported, flushed;
    _Atomic int said; // the lowest rank that has printed why it gave up; size: none
    uint32_t beat;
    uint32_t *last_beat; // by rank
    watched *of;         // by rank; written by the thread, under the lock
    pthread_mutex_t lock;
    int warned; // of this rank; -1: of none
    double warned_s;
};

// --- sending
static void flush(neighbour *l) {
    while (l->fd >= 0 && l->out.n > 0) {
        const ssize_t n = send(l->fd, l->out.p, l->out.n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n <= 0) return; // reading reports a lost connection
        memmove(l->out.p, l->out.p + n, l->out.n - (size_t)n);
        l->out.n -= (size_t)n;
    }
}

static void send_note(neighbour *l, const note *x) {
    if (l->fd < 0 || (x->kind == NOTE_STATUS && l->out.n > MAX_PENDING)) return;
    str_add(&l->out, x, note_bytes(x->kind));
    flush(l);
}

static void send_both(struct ring *r, const note *x) {
    send_note(&r->link[0], x);
    send_note(&r->link[1], x);
}

static void tell_failure(struct ring *r) {
    const comm_failure *f = r->c->failure;
    note x = {.kind = NOTE_FAILURE,
            .rank = f->rank,
            .failure = f->kind,
            .reason = (int32_t)f->status};
    snprintf(x.text, sizeof x.text, "%s", f->text);
    send_both(r, &x);
}

static void fail(struct ring *r, failure_kind kind, int rank, const char *text) {
    if (failure_set(r->c->failure, kind, rank, DRV_E_PEER, text)) tell_failure(r);
}

// --- receiving
// "rank 2 (node7, process 4711) died, last heard of at step 12, step: in all_reduce over data":
// what it told at its last beat, since when it may have begun another step. If this rank waits, the
// text ends with the operation in which it does: "; rank 0 waits in gather_weight, layer 3 ...".
static void describe(const struct ring *r, int rank, const char *what, char *text, size_t bytes) {
    const comm *c = r->c;
    const rank_status *s = &r->of[rank].status, mine = comm_status_now(r->c);
    const int n = snprintf(text, bytes, "rank %d (%s, process %d) %s at step %lld, %s%s%s", rank,
            c->info[rank].host, c->info[rank].pid, what, (long long)s->step,
            *s->program ? s->program : "start", *s->op ? ": in " : ": ",
            *s->op ? s->op : "computing");
    if (*mine.op && n > 0 && (size_t)n < bytes)
        snprintf(text + n, bytes - (size_t)n, "; rank %d waits in %s", c->rank, mine.op);
}

static void lost(struct ring *r, neighbour *l, const char *how) {
    char text[FAILURE_TEXT];
    close(l->fd);
    l->fd = -1;
    if (l->bye || r->closing) return;
    describe(r, l->rank, how, text, sizeof text);
    fail(r, FAIL_DIED, l->rank, text);
}

// Returns the status that a neighbour reports; one that this version does not know is DRV_E_PEER.
static drv_status status_of(const note *x) {
    const bool known = x->reason > DRV_OK && x->reason <= DRV_STOPPED;
    return known ? (drv_status)x->reason : DRV_E_PEER;
}

// If two ranks give up at the same time, the lower one prints why; the higher one waits a moment
// for it (ring_send_failure). Returns whether the note is new.
static bool yield_to_lower(comm_failure *f, const note *x) {
    pthread_mutex_lock(&f->lock);
    const bool lower = f->kind == FAIL_GAVE_UP && x->failure == FAIL_GAVE_UP && x->rank < f->rank;
    if (lower) f->rank = x->rank;
    if (lower) f->status = status_of(x);
    pthread_mutex_unlock(&f->lock);
    return lower;
}

static void take_failure(struct ring *r, neighbour *onward, const note *x) {
    comm_failure *f = r->c->failure;
    const bool news = failure_set(f, (failure_kind)x->failure, x->rank, status_of(x), x->text) ||
                      yield_to_lower(f, x);
    if (news) send_note(onward, x);
}

static void take_said(struct ring *r, neighbour *onward, const note *x) {
    if (x->rank >= r->said) return;
    r->said = x->rank;
    send_note(onward, x);
}

static void hear(struct ring *r, int rank, const rank_status *status) {
    pthread_mutex_lock(&r->lock);
    r->of[rank].status = *status;
    r->of[rank].heard_s = clock_s();
    pthread_mutex_unlock(&r->lock);
}

void ring_rank_status(struct ring *r, int rank, watched *out) {
    pthread_mutex_lock(&r->lock);
    *out = r->of[rank];
    pthread_mutex_unlock(&r->lock);
}

static void take_note(struct ring *r, int from, note *x) {
    neighbour *onward = &r->link[!from];
    x->text[sizeof x->text - 1] = 0;
    if (x->kind == NOTE_BYE) r->link[from].bye = true;
    if (x->rank < 0 || x->rank >= r->c->size || x->rank == r->c->rank) return;
    if (x->kind == NOTE_FAILURE) take_failure(r, onward, x);
    if (x->kind == NOTE_REPORTED) take_said(r, onward, x);
    if (x->kind != NOTE_STATUS || (int32_t)(x->beat - r->last_beat[x->rank]) <= 0) return;
    r->last_beat[x->rank] = x->beat;
    hear(r, x->rank, &x->status);
    if (x->status.stop) stop_take_over(x->status.stop);
    send_note(onward, x);
}

static void receive(struct ring *links, int from) {
    neighbour *from_link = &links->link[from];
    char news[4096];
    for (;;) {
        const ssize_t n = recv(from_link->fd, news, sizeof news, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (n <= 0) {
            lost(links, from_link, "died, last heard of");
            return;
        }
        str_add(&from_link->in, news, (size_t)n);
        size_t used = 0, bytes = 0;
        for (; from_link->in.n - used >= sizeof(uint32_t); used += bytes) {
            note x = {0};
            memcpy(&x.kind, from_link->in.p + used, sizeof x.kind);
            bytes = note_bytes(x.kind);
            if (from_link->in.n - used < bytes) break;
            memcpy(&x, from_link->in.p + used, bytes);
            take_note(links, from, &x);
        }
        memmove(from_link->in.p, from_link->in.p + used, from_link->in.n - used);
        from_link->in.n -= used;
    }
}

// --- watching
// Only the lowest rank that is not the suspect prints.
static bool speaks(const struct ring *r, int suspect) {
    return r->c->rank == (suspect == 0);
}

static void watch(struct ring *links, double now) {
    comm *self = links->c;
    char why[128], text[FAILURE_TEXT];
    double for_s = 0;
    const int suspect = watch_suspect(self, links->of, now, &for_s);
    const bool silent = suspect >= 0 && now - links->of[suspect].heard_s >= self->opts.silent_s;
    if (suspect != links->warned && links->warned >= 0 && speaks(links, links->warned)) {
        log_info("rank %d continues after %.1f s", links->warned, now - links->warned_s);
        links->warned = -1;
    }
    if (suspect < 0) {
        links->warned = -1;
        return;
    }
    snprintf(why, sizeof why,
            silent ? "it has not been heard of for %.1f s" : "they have waited %.1f s", for_s);
    if (suspect != links->warned && speaks(links, suspect))
        watch_table(self, links->of, suspect, why);
    if (suspect != links->warned) links->warned_s = now;
    links->warned = suspect;
    if (for_s < self->opts.give_up_s) return;
    describe(links, suspect, silent ? "stopped answering, last heard of" : "held up the others",
            text, sizeof text);
    fail(links, FAIL_SILENT, suspect, text);
}

// A host that loses its link or its power does not close its connections.
static void look_for_host(struct ring *r, neighbour *l) {
    enum { BEATS = 4 };
    if (l->fd < 0 || ++l->n_beats % BEATS != 0 || !host_is_unreachable(l->fd, &l->n_silent)) return;
    lost(r, l, "cannot be reached any more, last heard of");
}

static void beat(struct ring *r) {
    note x = {.kind = NOTE_STATUS, .beat = ++r->beat, .rank = r->c->rank};
    x.status = comm_status_now(r->c);
    hear(r, r->c->rank, &x.status);
    send_both(r, &x);
    for (int i = 0; i < 2; i++)
        look_for_host(r, &r->link[i]);
    if (!has_failed(r->c)) watch(r, clock_s());
}

// Each rank prints which rank died before mpirun kills it.
static void hold_back(const struct ring *r) {
    const comm_failure *f = r->c->failure;
    if (f->kind == FAIL_NONE || f->kind == FAIL_GAVE_UP) return;
    const double left = f->since_s + HOLD_S - clock_s();
    if (left > 0) usleep((useconds_t)(1e6 * left));
}

// Waits until the rank that gave up has printed why: the launcher would kill it if this rank exited
// first.
static bool waits_for_words(const struct ring *r) {
    const comm_failure *f = r->c->failure;
    return f->kind == FAIL_GAVE_UP && f->rank != r->c->rank && r->said > f->rank &&
           clock_s() < f->since_s + REPORT_WAIT_S;
}

static void run_before_end(comm *c) {
    pthread_mutex_lock(&c->lock);
    void (*fn)(void *) = c->before_end;
    void *ctx = c->before_end_ctx;
    pthread_mutex_unlock(&c->lock);
    if (fn) fn(ctx);
}

// Ends the process when the main thread does not: it computes, or blocks in a call.
static void end_process(struct ring *r) {
    const comm_failure *f = r->c->failure;
    const bool mine = f->kind == FAIL_GAVE_UP && f->rank == r->c->rank;
    if (f->kind == FAIL_NONE || clock_s() < f->since_s + (mine ? 2 * REPORT_WAIT_S : GRACE_S))
        return;
    if (waits_for_words(r)) return;
    progress_end();
    run_before_end(r->c);
    if (f->kind != FAIL_GAVE_UP && !log_failure_said()) fprintf(stderr, "drover: %s\n", f->text);
    hold_back(r);
    _exit(exit_status(f->status));
}

// --- the thread
// Waits until both neighbours have received what was sent, or the time is up.
static void flush_all(struct ring *r) {
    const double end = clock_s() + FLUSH_S;
    while ((r->link[0].out.n || r->link[1].out.n) && clock_s() < end) {
        flush(&r->link[0]);
        flush(&r->link[1]);
        poll(NULL, 0, 1);
    }
    r->flushed = true;
}

// Sends what the main thread has asked for.
static void tell(struct ring *r) {
    const note said = {.kind = NOTE_REPORTED, .rank = r->c->rank};
    const bool failure = atomic_exchange(&r->sends_failure, false),
               words = atomic_exchange(&r->sends_reported, false);
    if (failure) tell_failure(r);
    if (words) send_both(r, &said);
    if (failure || words) flush_all(r);
}

static void *ring_main(void *arg) {
    struct ring *links = arg;
    double next = clock_s();
    while (!links->closing) {
        struct pollfd fds[3] = {{links->link[0].fd, POLLIN, 0}, {links->link[1].fd, POLLIN, 0},
                {links->wake[0], POLLIN, 0}};
        char byte;
        poll(fds, 3, has_failed(links->c) ? 20 : (int)(1000 * BEAT_S));
        for (int i = 0; i < 2; i++)
            if (links->link[i].fd >= 0 && fds[i].revents) receive(links, i);
        if (fds[2].revents & POLLIN && read(links->wake[0], &byte, 1) == 1) tell(links);
        flush(&links->link[0]);
        flush(&links->link[1]);
        if (clock_s() >= next) {
            beat(links);
            next = clock_s() + BEAT_S;
        }
        end_process(links);
    }
    tell(links); // the request to close may come before the last notes were sent
    return NULL;
}

drv_status ring_open(comm *c, struct ring **out) {
    struct ring *r = ARENA_NEW(c->a, struct ring);
    int fd[2];
    *r = (struct ring){.c = c,
            .warned = -1,
            .said = c->size,
            .last_beat = ARENA_ARRAY(c->a, uint32_t, c->size),
            .of = ARENA_ARRAY(c->a, watched, c->size)};
    DRV_TRY(ring_connect(c, fd));
    if (fd[0] < 0) return DRV_OK;
    pthread_mutex_init(&r->lock, NULL);
    for (int i = 0; i < 2; i++)
        r->link[i] = (neighbour){.fd = fd[i], .rank = (c->rank + (i ? 1 : c->size - 1)) % c->size};
    for (int i = 0; i < c->size; i++)
        r->of[i].heard_s = clock_s();
    if (pipe2(r->wake, O_CLOEXEC) != 0)
        return drv_fail(DRV_E_IO, "could not make a pipe: %s", strerror(errno));
    DRV_TRY(thread_start(&r->thread, ring_main, r));
    *out = r;
    return DRV_OK;
}

static void wake(struct ring *r) {
    const ssize_t n = write(r->wake[1], "", 1);
    DRV_ASSERT(n == 1, "pipe of the ring");
}

static void wake_and_wait(struct ring *r) {
    r->flushed = false;
    wake(r);
    for (double end = clock_s() + 2 * FLUSH_S; !r->flushed && clock_s() < end;)
        poll(NULL, 0, 1);
}

void ring_send_failure(struct ring *r) {
    r->sends_failure = true;
    wake_and_wait(r);
    poll(NULL, 0, 1 + (int)(1000 * YIELD_S)); // for a lower rank that gave up as well
}

void ring_send_reported(struct ring *r) {
    r->sends_reported = true;
    wake_and_wait(r);
}

// Reads to the end for a moment before closing: closing with unread bytes would reset the
// connection, and the neighbour would lose the last notes.
static void drain(neighbour *l) {
    char bytes[4096];
    if (l->fd < 0) return;
    shutdown(l->fd, SHUT_WR);
    struct pollfd fd = {l->fd, POLLIN, 0};
    for (double end = clock_s() + FLUSH_S; clock_s() < end && poll(&fd, 1, 50) >= 0;)
        if (fd.revents && recv(l->fd, bytes, sizeof bytes, MSG_DONTWAIT) <= 0 && errno != EAGAIN)
            break;
    close(l->fd);
}

void ring_close(struct ring *r, bool failed) {
    if (!r) return;
    while (waits_for_words(r))
        poll(NULL, 0, 1);
    r->closing = true;
    wake(r);
    pthread_join(r->thread, NULL);
    const note bye = {.kind = NOTE_BYE, .rank = r->c->rank};
    if (!failed) send_both(r, &bye);
    flush_all(r);
    hold_back(r);
    for (int i = 0; i < 2; i++) {
        drain(&r->link[i]);
        str_free(&r->link[i].in);
        str_free(&r->link[i].out);
        close(r->wake[i]);
    }
    pthread_mutex_destroy(&r->lock);
}
