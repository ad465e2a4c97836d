// The only file that sees oneDNN's header: the functions that onednn.c calls. oneDNN is opened when
// bench gemm measures it, or doctor asks for it (base/library.h).
#pragma once
#include <dnnl.h>
#include <stdbool.h>

typedef struct onednn_calls {
    __typeof__(dnnl_version) *version;
    __typeof__(dnnl_engine_create) *engine_create;
    __typeof__(dnnl_engine_destroy) *engine_destroy;
    __typeof__(dnnl_stream_create) *stream_create;
    __typeof__(dnnl_stream_destroy) *stream_destroy;
    __typeof__(dnnl_memory_desc_init_by_strides) *memory_desc_init_by_strides;
    __typeof__(dnnl_memory_desc_get_size) *memory_desc_get_size;
    __typeof__(dnnl_memory_create) *memory_create;
    __typeof__(dnnl_memory_set_data_handle) *memory_set_data_handle;
    __typeof__(dnnl_memory_destroy) *memory_destroy;
    __typeof__(dnnl_matmul_desc_init) *matmul_desc_init;
    __typeof__(dnnl_post_ops_create) *post_ops_create;
    __typeof__(dnnl_post_ops_append_sum) *post_ops_append_sum;
    __typeof__(dnnl_post_ops_destroy) *post_ops_destroy;
    __typeof__(dnnl_primitive_attr_create) *primitive_attr_create;
    __typeof__(dnnl_primitive_attr_set_post_ops) *primitive_attr_set_post_ops;
    __typeof__(dnnl_primitive_attr_set_scratchpad_mode) *primitive_attr_set_scratchpad_mode;
    __typeof__(dnnl_primitive_attr_destroy) *primitive_attr_destroy;
    __typeof__(dnnl_primitive_desc_create) *primitive_desc_create;
    __typeof__(dnnl_primitive_desc_query_md) *primitive_desc_query_md;
    __typeof__(dnnl_primitive_desc_destroy) *primitive_desc_destroy;
    __typeof__(dnnl_primitive_create) *primitive_create;
    __typeof__(dnnl_primitive_execute) *primitive_execute;
    __typeof__(dnnl_primitive_destroy) *primitive_destroy;
} onednn_calls;

extern const onednn_calls *const dnnl; // to be called after onednn_is_there

// *why, unless NULL: why not, in the loader's words.
bool onednn_is_there(const char **why);
