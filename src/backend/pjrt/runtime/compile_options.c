// Writes the message: numbers are varints, and everything else has a length before it.
#include "backend/pjrt/runtime/compile_options.h"

#include <string.h>

// Tags: field number * 8 + wire type (0: varint, 2: bytes).
enum {
    TAG_BUILD_OPTIONS = 3 << 3 | 2, // of CompileOptionsProto
    TAG_ENV_OVERRIDES = 7 << 3 | 2, // map of text -> OptionOverrideProto
    TAG_NUM_REPLICAS = 4 << 3,      // of ExecutableBuildOptionsProto
    TAG_NUM_PARTITIONS = 5 << 3,
    TAG_ASSIGNMENT = 9 << 3 | 2,
    TAG_REPLICA_COUNT = 1 << 3, // of DeviceAssignmentProto
    TAG_COMPUTATION_COUNT = 2 << 3,
    TAG_COMPUTATION = 3 << 3 | 2,
    TAG_DEVICE_IDS = 1 << 3 | 2, // of its ComputationDevice, packed
    TAG_KEY = 1 << 3 | 2,        // of a map's entry
    TAG_VALUE = 2 << 3 | 2,
    TAG_STRING_FIELD = 1 << 3 | 2 // of OptionOverrideProto: the compiler parses it for any type
};

static void put_varint(str *out, uint64_t v) {
    do {
        const unsigned char byte = (unsigned char)((v & 127) | (v > 127 ? 128 : 0));
        str_add(out, &byte, 1);
        v >>= 7;
    } while (v);
}

static void put_number(str *out, int tag, uint64_t v) {
    put_varint(out, (uint64_t)tag);
    put_varint(out, v);
}

static void put_bytes(str *out, int tag, const void *p, size_t n) {
    put_varint(out, (uint64_t)tag);
    put_varint(out, n);
    if (n) str_add(out, p, n);
}

// Appends the bytes of `inner`, and frees it.
static void put_message(str *out, int tag, str *inner) {
    put_bytes(out, tag, inner->p, inner->n);
    str_free(inner);
}

static void put_assignment(str *out, const compile_options *options) {
    str ids = {0}, computation = {0}, assignment = {0};
    for (int i = 0; i < options->n_replicas; i++)
        put_varint(&ids, (uint64_t)(options->devices ? options->devices[i] : i));
    put_message(&computation, TAG_DEVICE_IDS, &ids);
    put_number(&assignment, TAG_REPLICA_COUNT, (uint64_t)options->n_replicas);
    put_number(&assignment, TAG_COMPUTATION_COUNT, 1);
    put_message(&assignment, TAG_COMPUTATION, &computation);
    put_message(out, TAG_ASSIGNMENT, &assignment);
}

static void put_flag(str *out, const char *flag) {
    const char *equals = strchr(flag, '=');
    str override = {0}, entry = {0};
    put_bytes(&override, TAG_STRING_FIELD, equals + 1, strlen(equals + 1));
    put_bytes(&entry, TAG_KEY, flag, (size_t)(equals - flag));
    put_message(&entry, TAG_VALUE, &override);
    put_message(out, TAG_ENV_OVERRIDES, &entry);
}

drv_status compile_options_encode(const compile_options *options, str *out) {
    str build = {0};
    DRV_ASSERT(options->n_replicas >= 1, "%d replicas", options->n_replicas);
    for (int i = 0; i < options->n_flags; i++)
        if (!strchr(options->flags[i], '=') || options->flags[i][0] == '=')
            return drv_fail(DRV_E_USAGE, "compiler flag \"%s\", expected NAME=VALUE",
                    options->flags[i]);
    put_number(&build, TAG_NUM_REPLICAS, (uint64_t)options->n_replicas);
    put_number(&build, TAG_NUM_PARTITIONS, 1);
    put_assignment(&build, options);
    put_message(out, TAG_BUILD_OPTIONS, &build);
    for (int i = 0; i < options->n_flags; i++)
        put_flag(out, options->flags[i]);
    return DRV_OK;
}
