// Requests by signals: save and stop, or save and continue (docs/adr/0006).
#pragma once
#include <signal.h>
#include <stdbool.h>

#include "base/status.h"

// The handlers run on the stack of base/signals.h. From now on SIGINT, SIGTERM, SIGHUP (unless
// it was ignored, as nohup does) and SIGUSR1 ask for a stop, SIGUSR2 for a checkpoint. A second
// SIGINT ends the process at once. Forgets old requests.
void stop_listen(void);
// The signals that stop_listen handles.
void stop_signals(sigset_t *out);
// Name of the signal that asked for a stop, such as "SIGTERM"; NULL: none did. Any thread.
const char *stop_requested(void);
// Returns the signal's number, for other ranks; 0: none.
int stop_number(void);
// Takes over a stop that another rank got, as if the signal had come here. Any thread.
void stop_take_over(int number);
// DRV_STOPPED, with a message such as "SIGTERM while weights were loaded": a stop was asked for.
// `doing` is what the caller was about to go on with.
DRV_CHECKED drv_status stop_check(const char *doing);
// True once for each SIGUSR2 (those in quick succession count as one).
bool stop_take_save_request(void);
// Between these two calls a stop, also one requested before, ends the process at once with exit
// status 3: there is nothing to save yet, and a compiler cannot be interrupted. Any thread; calls
// may overlap. `silent`: another process prints the message.
void stop_ends_process(bool silent);
// Between the two, fn(ctx) is called before such an end, on a thread of its own, where all
// functions may be called, as they may not in a signal handler. A second signal does not wait for
// it. DRV_E_DEVICE: no thread could be started.
DRV_CHECKED drv_status stop_tell_end(void (*fn)(void *ctx), void *ctx);
void stop_untell_end(void); // allowed without a preceding stop_tell_end
void stop_is_saved_again(void);
