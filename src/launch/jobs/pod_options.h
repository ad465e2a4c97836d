// Options that adapt a job's pods to a cluster. Each pod gets them in addition to what its kind
// needs.
#pragma once
#include <stdbool.h>

#include "base/arena.h"
#include "base/status.h"
#include "launch/jobs/yaml_writer.h"

typedef enum pod_option {
    POD_ENV,             // NAME=VALUE, for drover
    POD_SECRET_ENV,      // NAME=SECRET:KEY, likewise
    POD_LABEL,           // KEY=VALUE, of all objects
    POD_ANNOTATION,      // KEY=VALUE
    POD_TOLERATION,      // KEY[=VALUE][:EFFECT]
    POD_NODE_SELECTOR,   // KEY=VALUE
    POD_PULL_SECRET,     // NAME
    POD_PRIORITY_CLASS,  // NAME, one
    POD_SERVICE_ACCOUNT, // NAME, one
    N_POD_OPTIONS
} pod_option;
extern const char *const pod_option_names[N_POD_OPTIONS]; // "--env"

typedef struct pod_item {
    const char *name, *value,
            *more; // value: after "="; more: after ":" of a secret or a toleration
} pod_item;

typedef struct pod_options {
    pod_item *items[N_POD_OPTIONS];
    int n[N_POD_OPTIONS];
} pod_options;

// Takes n values of an option. DRV_E_USAGE names the option, the value and what was expected.
DRV_CHECKED drv_status pod_options_take(arena *a, pod_options *self, pod_option option,
        const char *const *values, int n);
// Returns whether the option is given with this name.
bool pod_options_have(const pod_options *self, pod_option option, const char *name);
// Returns whether --env or --secret-env set a variable.
bool pod_options_set_variable(const pod_options *self, const char *name);
// Writes the pairs of an option into the open map.
void pod_options_pairs(yaml_writer *w, const pod_options *self, pod_option option);
// Writes the items of a pod's list of tolerations.
void pod_options_tolerations(yaml_writer *w, const pod_options *self);
// Writes the keys of a pod's spec that hold names: service account, priority class, pull secrets.
void pod_options_names(yaml_writer *w, const pod_options *self);
// Writes the items of a container's list of variables.
void pod_options_variables(yaml_writer *w, arena *a, const pod_options *self);
