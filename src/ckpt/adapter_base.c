// Decides whether an adapter belongs to a base: by the hashes of drover's base.json, else by PEFT's
// name.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "ckpt/adapter.h"
#include "ckpt/block_hash.h"

enum { PIECE_BYTES = 1 << 20 };

drv_status source_hash_add(const model_source *base, const source_tensor *t, XXH3_state_t *state) {
    const int64_t rows = source_piece_rows(t, PIECE_BYTES);
    float *piece = mem_alloc(sizeof *piece * (size_t)(rows * t->cols + 1));
    drv_status status = DRV_OK;
    for (int64_t row = 0; status == DRV_OK && row < t->rows; row += rows) {
        const int64_t n = t->rows - row < rows ? t->rows - row : rows;
        status = source_read_f32(base, t, row, n, piece);
        if (status == DRV_OK)
            XXH3_128bits_update(state, piece, sizeof *piece * (size_t)(n * t->cols));
    }
    free(piece);
    return status;
}

drv_status source_hash_f32(const model_source *base, const source_tensor *t, char hex[33]) {
    XXH3_state_t *state = XXH3_createState();
    DRV_MEMORY(state && XXH3_128bits_reset(state) == XXH_OK, "a table or a state of some KiB");
    const drv_status status = source_hash_add(base, t, state);
    hash_state_hex(state, hex);
    XXH3_freeState(state);
    return status;
}

static drv_status compare(const char *path, const char *base, const json_t *expected,
        const json_t *hashes, const model_source *source) {
    const char *name;
    json_t *value;
    char hex[33];
    if (!json_is_object(expected))
        return drv_fail(DRV_E_DATA, "%s: no \"tensors\", expected the hash of each", path);
    json_object_foreach((json_t *)(uintptr_t)expected, name, value) {
        const source_tensor *t = source ? model_source_find(source, name) : NULL;
        const char *want = json_string_value(value),
                   *got = json_string_value(json_object_get(hashes, name));
        if (t) DRV_TRY(source_hash_f32(source, t, hex));
        if (t) got = hex;
        if (want && got && strcmp(want, got) == 0) continue;
        return drv_fail(DRV_E_DATA,
                "%s: tensor \"%.120s\" of base \"%s\" has hash %s, expected %s: the adapter belongs to another base",
                path, name, base, got ? got : "(it is missing)", want ? want : "text");
    }
    if (!hashes || json_object_size(expected) == json_object_size(hashes)) return DRV_OK;
    return drv_fail(DRV_E_DATA, "%s: %zu tensors, but base \"%s\" has %zu", path,
            json_object_size(expected), base, json_object_size(hashes));
}

drv_status adapter_check_hashes(const char *folder, const char *base, const json_t *hashes,
        const model_source *source) {
    arena *a = arena_new("base.json");
    const char *path = path_join(a, folder, "base.json");
    json_t *root = NULL;
    drv_status status = DRV_OK;
    if (file_exists(path)) {
        status = json_read_file(path, &root);
        if (status == DRV_OK)
            status = compare(path, base, json_object_get(root, "tensors"), hashes, source);
        json_decref(root);
    }
    arena_free(a);
    return status;
}

void adapter_warn_of_base(const adapter *ad, const char *base) {
    arena *a = arena_new("names of bases");
    char *whole = realpath(base, NULL);
    const char *said = ad->config.base ? ad->config.base : "", *is = whole ? whole : base;
    const bool hashed = file_exists(path_join(a, ad->path, "base.json"));
    if (*said && !hashed && strcmp(path_folder_name(a, said), path_folder_name(a, is)) != 0)
        log_warn("%s/adapter_config.json: the adapter was trained on \"%s\", the base is \"%s\": "
                 "results are right only if both are the same model",
                ad->path, said, base);
    free(whole);
    arena_free(a);
}
