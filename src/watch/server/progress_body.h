// Writes the status of a TrainJob's trainer in the form that Kubeflow Trainer accepts.
#pragma once
#include "watch/views/watched_run.h"

enum { PROGRESS_METRICS = 16 }; // at most

// Appends {"trainerStatus": {"progressPercentage": .., "estimatedRemainingSeconds": .., "metrics":
// [{"name": .., "value": ".."}], "lastUpdatedTime": ".."}}; `time`: now, seconds since 1970.
void progress_body(const watched_run *run, double time, str *out);
