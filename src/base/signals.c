// Dispositions, the mask, and the stack of handlers.
#include "base/signals.h"

#include <signal.h>
#include <stddef.h>

#include "base/status.h"
#include "base/stop.h"

// The state of a processor with AMX takes 11 kB of a handler's frame.
enum { STACK_BYTES = 1 << 16 };

static const int kept[] = {SIGHUP, SIGINT, SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU};

static bool is_kept(int number) {
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (kept[i] == number) return true;
    return false;
}

void signals_begin(bool held) {
    struct sigaction was;
    sigset_t stops, blocked;
    for (int number = 1; number <= SIGRTMAX; number++)
        if (sigaction(number, NULL, &was) == 0 && was.sa_handler == SIG_IGN && !is_kept(number))
            signal(number, SIG_DFL);
    signal(SIGPIPE, SIG_IGN); // lost messages stop nothing; lost results do (cli/stdout.c)
    signal(SIGXFSZ, SIG_IGN); // a file size limit is an error of write, not the end
    stop_signals(&stops);
    sigprocmask(SIG_SETMASK, NULL, &blocked);
    for (int number = 1; number <= SIGRTMAX; number++)
        if (!held || sigismember(&stops, number) != 1) sigdelset(&blocked, number);
    sigprocmask(SIG_SETMASK, &blocked, NULL);
}

void signal_stack_give(void) {
    static _Alignas(64) char bytes[STACK_BYTES];
    const stack_t own = {.ss_sp = bytes, .ss_size = sizeof bytes};
    DRV_ASSERT(sigaltstack(&own, NULL) == 0, "%zu bytes are refused", sizeof bytes);
}
