// The control groups of Linux that this process is in: version 1 has a tree per controller, version
// 2 one for all.
#pragma once
#include "base/arena.h"

typedef struct cgroup_tree {
    const char *controller; // in /proc/self/cgroup: "memory", "cpu"; "" is version 2
    const char *mount;      // where its folders are: "/sys/fs/cgroup/memory"
} cgroup_tree;

// Calls fn for our group in a tree and for each of its parents, whose limits apply as well; does
// nothing if this process is not in such a tree. `root` is a prefix of all paths: "", or a folder
// in tests.
void cgroup_each(arena *a, const char *root, const cgroup_tree *tree,
        void (*fn)(void *ctx, arena *a, const char *folder), void *ctx);

// Returns the smallest processor quota of our group and its parents, in cores (containers: docker
// run --cpus=2); 0: no quota. `root`: as above.
double cpu_quota_read(const char *root);
