// The part of the PJRT C interface that drover calls, version 0.114: the index of each function in
// the plugin's table, and the memory layout of its arguments. tests/pjrt_abi.sh compares all sizes
// and offsets with the header that the plugin packages ship.
//
// The rules of the interface: every struct begins with its size and a list of extensions; a plugin
// refuses a struct that is smaller than the one it was built with and ignores members beyond it, so
// structs here have the members of 0.114. Output members are marked (out).
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PJRT_ABI_MAJOR = 0, PJRT_ABI_MINOR = 114 };

// --- objects of the plugin, seen as pointers only
typedef struct pjrt_error pjrt_error;
typedef struct pjrt_event pjrt_event;
typedef struct pjrt_client pjrt_client;
typedef struct pjrt_device pjrt_device;
typedef struct pjrt_description pjrt_description; // of a device
typedef struct pjrt_memory pjrt_memory;
typedef struct pjrt_executable pjrt_executable;
typedef struct pjrt_loaded pjrt_loaded; // an executable on its devices
typedef struct pjrt_buffer pjrt_buffer;
typedef struct pjrt_topology pjrt_topology; // devices that need not be there

// --- numbers
// Types of elements; those that drover has.
typedef enum pjrt_type {
    PJRT_S32 = 4,
    PJRT_S64 = 5,
    PJRT_F32 = 11,
    PJRT_F64 = 12,
    PJRT_BF16 = 13
} pjrt_type;

typedef enum pjrt_value_type {
    PJRT_VALUE_STRING,
    PJRT_VALUE_INT64,
    PJRT_VALUE_INT64_LIST,
    PJRT_VALUE_FLOAT,
    PJRT_VALUE_BOOL
} pjrt_value_type;

typedef enum pjrt_semantics {
    PJRT_COPY_DURING_CALL, // the host memory is free when the call returns
    PJRT_COPY_UNTIL_DONE   // it has to stay until done_with_host_buffer
} pjrt_semantics;

typedef enum pjrt_code {
    PJRT_CODE_CANCELLED = 1,
    PJRT_CODE_UNKNOWN = 2,
    PJRT_CODE_INVALID_ARGUMENT = 3,
    PJRT_CODE_DEADLINE_EXCEEDED = 4,
    PJRT_CODE_NOT_FOUND = 5,
    PJRT_CODE_RESOURCE_EXHAUSTED = 8,
    PJRT_CODE_ABORTED = 10,
    PJRT_CODE_UNIMPLEMENTED = 12,
    PJRT_CODE_INTERNAL = 13,
    PJRT_CODE_UNAVAILABLE = 14,
    PJRT_CODE_DATA_LOSS = 15
} pjrt_code;

// --- structs
typedef struct pjrt_head {
    size_t size;
    void *extensions;
} pjrt_head;

typedef struct pjrt_extension { // a link of the plugin's list
    size_t size;
    int type;
    struct pjrt_extension *next;
} pjrt_extension;

typedef struct pjrt_version {
    pjrt_head head;
    int major, minor;
} pjrt_version;

enum { PJRT_MAX_SLOTS = 138 }; // of 0.114
typedef struct pjrt_api {
    size_t size;
    pjrt_extension *extensions;
    pjrt_version version;
    void *slot[PJRT_MAX_SLOTS]; // those beyond `size` do not exist
} pjrt_api;

typedef struct pjrt_named_value {
    pjrt_head head;
    const char *name;
    size_t name_size;
    pjrt_value_type type;
    union {
        const char *string;
        int64_t int64;
        const int64_t *int64_list;
        float real;
        bool boolean;
    } value;
    size_t value_size; // of strings and lists; else 1
} pjrt_named_value;

typedef struct pjrt_program {
    pjrt_head head;
    const char *code;
    size_t code_size;
    const char *format;
    size_t format_size;
} pjrt_program;

typedef struct pjrt_tiled {
    pjrt_head head;
    const int64_t *minor_to_major;
    size_t n_minor_to_major;
    const int64_t *tile_dims;
    const size_t *tile_dim_sizes;
    size_t n_tiles;
} pjrt_tiled;

typedef struct pjrt_layout { // its union holds pjrt_tiled, the larger of two
    pjrt_head head;
    pjrt_tiled tiled;
    int type; // 0: tiled
} pjrt_layout;

typedef struct pjrt_execute_options {
    pjrt_head head;
    void **send_callbacks, **recv_callbacks;
    size_t n_send, n_recv;
    int launch_id;
    const int64_t *non_donatable;
    size_t n_non_donatable;
    void *context;
    const char *call_location;
    size_t n_tasks;
    int *task_ids;
    int64_t *incarnation_ids;
    void *multi_slice;
    bool major_to_minor_callbacks;
    void *hlo_callbacks;
    size_t n_hlo_callbacks;
} pjrt_execute_options;

// --- arguments of the functions
typedef struct pjrt_object_args { // of functions of an object that give nothing
    pjrt_head head;
    void *object;
} pjrt_object_args;

typedef struct pjrt_text_args { // of those that give a text of an object
    pjrt_head head;
    const void *object;
    const char *text; // (out)
    size_t text_size; // (out)
} pjrt_text_args;

typedef struct pjrt_number_args { // of those that give a number of an object
    pjrt_head head;
    const void *object;
    int number; // (out)
} pjrt_number_args;

typedef struct pjrt_no_args {
    pjrt_head head;
} pjrt_no_args;

typedef struct pjrt_plugin_attributes_args {
    pjrt_head head;
    const pjrt_named_value *attributes; // (out)
    size_t n_attributes;                // (out)
} pjrt_plugin_attributes_args;

typedef struct pjrt_event_ready_args {
    pjrt_head head;
    pjrt_event *event;
    void (*callback)(pjrt_error *error, void *arg); // from any thread; the error is the callback's
    void *arg;
} pjrt_event_ready_args;

// Functions of ours that a plugin calls, from any of its threads, for its key-value store. They
// make an error by *error, a function of the plugin.
typedef pjrt_error *(*pjrt_make_error)(int code, const char *message, size_t message_size);
typedef struct pjrt_kv_get_args {
    pjrt_head head;
    const char *key;
    size_t key_size;
    int timeout_ms;
    pjrt_make_error *error;
    void *arg;
    char *value;                // (out)
    size_t value_size;          // (out)
    void (*free_value)(char *); // (out)
} pjrt_kv_get_args;
typedef struct pjrt_kv_try_get_args {
    pjrt_head head;
    const char *key;
    size_t key_size;
    pjrt_make_error *error;
    void *arg;
    char *value;                // (out)
    size_t value_size;          // (out)
    void (*free_value)(char *); // (out)
} pjrt_kv_try_get_args;
typedef struct pjrt_kv_put_args {
    pjrt_head head;
    const char *key;
    size_t key_size;
    const char *value;
    size_t value_size;
    pjrt_make_error *error;
    void *arg;
} pjrt_kv_put_args;

typedef struct pjrt_client_create_args {
    pjrt_head head;
    const pjrt_named_value *options;
    size_t n_options;
    pjrt_error *(*kv_get)(pjrt_kv_get_args *args);
    void *kv_get_arg;
    pjrt_error *(*kv_put)(pjrt_kv_put_args *args);
    void *kv_put_arg;
    pjrt_client *client; // (out)
    pjrt_error *(*kv_try_get)(pjrt_kv_try_get_args *args);
    void *kv_try_get_arg;
} pjrt_client_create_args;

typedef struct pjrt_client_devices_args {
    pjrt_head head;
    pjrt_client *client;
    pjrt_device *const *devices; // (out)
    size_t n_devices;            // (out)
} pjrt_client_devices_args;

typedef struct pjrt_client_compile_args {
    pjrt_head head;
    pjrt_client *client;
    const pjrt_program *program;
    const char *options;
    size_t options_size;
    pjrt_loaded *executable; // (out)
} pjrt_client_compile_args;

typedef struct pjrt_upload_args {
    pjrt_head head;
    pjrt_client *client;
    const void *data;
    pjrt_type type;
    const int64_t *dims;
    size_t n_dims;
    const int64_t *byte_strides;
    size_t n_byte_strides;
    pjrt_semantics semantics;
    pjrt_device *device;
    pjrt_memory *memory;
    pjrt_layout *device_layout;
    pjrt_event *done_with_host_buffer; // (out)
    pjrt_buffer *buffer;               // (out)
} pjrt_upload_args;

typedef struct pjrt_description_attributes_args {
    pjrt_head head;
    pjrt_description *description;
    size_t n_attributes;                // (out)
    const pjrt_named_value *attributes; // (out)
} pjrt_description_attributes_args;

typedef struct pjrt_device_description_args {
    pjrt_head head;
    pjrt_device *device;
    pjrt_description *description; // (out)
} pjrt_device_description_args;

typedef struct pjrt_memories_args {
    pjrt_head head;
    pjrt_device *device;
    pjrt_memory *const *memories; // (out)
    size_t n_memories;            // (out)
} pjrt_memories_args;

typedef struct pjrt_memory_number { // (out)
    int64_t value;
    bool is_set;
} pjrt_memory_number;

typedef struct pjrt_memory_stats_args {
    pjrt_head head;
    pjrt_device *device;
    int64_t bytes_in_use; // (out), as all below
    pjrt_memory_number peak_bytes_in_use, n_allocs, largest_alloc, bytes_limit, reserved,
            peak_reserved, reservable_limit, largest_free, pool, peak_pool, peak_allocated;
} pjrt_memory_stats_args;

typedef struct pjrt_n_outputs_args {
    pjrt_head head;
    pjrt_executable *executable;
    size_t n_outputs; // (out)
} pjrt_n_outputs_args;

typedef struct pjrt_compiled_memory_args {
    pjrt_head head;
    pjrt_executable *executable;
    int64_t code, argument, output, alias, temp; // (out), as all below: bytes on the device
    int64_t host_code, host_argument, host_output, host_alias, host_temp;
    int64_t peak, total, total_allocation, indefinite, peak_unpadded_heap;
} pjrt_compiled_memory_args;

typedef struct pjrt_optimised_args { // called twice: for the size, then with memory of that size
    pjrt_head head;
    pjrt_executable *executable;
    pjrt_program *program; // its members are (out), except `code` in the second call
} pjrt_optimised_args;

typedef struct pjrt_serialize_args {
    pjrt_head head;
    const pjrt_executable *executable;
    const char *bytes;          // (out)
    size_t n_bytes;             // (out)
    void *owner;                // (out) of the bytes
    void (*free_owner)(void *); // (out)
} pjrt_serialize_args;

typedef struct pjrt_deserialize_args {
    pjrt_head head;
    pjrt_client *client;
    const char *bytes;
    size_t n_bytes;
    pjrt_loaded *executable; // (out)
    const char *options;
    size_t options_size;
    void *load_options;
} pjrt_deserialize_args;

typedef struct pjrt_get_executable_args {
    pjrt_head head;
    pjrt_loaded *loaded;
    pjrt_executable *executable; // (out)
} pjrt_get_executable_args;

typedef struct pjrt_execute_args {
    pjrt_head head;
    pjrt_loaded *executable;
    pjrt_execute_options *options;
    pjrt_buffer *const *const *arguments; // [device][argument]
    size_t n_devices, n_arguments;
    pjrt_buffer **const *outputs; // [device][output], the inner arrays are (out)
    pjrt_event **done;            // [device] (out)
    pjrt_device *device;          // NULL: those it was compiled for
} pjrt_execute_args;

typedef struct pjrt_buffer_type_args {
    pjrt_head head;
    pjrt_buffer *buffer;
    pjrt_type type; // (out)
} pjrt_buffer_type_args;

typedef struct pjrt_buffer_dims_args {
    pjrt_head head;
    pjrt_buffer *buffer;
    const int64_t *dims; // (out)
    size_t n_dims;       // (out)
} pjrt_buffer_dims_args;

typedef struct pjrt_download_args {
    pjrt_head head;
    pjrt_buffer *buffer;
    pjrt_layout *host_layout;
    void *dst;
    size_t dst_size;
    pjrt_event *event; // (out)
} pjrt_download_args;

typedef struct pjrt_topology_create_args {
    pjrt_head head;
    const char *name;
    size_t name_size;
    const pjrt_named_value *options;
    size_t n_options;
    pjrt_topology *topology; // (out)
} pjrt_topology_create_args;

typedef struct pjrt_compile_args { // without a client
    pjrt_head head;
    const pjrt_topology *topology;
    const pjrt_program *program;
    const char *options;
    size_t options_size;
    pjrt_client *client;
    pjrt_executable *executable; // (out)
} pjrt_compile_args;

// --- the table: X(name in the packages' header, its index, arguments, their last member). The size
// that a plugin gets ends with that member, without padding.
#define PJRT_SLOTS(X)                                                                              \
    X(Error_Destroy, 0, pjrt_object_args, object)                                                  \
    X(Error_Message, 1, pjrt_text_args, text_size)                                                 \
    X(Error_GetCode, 2, pjrt_number_args, number)                                                  \
    X(Plugin_Initialize, 3, pjrt_no_args, head)                                                    \
    X(Plugin_Attributes, 4, pjrt_plugin_attributes_args, n_attributes)                             \
    X(Event_Destroy, 5, pjrt_object_args, object)                                                  \
    X(Event_Await, 8, pjrt_object_args, object)                                                    \
    X(Event_OnReady, 9, pjrt_event_ready_args, arg)                                                \
    X(Client_Create, 10, pjrt_client_create_args, kv_try_get_arg)                                  \
    X(Client_Destroy, 11, pjrt_object_args, object)                                                \
    X(Client_PlatformName, 12, pjrt_text_args, text_size)                                          \
    X(Client_PlatformVersion, 14, pjrt_text_args, text_size)                                       \
    X(Client_Devices, 15, pjrt_client_devices_args, n_devices)                                     \
    X(Client_AddressableDevices, 16, pjrt_client_devices_args, n_devices)                          \
    X(Client_Compile, 20, pjrt_client_compile_args, executable)                                    \
    X(Client_BufferFromHostBuffer, 22, pjrt_upload_args, buffer)                                   \
    X(DeviceDescription_Id, 23, pjrt_number_args, number)                                          \
    X(DeviceDescription_ProcessIndex, 24, pjrt_number_args, number)                                \
    X(DeviceDescription_Attributes, 25, pjrt_description_attributes_args, attributes)              \
    X(DeviceDescription_Kind, 26, pjrt_text_args, text_size)                                       \
    X(Device_GetDescription, 29, pjrt_device_description_args, description)                        \
    X(Device_AddressableMemories, 32, pjrt_memories_args, n_memories)                              \
    X(Device_MemoryStats, 34, pjrt_memory_stats_args, peak_allocated.is_set)                       \
    X(Memory_Kind, 36, pjrt_text_args, text_size)                                                  \
    X(Executable_Destroy, 40, pjrt_object_args, object)                                            \
    X(Executable_NumOutputs, 44, pjrt_n_outputs_args, n_outputs)                                   \
    X(Executable_OptimizedProgram, 48, pjrt_optimised_args, program)                               \
    X(Executable_Serialize, 49, pjrt_serialize_args, free_owner)                                   \
    X(LoadedExecutable_Destroy, 50, pjrt_object_args, object)                                      \
    X(LoadedExecutable_GetExecutable, 51, pjrt_get_executable_args, executable)                    \
    X(LoadedExecutable_Execute, 55, pjrt_execute_args, device)                                     \
    X(Executable_DeserializeAndLoad, 56, pjrt_deserialize_args, load_options)                      \
    X(Buffer_Destroy, 58, pjrt_object_args, object)                                                \
    X(Buffer_ElementType, 59, pjrt_buffer_type_args, type)                                         \
    X(Buffer_Dimensions, 60, pjrt_buffer_dims_args, n_dims)                                        \
    X(Buffer_ToHostBuffer, 70, pjrt_download_args, event)                                          \
    X(TopologyDescription_Create, 82, pjrt_topology_create_args, topology)                         \
    X(TopologyDescription_Destroy, 83, pjrt_object_args, object)                                   \
    X(Compile, 89, pjrt_compile_args, executable)                                                  \
    X(Executable_GetCompiledMemoryStats, 96, pjrt_compiled_memory_args, peak_unpadded_heap)

typedef enum pjrt_slot {
#define X(name, index, args, last) PJRT_SLOT_##name,
    PJRT_SLOTS(X)
#undef X
            N_PJRT_SLOTS
} pjrt_slot;

typedef struct pjrt_slot_info {
    const char *name;
    int index;        // in pjrt_api.slot
    size_t args_size; // that the plugin gets
} pjrt_slot_info;
extern const pjrt_slot_info pjrt_slot_table[N_PJRT_SLOTS];

// The size of a struct up to its last member.
#define PJRT_SIZE(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))
