// YAML -> a flat list of scalars with their paths and lines. libyaml does the parsing; see
// docs/adr/0001-libyaml.md for why not libcyaml.
#pragma once
#include "base/arena.h"
#include "base/status.h"

typedef struct yaml_entry {
    const char *path; // "optimizer.betas[0]", "data.train[1].prefix"
    const char *value;
    const char *where; // "run.yaml:12" or "--set"
} yaml_entry;

typedef struct yaml_list {
    yaml_entry *entries;
    int n, cap;
} yaml_list;

// The list's strings live in `a`; free(list->entries) when done.
DRV_CHECKED drv_status yaml_flatten(arena *a, const char *file, const char *text, size_t n,
        yaml_list *out);
// One "path=value"; the value may be YAML flow ([0.9, 0.95]).
DRV_CHECKED drv_status yaml_flatten_set(arena *a, const char *set, yaml_list *out);
