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
