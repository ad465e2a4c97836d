// A PJRT plugin that takes CUDA's place on a machine without a GPU: XLA's for processors, whose
// file STAND_IN_FOR names in the environment. It says that it is of Hopper's kind and computes
// calls of cuDNN by their definition (cudnn_definition.h). Programs whose calls and compiler flags
// disagree on determinism are refused: XLA would not find their kernels.
#include <stdio.h>
#include <stdlib.h>

#include "../bench/wrapped_plugin.h"
#include "cudnn_definition.h"

static const own_error refusal = {"calls of cuDNN and xla_gpu_exclude_nondeterministic_ops disagree",
        PJRT_CODE_INTERNAL};

// --- the device
static pjrt_error *tell_attributes(void *args) {
    static const char name[] = "compute_capability", hopper[] = "9.0";
    static const pjrt_named_value capability = {.name = name,
            .name_size = sizeof name - 1,
            .type = PJRT_VALUE_STRING,
            .value.string = hopper,
            .value_size = sizeof hopper - 1};
    pjrt_description_attributes_args *said = args;
    said->attributes = &capability;
    said->n_attributes = 1;
    return NULL;
}

// --- programs
static int times(const char *text, const char *word) {
    int n = 0;
    for (const char *p = text; (p = strstr(p, word)); p++)
        n++;
    return n;
}

// A call of a function of XLA's own becomes one of a handler, which gets its configuration as a
// text. *n: bytes of the result, which the caller frees.
static char *with_handlers(const char *text, size_t *n) {
    static const char
            old[] = "api_version = 2 : i32, has_side_effect = false, backend_config = \"",
            handler[] =
                    "api_version = 4 : i32, has_side_effect = false, backend_config = {config = \"",
            end[] = "\", operand_layouts", handler_end[] = "\"}, operand_layouts";
    char *made = NULL;
    FILE *out = open_memstream(&made, n);
    if (!out) abort();
    for (const char *found; (found = strstr(text, old));) {
        const char *config = found + strlen(old), *rest = strstr(config, end);
        fwrite(text, 1, (size_t)(found - text), out);
        fputs(handler, out);
        fwrite(config, 1, (size_t)(rest - config), out);
        fputs(handler_end, out);
        text = rest + strlen(end);
    }
    fputs(text, out);
    if (fclose(out) != 0) abort();
    return made;
}

static bool flag_says(const pjrt_client_compile_args *c, const char *value) {
    static const char flag[] = "xla_gpu_exclude_nondeterministic_ops";
    const char *found = memmem(c->options, c->options_size, flag, strlen(flag));
    if (!found) return false;
    const char *rest = found + strlen(flag);
    const size_t left = (size_t)(c->options + c->options_size - rest);
    return memmem(rest, left < 12 ? left : 12, value, strlen(value)) != NULL;
}

// Leaves a file where XLA would keep what it has tuned. An option is its name, then 0x0a, a length
// and its text, in the protobuf encoding.
static void tune(const pjrt_client_compile_args *c) {
    static const char flag[] = "xla_gpu_per_fusion_autotune_cache_dir";
    const char *end = c->options + c->options_size,
               *found = memmem(c->options, c->options_size, flag, strlen(flag)),
               *text = found ? memchr(found, '\n', (size_t)(end - found)) : NULL;
    if (!text) return;
    char *path = NULL;
    if (asprintf(&path, "%.*s/tuned", text[1], text + 2) < 0) abort();
    FILE *file = fopen(path, "w");
    if (!file || fclose(file) != 0) abort();
    free(path);
}

static pjrt_error *compile(void *args) {
    tune(args);
    pjrt_client_compile_args changed = *(pjrt_client_compile_args *)args;
    pjrt_program program = *changed.program;
    char *text = strndup(program.code, program.code_size);
    if (!text) abort();
    const int yes = times(text, "force_deterministic\\\":true"),
              no = times(text, "force_deterministic\\\":false");
    char *made = with_handlers(text, &program.code_size);
    pjrt_error *error = error_of(&refusal);
    program.code = made;
    changed.program = &program;
    if ((yes == 0 || flag_says(&changed, "True")) && (no == 0 || flag_says(&changed, "False")))
        error = call_real(PLACE(Client_Compile), &changed);
    ((pjrt_client_compile_args *)args)->executable = changed.executable;
    free(text);
    free(made);
    return error;
}

static bool register_handlers(void) {
    static const struct {
        const char *target;
        ffi_handler *handler;
    } rows[] = {{"__cudnn$fmhaSoftmax", cudnn_forward},
            {"__cudnn$fmhaScaleBiasSoftmax", cudnn_forward_masked},
            {"__cudnn$fmhaSoftmaxBackward", cudnn_backward},
            {"__cudnn$fmhaScaleBiasSoftmaxBackward", cudnn_backward_masked}};
    const pjrt_extension *e = real->extensions;
    while (e && e->type != PJRT_EXTENSION_FFI)
        e = e->next;
    for (size_t i = 0; e && i < sizeof rows / sizeof *rows; i++) {
        ffi_register_args args = {.target = rows[i].target,
                .target_size = strlen(rows[i].target),
                .handler = rows[i].handler,
                .platform = "Host",
                .platform_size = strlen("Host")};
        args.size = offsetof(ffi_register_args, traits) + sizeof args.traits;
        if (((const pjrt_ffi_extension *)(const void *)e)->register_handler(&args)) return false;
    }
    return e != NULL;
}

const pjrt_api *GetPjrtApi(void);
const pjrt_api *GetPjrtApi(void) {
    if (real) return &api;
    if (!wrap_plugin(getenv("STAND_IN_FOR"), &refusal, 1) || !register_handlers()) return NULL;
    wrap_errors();
    api.slot[PLACE(DeviceDescription_Attributes)] = (void *)(uintptr_t)tell_attributes;
    api.slot[PLACE(Client_Compile)] = (void *)(uintptr_t)compile;
    return &api;
}
