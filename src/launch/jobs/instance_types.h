// Describes the machines of a cluster by the name of their type: devices, cores, memory, network,
// and how Kubernetes names them. The table holds what people train on; others come from a YAML
// file.
#pragma once
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

typedef enum device_family { DEVICE_NONE, DEVICE_NEURON, DEVICE_GPU } device_family;

typedef struct instance_type {
    const char *name; // without the "ml." that SageMaker HyperPod puts before it
    device_family family;
    int devices;          // of the machine
    int cores_per_device; // ranks that one device serves: the cores of a Neuron device; of a GPU 1
    const char *device; // profile of a rank's device, as drover plan --device takes it; NULL: none
    int64_t device_memory; // bytes that a rank has on its device, where no profile says it
    int cpus;              // of the machine, as Slurm counts them
    int pod_cpus;          // that a pod can have beside those of the system
    int64_t pod_memory;    // bytes, likewise
    int efa;               // interfaces of the Elastic Fabric Adapter
    int64_t huge_pages;    // bytes in pages of 2 MiB that EFA wants; 0: none
    const char *resource;  // of a device in Kubernetes, as nvidia.com/gpu; NULL: no device
    const char *label, *label_value; // selects its nodes; label NULL: none does
} instance_type;

// Finds a type in the table; NULL: none has that name.
const instance_type *instance_find(const char *name);
// Returns the names of the table: "cpu, p4d.24xlarge, ...". Lives in `a`.
const char *instance_names(arena *a);
// Returns the ranks of a machine unless another number is asked for: one for each core of its
// devices, or one.
int instance_ranks(const instance_type *t);

// Reads a type from YAML: keys as the fields above (docs/launch-jobs.md). Only cpus and memory must
// be there. DRV_E_USAGE names file, line, key, value and what was expected.
DRV_CHECKED drv_status instance_read(arena *a, const char *file, const char *text, size_t n,
        instance_type *out);
