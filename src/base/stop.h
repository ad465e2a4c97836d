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
// Starts a thread that calls fn(ctx) before such an end, since a signal handler may call few
// functions. A second signal does not wait for that call. DRV_E_DEVICE: no thread could be started.
DRV_CHECKED drv_status stop_tell_end(void (*fn)(void *ctx), void *ctx);
// Starts a thread that calls fn(ctx) once, as soon as a stop is requested; at once if one was
// requested before. DRV_E_DEVICE: no thread could be started.
DRV_CHECKED drv_status stop_tell_request(void (*fn)(void *ctx), void *ctx);
// Ends the thread of either function, after a call that stop_tell_request has begun. It has to be
// called before either of them is called again, and may be called without them.
void stop_untell(void);
