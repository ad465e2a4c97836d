// Profiles from YAML: a table of the fields, each with its unit in its name and its range.
#include "search/device_profile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/str.h"
#include "config/value.h"
#include "launch/jobs/instance_types.h"

// Made by CMake from search/devices.
extern const char *const device_profile_files[][2];

int device_profile_count(void) {
    int n = 0;
    while (device_profile_files[n][0])
        n++;
    return n;
}

const char *device_profile_name(int i) {
    return device_profile_files[i][0];
}

const char *device_profile_text(int i) {
    return device_profile_files[i][1];
}

// --- fields
typedef enum field_kind { FIELD_NUMBER, FIELD_BYTES, FIELD_RANKS } field_kind;
typedef struct field {
    const char *path;
    size_t offset;
    double unit, least, most; // as they are written; in `unit`s of the member
    field_kind kind;
    bool optional;
    double otherwise; // if it is optional and not given
} field;

// The shares that are not given are those of all devices together (tools/fit_devices.py).
#define AT(member) offsetof(device_profile, member)
static const field fields[] = {
        {"memory", AT(memory), 1, 1 << 20, 0x1p50, FIELD_BYTES, false, 0},
        {"peak.bf16_tflops", AT(bf16_flops), 1e12, 1e-6, 1e6, FIELD_NUMBER, false, 0},
        {"peak.fp8_tflops", AT(fp8_flops), 1e12, 0, 1e6, FIELD_NUMBER, true, 0},
        {"memory_gb_s", AT(bytes_per_s), 1e9, 1e-3, 1e6, FIELD_NUMBER, false, 0},
        {"links.inside_gb_s", AT(links.inside), 1e9, 1e-6, 1e6, FIELD_NUMBER, false, 0},
        {"links.between_gb_s", AT(links.between), 1e9, 1e-6, 1e6, FIELD_NUMBER, false, 0},
        {"links.ranks_per_host", AT(links.ranks_per_host), 1, 1, 1 << 20, FIELD_RANKS, false, 0},
        {"reached.products", AT(reached_products), 1, 0.0001, 1.5, FIELD_NUMBER, true, 0.69},
        {"reached.products_fp8", AT(reached_fp8), 1, 0.0001, 1.5, FIELD_NUMBER, true, 0.71},
        {"reached.attention", AT(reached_attention), 1, 0.0001, 1.5, FIELD_NUMBER, true, 0.43},
        {"reached.memory", AT(reached_memory), 1, 0.0001, 1.5, FIELD_NUMBER, true, 0.79},
        {"reached.inside", AT(reached_inside), 1, 0.0001, 1.5, FIELD_NUMBER, true, 0.74},
        {"reached.between", AT(reached_between), 1, 0.0001, 1.5, FIELD_NUMBER, true, 0.59},
        {"small_product", AT(small_product), 1, 0, 1e5, FIELD_NUMBER, true, 0},
        {"launch_us", AT(launch_s), 1e-6, 0, 1e6, FIELD_NUMBER, true, 0},
        {"message_us", AT(message_s), 1e-6, 0, 1e6, FIELD_NUMBER, true, 0},
        {"overlap.tensor", AT(overlap_tensor), 1, 0, 1, FIELD_NUMBER, true, 0},
        {"overlap.context", AT(overlap_context), 1, 0, 1, FIELD_NUMBER, true, 1},
        {"overlap.data", AT(overlap_data), 1, 0, 1, FIELD_NUMBER, true, 0},
};
enum { N_FIELDS = sizeof fields / sizeof *fields };

typedef struct reader {
    arena *a;
    bool seen[N_FIELDS];
    device_profile *out;
} reader;

static const char *expected(arena *a, const field *f) {
    if (f->kind == FIELD_BYTES) return "a size as 80GB or 96GiB";
    return arena_printf(a, "a %snumber from %g to %g", f->kind == FIELD_RANKS ? "whole " : "",
            f->least, f->most);
}

static drv_status set_field(reader *reading, const value *given, int i) {
    const field *f = &fields[i];
    char *member = (char *)reading->out + f->offset;
    double x = 0;
    int64_t whole = 0;
    bool ok = given->kind == VALUE_TEXT;
    if (ok && f->kind == FIELD_BYTES) ok = str_to_bytes(given->text, &x);
    if (ok && f->kind == FIELD_NUMBER) ok = str_to_f64(given->text, &x);
    if (ok && f->kind == FIELD_RANKS) {
        ok = str_to_i64(given->text, &whole);
        x = (double)whole;
    }
    if (!ok || !(x >= f->least && x <= f->most))
        return drv_fail(DRV_E_USAGE, "%s: %s is %s, expected %s", given->where, f->path,
                value_shown(reading->a, given), expected(reading->a, f));
    if (f->kind == FIELD_NUMBER)
        *(double *)member = x * f->unit;
    else
        *(int64_t *)member = (int64_t)x;
    reading->seen[i] = true;
    return DRV_OK;
}

static drv_status set_value(reader *reading, const value *given) {
    if (given->kind == VALUE_MAP) {
        for (int i = 0; i < given->n; i++)
            DRV_TRY(set_value(reading, &given->items[i]));
        return DRV_OK;
    }
    const bool is_source = strcmp(given->path, "source") == 0;
    if (is_source || strcmp(given->path, "target") == 0) {
        *(is_source ? &reading->out->source : &reading->out->target) = given->text;
        return DRV_OK;
    }
    const char *names[N_FIELDS];
    for (int i = 0; i < N_FIELDS; i++) {
        names[i] = fields[i].path;
        if (strcmp(given->path, fields[i].path) == 0) return set_field(reading, given, i);
    }
    const char *near = str_nearest(given->path, names, N_FIELDS);
    return drv_fail(DRV_E_USAGE, "%s: %s is not a field of a device profile%s%s%s", given->where,
            given->path, near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

// Sets what is optional and not given.
static void set_others(const bool *seen, device_profile *out) {
    for (int i = 0; i < N_FIELDS; i++)
        if (!seen[i] && fields[i].optional)
            *(double *)((char *)out + fields[i].offset) = fields[i].otherwise * fields[i].unit;
}

static drv_status check(const reader *r) {
    for (int i = 0; i < N_FIELDS; i++)
        if (!r->seen[i] && !fields[i].optional)
            return drv_fail(DRV_E_USAGE, "%s: %s is missing, expected %s", r->out->name,
                    fields[i].path, expected(r->a, &fields[i]));
    return DRV_OK;
}

// --- profiles
static drv_status no_profile(arena *a, const char *name) {
    str all = {0};
    for (int i = 0; i < device_profile_count(); i++)
        str_printf(&all, "%s%s", i ? ", " : "", device_profile_name(i));
    const char *names = arena_strdup(a, all.p);
    str_free(&all);
    return drv_fail(DRV_E_USAGE,
            "there is no device profile \"%s\", expected one of %s, a machine type of drover launch --instance, or the path of a file",
            name, names);
}

static drv_status read_text(reader *r, const char *text, size_t n) {
    value root;
    DRV_TRY(yaml_read(r->a, r->out->name, text, n, &root));
    return set_value(r, &root);
}

static drv_status read_fields(reader *r, const char *text);

static drv_status read_profile(reader *r, const char *name) {
    const instance_type *machine = instance_find(name);
    if (!r->out->name) r->out->name = name;
    if (machine && machine->device) return read_fields(r, machine->device);
    if (strpbrk(name, "./")) {
        char *text;
        size_t n;
        DRV_TRY(file_read(r->a, name, &text, &n));
        return read_text(r, text, n);
    }
    for (int i = 0; i < device_profile_count(); i++) {
        const char *text = device_profile_text(i);
        if (strcmp(name, device_profile_name(i)) == 0) return read_text(r, text, strlen(text));
    }
    return no_profile(r->a, name);
}

// Reads the name of a profile and the fields after it.
static drv_status read_fields(reader *r, const char *text) {
    char *rest = arena_strdup(r->a, text);
    DRV_TRY(read_profile(r, strsep(&rest, ",")));
    for (char *set; (set = strsep(&rest, ","));) {
        value v;
        char *equal = strchr(set, '=');
        if (!equal)
            return drv_fail(DRV_E_USAGE,
                    "device profile: \"%.80s\" is not FIELD=VALUE, as memory=96GB", set);
        *equal = 0;
        DRV_TRY(yaml_read_value(r->a, set, "device profile", equal + 1, &v));
        DRV_TRY(set_value(r, &v));
    }
    return DRV_OK;
}

drv_status device_profile_read(arena *a, const char *text, device_profile *out) {
    reader r = {.a = a, .out = out};
    *out = (device_profile){.name = NULL};
    DRV_TRY(read_fields(&r, text));
    set_others(r.seen, out);
    return check(&r);
}

drv_status device_profile_check_ranks(const device_profile *d, int64_t ranks) {
    const int64_t host = d->links.ranks_per_host;
    if (ranks <= host || ranks % host == 0) return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "%s: links.ranks_per_host is %lld, expected a divisor of the %lld ranks", d->name,
            (long long)host, (long long)ranks);
}

device_profile device_profile_by_hand(const char *name, double flops, int64_t memory,
        const link_speeds *links) {
    const bool seen[N_FIELDS] = {false};
    device_profile made = {.name = name,
            .source = "options",
            .memory = memory,
            .bf16_flops = flops,
            .bytes_per_s = HUGE_VAL,
            .links = *links};
    set_others(seen, &made);
    made.overlap_data = 0.8; // as in the profiles that ship with the program
    return made;
}
