// Describes the machines of a cluster by their instance type: devices, cores, memory, network, and
// their names in Kubernetes. The table has common types; others are read from a YAML file.
#pragma once
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

typedef enum device_family { DEVICE_NONE, DEVICE_NEURON, DEVICE_GPU } device_family;

typedef struct instance_type {
    const char *name; // without SageMaker HyperPod's prefix "ml."
    device_family family;
    int devices;           // of the machine
    int cores_per_device;  // ranks per device: the cores of a Neuron device; 1 on a GPU
    const char *device;    // profile of a rank's device, as in drover plan --device; NULL: none
    int64_t device_memory; // of a rank on its device, if no profile says it
    int cpus;              // of the machine, as Slurm counts them
    int pod_cpus;          // that a pod can have besides those of the system
    int64_t pod_memory;    // that a pod can have
    int efa;               // interfaces of the Elastic Fabric Adapter
    int64_t huge_pages;    // of pages of 2 MiB that EFA needs; 0: none
    const char *resource;  // of a device in Kubernetes, such as nvidia.com/gpu; NULL: no device
    const char *label, *label_value; // selects its nodes; label NULL: there is none
} instance_type;

// Finds a type in the table; NULL: there is none of that name.
const instance_type *instance_find(const char *name);
// Returns the names of the table: "cpu, p4d.24xlarge, ...". Lives in `a`.
const char *instance_names(arena *a);
// Returns the default number of ranks on a machine: one for each core of its devices, or one.
int instance_ranks(const instance_type *t);

// Reads a type from YAML, whose keys are the fields above (docs/launch-jobs.md). Only cpus and
// memory are required. DRV_E_USAGE names file, line, key, value and what was expected.
DRV_CHECKED drv_status instance_read(arena *a, const char *file, const char *text, size_t n,
        instance_type *out);
