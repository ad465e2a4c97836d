// SIGBUS in a guarded section becomes a status; anywhere else it stays what it is.
#include "base/bus_error.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>

static _Thread_local sigjmp_buf *guarded;

static void on_bus_error(int number) {
    if (guarded) siglongjmp(*guarded, 1);
    signal(number, SIG_DFL); // the instruction runs again and ends the process
}

static void install(void) {
    struct sigaction action = {.sa_handler = on_bus_error, .sa_flags = SA_NODEFER};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
}

drv_status bus_error_guard(drv_status (*fn)(void *ctx), void *ctx, const char *what) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    sigjmp_buf here, *const outer = guarded;
    pthread_once(&once, install);
    if (sigsetjmp(here, 1) != 0) {
        guarded = outer;
        return drv_fail(DRV_E_IO, "could not read %s: a file has become shorter while it was read",
                what);
    }
    guarded = &here;
    drv_status status = fn(ctx);
    guarded = outer;
    return status;
}
