// Prints what devices and doctor say of PJRT plugins.
#pragma once
#include "backend/devices.h"
#include "base/json.h"

// [{name, path, lacks, pjrt, stablehlo, platform, kind, devices, memory_bytes}, ...]: null for what
// is not known. The caller's.
json_t *plugin_reports_json(const plugin_report *reports, int n);
// "PJRT 0.115, StableHLO 1.20.0: 1 x NVIDIA H200 (cuda), 139.80 GiB", or what it lacks. Lives in `a`.
const char *plugin_report_text(arena *a, const plugin_report *report);
