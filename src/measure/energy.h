// The energy that this host has used, as far as the machine tells: of its processor packages and
// their memory by RAPL (/sys/class/powercap, which usually root alone may read), of its NVIDIA
// devices by NVML, opened at run time. It is that of the whole host, other programs included.
// Nothing is estimated: what cannot be read is said, with the reason.
#pragma once
#include "base/arena.h"
#include "base/status.h"

typedef struct energy_opts {
    const char *powercap; // folder; NULL: /sys/class/powercap
    const char *nvml;     // library; NULL: libnvidia-ml.so.1
} energy_opts;

typedef struct energy energy; // any thread may read

// Starts to count. A thread reads the counters every 10 s as well, since those of RAPL wrap, some
// within minutes. `opts` may be NULL. DRV_E_DEVICE: no thread can be started.
DRV_CHECKED drv_status energy_open(arena *a, const energy_opts *opts, energy **out);
// Joules since energy_open; NaN: not readable, or not any more.
double energy_read(energy *self);
// "RAPL (package-0, dram), NVML (2 devices)", "NVML (1 device); RAPL not readable: ...", or
// "not readable: ..."; lives as long as `self`. As it was at energy_open.
const char *energy_source(const energy *self);
void energy_close(energy *self); // NULL is allowed
