// Takes the objects of the pickle apart: Metadata has two dicts, from a name to the chunks of the
// tensor, and from a name and an offset to the place of the chunk.
#include "pickle/dcp_metadata.h"

#include <stdlib.h>
#include <string.h>

#define CHECKPOINT "torch.distributed.checkpoint."
#define SHARDED    "torch.distributed._shard.sharded_tensor.metadata"
#define MCORE      "megatron.core.dist_checkpointing.strategies.torch"

// Classes that a .metadata names: those of torch, in the modules that they had in its versions, and
// those that Megatron-Core adds (plans of ranks, which are not used).
static const pickle_name names[] = {{CHECKPOINT "metadata", "Metadata"},
        {CHECKPOINT "metadata", "TensorStorageMetadata"},
        {CHECKPOINT "metadata", "BytesStorageMetadata"},
        {CHECKPOINT "metadata", "ChunkStorageMetadata"},
        {CHECKPOINT "metadata", "TensorProperties"}, {CHECKPOINT "metadata", "MetadataIndex"},
        {CHECKPOINT "metadata", "StorageMeta"}, {CHECKPOINT "metadata", "_MEM_FORMAT_ENCODING"},
        {CHECKPOINT "filesystem", "_StorageInfo"}, {CHECKPOINT "filesystem", "_StoragePrefix"},
        {CHECKPOINT "planner", "SavePlan"}, {CHECKPOINT "planner", "WriteItem"},
        {CHECKPOINT "planner", "WriteItemType"}, {CHECKPOINT "planner", "TensorWriteData"},
        {CHECKPOINT "planner", "BytesIOWriteData"}, {SHARDED, "TensorProperties"},
        {SHARDED, "MEM_FORMAT_ENCODING"}, {MCORE, "MCoreMetadata"}, {MCORE, "MCoreSavePlan"},
        {NULL, NULL}};

typedef struct reading {
    arena *a;
    const char *path;
} reading;

static drv_status bad(const reading *r, const char *name, const char *what) {
    return drv_fail(DRV_E_DATA, "%s: \"%.100s\" %s", r->path, name, what);
}

// --- values
// Returns a field of an object that its class made of a dict; NULL: it has none of that name.
static const pickle_value *field(const pickle_value *v, const char *name) {
    if (!v || v->kind != PICKLE_CALL || !v->call->state) return NULL;
    return pickle_get(v->call->state, name);
}

static bool is_class(const pickle_value *v, const char *name) {
    return v && v->kind == PICKLE_CALL && strcmp(v->call->name->name, name) == 0;
}

// Copies a text; NULL: it is not a text, or has a NUL in it.
static const char *text_of(arena *a, const pickle_value *v) {
    if (!v || v->kind != PICKLE_TEXT || memchr(v->text.p, 0, v->text.n)) return NULL;
    return arena_strndup(a, v->text.p, v->text.n);
}

// Takes torch.Size or a tuple of sizes, and returns their number; -1: it is neither.
static int sizes_of(const pickle_value *v, int64_t *out) {
    if (pickle_is_call(v, "torch", "Size") && v->call->arguments->list.n == 1)
        v = v->call->arguments->list.items[0];
    if (!v || (v->kind != PICKLE_TUPLE && v->kind != PICKLE_LIST) || v->list.n > MAX_TORCH_DIMS)
        return -1;
    for (int i = 0; i < v->list.n; i++) {
        const pickle_value *size = v->list.items[i];
        if (size->kind != PICKLE_INT || size->integer < 0 || size->integer > INT64_MAX / 64)
            return -1;
        out[i] = size->integer;
    }
    return v->list.n;
}

// TensorProperties pickles a tuple, whose first value is the dtype; some versions had a dict.
static drv_status read_type(const reading *r, const pickle_value *properties, dcp_entry *e) {
    const pickle_value *state =
            properties && properties->kind == PICKLE_CALL ? properties->call->state : NULL;
    const pickle_value *dtype = pickle_get(state, "dtype");
    if (state && state->kind == PICKLE_TUPLE && state->list.n) dtype = state->list.items[0];
    if (!dtype || dtype->kind != PICKLE_NAME) return bad(r, e->name, "has no dtype");
    e->type = torch_type_of(dtype->name->name);
    if (e->type) return DRV_OK;
    return drv_fail(DRV_E_DATA, "%s: \"%.100s\" is of %s.%s, which is not read", r->path, e->name,
            dtype->name->module, dtype->name->name);
}

// --- tensors
static bool same_sizes(const int64_t *x, const int64_t *y, int n) {
    return memcmp(x, y, sizeof *x * (size_t)n) == 0;
}

static int64_t elements_of(const int64_t *size, int n_dims) {
    int64_t n = 1;
    for (int i = 0; i < n_dims; i++)
        if (__builtin_mul_overflow(n, size[i], &n)) return -1;
    return n;
}

static drv_status read_chunk(const reading *r, const dcp_entry *e, const pickle_value *v,
        dcp_chunk *out) {
    if (sizes_of(field(v, "offsets"), out->offset) != e->n_dims ||
            sizes_of(field(v, "sizes"), out->size) != e->n_dims)
        return bad(r, e->name, "has a chunk without offsets and sizes of its dimensions");
    for (int i = 0; i < e->n_dims; i++)
        if (out->offset[i] > e->dim[i] - out->size[i])
            return bad(r, e->name, "has a chunk that reaches beyond it");
    return DRV_OK;
}

static drv_status read_tensor(const reading *r, const pickle_value *v, dcp_entry *e) {
    const pickle_value *chunks = field(v, "chunks");
    DRV_TRY(read_type(r, field(v, "properties"), e));
    e->n_dims = sizes_of(field(v, "size"), e->dim);
    if (e->n_dims < 0) return bad(r, e->name, "has no size of at most 8 dimensions");
    if (!chunks || chunks->kind != PICKLE_LIST) return bad(r, e->name, "has no list of chunks");
    e->n_chunks = chunks->list.n;
    e->chunks = ARENA_ARRAY(r->a, dcp_chunk, e->n_chunks + 1);
    for (int i = 0; i < e->n_chunks; i++)
        DRV_TRY(read_chunk(r, e, chunks->list.items[i], &e->chunks[i]));
    return DRV_OK;
}

static drv_status read_entry(const reading *r, const pickle_entry *from, dcp_entry *e) {
    e->name = text_of(r->a, from->key);
    if (!e->name) return drv_fail(DRV_E_DATA, "%s: the name of a tensor is not a text", r->path);
    if (is_class(from->value, "TensorStorageMetadata")) return read_tensor(r, from->value, e);
    if (!is_class(from->value, "BytesStorageMetadata"))
        return bad(r, e->name, "is neither a tensor nor an object");
    e->n_chunks = 1;
    e->chunks = ARENA_NEW(r->a, dcp_chunk);
    return DRV_OK;
}

static drv_status read_entries(const reading *r, const pickle_value *root, dcp_metadata *out) {
    const pickle_dict *dict = pickle_entries(field(root, "state_dict_metadata"));
    if (!dict)
        return drv_fail(DRV_E_DATA, "%s: has no dict state_dict_metadata: is it a .metadata?",
                r->path);
    out->entries = ARENA_ARRAY(r->a, dcp_entry, dict->n + 1);
    for (int i = 0; i < dict->n; i++) {
        dcp_entry *e = &out->entries[out->n++];
        DRV_TRY(read_entry(r, &dict->entries[i], e));
        if (name_map_get(&out->by_name, e->name)) return bad(r, e->name, "is there twice");
        name_map_set(&out->by_name, e->name, e);
    }
    return DRV_OK;
}

// --- places
static drv_status read_place(const reading *r, const char *name, const pickle_value *info,
        dcp_chunk *chunk) {
    const pickle_value *offset = field(info, "offset"), *bytes = field(info, "length"),
                       *transforms = field(info, "transform_descriptors");
    const char *file = text_of(r->a, field(info, "relative_path"));
    if (!is_class(info, "_StorageInfo") || !file || !offset || offset->kind != PICKLE_INT ||
            !bytes || bytes->kind != PICKLE_INT || offset->integer < 0 || bytes->integer < 0 ||
            offset->integer > INT64_MAX / 4 || bytes->integer > INT64_MAX / 4)
        return bad(r, name, "has no place of a file, an offset and a length");
    if (!*file || *file == '.' || strchr(file, '/'))
        return drv_fail(DRV_E_DATA,
                "%s: \"%.100s\" lies in \"%.100s\", expected a file of the folder", r->path, name,
                file);
    if (transforms && transforms->kind != PICKLE_NONE)
        return bad(r, name, "was transformed as it was written (compressed), which is not read");
    if (chunk->file) return bad(r, name, "has two places for one chunk");
    chunk->file = file;
    chunk->at = offset->integer;
    chunk->bytes = bytes->integer;
    return DRV_OK;
}

// The chunk that an index means: by its number, which is a hint, or else by its offset.
static dcp_chunk *chunk_of(const dcp_entry *e, const pickle_value *index) {
    int64_t offset[MAX_TORCH_DIMS] = {0};
    const pickle_value *hint = field(index, "index"), *where = field(index, "offset");
    if (!e->type) return e->chunks;
    if (!where || where->kind == PICKLE_NONE) return e->n_chunks == 1 ? e->chunks : NULL;
    if (sizes_of(where, offset) != e->n_dims) return NULL;
    if (hint && hint->kind == PICKLE_INT && hint->integer >= 0 && hint->integer < e->n_chunks &&
            same_sizes(e->chunks[hint->integer].offset, offset, e->n_dims))
        return &e->chunks[hint->integer];
    for (int i = 0; i < e->n_chunks; i++)
        if (same_sizes(e->chunks[i].offset, offset, e->n_dims)) return &e->chunks[i];
    return NULL;
}

static drv_status read_places(const reading *r, const pickle_value *root, dcp_metadata *out) {
    const pickle_dict *dict = pickle_entries(field(root, "storage_data"));
    if (!dict) return drv_fail(DRV_E_DATA, "%s: has no dict storage_data", r->path);
    for (int i = 0; i < dict->n; i++) {
        const pickle_value *index = dict->entries[i].key;
        const char *name = text_of(r->a, field(index, "fqn"));
        dcp_entry *e = name ? name_map_get(&out->by_name, name) : NULL;
        if (!e)
            return drv_fail(DRV_E_DATA, "%s: a place belongs to no tensor (\"%.100s\")", r->path,
                    name ? name : "");
        dcp_chunk *chunk = chunk_of(e, index);
        if (chunk && e->type && elements_of(chunk->size, e->n_dims) == 0) continue;
        if (!chunk) return bad(r, name, "has a place for a chunk that it has not");
        DRV_TRY(read_place(r, name, dict->entries[i].value, chunk));
    }
    return DRV_OK;
}

// --- whole
static bool overlap(const dcp_chunk *x, const dcp_chunk *y, int n_dims) {
    for (int i = 0; i < n_dims; i++)
        if (x->offset[i] >= y->offset[i] + y->size[i] || y->offset[i] >= x->offset[i] + x->size[i])
            return false;
    return true;
}

static int by_offset(const void *x, const void *y) {
    const dcp_chunk *a = x, *b = y;
    for (int i = 0; i < MAX_TORCH_DIMS; i++)
        if (a->offset[i] != b->offset[i]) return a->offset[i] < b->offset[i] ? -1 : 1;
    return 0;
}

// Chunks that do not overlap and have as many elements as the tensor fill it. Ordered by their
// first dimension, a chunk can only overlap those that begin before it ends.
static drv_status check_whole(const reading *r, dcp_entry *e) {
    const int64_t expected = elements_of(e->dim, e->n_dims);
    int64_t sum = 0;
    if (expected < 0) return bad(r, e->name, "has too many elements");
    qsort(e->chunks, (size_t)e->n_chunks, sizeof *e->chunks, by_offset);
    for (int i = 0; i < e->n_chunks; i++) {
        const dcp_chunk *c = &e->chunks[i];
        const int64_t elements = e->type ? elements_of(c->size, e->n_dims) : 0;
        if (!c->file && (elements || !e->type))
            return bad(r, e->name, "has a chunk that no file has");
        sum += elements;
        for (int k = i + 1; elements && k < e->n_chunks; k++) {
            const dcp_chunk *next = &e->chunks[k];
            if (e->n_dims && next->offset[0] >= c->offset[0] + c->size[0]) break;
            if (elements_of(next->size, e->n_dims) && overlap(c, next, e->n_dims))
                return bad(r, e->name, "has chunks that overlap");
        }
    }
    if (!e->type || sum == expected) return DRV_OK;
    return drv_fail(DRV_E_DATA, "%s: \"%.100s\" has chunks of %lld elements, expected %lld",
            r->path, e->name, (long long)sum, (long long)expected);
}

drv_status dcp_metadata_parse(arena *a, const char *path, const void *p, size_t n,
        dcp_metadata *out) {
    const pickle_opts opts = {.names = torch_names, .more_names = names};
    const reading r = {a, path};
    pickle tree;
    *out = (dcp_metadata){.by_name = {.a = a}};
    DRV_TRY(pickle_read(a, path, 0, p, n, &opts, &tree));
    DRV_TRY(read_entries(&r, tree.root, out));
    DRV_TRY(read_places(&r, tree.root, out));
    for (int i = 0; i < out->n; i++)
        DRV_TRY(check_whole(&r, &out->entries[i]));
    return DRV_OK;
}
