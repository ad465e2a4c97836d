// Starts, signals and ends processes of one node.
#include "launch/local_job.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory_limit.h"
#include "base/stop.h"
#include "base/str.h"
#include "launch/leftovers.h"

static const int passed_on[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
enum { N_PASSED_ON = sizeof passed_on / sizeof *passed_on };

#define REAP_S 5.0

// --- opening
void local_job_hold_signals(void) {
    sigset_t set;
    stop_signals(&set);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

static void listen_to_signals(local_job *self) {
    sigset_t set;
    struct sigaction old;
    stop_signals(&set);
    sigaddset(&set, SIGCHLD);
    if (sigaction(SIGHUP, NULL, &old) == 0 && old.sa_handler == SIG_IGN)
        sigdelset(&set, SIGHUP); // under nohup it stays ignored
    sigprocmask(SIG_BLOCK, &set, NULL);
    self->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    DRV_ASSERT(self->signal_fd >= 0, "signalfd: %s", strerror(errno));
}

// Makes a folder in /dev/shm, which is memory.
static void open_shared(local_job *self) {
    self->shared = arena_printf(self->a, "/dev/shm%s", strrchr(self->dir, '/'));
    if (mkdir(self->shared, 0700) != 0) self->shared = NULL; // Open MPI then chooses one
    self->shared_fd = self->shared ? leftover_hold(self->shared) : -1;
}

drv_status local_job_open(arena *a, int n_ranks, local_job *out) {
    const char *base = getenv("TMPDIR");
    if (!base || *base != '/') base = "/tmp";
    char *dir = arena_printf(a, "%s/%s-XXXXXX", base, leftover_prefix(a));
    *out = (local_job){.a = a,
            .n_ranks = n_ranks,
            .ranks = ARENA_ARRAY(a, local_rank, n_ranks),
            .signal_fd = -1,
            .dir_fd = -1,
            .shared_fd = -1};
    leftovers_remove(a, base);
    leftovers_remove(a, "/dev/shm");
    if (!mkdtemp(dir)) return drv_fail(DRV_E_IO, "could not make \"%s\": %s", dir, strerror(errno));
    out->dir = dir;
    out->dir_fd = leftover_hold(dir);
    open_shared(out);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    listen_to_signals(out);
    return DRV_OK;
}

// --- the child
static _Noreturn void become(const char *const *argv, const char *const *variables, pid_t parent) {
    sigset_t none;
    sigemptyset(&none);
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1); // the parent had ended before prctl
    const int nothing = open("/dev/null", O_RDONLY);
    if (nothing >= 0) dup2(nothing, 0);
    for (; *variables; variables++) {
        const char *value = strchr(*variables, '=');
        char *name = strndup(*variables, value ? (size_t)(value - *variables) : strlen(*variables));
        if (value)
            setenv(name, value + 1, 1);
        else
            unsetenv(name);
        free(name);
    }
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    local_job_hold_signals();
    execvp(argv[0], (char *const *)(uintptr_t)argv);
    fprintf(stderr, "drover: could not run \"%s\": %s; expected Open MPI\n", argv[0],
            strerror(errno));
    _exit(127);
}

drv_status local_job_start(local_job *self, const char *const *argv, const char *const *variables) {
    self->kills_before = memory_kills_read("");
    const pid_t parent = getpid(), child = fork();
    if (child < 0)
        return drv_fail(DRV_E_IO, "could not start \"%s\": %s", argv[0], strerror(errno));
    if (child == 0) become(argv, variables, parent);
    self->child = child;
    return DRV_OK;
}

static void reap(local_job *self) {
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        if (pid != self->child) continue; // an orphan
        self->child_ended = true;
        self->child_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
}

int local_job_signal(local_job *self) {
    struct signalfd_siginfo info;
    reap(self);
    while (read(self->signal_fd, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo != SIGCHLD) return (int)info.ssi_signo;
        reap(self);
    }
    return 0;
}

// mpirun and its daemons run with signals blocked, so they are killed, but only once the outcome is
// decided. Ranks that remain are ended by local_job_close.
void local_job_end(local_job *self) {
    if (!self->child || self->child_ended || self->end_sent_s > 0) return;
    self->end_sent_s = clock_s();
    kill(self->child, SIGKILL);
}

// --- ranks
static pid_t read_pid(const local_job *self, int local) {
    char path[4096], text[32] = "";
    snprintf(path, sizeof path, "%s/rank-%d", self->dir, local);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    const ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    int64_t pid;
    return n > 0 && str_to_i64(text, &pid) && pid > 1 ? (pid_t)pid : 0;
}

static void deliver(local_rank *r) {
    for (int i = 0; i < N_PASSED_ON; i++)
        if (r->pending >> passed_on[i] & 1) kill(r->pid, passed_on[i]);
    r->pending = 0;
}

void local_job_poll(local_job *self) {
    int n_ended = 0;
    for (int i = 0; i < self->n_ranks; i++) {
        local_rank *r = &self->ranks[i];
        if (!r->pid) r->pid = read_pid(self, i);
        if (r->pid && !r->ended) r->ended = kill(r->pid, 0) != 0 && errno == ESRCH;
        if (r->pid && !r->ended) deliver(r);
        n_ended += r->ended;
    }
    if (n_ended == self->n_ranks && self->ranks_ended_s <= 0) self->ranks_ended_s = clock_s();
}

bool local_job_has_ranks(const local_job *self) {
    for (int i = 0; i < self->n_ranks; i++)
        if (self->ranks[i].pid) return true;
    return false;
}

bool local_job_lacked_memory(const local_job *self) {
    return self->child && self->kills_before >= 0 && memory_kills_read("") > self->kills_before;
}

bool local_job_forward(local_job *self, int number) {
    // Slurm has sent it to the ranks too, and a second SIGINT would end them at once.
    if (number == SIGINT && getenv("SLURM_STEP_ID")) number = SIGTERM;
    for (int i = 0; i < self->n_ranks; i++)
        self->ranks[i].pending |= 1u << number;
    local_job_poll(self);
    return self->child && !self->child_ended;
}

outcome local_job_outcome(local_job *self, int first_rank) {
    outcome all = {.rank = first_rank};
    local_job_poll(self);
    for (int i = 0; i < self->n_ranks; i++) {
        local_rank *r = &self->ranks[i];
        const outcome unsaid = {OUTCOME_UNREPORTED, 0, first_rank + i, DRV_E_PEER};
        if (!r->pid) continue;
        if (!r->has_outcome) r->has_outcome = outcome_read(self->dir, i, &r->said);
        all = outcome_of_both(all, r->has_outcome ? r->said : unsaid);
    }
    return all;
}

// --- the end
// Kills the children of this process, which include orphaned descendants.
static void kill_children(void) {
    arena *a = arena_new("children");
    const char *path = arena_printf(a, "/proc/self/task/%d/children", (int)getpid());
    char *rest = NULL;
    size_t n;
    if (file_read(a, path, &rest, &n) != DRV_OK) rest = NULL;
    for (char *word; (word = strsep(&rest, " "));)
        if (*word) kill((pid_t)strtol(word, NULL, 10), SIGKILL);
    arena_free(a);
}

static void kill_all(const local_job *self) {
    for (int i = 0; i < self->n_ranks; i++) {
        const local_rank *r = &self->ranks[i];
        if (r->pid && !r->ended) kill(r->pid, SIGKILL);
    }
    for (const double end = clock_s() + REAP_S; clock_s() < end;) {
        kill_children();
        const pid_t pid = waitpid(-1, NULL, WNOHANG);
        if (pid < 0) break;
        if (pid == 0) usleep(10000);
    }
}

drv_status local_job_renew(local_job *self) {
    kill_all(self);
    memset(self->ranks, 0, sizeof *self->ranks * (size_t)self->n_ranks);
    self->child = 0;
    self->child_ended = false;
    self->child_status = 0;
    self->end_sent_s = self->ranks_ended_s = 0;
    if (self->shared && dir_remove(self->shared) != DRV_OK) log_warn("%s", drv_message());
    if (self->shared_fd >= 0) close(self->shared_fd);
    open_shared(self);
    DRV_TRY(dir_remove(self->dir));
    if (self->dir_fd >= 0) close(self->dir_fd);
    if (mkdir(self->dir, 0700) != 0)
        return drv_fail(DRV_E_IO, "could not make \"%s\": %s", self->dir, strerror(errno));
    self->dir_fd = leftover_hold(self->dir);
    return DRV_OK;
}

void local_job_close(local_job *self) {
    kill_all(self);
    if (self->signal_fd >= 0) close(self->signal_fd);
    if (self->dir && dir_remove(self->dir) != DRV_OK) log_warn("%s", drv_message());
    if (self->shared && dir_remove(self->shared) != DRV_OK) log_warn("%s", drv_message());
    if (self->dir_fd >= 0) close(self->dir_fd);
    if (self->shared_fd >= 0) close(self->shared_fd);
}
