// The main thread's stack for handlers.
#include "base/signal_stack.h"

#include <signal.h>

#include "base/status.h"

// The state of a processor with AMX takes 11 kB of a handler's frame.
enum { STACK_BYTES = 1 << 16 };

void signal_stack_give(void) {
    static _Alignas(64) char bytes[STACK_BYTES];
    const stack_t own = {.ss_sp = bytes, .ss_size = sizeof bytes};
    DRV_ASSERT(sigaltstack(&own, NULL) == 0, "%zu bytes are refused", sizeof bytes);
}
