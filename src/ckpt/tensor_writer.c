// Shards are laid out before the first byte is written, so that headers come first and nothing is
// held back.
#include "ckpt/tensor_writer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/json.h"

struct tensor_writer {
    out_folder *folder;
    const char *name;
    const st_entry *list;
    int n, n_shards, shard; // the shard under way
    int *first;             // of each shard, and n after the last
    out_stream stream;      // fd -1: none
    int64_t missing;        // bytes of the shard that have not come
};

static const char *shard_name(const tensor_writer *w, int shard) {
    if (w->n_shards == 1) return arena_printf(w->folder->a, "%s.safetensors", w->name);
    return arena_printf(w->folder->a, "%s-%05d-of-%05d.safetensors", w->name, shard + 1,
            w->n_shards);
}

static void lay_out(tensor_writer *w, int64_t shard_bytes) {
    int64_t held = 0;
    w->n_shards = 1;
    for (int i = 0; i < w->n; i++) {
        const int64_t bytes = st_entry_bytes(&w->list[i]);
        if (held && bytes && held + bytes > shard_bytes) w->first[w->n_shards++] = i, held = 0;
        held += bytes;
    }
    w->first[w->n_shards] = w->n;
}

static drv_status begin_shard(tensor_writer *w) {
    const int first = w->first[w->shard], end = w->first[w->shard + 1];
    str header = {0};
    DRV_TRY(out_stream_open(w->folder, shard_name(w, w->shard), &w->stream));
    w->missing = 0;
    for (int i = first; i < end; i++)
        w->missing += st_entry_bytes(&w->list[i]);
    st_header(w->list + first, end - first, &header);
    drv_status status = out_stream_write(&w->stream, header.p, header.n);
    str_free(&header);
    return status;
}

drv_status tensor_writer_open(out_folder *o, const char *name, const st_entry *list, int n,
        int64_t shard_bytes, tensor_writer **out) {
    tensor_writer *w = ARENA_NEW(o->a, tensor_writer);
    *w = (tensor_writer){.folder = o,
            .name = name,
            .list = list,
            .n = n,
            .first = ARENA_ARRAY(o->a, int, n + 2),
            .stream = {.fd = -1}};
    *out = w;
    lay_out(w, shard_bytes ? shard_bytes : SHARD_BYTES);
    return begin_shard(w);
}

drv_status tensor_writer_add(tensor_writer *w, const void *p, int64_t n) {
    if (n == 0) return DRV_OK;
    if (w->missing == 0) {
        DRV_TRY(out_stream_close(&w->stream, DRV_OK));
        w->shard++;
        DRV_ASSERT(w->shard < w->n_shards, "more bytes than tensors");
        DRV_TRY(begin_shard(w));
    }
    DRV_ASSERT(n <= w->missing, "a piece of two tensors");
    w->missing -= n;
    return out_stream_write(&w->stream, p, (size_t)n);
}

static drv_status write_index(tensor_writer *w) {
    json_t *map = json_object();
    int64_t total = 0;
    for (int shard = 0; shard < w->n_shards; shard++)
        for (int i = w->first[shard]; i < w->first[shard + 1]; i++) {
            json_object_set_new(map, w->list[i].name, json_string(shard_name(w, shard)));
            total += st_entry_bytes(&w->list[i]);
        }
    json_t *index = json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)total,
            "weight_map", map);
    char *text = json_dumps(index, JSON_INDENT(2) | JSON_SORT_KEYS);
    const char *name = arena_printf(w->folder->a, "%s.safetensors.index.json", w->name);
    drv_status status = out_folder_put(w->folder, name, text, strlen(text));
    free(text);
    json_decref(index);
    return status;
}

drv_status tensor_writer_close(tensor_writer *w, drv_status status) {
    status = out_stream_close(&w->stream, status);
    if (status != DRV_OK) return status;
    DRV_ASSERT(w->missing == 0 && w->shard == w->n_shards - 1, "bytes are missing");
    return w->n_shards > 1 ? write_index(w) : DRV_OK;
}

// --- rounding
drv_status tensor_round(const char *name, st_type type, const float *values, int64_t n, void *out) {
    DRV_ASSERT(type != ST_F64 && type != ST_OTHER, "\"%s\" in a type that is not written", name);
    if (type == ST_F32) memmove(out, values, sizeof *values * (size_t)n);
    if (type == ST_F32) return DRV_OK;
    const uint16_t infinity = type == ST_F16 ? 0x7C00 : 0x7F80;
    for (int64_t i = 0; i < n; i++) {
        float value; // the bytes of `out` may be those of `values`, two elements in one
        memcpy(&value, &values[i], sizeof value);
        const uint16_t half = type == ST_F16 ? f32_to_f16(value) : f32_to_bf16(value);
        memcpy((char *)out + 2 * i, &half, sizeof half);
        if ((half & infinity) == infinity)
            return drv_fail(DRV_E_DATA, "tensor \"%s\" has the value %g, which %s cannot hold%s",
                    name, (double)value, st_type_name(type),
                    type == ST_F16 ? " (at most 65504); bf16 can" : "");
    }
    return DRV_OK;
}
