// Reads an instance type from a YAML file.
#include <math.h>

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

static drv_status take_name(arena *a, const value *v, bool is_key, const char **out) {
    if (v->kind != VALUE_TEXT || !(is_key ? name_is_label_key(v->text) : name_is_label(v->text)))
        return refuse(a, v,
                is_key ? "a name as nvidia.com/gpu or node-type"
                       : "a label of at most 63 letters, digits, -, _ and .");
    *out = v->text;
    return DRV_OK;
}

static drv_status take_family(arena *a, const value *v, device_family *out) {
    static const char *const names[] = {"none", "neuron", "gpu"};
    const int index = v->kind == VALUE_TEXT ? str_index(v->text, names, 3) : -1;
    if (index < 0) return refuse(a, v, "none, neuron or gpu");
    *out = (device_family)index;
    return DRV_OK;
}

static drv_status take_device(arena *a, const value *v, const char **out) {
    if (v->kind != VALUE_TEXT || !*v->text)
        return refuse(a, v, "the profile of a device, as h100 or the path of a file");
    *out = v->text;
    return DRV_OK;
}

static drv_status take_key(arena *a, const value *given, instance_type *out) {
    static const char *const keys[] = {"name", "family", "devices", "cores_per_device",
            "device_memory_gib", "cpus", "memory_gib", "efa", "huge_pages_gib", "resource", "label",
            "label_value", "device"};
    const int n = sizeof keys / sizeof *keys;
    switch (str_index(given->name, keys, n)) {
    case 0:
        return take_name(a, given, false, &out->name);
    case 1:
        return take_family(a, given, &out->family);
    case 2:
        return take_int(a, given, 1, MOST_DEVICES, &out->devices);
    case 3:
        return take_int(a, given, 1, MOST_DEVICES, &out->cores_per_device);
    case 4:
        return take_gib(a, given, &out->device_memory);
    case 5:
        return take_int(a, given, 1, MOST_CPUS, &out->cpus);
    case 6:
        return take_gib(a, given, &out->pod_memory);
    case 7:
        return take_int(a, given, 0, MOST_DEVICES, &out->efa);
    case 8:
        return take_gib(a, given, &out->huge_pages);
    case 9:
        return take_name(a, given, true, &out->resource);
    case 10:
        return take_name(a, given, true, &out->label);
    case 11:
        return take_name(a, given, false, &out->label_value);
    case 12:
        return take_device(a, given, &out->device);
    }
    const char *near = str_nearest(given->name, keys, n);
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
