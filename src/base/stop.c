// Signals of a run. The handler only notes what came; the loop looks between micro-batches.
#include "base/stop.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/task.h"

static const struct {
    int number;
    const char *name;
} signals[] = {{SIGINT, "SIGINT"}, {SIGTERM, "SIGTERM"}, {SIGHUP, "SIGHUP"}, {SIGUSR1, "SIGUSR1"},
        {SIGUSR2, "SIGUSR2"}};
enum { N_SIGNALS = sizeof signals / sizeof *signals };

// timeout(1) and mpirun signal a process and then its group for one key press.
enum { SAME_PRESS_MS = 100 };

static volatile sig_atomic_t save_wanted;
static atomic_int stop_signal;         // 0: none
static _Atomic int64_t interrupted_ms; // of the first SIGINT; 0: none
static atomic_int n_at_once;           // calls of stop_ends_process that have not ended
static atomic_bool ends_silently;

static struct { // calls fn before the process ends or, unless at_end, when a stop is requested
    pthread_t thread;
    sem_t wanted; // posted for a call, or when none is wanted any more
    void (*fn)(void *ctx);
    void *ctx;
    bool at_end;
    atomic_bool is_there, asked, over;
} teller;

static int64_t now_ms(void) { // clock_gettime may be called from a handler
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000 + 1;
}

// Called in handlers, where formatting is not allowed.
static _Noreturn void end_process(int number) {
    enum { EXIT_STOPPED = 3 }; // docs/adr/0006
    static const char before[] = "drover: stopped by ",
                      after[] = " while programs were compiled; the same command starts it again\n";
    char words[128] = "", *end = words;
    for (int i = 0; i < N_SIGNALS; i++)
        if (signals[i].number == number)
            end = stpncpy(stpncpy(stpncpy(end, before, sizeof before), signals[i].name, 8), after,
                    sizeof after);
    if (!ends_silently) log_last_words(words, (size_t)(end - words));
    _exit(EXIT_STOPPED);
}

static void tell_request(void) { // may be called in handlers
    if (!teller.is_there || teller.at_end) return;
    teller.asked = true;
    sem_post(&teller.wanted);
}

static void on_signal(int number) {
    if (number == SIGUSR2) {
        save_wanted = 1;
        return;
    }
    if (number == SIGINT) {
        const int64_t first = interrupted_ms, now = now_ms();
        if (!first) {
            interrupted_ms = now;
        } else if (now - first > SAME_PRESS_MS) {
            signal(SIGINT, SIG_DFL);
            raise(SIGINT); // delivered when this handler returns
        }
    }
    if (!stop_signal) stop_signal = number;
    if (n_at_once > 0 && (!teller.is_there || atomic_exchange(&teller.asked, true)))
        end_process(number);
    if (n_at_once > 0)
        sem_post(&teller.wanted);
    else
        tell_request();
}

static void *tell_main(void *arg DRV_UNUSED) {
    while (sem_wait(&teller.wanted) != 0 || (teller.at_end && !teller.over && n_at_once == 0)) {
    }
    if (teller.over && (teller.at_end || !teller.asked)) return NULL;
    teller.fn(teller.ctx);
    if (teller.at_end) end_process(stop_signal);
    return NULL;
}

static drv_status start_teller(void (*fn)(void *ctx), void *ctx, bool at_end) {
    teller.fn = fn;
    teller.ctx = ctx;
    teller.at_end = at_end;
    teller.asked = teller.over = false;
    if (sem_init(&teller.wanted, 0, 0) != 0)
        return drv_fail(DRV_E_DEVICE, "could not make a semaphore: %s", strerror(errno));
    teller.is_there = true; // a signal may come before the thread runs
    const drv_status status = thread_start(&teller.thread, tell_main, NULL);
    if (status != DRV_OK) teller.is_there = false;
    return status;
}

drv_status stop_tell_end(void (*fn)(void *ctx), void *ctx) {
    return start_teller(fn, ctx, true);
}

drv_status stop_tell_request(void (*fn)(void *ctx), void *ctx) {
    DRV_TRY(start_teller(fn, ctx, false));
    if (stop_signal) tell_request(); // requested before the handler saw the teller
    return DRV_OK;
}

void stop_untell(void) {
    if (!atomic_exchange(&teller.is_there, false)) return;
    teller.over = true;
    sem_post(&teller.wanted);
    pthread_join(teller.thread, NULL);
}

void stop_signals(sigset_t *out) {
    sigemptyset(out);
    for (int i = 0; i < N_SIGNALS; i++)
        sigaddset(out, signals[i].number);
}

void stop_listen(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART | SA_ONSTACK}, old;
    sigset_t held; // a launcher starts ranks with them blocked, so that none comes before this
    stop_signal = save_wanted = 0;
    interrupted_ms = 0;
    sigemptyset(&action.sa_mask);
    stop_signals(&held);
    for (int i = 0; i < N_SIGNALS; i++) {
        const bool nohup = signals[i].number == SIGHUP && sigaction(SIGHUP, NULL, &old) == 0 &&
                           old.sa_handler == SIG_IGN;
        if (!nohup) sigaction(signals[i].number, &action, NULL);
    }
    pthread_sigmask(SIG_UNBLOCK, &held, NULL);
}

const char *stop_requested(void) {
    for (int i = 0; i < N_SIGNALS; i++)
        if (signals[i].number == stop_signal) return signals[i].name;
    return NULL;
}

int stop_number(void) {
    return stop_signal;
}

void stop_take_over(int number) {
    if (stop_signal || !number) return;
    stop_signal = number;
    tell_request();
}

drv_status stop_check(const char *doing) {
    const char *signal = stop_requested();
    return signal ? drv_fail(DRV_STOPPED, "%s while %s", signal, doing) : DRV_OK;
}

bool stop_take_save_request(void) {
    const bool wanted = save_wanted;
    if (wanted) save_wanted = 0;
    return wanted;
}

void stop_ends_process(bool silent) {
    ends_silently = silent;
    n_at_once++;
    if (!stop_signal) return;
    const struct timespec pause_s = {0, 10000000};
    if (teller.is_there) sem_post(&teller.wanted);
    while (teller.is_there) // the process ends meanwhile
        nanosleep(&pause_s, NULL);
    end_process(stop_signal);
}

void stop_is_saved_again(void) {
    n_at_once--;
}
