// The part of XLA's foreign-function interface (xla/ffi/api/c_api.h, 0.3 and later) that the
// stand-in for cuDNN uses.
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef struct ffi_extension {
    size_t size;
    int type;
    struct ffi_extension *next;
} ffi_extension;

typedef struct ffi_head {
    size_t size;
    ffi_extension *extensions;
} ffi_head;

typedef struct ffi_buffer {
    ffi_head head;
    int type;
    void *data;
    int64_t rank;
    int64_t *dims;
} ffi_buffer;

typedef struct ffi_span {
    const char *text;
    size_t n;
} ffi_span;

typedef struct ffi_list { // arguments, and results
    ffi_head head;
    int64_t n;
    int *types;
    ffi_buffer **list;
} ffi_list;

typedef struct ffi_attributes { // by name; a value that is a string is an ffi_span
    ffi_head head;
    int64_t n;
    int *types;
    ffi_span **names;
    void **values;
} ffi_attributes;

typedef struct ffi_version {
    ffi_head head;
    int major, minor;
} ffi_version;

enum { FFI_CODE_INVALID_ARGUMENT = 3 };
typedef struct ffi_error ffi_error;
typedef struct ffi_error_args {
    ffi_head head;
    const char *message;
    int code;
} ffi_error_args;

typedef struct ffi_api { // its first members
    ffi_head head;
    ffi_version version;
    const void *internal;
    ffi_error *(*make_error)(ffi_error_args *args);
} ffi_api;

enum { FFI_STAGE_EXECUTE = 3 };
typedef struct ffi_frame {
    ffi_head head;
    const ffi_api *api;
    void *context;
    int stage;
    ffi_list in, out;
    ffi_attributes attributes;
} ffi_frame;

typedef ffi_error *ffi_handler(ffi_frame *frame);

// A handler is asked for this before it is called.
enum { FFI_EXTENSION_METADATA = 1 };
typedef struct ffi_metadata {
    size_t size;
    ffi_version version;
    uint32_t traits;
} ffi_metadata;
typedef struct ffi_metadata_extension {
    ffi_extension base;
    ffi_metadata *metadata;
} ffi_metadata_extension;

// The plugin's extension by which handlers become known to it (pjrt_c_api_ffi_extension.h).
enum { PJRT_EXTENSION_FFI = 5 };
typedef struct ffi_register_args {
    size_t size;
    const char *target;
    size_t target_size;
    ffi_handler *handler;
    const char *platform;
    size_t platform_size;
    int traits;
} ffi_register_args;
typedef struct pjrt_ffi_extension {
    struct {
        size_t size;
        int type;
        void *next;
    } base;
    void *type_register, *user_data_add;
    void *(*register_handler)(ffi_register_args *args); // an error of PJRT's, or NULL
} pjrt_ffi_extension;
