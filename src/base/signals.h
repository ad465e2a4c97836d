// Resets the signals that a program inherits at its start: its parent may ignore SIGCHLD (as Ray's
// raylet does for all its children), so that waiting for children would fail, or block signals.
#pragma once
#include <stdbool.h>

// Called once, before threads are made. All signals have their default again, but for those by
// which a shell keeps a program from its terminal (SIGHUP of nohup; SIGINT, SIGQUIT and those of
// stops of a job in the background), which stay ignored where they are; SIGPIPE and SIGXFSZ are
// ignored, and writes fail. Nothing is blocked. `held`: a launcher has blocked those that ask for a
// stop or a checkpoint, and they wait for stop_listen.
void signals_begin(bool held);

// Gives the calling thread a separate stack for handlers that are installed with SA_ONSTACK. Other
// threads block signals or do not call such libraries. Called once, by the main thread. A library
// with generated code, as a PJRT plugin may bring one, can keep values below the stack pointer,
// beyond the red zone of 128 bytes that the kernel preserves (System V ABI, AMD64, 3.2.2): with
// oneDNN 2.6 handlers on the same stack corrupted memory about once in a thousand signals.
void signal_stack_give(void);
