// Reads an instance type from a YAML file.
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/str.h"
#include "config/value.h"
#include "launch/jobs/instance_types.h"
#include "launch/jobs/job_names.h"

enum { MOST_DEVICES = 1024, MOST_CPUS = 1 << 16, MOST_GIB = 1 << 20 };

static drv_status refuse(arena *a, const value *v, const char *expected) {
    return drv_fail(DRV_E_USAGE, "%s: key \"%s\" is %s, expected %s", v->where, v->path,
            value_shown(a, v), expected);
}

static drv_status take_int(arena *a, const value *v, int min, int max, int *out) {
    int64_t number;
    if (v->kind != VALUE_TEXT || !str_to_i64(v->text, &number) || number < min || number > max)
        return refuse(a, v, arena_printf(a, "a whole number from %d to %d", min, max));
    *out = (int)number;
    return DRV_OK;
}

static drv_status take_gib(arena *a, const value *v, int64_t *out) {
    double gib;
    if (v->kind != VALUE_TEXT || !str_to_f64(v->text, &gib) || !(gib > 0) || gib > MOST_GIB)
        return refuse(a, v, arena_printf(a, "GiB above 0 and up to %d", MOST_GIB));
    *out = (int64_t)floor(gib * 1024) << 20; // whole MiB, which Kubernetes prints well
    if (*out == 0) return refuse(a, v, "at least one MiB");
    return DRV_OK;
}

static drv_status take_family(arena *a, const value *v, device_family *out) {
    static const char *const names[] = {"none", "neuron", "gpu"};
    const int index = v->kind == VALUE_TEXT ? str_index(v->text, names, 3) : -1;
    if (index < 0) return refuse(a, v, "none, neuron or gpu");
    *out = (device_family)index;
    return DRV_OK;
}

// --- keys
typedef enum key_type { FAMILY, INT, GIB, LABEL, LABEL_KEY, DEVICE } key_type;
typedef struct key {
    const char *name;
    key_type type;
    size_t offset; // in instance_type
    int min, max;  // of INT
} key;
#define MEMBER(name) offsetof(instance_type, name)
static const key keys[] = {{"name", LABEL, MEMBER(name), 0, 0},
        {"family", FAMILY, MEMBER(family), 0, 0},
        {"devices", INT, MEMBER(devices), 1, MOST_DEVICES},
        {"cores_per_device", INT, MEMBER(cores_per_device), 1, MOST_DEVICES},
        {"device_memory_gib", GIB, MEMBER(device_memory), 0, 0},
        {"cpus", INT, MEMBER(cpus), 1, MOST_CPUS}, {"memory_gib", GIB, MEMBER(pod_memory), 0, 0},
        {"efa", INT, MEMBER(efa), 0, MOST_DEVICES},
        {"huge_pages_gib", GIB, MEMBER(huge_pages), 0, 0},
        {"resource", LABEL_KEY, MEMBER(resource), 0, 0}, {"label", LABEL_KEY, MEMBER(label), 0, 0},
        {"label_value", LABEL, MEMBER(label_value), 0, 0},
        {"device", DEVICE, MEMBER(device), 0, 0}};
enum { N_KEYS = sizeof keys / sizeof *keys };

static drv_status take_text(arena *a, const value *v, key_type type, const char **out) {
    const char *text = v->kind == VALUE_TEXT ? v->text : "";
    *out = text;
    if (type == LABEL && !name_is_label(text))
        return refuse(a, v, "a label of at most 63 letters, digits, -, _ and .");
    if (type == LABEL_KEY && !name_is_label_key(text))
        return refuse(a, v, "a name as nvidia.com/gpu or node-type");
    if (type == DEVICE && !*text)
        return refuse(a, v, "the profile of a device, as h100 or the path of a file");
    return DRV_OK;
}

static drv_status take_key(arena *a, const value *given, instance_type *out) {
    const char *names[N_KEYS];
    for (int i = 0; i < N_KEYS; i++) {
        void *to = (char *)out + keys[i].offset;
        names[i] = keys[i].name;
        if (strcmp(given->name, keys[i].name) != 0) continue;
        if (keys[i].type == FAMILY) return take_family(a, given, to);
        if (keys[i].type == INT) return take_int(a, given, keys[i].min, keys[i].max, to);
        if (keys[i].type == GIB) return take_gib(a, given, to);
        return take_text(a, given, keys[i].type, to);
    }
    const char *near = str_nearest(given->name, names, N_KEYS);
    return drv_fail(DRV_E_USAGE, "%s: unknown key \"%s\"%s%s%s", given->where, given->path,
            near ? ", did you mean \"" : "", near ? near : "", near ? "\"" : "");
}

static drv_status check(const char *file, instance_type *t) {
    if (!t->cpus || !t->pod_memory)
        return drv_fail(DRV_E_USAGE, "%s: key \"%s\" is missing", file,
                t->cpus ? "memory_gib" : "cpus");
    if ((t->family == DEVICE_NONE) != (t->devices == 0))
        return drv_fail(DRV_E_USAGE, "%s: expected both family and devices, or neither", file);
    if (t->family != DEVICE_NONE && !t->device_memory == !t->device)
        return drv_fail(DRV_E_USAGE,
                "%s: expected one of the keys \"device_memory_gib\", the memory of a rank, and \"device\", its profile",
                file);
    if (t->family == DEVICE_NONE &&
            (t->resource || t->cores_per_device || t->device_memory || t->device))
        return drv_fail(DRV_E_USAGE,
                "%s: expected no resource, cores_per_device, device_memory_gib and device without family and devices",
                file);
    if (!t->label != !t->label_value)
        return drv_fail(DRV_E_USAGE, "%s: expected both label and label_value, or neither", file);
    if (t->huge_pages % (2 << 20))
        return drv_fail(DRV_E_USAGE, "%s: expected huge_pages_gib in whole pages of 2 MiB", file);
    return DRV_OK;
}

drv_status instance_read(arena *a, const char *file, const char *text, size_t n,
        instance_type *out) {
    value root;
    instance_type t = {.name = "instance"};
    DRV_TRY(yaml_read(a, file, text, n, &root));
    for (int i = 0; i < root.n; i++)
        DRV_TRY(take_key(a, &root.items[i], &t));
    DRV_TRY(check(file, &t));
    t.pod_cpus = t.cpus;
    if (t.family != DEVICE_NONE && !t.cores_per_device) t.cores_per_device = 1;
    if (t.family != DEVICE_NONE && !t.resource)
        t.resource = t.family == DEVICE_GPU ? "nvidia.com/gpu" : "aws.amazon.com/neuron";
    *out = t;
    return DRV_OK;
}
