// Reads how much processor time control groups give this process (containers: docker run --cpus=2).
#pragma once

// Returns in cores the smallest quota of our group and those above it; 0: no quota. `root`: as in
// cgroup.h.
double cpu_quota_read(const char *root);
