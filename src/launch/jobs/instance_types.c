// The table of instance types. Sources: AWS's instance pages (devices, vCPUs, memory, EFA
// interfaces and each rank's part of their bandwidth). What a pod can request is what the examples
// of awslabs/ai-on-eks (trn1: 120 CPUs, 440 GiB) and aws-samples/awsome-distributed-training
// request, which leaves room for the system.
#include "launch/jobs/instance_types.h"

#include <string.h>

#define GIB        ((int64_t)1 << 30)

#define TYPE(type) .name = type, .label = "node.kubernetes.io/instance-type", .label_value = type
#define NEURON     .family = DEVICE_NEURON, .resource = "aws.amazon.com/neuron"
#define GPU        .family = DEVICE_GPU, .resource = "nvidia.com/gpu"

enum { EFA_PAGES_MIB = 5120 }; // hugepages-2Mi in AWS's EFA examples

static const instance_type types[] = {
        {TYPE("trn1.32xlarge"), NEURON, .devices = 16, .cores_per_device = 2, .device = "trn1",
                .cpus = 128, .pod_cpus = 120, .pod_memory = 440 * GIB, .efa = 8},
        {TYPE("trn1n.32xlarge"), NEURON, .devices = 16, .cores_per_device = 2,
                .device = "trn1,links.between_gb_s=6.25", .cpus = 128, .pod_cpus = 120,
                .pod_memory = 440 * GIB, .efa = 16},
        // Two physical cores make a logical one, which is what the runtime gives by default.
        {TYPE("trn2.48xlarge"), NEURON, .devices = 16, .cores_per_device = 4,
                .device = "trn2,memory=24GiB,peak.bf16_tflops=166.75,peak.fp8_tflops=324.75,"
                          "memory_gb_s=725,links.inside_gb_s=128,links.between_gb_s=6.25,"
                          "links.ranks_per_host=64",
                .cpus = 192, .pod_cpus = 180, .pod_memory = 1900 * GIB, .efa = 16},
        {TYPE("p4d.24xlarge"), GPU, .devices = 8, .cores_per_device = 1,
                .device = "a100,memory=40GB,memory_gb_s=1555,links.between_gb_s=6.25", .cpus = 96,
                .pod_cpus = 90, .pod_memory = 1050 * GIB, .efa = 4,
                .huge_pages = (int64_t)EFA_PAGES_MIB << 20},
        {TYPE("p4de.24xlarge"), GPU, .devices = 8, .cores_per_device = 1,
                .device = "a100,links.between_gb_s=6.25", .cpus = 96, .pod_cpus = 90,
                .pod_memory = 1050 * GIB, .efa = 4, .huge_pages = (int64_t)EFA_PAGES_MIB << 20},
        {TYPE("p5.48xlarge"), GPU, .devices = 8, .cores_per_device = 1, .device = "h100",
                .cpus = 192, .pod_cpus = 180, .pod_memory = 1900 * GIB, .efa = 32,
                .huge_pages = (int64_t)EFA_PAGES_MIB << 20},
        {TYPE("p5e.48xlarge"), GPU, .devices = 8, .cores_per_device = 1, .device = "h200",
                .cpus = 192, .pod_cpus = 180, .pod_memory = 1900 * GIB, .efa = 32,
                .huge_pages = (int64_t)EFA_PAGES_MIB << 20},
        {TYPE("p5en.48xlarge"), GPU, .devices = 8, .cores_per_device = 1, .device = "h200",
                .cpus = 192, .pod_cpus = 180, .pod_memory = 1900 * GIB, .efa = 16,
                .huge_pages = (int64_t)EFA_PAGES_MIB << 20},
        {TYPE("p6-b200.48xlarge"), GPU, .devices = 8, .cores_per_device = 1, .device = "b200",
                .cpus = 192, .pod_cpus = 180, .pod_memory = 1900 * GIB, .efa = 8,
                .huge_pages = (int64_t)EFA_PAGES_MIB << 20},
        // A machine without devices, of a size between AWS's c7i.4xlarge and m7i.4xlarge.
        {.name = "cpu", .cpus = 16, .pod_cpus = 15, .pod_memory = 56 * GIB},
};
enum { N_TYPES = sizeof types / sizeof *types };

const instance_type *instance_find(const char *name) {
    for (int i = 0; i < N_TYPES; i++)
        if (strcmp(types[i].name, name) == 0) return &types[i];
    return NULL;
}

const char *instance_names(arena *a) {
    const char *list = "";
    for (int i = 0; i < N_TYPES; i++)
        list = arena_printf(a, "%s%s%s", list,
                i == 0             ? ""
                : i == N_TYPES - 1 ? " or "
                                   : ", ",
                types[i].name);
    return list;
}

int instance_ranks(const instance_type *t) {
    return t->family == DEVICE_NONE ? 1 : t->devices * t->cores_per_device;
}
