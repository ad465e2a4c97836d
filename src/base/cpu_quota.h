// Reads the processor quota of this process's control groups (containers: docker run --cpus=2).
#pragma once

// Returns the smallest quota of our group and its parents, in cores; 0: no quota. `root`: as in
// cgroup.h.
double cpu_quota_read(const char *root);
