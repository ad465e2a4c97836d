// Shards are laid out before the first byte is written, so that headers come first and nothing is
// held back.
#include "ckpt/tensor_writer.h"

#include <string.h>

#include "base/dtype.h"
#include "base/json.h"

// --- files
tensor_shards tensor_shards_of(arena *a, const char *name, const st_entry *list, int n,
        int64_t shard_bytes) {
    const int64_t largest = shard_bytes ? shard_bytes : SHARD_BYTES;
    tensor_shards s = {.a = a,
            .name = name,
            .list = list,
            .n = n,
            .n_shards = 1,
            .first = ARENA_ARRAY(a, int, n + 2)};
    int64_t held = 0;
    for (int i = 0; i < n; i++) {
        const int64_t bytes = st_entry_bytes(&list[i]);
        if (held && bytes && held + bytes > largest) s.first[s.n_shards++] = i, held = 0;
        held += bytes;
    }
    s.first[s.n_shards] = n;
    return s;
}

const char *tensor_shard_name(const tensor_shards *s, int shard) {
    if (s->n_shards == 1) return arena_printf(s->a, "%s.safetensors", s->name);
    return arena_printf(s->a, "%s-%05d-of-%05d.safetensors", s->name, shard + 1, s->n_shards);
}

drv_status tensor_shards_index(const tensor_shards *s, out_folder *o) {
    if (s->n_shards == 1) return DRV_OK;
    json_t *map = json_object();
    int64_t total = 0;
    for (int shard = 0; shard < s->n_shards; shard++)
        for (int i = s->first[shard]; i < s->first[shard + 1]; i++) {
            json_object_set_new(map, s->list[i].name, json_string(tensor_shard_name(s, shard)));
            total += st_entry_bytes(&s->list[i]);
        }
    json_t *index = json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)total,
            "weight_map", map);
    const char *name = arena_printf(s->a, "%s.safetensors.index.json", s->name);
    return out_folder_put_json(o, name, index, JSON_INDENT(2) | JSON_SORT_KEYS);
}

// --- a stream of bytes
struct tensor_writer {
    out_folder *folder;
    tensor_shards shards;
    int shard;         // under way
    out_stream stream; // fd -1: none
    int64_t missing;   // bytes of the shard that have not come
};

static drv_status begin_shard(tensor_writer *w) {
    const tensor_shards *all = &w->shards;
    const int first = all->first[w->shard], end = all->first[w->shard + 1];
    str header = {0};
    DRV_TRY(out_stream_open(w->folder, tensor_shard_name(all, w->shard), &w->stream));
    w->missing = 0;
    for (int i = first; i < end; i++)
        w->missing += st_entry_bytes(&all->list[i]);
    st_header(all->list + first, end - first, &header);
    drv_status status = out_stream_write(&w->stream, header.p, header.n);
    str_free(&header);
    return status;
}

drv_status tensor_writer_open(out_folder *o, const char *name, const st_entry *list, int n,
        int64_t shard_bytes, tensor_writer **out) {
    tensor_writer *w = ARENA_NEW(o->a, tensor_writer);
    *w = (tensor_writer){.folder = o,
            .shards = tensor_shards_of(o->a, name, list, n, shard_bytes),
            .stream = {.fd = -1}};
    *out = w;
    return begin_shard(w);
}

drv_status tensor_writer_add(tensor_writer *w, const void *p, int64_t n) {
    if (n == 0) return DRV_OK;
    if (w->missing == 0) {
        DRV_TRY(out_stream_close(&w->stream, DRV_OK));
        w->shard++;
        DRV_ASSERT(w->shard < w->shards.n_shards, "more bytes than tensors");
        DRV_TRY(begin_shard(w));
    }
    DRV_ASSERT(n <= w->missing, "a piece of two tensors");
    w->missing -= n;
    return out_stream_write(&w->stream, p, (size_t)n);
}

drv_status tensor_writer_close(tensor_writer *w, drv_status status) {
    status = out_stream_close(&w->stream, status);
    if (status != DRV_OK) return status;
    DRV_ASSERT(w->missing == 0 && w->shard == w->shards.n_shards - 1, "bytes are missing");
    return tensor_shards_index(&w->shards, w->folder);
}
