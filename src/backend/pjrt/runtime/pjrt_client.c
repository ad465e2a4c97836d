// Manages the devices, programs and buffers of a plugin.
#include "backend/pjrt/runtime/pjrt_client.h"

#include <stdlib.h>
#include <string.h>

#include "backend/pjrt/runtime/optimised.h"

static pjrt_type type_of(dtype dt) {
    static const pjrt_type types[] = {[DT_F32] = PJRT_F32,
            [DT_BF16] = PJRT_BF16,
            [DT_F64] = PJRT_F64,
            [DT_I32] = PJRT_S32,
            [DT_I64] = PJRT_S64};
    return types[dt];
}

// --- the client
enum { MAX_OPTIONS = 6 };

static pjrt_named_value option(const char *name, pjrt_value_type type) {
    pjrt_named_value v = {.head.size = PJRT_SIZE(pjrt_named_value, value_size),
            .name = name,
            .name_size = strlen(name),
            .type = type,
            .value_size = 1};
    return v;
}

// Gives the index of this process, and its GPU unless the launcher shows it only one.
static size_t cluster_options(const client_options *wanted, pjrt_named_value *out) {
    const char *seen = getenv("CUDA_VISIBLE_DEVICES");
    out[0] = option("node_id", PJRT_VALUE_INT64);
    out[0].value.int64 = comm_rank(wanted->cluster);
    out[1] = option("num_nodes", PJRT_VALUE_INT64);
    out[1].value.int64 = comm_size(wanted->cluster);
    if (seen && *seen && !strchr(seen, ',')) return 2;
    out[2] = option("visible_devices", PJRT_VALUE_INT64_LIST);
    out[2].value.int64_list = &wanted->place_on_host;
    return 3;
}

// A plugin refuses options that it does not know, so each kind gets its own.
static size_t options_for(const pjrt_plugin *p, const client_options *wanted,
        pjrt_named_value out[MAX_OPTIONS]) {
    size_t n = 0;
    const bool gpu = strstr(p->name, "cuda") || strstr(p->name, "rocm");
    if (strstr(p->name, "cpu")) {
        out[n] = option("cpu_device_count", PJRT_VALUE_INT64);
        out[n++].value.int64 = wanted->n_devices > 0 ? wanted->n_devices : 1;
    }
    if (gpu && wanted->memory_fraction > 0) {
        out[n] = option("memory_fraction", PJRT_VALUE_FLOAT);
        out[n++].value.real = (float)wanted->memory_fraction;
    }
    return gpu && wanted->cluster ? n + cluster_options(wanted, out + n) : n;
}

static pjrt_description *description_of(const device_client *c, int device) {
    pjrt_device_description_args args = {.device = c->devices[device]};
    if (plugin_call(c->plugin, PJRT_SLOT_Device_GetDescription, &args) != DRV_OK) return NULL;
    return args.description;
}

int client_device_id(const device_client *c, int device) {
    pjrt_number_args args = {0};
    if (!c->handle || !plugin_has(c->plugin, PJRT_SLOT_DeviceDescription_Id)) return device;
    args.object = description_of(c, device);
    return args.object && plugin_call(c->plugin, PJRT_SLOT_DeviceDescription_Id, &args) == DRV_OK
                   ? args.number
                   : device;
}

// Returns the kind of the first device.
static const char *device_kind(arena *a, const device_client *c) {
    pjrt_text_args args = {.object = description_of(c, 0)};
    if (!args.object || plugin_call(c->plugin, PJRT_SLOT_DeviceDescription_Kind, &args) != DRV_OK)
        return "unknown";
    return arena_strndup(a, args.text, args.text_size);
}

// Returns 89 for an attribute like "8.9".
static int compute_capability(const device_client *c) {
    static const char wanted[] = "compute_capability";
    pjrt_description_attributes_args args = {.description = description_of(c, 0)};
    if (!args.description || !plugin_has(c->plugin, PJRT_SLOT_DeviceDescription_Attributes) ||
            plugin_call(c->plugin, PJRT_SLOT_DeviceDescription_Attributes, &args) != DRV_OK)
        return 0;
    for (size_t i = 0; i < args.n_attributes; i++) {
        const pjrt_named_value *v = &args.attributes[i];
        char text[8];
        int major = 0, minor = 0;
        if (v->type != PJRT_VALUE_STRING || v->name_size != strlen(wanted) ||
                memcmp(v->name, wanted, v->name_size) != 0)
            continue;
        snprintf(text, sizeof text, "%.*s", (int)v->value_size, v->value.string);
        return sscanf(text, "%2d.%1d", &major, &minor) > 0 ? 10 * major + minor : 0;
    }
    return 0;
}

// Returns a version such as "cuda 13000"; "": the plugin does not report one.
static const char *platform_version(arena *a, const device_client *c) {
    pjrt_text_args said = {.object = c->handle};
    if (!plugin_has(c->plugin, PJRT_SLOT_Client_PlatformVersion) ||
            plugin_call(c->plugin, PJRT_SLOT_Client_PlatformVersion, &said) != DRV_OK)
        return "";
    return arena_strndup(a, said.text, said.text_size);
}

static drv_status read_devices(arena *a, device_client *c) {
    pjrt_text_args platform = {.object = c->handle};
    pjrt_client_devices_args devices = {.client = c->handle};
    DRV_TRY(plugin_call(c->plugin, PJRT_SLOT_Client_PlatformName, &platform));
    DRV_TRY(plugin_call(c->plugin, PJRT_SLOT_Client_AddressableDevices, &devices));
    c->platform = arena_strndup(a, platform.text, platform.text_size);
    c->version = platform_version(a, c);
    c->devices = devices.devices;
    c->n_devices = (int)devices.n_devices;
    if (c->n_devices < 1)
        return drv_fail(DRV_E_DEVICE, "plugin \"%s\" has no device", c->plugin->name);
    c->kind = device_kind(a, c);
    c->capability = compute_capability(c);
    return DRV_OK;
}

// Finds the first device of each process. A plugin that knows only this process cannot join others.
static drv_status find_rank_devices(arena *a, device_client *c, int n_ranks) {
    pjrt_client_devices_args all = {.client = c->handle};
    int *numbers = ARENA_ARRAY(a, int, n_ranks), n_found = 0;
    for (int rank = 0; rank < n_ranks; rank++)
        numbers[rank] = -1;
    DRV_TRY(plugin_call(c->plugin, PJRT_SLOT_Client_Devices, &all));
    for (size_t i = 0; i < all.n_devices; i++) {
        pjrt_device_description_args device = {.device = all.devices[i]};
        DRV_TRY(plugin_call(c->plugin, PJRT_SLOT_Device_GetDescription, &device));
        pjrt_number_args process = {.object = device.description}, id = process;
        DRV_TRY(plugin_call(c->plugin, PJRT_SLOT_DeviceDescription_ProcessIndex, &process));
        DRV_TRY(plugin_call(c->plugin, PJRT_SLOT_DeviceDescription_Id, &id));
        if (process.number < 0 || process.number >= n_ranks || numbers[process.number] >= 0)
            continue;
        numbers[process.number] = id.number;
        n_found++;
    }
    if (n_found == n_ranks) c->rank_devices = numbers;
    return DRV_OK;
}

// A CPU plugin makes any number of devices, each with its own threads. It ends the process if it
// gets no thread, and takes devices beyond 2,048 for another process's (PJRT 0.115).
static drv_status check_virtual_devices(const pjrt_plugin *p, int n) {
    enum { MAX_VIRTUAL = 1024 };
    if (!strstr(p->name, "cpu") || n <= MAX_VIRTUAL) return DRV_OK;
    return drv_fail(DRV_E_DEVICE, "plugin \"%s\" has at most %d virtual devices, expected %d",
            p->name, MAX_VIRTUAL, n);
}

drv_status client_open(arena *a, const pjrt_plugin *plugin, const client_options *options,
        device_client **out) {
    DRV_TRY(check_virtual_devices(plugin, options->n_devices));
    pjrt_named_value values[MAX_OPTIONS];
    pjrt_client_create_args args = {.options = values,
            .n_options = options_for(plugin, options, values)};
    device_client *c = ARENA_NEW(a, device_client);
    if (options->store) cluster_callbacks(options->store, &args);
    DRV_TRY(plugin_call(plugin, PJRT_SLOT_Client_Create, &args));
    c->plugin = plugin;
    c->handle = args.client;
    drv_status status = read_devices(a, c);
    if (status == DRV_OK && options->cluster)
        status = find_rank_devices(a, c, comm_size(options->cluster));
    if (status == DRV_OK && c->n_devices < options->n_devices)
        status = drv_fail(DRV_E_DEVICE, "plugin \"%s\" has %d device%s here, expected %d",
                plugin->name, c->n_devices, c->n_devices == 1 ? "" : "s", options->n_devices);
    if (status == DRV_OK)
        *out = c;
    else
        client_close(c);
    return status;
}

drv_status client_open_target(arena *a, const pjrt_plugin *plugin, const gpu_target *gpu,
        int n_devices, device_client **out) {
    pjrt_named_value values[] = {option("target_config", PJRT_VALUE_STRING),
            option("topology", PJRT_VALUE_STRING),
            option("host_target_machine_options", PJRT_VALUE_STRING)};
    // partitions x hosts x devices of a host
    const char *topology = arena_printf(a, "1x1x%d", n_devices);
    const char *texts[] = {gpu->config, topology, "triple: \"x86_64-unknown-linux-gnu\""};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        values[i].value.string = texts[i];
        values[i].value_size = strlen(texts[i]);
    }
    pjrt_topology_create_args args = {.name = "", .options = values, .n_options = 3};
    DRV_TRY(plugin_call(plugin, PJRT_SLOT_TopologyDescription_Create, &args));
    device_client *c = ARENA_NEW(a, device_client);
    *c = (device_client){.plugin = plugin,
            .topology = args.topology,
            .n_devices = n_devices,
            .platform = "cuda",
            .version = "",
            .kind = gpu->description,
            .capability = gpu->capability,
            .memory = gpu->memory};
    *out = c;
    return DRV_OK;
}

// Destroys an object, by the function of its kind, and ignores a failure, since nothing can be done
// about it. NULL is allowed.
static void destroy(const pjrt_plugin *p, pjrt_slot slot, void *object) {
    if (object && plugin_call(p, slot, &(pjrt_object_args){.object = object}) != DRV_OK) return;
}

void client_close(device_client *c) {
    destroy(c->plugin, PJRT_SLOT_TopologyDescription_Destroy, c->topology);
    if (!c->plugin->health->silent) // it would wait for pending work
        destroy(c->plugin, PJRT_SLOT_Client_Destroy, c->handle);
}

bool client_memory(const device_client *c, int device, int64_t *used, int64_t *limit) {
    if (!c->handle) {
        *used = 0;
        *limit = c->memory;
        return true;
    }
    pjrt_memory_stats_args args = {.device = c->devices[device]};
    if (!plugin_has(c->plugin, PJRT_SLOT_Device_MemoryStats) ||
            plugin_call(c->plugin, PJRT_SLOT_Device_MemoryStats, &args) != DRV_OK ||
            !args.bytes_limit.is_set)
        return false;
    *used = args.bytes_in_use;
    *limit = args.bytes_limit.value;
    return true;
}

// --- programs
static drv_status executable_of(const device_client *c, const device_program *p,
        pjrt_executable **out) {
    pjrt_get_executable_args args = {.loaded = p->handle};
    if (p->unloaded) {
        *out = p->unloaded;
        return DRV_OK;
    }
    DRV_TRY(plugin_call(c->plugin, PJRT_SLOT_LoadedExecutable_GetExecutable, &args));
    *out = args.executable;
    return DRV_OK;
}

// Releases the executable that executable_of returned.
static void executable_free(const device_client *c, const device_program *p, pjrt_executable *e) {
    if (e != p->unloaded) destroy(c->plugin, PJRT_SLOT_Executable_Destroy, e);
}

static drv_status check_n_outputs(const device_client *c, const device_program *p) {
    pjrt_n_outputs_args args = {0};
    DRV_TRY(executable_of(c, p, &args.executable));
    const drv_status status = plugin_call(c->plugin, PJRT_SLOT_Executable_NumOutputs, &args);
    executable_free(c, p, args.executable);
    DRV_TRY(status);
    if ((int)args.n_outputs != p->n_out)
        return drv_fail(DRV_E_DEVICE,
                "plugin \"%s\": program \"%s\" returns %d values, expected %d", c->plugin->name,
                p->name, (int)args.n_outputs, p->n_out);
    return DRV_OK;
}

static drv_status compile_source(const device_client *c, const pjrt_program *source,
        const str *options, device_program *program) {
    pjrt_client_compile_args here = {.client = c->handle,
            .program = source,
            .options = options->p,
            .options_size = options->n};
    pjrt_compile_args there = {.topology = c->topology,
            .program = source,
            .options = options->p,
            .options_size = options->n};
    DRV_TRY(c->topology ? plugin_call(c->plugin, PJRT_SLOT_Compile, &there)
                        : plugin_call(c->plugin, PJRT_SLOT_Client_Compile, &here));
    program->handle = here.executable;
    program->unloaded = there.executable;
    return DRV_OK;
}

drv_status client_compile(const device_client *c, const char *text, size_t n,
        const compile_options *options, device_program *program) {
    str encoded = {0};
    pjrt_program source = PJRT_STRUCT(pjrt_program, format_size);
    source.code = text;
    source.code_size = n;
    source.format = "mlir";
    source.format_size = strlen("mlir");
    drv_status status = compile_options_encode(options, &encoded);
    if (status == DRV_OK) status = compile_source(c, &source, &encoded, program);
    str_free(&encoded);
    DRV_TRY(status);
    status = check_n_outputs(c, program);
    if (status != DRV_OK) client_program_free(c, program);
    return status;
}

drv_status client_save(const device_client *c, const device_program *p, saved_program *out) {
    pjrt_executable *executable;
    DRV_TRY(executable_of(c, p, &executable));
    pjrt_serialize_args args = {.executable = executable};
    const drv_status status = plugin_call(c->plugin, PJRT_SLOT_Executable_Serialize, &args);
    executable_free(c, p, executable);
    DRV_TRY(status);
    *out = (saved_program){args.bytes, args.n_bytes, args.owner, args.free_owner};
    return DRV_OK;
}

void client_saved_free(saved_program *s) {
    if (s->free_owner) s->free_owner(s->owner);
}

drv_status client_load(const device_client *c, const void *bytes, size_t n,
        device_program *program) {
    pjrt_deserialize_args args = {.client = c->handle, .bytes = bytes, .n_bytes = n};
    DRV_TRY(plugin_call(c->plugin, PJRT_SLOT_Executable_DeserializeAndLoad, &args));
    program->handle = args.executable;
    const drv_status status = check_n_outputs(c, program);
    if (status != DRV_OK) client_program_free(c, program);
    return status;
}

static bool is_of_kind(const device_client *c, pjrt_memory *memory, const char *kind) {
    pjrt_text_args args = {.object = memory};
    return plugin_call(c->plugin, PJRT_SLOT_Memory_Kind, &args) == DRV_OK &&
           args.text_size == strlen(kind) && memcmp(args.text, kind, args.text_size) == 0;
}

bool client_has_memory(const device_client *c, int device, const char *kind) {
    if (!c->handle) return true;
    pjrt_memories_args args = {.device = c->devices[device]};
    if (!plugin_has(c->plugin, PJRT_SLOT_Memory_Kind) ||
            plugin_call(c->plugin, PJRT_SLOT_Device_AddressableMemories, &args) != DRV_OK)
        return false;
    for (size_t i = 0; i < args.n_memories; i++)
        if (is_of_kind(c, args.memories[i], kind)) return true;
    return false;
}

bool client_program_memory(const device_client *c, const device_program *p, backend_memory *out) {
    pjrt_compiled_memory_args args = {0};
    if (!plugin_has(c->plugin, PJRT_SLOT_Executable_GetCompiledMemoryStats) ||
            executable_of(c, p, &args.executable) != DRV_OK)
        return false;
    const drv_status status =
            plugin_call(c->plugin, PJRT_SLOT_Executable_GetCompiledMemoryStats, &args);
    executable_free(c, p, args.executable);
    *out = (backend_memory){.arguments = args.argument,
            .results = args.output,
            .aliased = args.alias,
            .temporary = args.temp,
            .code = args.code,
            .on_host = args.host_temp};
    return status == DRV_OK;
}

// The bytes are malloc'ed.
static drv_status optimised_program(const device_client *c, pjrt_executable *e, char **out,
        size_t *n) {
    pjrt_program made = PJRT_STRUCT(pjrt_program, format_size);
    pjrt_optimised_args args = {.executable = e, .program = &made};
    DRV_TRY(plugin_call(c->plugin, PJRT_SLOT_Executable_OptimizedProgram, &args));
    *n = made.code_size;
    made.code = *out = mem_alloc(*n);
    const drv_status status = plugin_call(c->plugin, PJRT_SLOT_Executable_OptimizedProgram, &args);
    if (status != DRV_OK) free(*out);
    return status;
}

void client_read_facts(const device_client *c, const char *text, size_t n,
        device_program *program) {
    pjrt_executable *executable;
    char *hlo;
    size_t n_hlo;
    if (!plugin_has(c->plugin, PJRT_SLOT_Executable_OptimizedProgram) ||
            executable_of(c, program, &executable) != DRV_OK)
        return;
    if (optimised_program(c, executable, &hlo, &n_hlo) == DRV_OK) {
        program->has_facts = optimised_read(hlo, n_hlo, text, n, &program->facts);
        free(hlo);
    }
    executable_free(c, program, executable);
}

void client_program_free(const device_client *c, device_program *p) {
    destroy(c->plugin, PJRT_SLOT_LoadedExecutable_Destroy, p->handle);
    destroy(c->plugin, PJRT_SLOT_Executable_Destroy, p->unloaded);
    p->handle = NULL;
    p->unloaded = NULL;
}

// --- buffers
drv_status client_upload(const device_client *c, int device, const buffer_shape *shape,
        const void *src, pjrt_buffer **out) {
    pjrt_upload_args args = {.client = c->handle,
            .data = src,
            .type = type_of(shape->dt),
            .dims = shape->dim,
            .n_dims = (size_t)shape->n_dims,
            .semantics = PJRT_COPY_DURING_CALL,
            .device = c->devices[device]};
    DRV_TRY(plugin_call(c->plugin, PJRT_SLOT_Client_BufferFromHostBuffer, &args));
    const drv_status status = plugin_wait(c->plugin, NULL, args.done_with_host_buffer);
    if (status == DRV_OK)
        *out = args.buffer;
    else
        client_buffer_free(c, args.buffer);
    return status;
}

drv_status client_download_start(const device_client *c, pjrt_buffer *buffer,
        const buffer_shape *shape, void *dst, pjrt_event **done) {
    int64_t order[BUFFER_MAX_DIMS]; // row-major, since the device may use another layout
    for (int i = 0; i < shape->n_dims; i++)
        order[i] = shape->n_dims - 1 - i;
    pjrt_layout layout = {.head.size = PJRT_SIZE(pjrt_layout, type),
            .tiled = {.head.size = PJRT_SIZE(pjrt_tiled, n_tiles),
                    .minor_to_major = order,
                    .n_minor_to_major = (size_t)shape->n_dims}};
    pjrt_download_args args = {.buffer = buffer,
            .host_layout = &layout,
            .dst = dst,
            .dst_size = (size_t)buffer_bytes(shape)};
    DRV_TRY(plugin_call(c->plugin, PJRT_SLOT_Buffer_ToHostBuffer, &args));
    *done = args.event;
    return DRV_OK;
}

void client_buffer_free(const device_client *c, pjrt_buffer *buffer) {
    destroy(c->plugin, PJRT_SLOT_Buffer_Destroy, buffer);
}

static drv_status check_buffer(const device_client *c, const device_program *p, const char *what,
        int index, pjrt_buffer *buffer, const buffer_shape *want) {
    pjrt_buffer_type_args type = {.buffer = buffer};
    pjrt_buffer_dims_args dims = {.buffer = buffer};
    DRV_TRY(plugin_call(c->plugin, PJRT_SLOT_Buffer_ElementType, &type));
    DRV_TRY(plugin_call(c->plugin, PJRT_SLOT_Buffer_Dimensions, &dims));
    bool same = type.type == type_of(want->dt) && (int)dims.n_dims == want->n_dims;
    for (int i = 0; same && i < want->n_dims; i++)
        same = dims.dims[i] == want->dim[i];
    if (same) return DRV_OK;
    return drv_fail(DRV_E_DEVICE,
            "program \"%s\": %s %d has the wrong type or shape, expected %s with the %d dims "
            "for which the program was compiled",
            p->name, what, index, dtype_name(want->dt), want->n_dims);
}

drv_status client_execute(const device_client *c, device_program *p, int n_devices,
        pjrt_buffer *const *const *in, pjrt_buffer **const *out, pjrt_event **done) {
    pjrt_execute_options options = PJRT_STRUCT(pjrt_execute_options, n_hlo_callbacks);
    for (int device = 0; device < n_devices; device++)
        for (int i = 0; i < p->n_in; i++)
            DRV_TRY(check_buffer(c, p, "argument", i, in[device][i], &p->in[i]));
    pjrt_execute_args args = {.executable = p->handle,
            .options = &options,
            .arguments = in,
            .n_devices = (size_t)n_devices,
            .n_arguments = (size_t)p->n_in,
            .outputs = out,
            .done = done};
    DRV_TRY(plugin_call(c->plugin, PJRT_SLOT_LoadedExecutable_Execute, &args));
    for (int i = 0; !p->checked && i < p->n_out; i++)
        DRV_TRY(check_buffer(c, p, "result", i, out[0][i], &p->out[i]));
    p->checked = true;
    return DRV_OK;
}
