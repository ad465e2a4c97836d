// The names that files of torch.save may contain, and the types of their elements.
#include <string.h>

#include "pickle/torch_tensor_internal.h"

// Each is written down, and none is called. Beside tensors: the containers of state dicts, and what
// trainers keep in a checkpoint: arguments, random states as bytes and arrays of numpy, paths.
const pickle_name torch_names[] = {{"collections", "OrderedDict"}, {"collections", "defaultdict"},
        {"torch._utils", "_rebuild_tensor"}, {"torch._utils", "_rebuild_tensor_v2"},
        {"torch._utils", "_rebuild_tensor_v3"}, {"torch._utils", "_rebuild_parameter"},
        {"torch._utils", "_rebuild_parameter_with_state"},
        {"torch._tensor", "_rebuild_from_type_v2"}, {"torch", "Tensor"},
        {"torch.nn.parameter", "Parameter"}, {"torch.nn.parameter", "Buffer"}, {"torch", "Size"},
        {"torch", "device"}, {"torch.storage", "UntypedStorage"}, {"torch", "FloatStorage"},
        {"torch", "DoubleStorage"}, {"torch", "HalfStorage"}, {"torch", "BFloat16Storage"},
        {"torch", "LongStorage"}, {"torch", "IntStorage"}, {"torch", "ShortStorage"},
        {"torch", "CharStorage"}, {"torch", "ByteStorage"}, {"torch", "BoolStorage"},
        {"torch.cuda", "FloatStorage"}, {"torch.cuda", "DoubleStorage"},
        {"torch.cuda", "HalfStorage"}, {"torch.cuda", "BFloat16Storage"},
        {"torch.cuda", "LongStorage"}, {"torch.cuda", "IntStorage"}, {"torch.cuda", "ShortStorage"},
        {"torch.cuda", "CharStorage"}, {"torch.cuda", "ByteStorage"}, {"torch.cuda", "BoolStorage"},
        {"torch", "float32"}, {"torch", "float64"}, {"torch", "float16"}, {"torch", "bfloat16"},
        {"torch", "int64"}, {"torch", "int32"}, {"torch", "int16"}, {"torch", "int8"},
        {"torch", "uint8"}, {"torch", "bool"}, {"torch", "uint16"}, {"torch", "uint32"},
        {"torch", "uint64"}, {"torch", "float8_e4m3fn"}, {"torch", "float8_e5m2"},
        {"torch", "complex64"}, {"torch.serialization", "_get_layout"}, {"argparse", "Namespace"},
        {"builtins", "set"}, {"__builtin__", "set"}, {"builtins", "frozenset"},
        {"__builtin__", "frozenset"}, {"builtins", "bytearray"}, {"__builtin__", "bytearray"},
        {"builtins", "complex"}, {"__builtin__", "complex"}, {"builtins", "slice"},
        {"__builtin__", "slice"}, {"_codecs", "encode"}, {"_io", "BytesIO"}, {"numpy", "ndarray"},
        {"numpy", "dtype"}, {"numpy.core.multiarray", "_reconstruct"},
        {"numpy.core.multiarray", "scalar"}, {"numpy._core.multiarray", "_reconstruct"},
        {"numpy._core.multiarray", "scalar"}, {"copyreg", "_reconstructor"},
        {"copy_reg", "_reconstructor"}, {"builtins", "object"}, {"__builtin__", "object"},
        {"pathlib", "PosixPath"}, {"pathlib", "Path"}, {NULL, NULL}};

static const torch_type types[] = {{"FloatStorage", "float32", "F32", 4},
        {"DoubleStorage", "float64", "F64", 8}, {"HalfStorage", "float16", "F16", 2},
        {"BFloat16Storage", "bfloat16", "BF16", 2}, {"LongStorage", "int64", "I64", 8},
        {"IntStorage", "int32", "I32", 4}, {"ShortStorage", "int16", "I16", 2},
        {"CharStorage", "int8", "I8", 1}, {"ByteStorage", "uint8", "U8", 1},
        {"BoolStorage", "bool", "BOOL", 1}, {NULL, "uint16", "U16", 2}, {NULL, "uint32", "U32", 4},
        {NULL, "uint64", "U64", 8}, {NULL, "float8_e4m3fn", "F8_E4M3", 1},
        {NULL, "float8_e5m2", "F8_E5M2", 1}};
enum { N_TYPES = sizeof types / sizeof *types };

const torch_type *torch_type_of(const char *name) {
    for (int i = 0; i < N_TYPES; i++)
        if (strcmp(types[i].name, name) == 0) return &types[i];
    return NULL;
}

const torch_type *torch_type_of_storage(const char *name) {
    static const torch_type untyped = {"UntypedStorage", "bytes", "U8", 1};
    if (strcmp(name, untyped.storage) == 0) return &untyped;
    for (int i = 0; i < N_TYPES; i++)
        if (types[i].storage && strcmp(types[i].storage, name) == 0) return &types[i];
    return NULL;
}
