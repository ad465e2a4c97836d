// A stop while there is nothing to save ends the process at once; who watches is told before.
#include "harness.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/signals.h"
#include "base/stop.h"

static void tell(void *ctx) {
    const int fd = *(int *)ctx;
    const char *name = stop_requested();
    if (write(fd, name, strlen(name)) < 0) _exit(99);
}

// A process that is stopped while it could save nothing; `early`: before it comes to that.
static _Noreturn void be_stopped(int fd, bool told, bool early) {
    alarm(120);
    if (freopen("/dev/null", "w", stderr) == NULL) _exit(98);
    stop_listen();
    if (told && stop_tell_end(tell, &fd) != DRV_OK) _exit(97);
    if (early) raise(SIGTERM);
    stop_ends_process(false);
    raise(SIGTERM);
    for (;;)
        pause();
}

static void check(bool told, bool early) {
    int ends[2], status;
    char text[32] = "";
    assert_int_equal(pipe(ends), 0);
    const pid_t pid = fork();
    if (pid == 0) be_stopped(ends[1], told, early);
    close(ends[1]);
    size_t n = 0;
    for (ssize_t k; n + 1 < sizeof text && (k = read(ends[0], text + n, sizeof text - 1 - n)) > 0;)
        n += (size_t)k;
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 3);
    assert_string_equal(text, told ? "SIGTERM" : "");
}

TEST(who_watches_is_told) {
    for (int i = 0; i < 20; i++) {
        check(true, false);
        check(true, true);
    }
    check(false, false);
    check(false, true);
}

TEST(nobody_is_told_afterwards) {
    int unused = -1;
    OK(stop_tell_end(tell, &unused));
    stop_ends_process(true);
    stop_is_saved_again();
    stop_untell();
    stop_untell();
}

// A loop that computes for minutes comes to look for a stop only then.
static void ask(bool by_signal) {
    if (by_signal)
        raise(SIGTERM);
    else
        stop_take_over(SIGTERM); // another rank was asked
}

static void tell_twice(bool by_signal, bool early) {
    int ends[2];
    char text[32] = "";
    assert_int_equal(pipe(ends), 0);
    stop_listen();
    if (early) ask(by_signal);
    OK(stop_tell_request(tell, &ends[1]));
    if (!early) ask(by_signal);
    assert_int_equal(poll(&(struct pollfd){.fd = ends[0], .events = POLLIN}, 1, 60000), 1);
    ask(by_signal);
    stop_untell();
    close(ends[1]);
    assert_int_equal(read(ends[0], text, sizeof text - 1), strlen("SIGTERM"));
    assert_string_equal(text, "SIGTERM");
    close(ends[0]);
}

TEST(a_request_is_told_once) {
    int none = -1;
    for (int i = 0; i < 4; i++)
        tell_twice(i & 1, i & 2);
    stop_listen();
    OK(stop_tell_request(tell, &none)); // which would fail to write
    stop_untell();
}

// Code that a library has made keeps values below the stack pointer.
enum { NEAR = 1024, FAR = 16384, N_SIGNALS = 50 };

static atomic_int n_sent;

static void *send_signals(void *thread) {
    for (int i = 0; i < N_SIGNALS; i++) {
        pthread_kill(*(pthread_t *)thread, SIGUSR2);
        usleep(1000);
    }
    atomic_store(&n_sent, N_SIGNALS);
    return NULL;
}

// The bytes are this function's own neighbours: it calls nothing while they are to stay.
#if defined __SANITIZE_ADDRESS__
__attribute__((no_sanitize_address))
#endif
__attribute__((noinline)) static int
harmed_below(void) {
    volatile unsigned char *frame = (unsigned char *)__builtin_frame_address(0);
    int n = 0;
    for (int i = NEAR; i < FAR; i++)
        frame[-i] = (unsigned char)(i * 7);
    while (atomic_load(&n_sent) < N_SIGNALS) {
    }
    for (int i = NEAR; i < FAR; i++)
        n += frame[-i] != (unsigned char)(i * 7);
    return n;
}

TEST(handlers_leave_the_stack_alone) {
    pthread_t sender, self = pthread_self();
    signal_stack_give();
    stop_listen();
    assert_int_equal(pthread_create(&sender, NULL, send_signals, &self), 0);
    assert_int_equal(harmed_below(), 0);
    pthread_join(sender, NULL);
    assert_true(stop_take_save_request());
}

// --- two SIGINT: one key press, as timeout(1) tells it, or two
static volatile int64_t clock_ms; // what the handler sees; 0: the time

int __real_clock_gettime(clockid_t id, struct timespec *out);
int __wrap_clock_gettime(clockid_t id, struct timespec *out);
int __wrap_clock_gettime(clockid_t id, struct timespec *out) {
    if (!clock_ms) return __real_clock_gettime(id, out);
    *out = (struct timespec){clock_ms / 1000, clock_ms % 1000 * 1000000};
    return 0;
}

// Returns how a process ends that gets two SIGINT so far apart, and then comes to look for a stop.
static int status_after(int apart_ms) {
    int status;
    const pid_t pid = fork();
    if (pid == 0) {
        stop_listen();
        clock_ms = 5000;
        raise(SIGINT);
        clock_ms += apart_ms;
        raise(SIGINT);
        _exit(stop_requested() ? 3 : 96);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

TEST(two_presses_end_at_once) {
    for (int apart_ms = 0; apart_ms <= 200; apart_ms += 50) {
        const int status = status_after(apart_ms);
        if (apart_ms <= 100)
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 3);
        else
            assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
    }
}
