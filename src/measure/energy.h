// Measures the energy that this host uses: processor packages and their memory by RAPL
// (/sys/class/powercap, which usually only root may read), NVIDIA devices by NVML, which is loaded
// at run time. The figures are of the whole host, other programs included. Nothing is estimated: a
// counter that cannot be read is reported with the reason.
#pragma once
#include "base/arena.h"
#include "base/status.h"

typedef struct energy_opts {
    const char *powercap; // folder; NULL: /sys/class/powercap
    const char *nvml;     // library; NULL: libnvidia-ml.so.1
} energy_opts;

typedef struct energy energy; // any thread may read

// Starts to count. A thread also reads the counters every 10 s, since those of RAPL wrap around,
// some within minutes. `opts` may be NULL. DRV_E_DEVICE: no thread can be started.
DRV_CHECKED drv_status energy_open(arena *a, const energy_opts *opts, energy **out);
// Returns the joules since energy_open; NaN: they cannot be read, or no longer.
double energy_read(energy *self);
// "RAPL (package-0, dram), NVML (2 devices)", "NVML (1 device); RAPL not readable: ...", or
// "not readable: ...", as it was at energy_open; lives as long as `self`.
const char *energy_source(const energy *self);
void energy_close(energy *self); // NULL is allowed
