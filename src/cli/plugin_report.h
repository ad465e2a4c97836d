// Describes PJRT plugins for devices and doctor.
#pragma once
#include "backend/devices.h"
#include "base/json.h"

// Returns [{name, path, lacks, pjrt, stablehlo, platform, kind, devices, memory_bytes}, ...], with
// null for unknown values. The caller owns it.
json_t *plugin_reports_json(const plugin_report *reports, int n);
// Returns "PJRT 0.115, StableHLO 1.20.0: 1 x NVIDIA H200 (cuda), 139.80 GiB", or what the plugin
// lacks. Lives in `a`.
const char *plugin_report_text(arena *a, const plugin_report *report);
