// The layout is that of torch 2.11's FileSystemWriter (torch/distributed/checkpoint/filesystem.py,
// metadata.py): each chunk of a tensor is an archive of torch.save in __0_0.distcp, and .metadata,
// a pickle of the class Metadata, says where. What later versions added to that class and readers
// do not need (storage_meta) is left out, so that older ones read it too.
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "source/megatron_args.h"
#include "ckpt/model_writer.h"
#include "gguf/llama_names.h"
#include "pickle/pickle_writer.h"
#include "pickle/torch_writer.h"

#define DATA_FILE "__0_0.distcp"
#define CLASSES   "torch.distributed.checkpoint.metadata"
enum { PIECE = 4 << 20, MAX_CHUNK_DIMS = 3 }; // bytes in fp32

// A part of a tensor that is written as one archive; several of one name follow each other.
typedef struct chunk {
    const char *name;
    int n_dims;
    int64_t size[MAX_CHUNK_DIMS], offset[MAX_CHUNK_DIMS], whole[MAX_CHUNK_DIMS];
    const source_tensor *part[MAX_FOREIGN_PARTS];
    foreign_rows rows;
    st_type type;
    int64_t file_at, file_bytes; // in DATA_FILE
} chunk;

typedef struct dcp {
    arena *a;
    const model_source *source;
    const foreign_names *names;
    const model_write_opts *opts;
    foreign_sizes sizes;
    chunk *chunks;
    int n, cap, n_parts;
    out_stream stream;
    int64_t done, total; // bytes
} dcp;

// --- chunks
static chunk *add_chunk(dcp *job, const char *name) {
    ARENA_GROW(job->a, job->chunks, job->n, job->cap);
    job->chunks[job->n] =
            (chunk){.name = arena_printf(job->a, "%s%s", job->opts->dcp_prefix, name)};
    return &job->chunks[job->n++];
}

static const st_entry *entry_of(const st_entry *list, int n, const char *name) {
    for (int i = 0; i < n; i++)
        if (strcmp(list[i].name, name) == 0) return &list[i];
    return NULL;
}

// Appends a part; the tensor keeps the type that all its parts share, else F32.
static void add_part(dcp *job, chunk *c, const st_entry *entry, int part) {
    const source_tensor *t = model_source_find(job->source, entry->name);
    c->part[part] = t;
    c->type = part == 0 || c->type == entry->type ? entry->type : ST_F32;
    c->size[0] += t->rows;
    c->n_dims = t->n_dims;
    if (t->n_dims == 2) c->size[1] = t->cols;
    job->n_parts++;
}

// Puts the layer in front of the other dimensions.
static void stack(chunk *c, int64_t layer, int64_t layers) {
    memmove(c->size + 1, c->size, sizeof *c->size * (MAX_CHUNK_DIMS - 1));
    c->n_dims++;
    c->size[0] = 1;
    c->offset[0] = layer;
    memcpy(c->whole, c->size, sizeof c->whole);
    c->whole[0] = layers;
}

// Adds a foreign tensor of one layer, if the model has it.
static drv_status add_named(dcp *job, const foreign_name *row, int layer, const st_entry *list,
        int n_list) {
    const char *name = row->foreign;
    if (job->names->stacked && strstr(name, "%d."))
        name = arena_printf(job->a, "%.*s%s", (int)(strstr(name, "%d.") - name), name,
                strstr(name, "%d.") + 3);
    name = llama_name_print(job->a, name, layer);
    chunk *c = NULL;
    for (int k = 0; k < row->n_parts; k++) {
        const char *ours = llama_name_print(job->a, row->part[k], layer);
        const st_entry *entry = entry_of(list, n_list, ours);
        if (!entry && job->names->needs_head && strcmp(ours, "lm_head.weight") == 0) {
            entry = entry_of(list, n_list, "model.embed_tokens.weight");
            job->n_parts--; // it is written twice
        }
        if (!entry && k > 0)
            return drv_fail(DRV_E_DATA, "\"%s\" has no tensor \"%s\", which is a part of \"%s\"",
                    job->source->path, ours, name);
        if (!entry) return DRV_OK;
        if (!c) c = add_chunk(job, name);
        add_part(job, c, entry, k);
    }
    c->rows = row->rows;
    memcpy(c->whole, c->size, sizeof c->whole);
    if (job->names->stacked && strstr(row->foreign, "%d")) stack(c, layer, job->sizes.layers);
    return DRV_OK;
}

static drv_status list_chunks(dcp *job, const st_entry *list, int n_list) {
    if (!job->names->rows) // our own names
        for (int i = 0; i < n_list; i++) {
            chunk *c = add_chunk(job, list[i].name);
            add_part(job, c, &list[i], 0);
            memcpy(c->whole, c->size, sizeof c->whole);
        }
    for (int i = 0; i < job->names->n; i++) {
        const foreign_name *row = &job->names->rows[i];
        const int64_t layers = strstr(row->foreign, "%d") ? job->sizes.layers : 1;
        for (int64_t layer = 0; layer < layers; layer++)
            DRV_TRY(add_named(job, row, (int)layer, list, n_list));
    }
    if (job->n_parts != n_list)
        return drv_fail(DRV_E_DATA,
                "\"%s\" has %d tensors that --names %s has no name for, expected a Llama",
                job->source->path, n_list - job->n_parts, job->names->name);
    for (int i = 0; i < job->n; i++) { // all chunks of a tensor have one type
        for (int k = i + 1; k < job->n && strcmp(job->chunks[k].name, job->chunks[i].name) == 0;
                k++)
            if (job->chunks[k].type != job->chunks[i].type)
                job->chunks[k].type = job->chunks[i].type = ST_F32;
    }
    return DRV_OK;
}

// --- data
static int64_t chunk_rows(const chunk *c) {
    int64_t rows = 0;
    for (int k = 0; k < MAX_FOREIGN_PARTS && c->part[k]; k++)
        rows += c->part[k]->rows;
    return rows;
}

// Fills rows [row, row + n) of a chunk, by runs of rows that follow each other in the source too.
static drv_status fill_rows(const dcp *job, const chunk *c, int64_t row, int64_t n, float *values,
        char *bytes) {
    const int64_t cols = c->part[0]->cols, row_bytes = cols * st_type_bytes(c->type);
    for (int64_t i = 0, run; i < n; i += run) {
        int part, next_part;
        const int64_t from = foreign_row_back(c->rows, &job->sizes, row + i, &part);
        for (run = 1; i + run < n; run++)
            if (foreign_row_back(c->rows, &job->sizes, row + i + run, &next_part) != from + run ||
                    next_part != part)
                break;
        DRV_TRY(model_read_as(job->source, &job->opts->change, c->part[part], c->type, from, run,
                values, bytes + i * row_bytes));
    }
    return DRV_OK;
}

static drv_status flush(dcp *job, str *text) {
    const drv_status status = out_stream_write(&job->stream, text->p, text->n);
    str_clear(text);
    return status;
}

static drv_status write_pieces(dcp *job, const chunk *c, torch_archive *archive) {
    const int64_t rows = chunk_rows(c), cols = c->part[0]->cols,
                  row_bytes = cols * st_type_bytes(c->type),
                  piece = source_piece_rows(c->part[0], PIECE);
    float *values = mem_alloc(sizeof *values * (size_t)(piece * cols));
    char *bytes = mem_alloc((size_t)(piece * row_bytes));
    drv_status status = DRV_OK;
    for (int64_t row = 0; row < rows && status == DRV_OK; row += piece) {
        const int64_t n = rows - row < piece ? rows - row : piece;
        status = fill_rows(job, c, row, n, values, bytes);
        if (status != DRV_OK) break;
        torch_tensor_data(archive, bytes, (size_t)(n * row_bytes));
        status = out_stream_write(&job->stream, bytes, (size_t)(n * row_bytes));
        job->done += n * row_bytes;
    }
    free(values);
    free(bytes);
    return status;
}

static const char *storage_of(st_type type) {
    return type == ST_BF16 ? "BFloat16Storage" : type == ST_F16 ? "HalfStorage" : "FloatStorage";
}

static drv_status write_chunk(dcp *job, chunk *c) {
    torch_archive archive;
    str text = {0};
    c->file_at = job->stream.bytes;
    torch_tensor_begin(&archive, &text, storage_of(c->type), c->size, c->n_dims,
            st_type_bytes(c->type));
    drv_status status = flush(job, &text);
    if (status == DRV_OK) status = write_pieces(job, c, &archive);
    torch_tensor_end(&archive, &text);
    if (status == DRV_OK) status = flush(job, &text);
    c->file_bytes = job->stream.bytes - c->file_at;
    str_free(&text);
    return status;
}

static drv_status write_chunks(dcp *job) {
    for (int i = 0; i < job->n; i++)
        job->total += chunk_rows(&job->chunks[i]) * job->chunks[i].part[0]->cols *
                      st_type_bytes(job->chunks[i].type);
    DRV_TRY(model_write_room(job->stream.path, job->total));
    for (int i = 0; i < job->n; i++) {
        progress("%s: tensor %d of %d, %s of %s", job->opts->verb, i + 1, job->n,
                str_bytes((double)job->done), str_bytes((double)job->total));
        DRV_TRY(write_chunk(job, &job->chunks[i]));
    }
    return DRV_OK;
}

// --- .metadata
// An instance of a class, whose state follows as a dict: begin, fields, end.
static void begin_object(str *out, const char *module, const char *class) {
    pickle_put_global(out, module, class);
    pickle_put(out, PUT_EMPTY_TUPLE);
    pickle_put(out, PUT_NEWOBJ);
    pickle_put(out, PUT_EMPTY_DICT);
    pickle_put(out, PUT_MARK);
}

static void end_object(str *out) {
    pickle_put(out, PUT_SETITEMS);
    pickle_put(out, PUT_BUILD);
}

static void begin_dict(str *out, const char *key) {
    pickle_put_text(out, key);
    pickle_put(out, PUT_EMPTY_DICT);
    pickle_put(out, PUT_MARK);
}

static void put_size(str *out, const char *key, const int64_t *dim, int n_dims) {
    pickle_put_text(out, key);
    pickle_put_global(out, "torch", "Size");
    pickle_put_ints(out, dim, n_dims);
    pickle_put(out, PUT_TUPLE1);
    pickle_put(out, PUT_REDUCE);
}

static void put_properties(str *out, st_type type) {
    pickle_put_global(out, CLASSES, "TensorProperties");
    pickle_put(out, PUT_EMPTY_TUPLE);
    pickle_put(out, PUT_NEWOBJ);
    pickle_put(out, PUT_MARK);
    pickle_put_global(out, "torch", model_torch_type(type));
    pickle_put_global(out, "torch.serialization", "_get_layout");
    pickle_put_text(out, "torch.strided");
    pickle_put(out, PUT_TUPLE1);
    pickle_put(out, PUT_REDUCE);
    pickle_put(out, PUT_FALSE); // requires_grad
    pickle_put_global(out, CLASSES, "_MEM_FORMAT_ENCODING");
    pickle_put_int(out, 0); // contiguous
    pickle_put(out, PUT_TUPLE1);
    pickle_put(out, PUT_REDUCE);
    pickle_put(out, PUT_FALSE); // pin_memory
    pickle_put(out, PUT_TUPLE);
    pickle_put(out, PUT_BUILD);
}

// Returns how many of the `n` chunks belong to the tensor of the first one.
static int chunks_of(const chunk *c, int n) {
    int k = 1;
    while (k < n && strcmp(c[k].name, c->name) == 0)
        k++;
    return k;
}

static void put_tensor(str *out, const chunk *c, int n) {
    pickle_put_text(out, c->name);
    begin_object(out, CLASSES, "TensorStorageMetadata");
    pickle_put_text(out, "properties");
    put_properties(out, c->type);
    put_size(out, "size", c->whole, c->n_dims);
    pickle_put_text(out, "chunks");
    pickle_put(out, PUT_EMPTY_LIST);
    pickle_put(out, PUT_MARK);
    for (int k = 0; k < n; k++) {
        begin_object(out, CLASSES, "ChunkStorageMetadata");
        put_size(out, "offsets", c[k].offset, c->n_dims);
        put_size(out, "sizes", c[k].size, c->n_dims);
        end_object(out);
    }
    pickle_put(out, PUT_APPENDS);
    end_object(out);
}

static void put_place(str *out, const chunk *c, int index) {
    begin_object(out, CLASSES, "MetadataIndex");
    pickle_put_text(out, "fqn");
    pickle_put_text(out, c->name);
    pickle_put_text(out, "index");
    pickle_put_int(out, index);
    put_size(out, "offset", c->offset, c->n_dims);
    end_object(out);
    begin_object(out, "torch.distributed.checkpoint.filesystem", "_StorageInfo");
    pickle_put_text(out, "relative_path");
    pickle_put_text(out, DATA_FILE);
    pickle_put_text(out, "offset");
    pickle_put_int(out, c->file_at);
    pickle_put_text(out, "length");
    pickle_put_int(out, c->file_bytes);
    end_object(out);
}

static void put_metadata(str *out, const chunk *chunks, int n_chunks) {
    pickle_begin(out);
    begin_object(out, CLASSES, "Metadata");
    begin_dict(out, "state_dict_metadata");
    for (int i = 0; i < n_chunks; i += chunks_of(chunks + i, n_chunks - i))
        put_tensor(out, chunks + i, chunks_of(chunks + i, n_chunks - i));
    pickle_put(out, PUT_SETITEMS);
    begin_dict(out, "planner_data"); // the path of each tensor in a nested dict: its name alone
    for (int i = 0; i < n_chunks; i += chunks_of(chunks + i, n_chunks - i)) {
        pickle_put_text(out, chunks[i].name);
        pickle_put_text(out, chunks[i].name);
        pickle_put(out, PUT_TUPLE1);
    }
    pickle_put(out, PUT_SETITEMS);
    begin_dict(out, "storage_data");
    for (int i = 0; i < n_chunks; i += chunks_of(chunks + i, n_chunks - i))
        for (int k = 0; k < chunks_of(chunks + i, n_chunks - i); k++)
            put_place(out, &chunks[i + k], k);
    pickle_put(out, PUT_SETITEMS);
    end_object(out);
    pickle_end(out);
}

// Warns of parts of the model that a run which takes its arguments from the checkpoint may compute
// differently.
static void warn_of_unsaid(const dcp *job, const json_t *config) {
    const json_t *rope = json_object_get(config, "rope_scaling");
    const json_int_t window = json_integer_value(json_object_get(config, "sliding_window")),
                     first = json_integer_value(json_object_get(config, "max_window_layers")),
                     layers = json_integer_value(json_object_get(config, "num_hidden_layers"));
    if (window)
        log_warn("%s: give Megatron-Core --window-size %lld,0%s beside --use-checkpoint-args, which may not take it from common.pt",
                job->source->path, (long long)window - 1,
                first ? arena_printf(job->a, " --window-attn-skip-freq '[0]*%lld+[1]*%lld'",
                                (long long)first, (long long)(layers - first))
                      : "");
    if (rope && !megatron_can_scale(rope))
        log_warn("%s: Megatron-Core scales rotary frequencies with low_freq_factor 1, "
                 "high_freq_factor 4 and original_max_position_embeddings 8192 only, so it computes "
                 "another model",
                job->source->path);
}

// Writes the files by which Megatron-Core recognises a checkpoint, and the arguments of the run.
static drv_status put_megatron(const dcp *job, const json_t *config, out_folder *o) {
    static const char about[] =
            "{\"sharded_backend\": \"torch_dist\", \"sharded_backend_version\": 1, "
            "\"common_backend\": \"torch\", \"common_backend_version\": 1}";
    const source_tensor *embedding = model_source_find(job->source, "model.embed_tokens.weight");
    str common = {0}, file = {0};
    warn_of_unsaid(job, config);
    megatron_common_put(&common, config, embedding ? embedding->rows : 0);
    torch_object(&file, &common);
    drv_status status = out_folder_put(o, "common.pt", file.p, file.n);
    if (status == DRV_OK) status = out_folder_put(o, "metadata.json", about, sizeof about - 1);
    str_free(&common);
    str_free(&file);
    return status;
}

drv_status dcp_write(arena *a, const model_source *s, const st_entry *list, int n, out_folder *o,
        const model_write_opts *opts) {
    dcp job = {.a = a, .source = s, .names = opts->dcp, .opts = opts};
    str metadata = {0};
    DRV_TRY(foreign_sizes_read(s->path, opts->dcp_config, &job.sizes));
    if (opts->dcp->stacked) DRV_TRY(put_megatron(&job, opts->dcp_config, o));
    DRV_TRY(list_chunks(&job, list, n));
    DRV_TRY(out_stream_open(o, DATA_FILE, &job.stream));
    drv_status status = write_chunks(&job);
    progress_end();
    DRV_TRY(out_stream_close(&job.stream, status));
    put_metadata(&metadata, job.chunks, job.n);
    status = out_folder_put(o, ".metadata", metadata.p, metadata.n);
    str_free(&metadata);
    return status;
}
