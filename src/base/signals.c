// Dispositions and the mask.
#include "base/signals.h"

#include <signal.h>
#include <stddef.h>

#include "base/stop.h"

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
