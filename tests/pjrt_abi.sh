#!/bin/bash
# Our declaration of PJRT's interface against the header that the plugin packages ship: places of functions,
# sizes that a plugin is told, offsets of members, numbers. Skipped without the header or a compiler.
. "$(dirname "$0")"/program.bash
folder=${DROVER_PJRT_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/drover/pjrt}
source=$(cd "$(dirname "$0")"/../src && pwd)
if [ ! -e "$folder/include/xla/pjrt/c/pjrt_c_api.h" ]; then
    echo "skipped: no header in $folder/include (tools/fetch_pjrt.py header gets it)"
    exit 77
elif ! command -v cc >/dev/null; then
    echo "skipped: no cc"
    exit 77
fi
echo "reads $folder/include, outside the tree"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/abi.c" <<'C'
#include <stdio.h>
#include "backend/pjrt/runtime/pjrt_abi.h"
#include "xla/pjrt/c/pjrt_c_api.h"
static int checked, wrong;
static void same(const char *what, size_t ours, size_t theirs) {
    checked++;
    if (ours == theirs) return;
    wrong++;
    printf("FAILED: %s is %zu, the header's is %zu\n", what, ours, theirs);
}
#define M(ours, our, theirs, their) same(#ours "." #our, offsetof(ours, our), offsetof(theirs, their));
#define N(ours, theirs) same(#ours, (size_t)(ours), (size_t)(theirs));
int main(void) {
#define X(name, place, args, last) \
    same(#name " place", offsetof(pjrt_api, slot) + place * sizeof(void *), offsetof(PJRT_Api, PJRT_##name)); \
    same(#name " size", PJRT_SIZE(args, last), PJRT_##name##_Args_STRUCT_SIZE);
    PJRT_SLOTS(X)
    same("slots", sizeof(pjrt_api), PJRT_Api_STRUCT_SIZE);
    N(PJRT_ABI_MAJOR, PJRT_API_MAJOR) N(PJRT_ABI_MINOR, PJRT_API_MINOR)
    M(pjrt_api, version.major, PJRT_Api, pjrt_api_version.major_version)
    M(pjrt_api, version.minor, PJRT_Api, pjrt_api_version.minor_version)
    M(pjrt_extension, type, PJRT_Extension_Base, type) M(pjrt_extension, next, PJRT_Extension_Base, next)
    M(pjrt_named_value, name, PJRT_NamedValue, name) M(pjrt_named_value, type, PJRT_NamedValue, type)
    M(pjrt_named_value, value, PJRT_NamedValue, int64_value) M(pjrt_named_value, value_size, PJRT_NamedValue, value_size)
    same("pjrt_named_value", PJRT_SIZE(pjrt_named_value, value_size), PJRT_NamedValue_STRUCT_SIZE);
    M(pjrt_program, code, PJRT_Program, code) M(pjrt_program, format, PJRT_Program, format)
    same("pjrt_program", PJRT_SIZE(pjrt_program, format_size), PJRT_Program_STRUCT_SIZE);
    M(pjrt_tiled, minor_to_major, PJRT_Buffer_MemoryLayout_Tiled, minor_to_major)
    same("pjrt_tiled", PJRT_SIZE(pjrt_tiled, n_tiles), PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE);
    M(pjrt_layout, tiled, PJRT_Buffer_MemoryLayout, tiled) M(pjrt_layout, type, PJRT_Buffer_MemoryLayout, type)
    same("pjrt_layout", PJRT_SIZE(pjrt_layout, type), PJRT_Buffer_MemoryLayout_STRUCT_SIZE);
    M(pjrt_execute_options, launch_id, PJRT_ExecuteOptions, launch_id)
    M(pjrt_execute_options, non_donatable, PJRT_ExecuteOptions, non_donatable_input_indices)
    M(pjrt_execute_options, context, PJRT_ExecuteOptions, context)
    M(pjrt_execute_options, incarnation_ids, PJRT_ExecuteOptions, incarnation_ids)
    same("pjrt_execute_options", PJRT_SIZE(pjrt_execute_options, n_hlo_callbacks), PJRT_ExecuteOptions_STRUCT_SIZE);
    M(pjrt_text_args, text, PJRT_Error_Message_Args, message) M(pjrt_number_args, number, PJRT_Error_GetCode_Args, code)
    M(pjrt_object_args, object, PJRT_Buffer_Destroy_Args, buffer) M(pjrt_number_args, number, PJRT_DeviceDescription_Id_Args, id)
    M(pjrt_number_args, number, PJRT_DeviceDescription_ProcessIndex_Args, process_index)
    M(pjrt_optimised_args, program, PJRT_Executable_OptimizedProgram_Args, program)
    M(pjrt_event_ready_args, event, PJRT_Event_OnReady_Args, event)
    M(pjrt_event_ready_args, callback, PJRT_Event_OnReady_Args, callback)
    M(pjrt_plugin_attributes_args, attributes, PJRT_Plugin_Attributes_Args, attributes)
    M(pjrt_client_create_args, options, PJRT_Client_Create_Args, create_options)
    M(pjrt_client_create_args, n_options, PJRT_Client_Create_Args, num_options)
    M(pjrt_client_create_args, kv_put, PJRT_Client_Create_Args, kv_put_callback)
    M(pjrt_client_create_args, client, PJRT_Client_Create_Args, client)
    M(pjrt_kv_get_args, error, PJRT_KeyValueGetCallback_Args, callback_error)
    M(pjrt_kv_get_args, arg, PJRT_KeyValueGetCallback_Args, user_arg)
    M(pjrt_kv_get_args, free_value, PJRT_KeyValueGetCallback_Args, value_deleter_callback)
    M(pjrt_kv_try_get_args, arg, PJRT_KeyValueTryGetCallback_Args, user_arg)
    M(pjrt_kv_try_get_args, free_value, PJRT_KeyValueTryGetCallback_Args, value_deleter_callback)
    M(pjrt_kv_put_args, value_size, PJRT_KeyValuePutCallback_Args, value_size)
    M(pjrt_kv_put_args, arg, PJRT_KeyValuePutCallback_Args, user_arg)
    M(pjrt_client_create_args, kv_try_get, PJRT_Client_Create_Args, kv_try_get_callback)
    M(pjrt_text_args, text, PJRT_Client_PlatformName_Args, platform_name)
    M(pjrt_text_args, text, PJRT_Client_PlatformVersion_Args, platform_version)
    M(pjrt_client_devices_args, devices, PJRT_Client_AddressableDevices_Args, addressable_devices)
    M(pjrt_client_compile_args, program, PJRT_Client_Compile_Args, program)
    M(pjrt_client_compile_args, options, PJRT_Client_Compile_Args, compile_options)
    M(pjrt_client_compile_args, executable, PJRT_Client_Compile_Args, executable)
    M(pjrt_upload_args, data, PJRT_Client_BufferFromHostBuffer_Args, data)
    M(pjrt_upload_args, type, PJRT_Client_BufferFromHostBuffer_Args, type)
    M(pjrt_upload_args, dims, PJRT_Client_BufferFromHostBuffer_Args, dims)
    M(pjrt_upload_args, n_dims, PJRT_Client_BufferFromHostBuffer_Args, num_dims)
    M(pjrt_upload_args, semantics, PJRT_Client_BufferFromHostBuffer_Args, host_buffer_semantics)
    M(pjrt_upload_args, device, PJRT_Client_BufferFromHostBuffer_Args, device)
    M(pjrt_upload_args, done_with_host_buffer, PJRT_Client_BufferFromHostBuffer_Args, done_with_host_buffer)
    M(pjrt_upload_args, buffer, PJRT_Client_BufferFromHostBuffer_Args, buffer)
    M(pjrt_description_attributes_args, n_attributes, PJRT_DeviceDescription_Attributes_Args, num_attributes)
    M(pjrt_text_args, text, PJRT_DeviceDescription_Kind_Args, device_kind)
    M(pjrt_memories_args, memories, PJRT_Device_AddressableMemories_Args, memories)
    M(pjrt_text_args, text, PJRT_Memory_Kind_Args, kind)
    M(pjrt_memory_stats_args, bytes_in_use, PJRT_Device_MemoryStats_Args, bytes_in_use)
    M(pjrt_memory_stats_args, peak_bytes_in_use.value, PJRT_Device_MemoryStats_Args, peak_bytes_in_use)
    M(pjrt_memory_stats_args, bytes_limit.value, PJRT_Device_MemoryStats_Args, bytes_limit)
    M(pjrt_memory_stats_args, bytes_limit.is_set, PJRT_Device_MemoryStats_Args, bytes_limit_is_set)
    M(pjrt_compiled_memory_args, argument, PJRT_Executable_GetCompiledMemoryStats_Args, argument_size_in_bytes)
    M(pjrt_compiled_memory_args, alias, PJRT_Executable_GetCompiledMemoryStats_Args, alias_size_in_bytes)
    M(pjrt_compiled_memory_args, host_temp, PJRT_Executable_GetCompiledMemoryStats_Args, host_temp_size_in_bytes)
    M(pjrt_compiled_memory_args, temp, PJRT_Executable_GetCompiledMemoryStats_Args, temp_size_in_bytes)
    M(pjrt_compiled_memory_args, peak, PJRT_Executable_GetCompiledMemoryStats_Args, peak_memory_in_bytes)
    M(pjrt_topology_create_args, name, PJRT_TopologyDescription_Create_Args, topology_name)
    M(pjrt_topology_create_args, options, PJRT_TopologyDescription_Create_Args, create_options)
    M(pjrt_topology_create_args, topology, PJRT_TopologyDescription_Create_Args, topology)
    M(pjrt_compile_args, topology, PJRT_Compile_Args, topology) M(pjrt_compile_args, program, PJRT_Compile_Args, program)
    M(pjrt_compile_args, options, PJRT_Compile_Args, compile_options) M(pjrt_compile_args, client, PJRT_Compile_Args, client)
    M(pjrt_compile_args, executable, PJRT_Compile_Args, executable)
    M(pjrt_serialize_args, bytes, PJRT_Executable_Serialize_Args, serialized_bytes)
    M(pjrt_serialize_args, owner, PJRT_Executable_Serialize_Args, serialized_executable)
    M(pjrt_serialize_args, free_owner, PJRT_Executable_Serialize_Args, serialized_executable_deleter)
    M(pjrt_deserialize_args, bytes, PJRT_Executable_DeserializeAndLoad_Args, serialized_executable)
    M(pjrt_deserialize_args, executable, PJRT_Executable_DeserializeAndLoad_Args, loaded_executable)
    M(pjrt_get_executable_args, executable, PJRT_LoadedExecutable_GetExecutable_Args, executable)
    M(pjrt_execute_args, options, PJRT_LoadedExecutable_Execute_Args, options)
    M(pjrt_execute_args, arguments, PJRT_LoadedExecutable_Execute_Args, argument_lists)
    M(pjrt_execute_args, n_devices, PJRT_LoadedExecutable_Execute_Args, num_devices)
    M(pjrt_execute_args, outputs, PJRT_LoadedExecutable_Execute_Args, output_lists)
    M(pjrt_execute_args, done, PJRT_LoadedExecutable_Execute_Args, device_complete_events)
    M(pjrt_execute_args, device, PJRT_LoadedExecutable_Execute_Args, execute_device)
    M(pjrt_buffer_type_args, type, PJRT_Buffer_ElementType_Args, type)
    M(pjrt_buffer_dims_args, dims, PJRT_Buffer_Dimensions_Args, dims)
    M(pjrt_download_args, host_layout, PJRT_Buffer_ToHostBuffer_Args, host_layout)
    M(pjrt_download_args, dst, PJRT_Buffer_ToHostBuffer_Args, dst)
    M(pjrt_download_args, event, PJRT_Buffer_ToHostBuffer_Args, event)
    N(PJRT_S32, PJRT_Buffer_Type_S32) N(PJRT_S64, PJRT_Buffer_Type_S64) N(PJRT_F32, PJRT_Buffer_Type_F32)
    N(PJRT_F64, PJRT_Buffer_Type_F64) N(PJRT_BF16, PJRT_Buffer_Type_BF16)
    N(PJRT_VALUE_STRING, PJRT_NamedValue_kString) N(PJRT_VALUE_INT64, PJRT_NamedValue_kInt64)
    N(PJRT_VALUE_INT64_LIST, PJRT_NamedValue_kInt64List) N(PJRT_VALUE_FLOAT, PJRT_NamedValue_kFloat)
    N(PJRT_VALUE_BOOL, PJRT_NamedValue_kBool)
    N(PJRT_COPY_DURING_CALL, PJRT_HostBufferSemantics_kImmutableOnlyDuringCall)
    N(PJRT_COPY_UNTIL_DONE, PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes)
    N(PJRT_CODE_INVALID_ARGUMENT, PJRT_Error_Code_INVALID_ARGUMENT)
    N(PJRT_CODE_RESOURCE_EXHAUSTED, PJRT_Error_Code_RESOURCE_EXHAUSTED)
    N(PJRT_CODE_UNIMPLEMENTED, PJRT_Error_Code_UNIMPLEMENTED) N(PJRT_CODE_INTERNAL, PJRT_Error_Code_INTERNAL)
    printf("%d passed, %d failed\n", checked - wrong, wrong);
    return wrong > 0;
}
C
cc -std=c11 -w -I "$source" -I "$folder/include" -o "$work/abi" "$work/abi.c" && "$work/abi"
