// The back ends, one for each folder. Only src/backend opens them by name; all other code calls
// backend_open, backend_open_host and backend_open_planner (backend.h).
#pragma once
#include "backend/backend.h"

// cpu: uses only `portable` of backend_opts. DROVER_CPU=ref|plain|avx2|avx512|avx512_bf16 forces a
// level of kernels, DROVER_GEMM=fp32|bf16|amx|amx_emulated the instructions that multiply bf16
// (backend/cpu/gemm.h).
DRV_CHECKED drv_status backend_open_cpu(arena *a, const backend_opts *opts, backend **out);
extern const backend_vtable backend_cpu;
// pjrt: any accelerator that has a PJRT plugin.
DRV_CHECKED drv_status backend_open_pjrt(arena *a, const backend_opts *opts, backend **out);
extern const backend_vtable backend_pjrt;
// null: plans for another back end.
backend *backend_open_null(arena *a, const backend_vtable *planned_for);
