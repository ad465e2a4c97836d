// Reads rows of our tensors from the rectangles of foreign ones.
#include "source/foreign_source.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "gguf/llama_names.h"

// The type of a source tensor's `origin`.
typedef struct origin {
    const foreign_tensor *tensor;
    foreign_rows rows;
    int part;
    int64_t base; // the foreign row that its layer begins with
    bool heads_in_columns;
} origin;

foreign_block foreign_whole_block(torch_file *file, const torch_tensor *tensor) {
    return (foreign_block){.rows = tensor->dim[0],
            .cols = tensor->n_dims == 2 ? tensor->dim[1] : 1,
            .file = file,
            .tensor = tensor};
}

// --- reading
drv_status foreign_read_block(const foreign_block *b, int64_t first, int64_t n, void *out) {
    torch_file *file = b->file;
    int64_t size;
    if (file->part.fd != FOREIGN_REOPENED) return torch_read(file, b->tensor, first, n, out);
    DRV_TRY(file_open_regular(file->part.path, &file->part.fd, &size));
    const drv_status status = torch_read(file, b->tensor, first, n, out);
    close(file->part.fd);
    file->part.fd = FOREIGN_REOPENED;
    return status;
}

// Reads rows [row, row + n) of a block into rows of `cols` columns.
static drv_status read_block(const foreign_tensor *t, const foreign_block *b, int64_t row,
        int64_t n, char *out) {
    const int64_t bytes = t->type->bytes, first = b->first + (row - b->row) * b->cols;
    if (b->cols == t->cols) return foreign_read_block(b, first, n * b->cols, out);
    char *piece = mem_alloc((size_t)(n * b->cols * bytes) + 1);
    const drv_status status = foreign_read_block(b, first, n * b->cols, piece);
    for (int64_t i = 0; i < n && status == DRV_OK; i++)
        memcpy(out + (i * t->cols + b->col) * bytes, piece + i * b->cols * bytes,
                (size_t)(b->cols * bytes));
    free(piece);
    return status;
}

drv_status foreign_read_rows(const foreign_tensor *t, int64_t row, int64_t n, char *out) {
    for (int i = 0; i < t->n_blocks; i++) {
        const foreign_block *b = &t->blocks[i];
        const int64_t first = row > b->row ? row : b->row,
                      end = row + n < b->row + b->rows ? row + n : b->row + b->rows;
        if (first < end)
            DRV_TRY(read_block(t, b, first, end - first,
                    out + (first - row) * t->cols * t->type->bytes));
    }
    return DRV_OK;
}

// Brings the columns of o_proj, which are the heads of q, into our order.
static void order_columns(const foreign_sizes *sizes, const source_tensor *t, int64_t n,
        char *rows) {
    const int64_t bytes = t->row_bytes / t->cols, head_bytes = sizes->head_dim * bytes;
    char *row = mem_alloc((size_t)t->row_bytes);
    for (int64_t i = 0; i < n; i++) {
        char *out = rows + i * t->row_bytes;
        memcpy(row, out, (size_t)t->row_bytes);
        for (int64_t head = 0; head < sizes->heads; head++)
            memcpy(out + head * head_bytes,
                    row + foreign_row_of(FOREIGN_QUERY, sizes, 0, head * sizes->head_dim) * bytes,
                    (size_t)head_bytes);
    }
    free(row);
}

static drv_status read_raw(const model_source *s, const source_tensor *t, int64_t row, int64_t n,
        void *out) {
    const foreign_model *m = s->state;
    const origin *from = t->origin;
    for (int64_t i = 0, run; i < n; i += run) {
        const int64_t there = foreign_row_of(from->rows, &m->sizes, from->part, row + i);
        for (run = 1; i + run < n; run++)
            if (foreign_row_of(from->rows, &m->sizes, from->part, row + i + run) != there + run)
                break;
        DRV_TRY(foreign_read_rows(from->tensor, from->base + there, run,
                (char *)out + i * t->row_bytes));
    }
    if (from->heads_in_columns) order_columns(&m->sizes, t, n, out);
    return DRV_OK;
}

static drv_status read_config(const model_source *s, json_t **out) {
    const foreign_model *m = s->state;
    *out = json_incref(m->config);
    return DRV_OK;
}

void foreign_model_close(foreign_model *m) {
    for (int i = 0; i < m->n_files; i++)
        torch_close(m->files[i]);
    for (int i = 0; i < m->n_fds; i++)
        close(m->fds[i]);
    json_decref(m->config);
    m->config = NULL;
    m->n_files = m->n_fds = 0;
}

static void close_source(model_source *s) {
    foreign_model_close(s->state);
}

// --- names
static bool is_embedding(const char *name, const char *ending) {
    if (str_starts(name, "optim") || str_starts(name, "chained_")) return false; // its state
    const size_t n = strlen(name), n_ending = strlen(ending);
    return str_ends(name, ending) && (n == n_ending || name[n - n_ending - 1] == '.');
}

const foreign_names *foreign_names_choose(arena *a, const char *const *names, int n,
        const char **prefix) {
    static const char *const embeddings[][2] = {{"language_model.embedding.word_embeddings.weight",
                                                        ""},
            {"embedding.word_embeddings.weight", "megatron"}, {"model.embed_tokens.weight", "hf"},
            {"tok_embeddings.weight", "torchtitan"}};
    for (size_t k = 0; k < sizeof embeddings / sizeof *embeddings; k++)
        for (int i = 0; i < n; i++) {
            if (!is_embedding(names[i], embeddings[k][0])) continue;
            *prefix = arena_strndup(a, names[i], strlen(names[i]) - strlen(embeddings[k][0]));
            const char *set = embeddings[k][1];
            const char *main_q =
                    arena_printf(a, "%slayers.0.attention.qkv_linear.wq.weight", *prefix);
            for (int j = 0; j < n && strcmp(set, "torchtitan") == 0; j++)
                if (strcmp(names[j], main_q) == 0) set = "torchtitan-main";
            return *set ? foreign_names_find(set) : &foreign_name_sets[n_foreign_name_sets - 1];
        }
    return NULL;
}

// --- config
drv_status foreign_config(foreign_model *m, const char *given, json_t *own) {
    const char *beside = path_join(m->a, m->folder, "config.json"), *where = given ? given : beside;
    drv_status status = DRV_OK;
    if (given || file_exists(beside)) {
        json_decref(own);
        status = json_read_file(where, &m->config);
    } else if (own) {
        where = m->path;
        m->config = own;
    } else
        status = drv_fail(DRV_E_DATA,
                "\"%s\" is %s without a config.json that has the sizes of the model; copy the model's to \"%s\", or name it with --config",
                m->path, m->format, m->folder);
    if (status == DRV_OK) status = foreign_sizes_read(where, m->config, &m->sizes);
    if (status == DRV_OK) m->cuts_vocabulary = m->sizes.vocab > 0;
    return status;
}

// --- the source
static drv_status add_part(foreign_model *m, const foreign_tensor *t, const foreign_name *row,
        int part, int layer, int64_t base, int64_t rows, model_source *out) {
    const bool is_vector = foreign_is_vector(row),
               vocabulary = strcmp(row->part[part], "model.embed_tokens.weight") == 0 ||
                            strcmp(row->part[part], "lm_head.weight") == 0;
    const char *name = arena_printf(m->a, "%s%s", t->before ? t->before : "",
            llama_name_print(m->a, row->part[part], layer));
    const st_type type = source_torch_type(t->type);
    if (type == ST_OTHER)
        return drv_fail(DRV_E_DATA,
                "\"%s\": tensor \"%s\" is of %s, expected float32, bfloat16, float16 or float64",
                m->path, t->name, t->type->name);
    if (model_source_find(out, name))
        return drv_fail(DRV_E_DATA, "\"%s\": tensor \"%s\" is \"%s\", which another one is too",
                m->path, t->name, name);
    if (vocabulary && m->cuts_vocabulary && rows > m->sizes.vocab) rows = m->sizes.vocab;
    origin *from = ARENA_NEW(m->a, origin);
    *from = (origin){.tensor = t,
            .rows = row->rows,
            .part = part,
            .base = base,
            .heads_in_columns = m->sizes.key_copies > 1 && str_ends(name, "o_proj.weight")};
    source_tensor *listed = &out->tensors[out->n++];
    *listed = (source_tensor){.name = name,
            .file = m->path,
            .type_name = st_type_name(type),
            .type = type,
            .n_dims = is_vector ? 1 : 2,
            .dim = {rows, is_vector ? 0 : t->cols},
            .rows = rows,
            .cols = t->cols,
            .row_bytes = t->cols * t->type->bytes,
            .origin = from};
    name_map_set(&out->by_name, name, listed);
    return DRV_OK;
}

// Checks that the parts of a layer have the rows that follow from config.json, and adds them.
static drv_status add_layer(foreign_model *m, const foreign_tensor *t, const foreign_name *row,
        int layer, int64_t base, int64_t rows, model_source *out) {
    const int64_t copies = m->sizes.key_copies ? m->sizes.key_copies : 1;
    int64_t expected = 0;
    for (int k = 0; k < row->n_parts; k++) {
        const int64_t own = foreign_part_rows(row->rows, &m->sizes, k);
        const bool copied = row->rows == FOREIGN_COPIES || (row->rows == FOREIGN_RANKS && k > 0);
        expected += copied ? own * copies : own;
    }
    if (row->rows == FOREIGN_ROTARY && rows % m->sizes.head_dim)
        return drv_fail(DRV_E_DATA, "\"%s\": tensor \"%s\" has %lld rows, expected heads of %lld",
                m->path, t->name, (long long)rows, (long long)m->sizes.head_dim);
    if (expected > 0 && rows != expected)
        return drv_fail(DRV_E_DATA,
                "\"%s\": tensor \"%s\" has %lld rows a layer, expected %lld by config.json",
                m->path, t->name, (long long)rows, (long long)expected);
    for (int k = 0; k < row->n_parts; k++) {
        const int64_t own = foreign_part_rows(row->rows, &m->sizes, k);
        DRV_TRY(add_part(m, t, row, k, layer, base, own < 0 ? rows : own, out));
    }
    return DRV_OK;
}

static drv_status add_tensor(foreign_model *m, const foreign_tensor *t, model_source *out) {
    int layer;
    const foreign_name *row = foreign_name_of(m->names, t->name, &layer);
    if (!row)
        return drv_fail(DRV_E_DATA,
                "\"%s\": tensor \"%s\" is none of a Llama's, expected names as "
                "\"%s\"",
                m->path, t->name, (m->names->n ? m->names->rows : m->names->more)[1].foreign);
    if (layer >= m->sizes.layers || (t->layers && t->layers != m->sizes.layers))
        return drv_fail(DRV_E_DATA,
                "\"%s\": tensor \"%s\" is of another number of layers than %lld", m->path, t->name,
                (long long)m->sizes.layers);
    if (!t->layers) return add_layer(m, t, row, layer, 0, t->rows, out);
    const int64_t rows = t->rows / t->layers;
    for (int i = 0; i < t->layers; i++)
        DRV_TRY(add_layer(m, t, row, i, i * rows, rows, out));
    return DRV_OK;
}

static drv_status make_source(foreign_model *m, model_source *out) {
    static const source_reader plain = {.read_raw = read_raw,
            .config = read_config,
            .close = close_source};
    source_reader *reader = ARENA_NEW(m->a, source_reader);
    int64_t most = 1;
    *reader = plain;
    reader->format = m->format;
    *out = (model_source){.path = m->path,
            .folder = m->folder,
            .reader = reader,
            .by_name = {.a = m->a},
            .state = m};
    for (int i = 0; i < m->n; i++)
        most += MAX_FOREIGN_PARTS * (m->tensors[i].layers ? m->tensors[i].layers : 1);
    out->tensors = ARENA_ARRAY(m->a, source_tensor, most);
    for (int i = 0; i < m->n; i++)
        DRV_TRY(add_tensor(m, &m->tensors[i], out));
    return DRV_OK;
}

drv_status foreign_source(foreign_model *m, drv_status status, model_source *out) {
    if (status == DRV_OK) status = make_source(m, out);
    if (status == DRV_OK) return DRV_OK;
    foreign_model_close(m);
    *out = (model_source){.path = m->path};
    return status;
}
