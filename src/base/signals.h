// Resets the signals that a program inherits at its start: its parent may ignore SIGCHLD (as Ray's
// raylet does for all its children), so that waiting for children would fail, or block signals.
#pragma once
#include <stdbool.h>

// Called once, before threads are made. Ignored signals get their default action again, except
// those that a shell ignores for a program in the background (SIGINT, SIGQUIT, SIGTSTP, SIGTTIN,
// SIGTTOU) or under nohup (SIGHUP). SIGPIPE and SIGXFSZ are ignored, so that writes fail instead.
// All signals are unblocked, except, if `held`, those that ask for a stop or a checkpoint: a
// launcher has blocked them, and they stay pending until stop_listen.
void signals_begin(bool held);

// Gives the calling thread a separate stack for handlers that are installed with SA_ONSTACK. Called
// once, by the main thread. Generated code, such as that of a library that a PJRT plugin brings,
// can keep values below the stack pointer, beyond the red zone of 128 bytes that the kernel
// preserves (System V ABI, AMD64, 3.2.2): with oneDNN 2.6, handlers on the same stack corrupted
// memory about once in a thousand signals. Other threads block signals or do not run such code.
void signal_stack_give(void);
