// Requests by signals: save and stop, or save and continue (docs/adr/0006).
#pragma once
#include <signal.h>
#include <stdbool.h>

#include "base/status.h"

// From now on SIGINT, SIGTERM, SIGHUP (unless it was ignored, as under nohup) and SIGUSR1 ask for a
// stop, SIGUSR2 for a checkpoint. A second SIGINT ends the process at once. Forgets old requests.
// The handlers run on the stack of base/signals.h.
void stop_listen(void);
// The signals that stop_listen handles.
void stop_signals(sigset_t *out);
// Returns the name of the signal that asked for a stop, such as "SIGTERM"; NULL: none did. Any
// thread.
const char *stop_requested(void);
// Returns the signal's number, for other ranks; 0: none.
int stop_number(void);
// Records a stop that another rank was asked for, as if the signal had come here. Any thread.
void stop_take_over(int number);
// Returns DRV_STOPPED if a stop was asked for, with a message such as "SIGTERM while weights were
// loaded"; `doing` is its end.
DRV_CHECKED drv_status stop_check(const char *doing);
// Returns true once for each SIGUSR2; those that come before the call count as one.
bool stop_take_save_request(void);
// From stop_ends_process until stop_is_saved_again a stop, also one requested before, ends the
// process at once with exit status 3: there is nothing to save yet, and a compiler cannot be
// interrupted. Any thread; calls may overlap. `silent`: another process prints the message.
void stop_ends_process(bool silent);
void stop_is_saved_again(void);
// From stop_tell_end until stop_untell, fn(ctx) is called before such an end, on a thread of
// its own, since a signal handler may call few functions. A second signal does not wait for it.
// DRV_E_DEVICE: no thread could be started.
DRV_CHECKED drv_status stop_tell_end(void (*fn)(void *ctx), void *ctx);
// From stop_tell_request until stop_untell, fn(ctx) is called in the same way, once, as soon as a
// stop is requested. Such a call has ended when stop_untell returns. Only one of the two at a time.
DRV_CHECKED drv_status stop_tell_request(void (*fn)(void *ctx), void *ctx);
void stop_untell(void); // allowed without a preceding call of either
