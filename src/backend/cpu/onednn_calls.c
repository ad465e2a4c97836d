// oneDNN, opened at its first use.
#include "backend/cpu/onednn_calls.h"

#include "base/library.h"

#define CALL(name)                                                                                 \
    { "dnnl_" #name, offsetof(onednn_calls, name) }

static const library_call calls[] = {CALL(version), CALL(engine_create), CALL(engine_destroy),
        CALL(stream_create), CALL(stream_destroy), CALL(memory_desc_init_by_strides),
        CALL(memory_desc_get_size), CALL(memory_create), CALL(memory_set_data_handle),
        CALL(memory_destroy), CALL(matmul_desc_init), CALL(post_ops_create),
        CALL(post_ops_append_sum), CALL(post_ops_destroy), CALL(primitive_attr_create),
        CALL(primitive_attr_set_post_ops), CALL(primitive_attr_set_scratchpad_mode),
        CALL(primitive_attr_destroy), CALL(primitive_desc_create), CALL(primitive_desc_query_md),
        CALL(primitive_desc_destroy), CALL(primitive_create), CALL(primitive_execute),
        CALL(primitive_destroy)};
enum { N_CALLS = sizeof calls / sizeof *calls };
_Static_assert(sizeof(onednn_calls) == N_CALLS * sizeof(void *), "every function has a row");

static onednn_calls table;
const onednn_calls *const dnnl = &table;

bool onednn_is_there(const char **why) {
    static library onednn = {.file = LIBRARY_FILE,
            .calls = calls,
            .n_calls = N_CALLS,
            .table = &table};
    const bool there = library_ready(&onednn);
    if (why) *why = onednn.why;
    return there;
}
