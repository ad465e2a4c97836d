// Runs a child in a process group of its own, with three pipes and a poll loop with a time limit.
#include "launch/jobs/foreign_program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

extern char **environ;

// A child may leave its output open in another process when it ends; that is read for so long.
#define AFTERWARDS_S 0.5
enum { WAIT_MS = 50, CHUNK = 1 << 16 };

void program_add_words(program_words *self, const char *const *words, int n) {
    DRV_ASSERT(self->n + n < PROGRAM_WORDS, "%d words", self->n + n);
    for (int i = 0; i < n; i++)
        self->words[self->n++] = words[i];
}

const char *program_name(arena *a, const program_words *words) {
    for (int i = 1; i < words->n; i++)
        if (*words->words[i] != '-' && *words->words[i - 1] != '-')
            return arena_printf(a, "%s %s", words->words[0], words->words[i]);
    return words->words[0];
}

drv_status program_find(arena *a, const char *name) {
    const char *path = getenv("PATH");
    for (const char *dir = path ? path : ""; *dir;) {
        const size_t n = strcspn(dir, ":");
        if (access(arena_printf(a, "%.*s/%s", (int)n, dir, name), X_OK) == 0) return DRV_OK;
        dir += n + (dir[n] == ':');
    }
    return drv_fail(DRV_E_USAGE, "there is no %s in PATH", name);
}

// --- the child and its pipes
typedef struct running {
    const program_call *call;
    pid_t child;
    int in, out, err, signals; // -1: closed
    size_t fed;                // of the input
    size_t taken;              // of the output
    str kept, error;
    bool is_cut;
} running;

static void close_one(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

static void signals_of_interest(sigset_t *set) {
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGHUP);
}

static int spawn(const program_words *what, const int *theirs, const sigset_t *mask, pid_t *child) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t usual;
    posix_spawn_file_actions_init(&files);
    for (int i = 0; i < 3; i++)
        posix_spawn_file_actions_adddup2(&files, theirs[i], i);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes,
            POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, mask);
    sigemptyset(&usual);
    sigaddset(&usual, SIGPIPE);
    posix_spawnattr_setsigdefault(&attributes, &usual);
    char *words[PROGRAM_WORDS + 1] = {0};
    for (int i = 0; i < what->n; i++)
        words[i] = (char *)(uintptr_t)what->words[i];
    const int why = posix_spawnp(child, words[0], &files, &attributes, words, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return why;
}

static drv_status start(running *self, const sigset_t *mask) {
    int pipes[3][2];
    for (int i = 0; i < 3; i++)
        if (pipe2(pipes[i], O_CLOEXEC) != 0) {
            const int why = errno;
            for (int k = 0; k < i; k++)
                close(pipes[k][0]), close(pipes[k][1]);
            return drv_fail(DRV_E_IO, "could not make a pipe: %s", strerror(why));
        }
    const int theirs[] = {pipes[0][0], pipes[1][1], pipes[2][1]};
    const int why = spawn(self->call->words, theirs, mask, &self->child);
    for (int i = 0; i < 3; i++)
        close(theirs[i]);
    self->in = pipes[0][1], self->out = pipes[1][0], self->err = pipes[2][0];
    if (why != 0)
        return drv_fail(DRV_E_IO, "could not start %s: %s", self->call->words->words[0],
                strerror(why));
    fcntl(self->in, F_SETFL, O_NONBLOCK);
    fcntl(self->out, F_SETFL, O_NONBLOCK);
    fcntl(self->err, F_SETFL, O_NONBLOCK);
    return DRV_OK;
}

// --- input and output
static void feed(running *self) {
    const str *input = self->call->input;
    const size_t left = input ? input->n - self->fed : 0;
    const ssize_t n = left ? write(self->in, input->p + self->fed, left) : 0;
    if (n > 0) self->fed += (size_t)n;
    const bool later = n < 0 && (errno == EAGAIN || errno == EINTR);
    if (!later && (n < 0 || !input || self->fed == input->n)) close_one(&self->in);
}

static void take_output(running *self, const char *bytes, size_t n) {
    const size_t room = self->call->most_bytes - self->taken, used = n < room ? n : room;
    self->is_cut |= used < n;
    self->taken += used;
    if (used && self->call->each)
        self->call->each(self->call->ctx, bytes, used);
    else if (used)
        str_add(&self->kept, bytes, used);
}

// Keeps the last bytes, since programs report errors at their end.
static void take_error(running *self, const char *bytes, size_t n) {
    str *kept = &self->error;
    str_add(kept, bytes, n);
    if (kept->n <= 2 * PROGRAM_ERROR_BYTES) return;
    memmove(kept->p, kept->p + kept->n - PROGRAM_ERROR_BYTES, PROGRAM_ERROR_BYTES + 1);
    kept->n = PROGRAM_ERROR_BYTES;
}

// Reads what is available. False: the pipe has ended.
static bool drain(running *self, int fd) {
    char bytes[4096];
    for (int i = 0; i < CHUNK / (int)sizeof bytes; i++) {
        const ssize_t n = read(fd, bytes, sizeof bytes);
        if (n == 0) return false;
        if (n < 0) return errno == EAGAIN || errno == EINTR;
        if (fd == self->out)
            take_output(self, bytes, (size_t)n);
        else
            take_error(self, bytes, (size_t)n);
    }
    return true;
}

static void wait_and_copy(running *self) {
    struct pollfd fds[] = {{self->in, POLLOUT, 0}, {self->out, POLLIN, 0}, {self->err, POLLIN, 0},
            {self->signals, POLLIN, 0}};
    if (poll(fds, 4, WAIT_MS) <= 0) return;
    if (fds[0].revents) feed(self);
    if (fds[1].revents && !drain(self, self->out)) close_one(&self->out);
    if (fds[2].revents && !drain(self, self->err)) close_one(&self->err);
}

static void end_group(running *self, int *ended) {
    kill(-self->child, SIGKILL);
    kill(self->child, SIGKILL); // if it has no group yet
    waitpid(self->child, ended, 0);
}

static drv_status go_on(arena *a, running *self, int *ended) {
    const double until = clock_s() + self->call->limit_s;
    double ended_s = 0;
    while (ended_s == 0 || ((self->out >= 0 || self->err >= 0) && clock_s() < ended_s)) {
        struct signalfd_siginfo got;
        wait_and_copy(self);
        if (read(self->signals, &got, sizeof got) == (ssize_t)sizeof got) {
            if (ended_s == 0) end_group(self, ended);
            return drv_fail(DRV_STOPPED, "%s was ended by a signal to this process",
                    program_name(a, self->call->words));
        }
        if (ended_s == 0 && waitpid(self->child, ended, WNOHANG) == self->child)
            ended_s = clock_s() + AFTERWARDS_S;
        if (ended_s == 0 && clock_s() > until) {
            end_group(self, ended);
            return drv_fail(DRV_E_BUSY, "%s did not end within %g s, and was ended",
                    program_name(a, self->call->words), self->call->limit_s);
        }
    }
    return DRV_OK;
}

static const char *last_line(arena *a, const str *text) {
    size_t end = text->n;
    while (end > 0 && strchr("\n\r ", text->p[end - 1]))
        end--;
    size_t from = end;
    while (from > 0 && text->p[from - 1] != '\n' && text->p[from - 1] != '\r')
        from--;
    return end > from ? arena_strndup(a, text->p + from, end - from) : "";
}

drv_status program_run(arena *a, const program_call *call, program_end *out) {
    running self = {.call = call, .in = -1, .out = -1, .err = -1};
    sigset_t ours, before, pipe_signal;
    int ended = 0;
    signals_of_interest(&ours);
    sigprocmask(SIG_BLOCK, &ours, &before);
    self.signals = signalfd(-1, &ours, SFD_NONBLOCK | SFD_CLOEXEC);
    sigemptyset(&pipe_signal); // a reader that has closed makes write() fail, which is ignored
    sigaddset(&pipe_signal, SIGPIPE);
    sigprocmask(SIG_BLOCK, &pipe_signal, NULL);
    drv_status status = start(&self, &before);
    if (status == DRV_OK) status = go_on(a, &self, &ended);
    const struct timespec now = {0, 0};
    sigtimedwait(&pipe_signal, NULL, &now);
    close_one(&self.in), close_one(&self.out), close_one(&self.err), close_one(&self.signals);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (status == DRV_OK) {
        *out = (program_end){.status = WIFSIGNALED(ended) ? 128 + WTERMSIG(ended)
                                                          : WEXITSTATUS(ended),
                .out = arena_strndup(a, self.kept.n ? self.kept.p : "", self.kept.n),
                .n_out = self.kept.n,
                .is_cut = self.is_cut,
                .error = last_line(a, &self.error)};
    }
    str_free(&self.kept);
    str_free(&self.error);
    return status;
}

drv_status program_must_run(arena *a, const program_call *call, program_end *out) {
    program_end end;
    DRV_TRY(program_run(a, call, &end));
    if (end.status != 0)
        return drv_fail(DRV_E_IO, "%s ended with status %d%s%s", program_name(a, call->words),
                end.status, *end.error ? ": " : "", end.error);
    *out = end;
    return DRV_OK;
}
