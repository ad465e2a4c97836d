// Signals as a program needs them when it starts, whatever it has inherited: who starts it may have
// SIGCHLD ignored (Ray's raylet has, and all that it starts), so that no child is ever seen to end,
// or a stop blocked.
#pragma once
#include <stdbool.h>

// Called once, before threads are made. All signals have their default again, but for those by
// which a shell keeps a program from its terminal (SIGHUP of nohup; SIGINT, SIGQUIT and those of
// stops of a job in the background), which stay ignored where they are; SIGPIPE and SIGXFSZ are
// ignored, and writes fail. Nothing is blocked. `held`: a launcher has blocked those that ask for a
// stop or a checkpoint, and they wait for stop_listen.
void signals_begin(bool held);
