// Joins the tensors of ranks: those of tensor ranks along their rows or columns, layers of pipeline
// stages by their number.
//
// Legend: j a joining of ranks, r a rank, p a part, t a tensor
#include "ckpt/source_ranks.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "ckpt/foreign_source.h"
#include "ckpt/megatron_args.h"
#include "ckpt/rank_files.h"
#include "gguf/llama_names.h"

// A tensor that a rank has. With xser it lies in a file of its own.
typedef struct part {
    const char *name; // without the prefix and the model chunk
    int chunk, layer; // of the rank, -1: none
    const foreign_name *row;
    torch_file *file;
    const torch_tensor *tensor;
} part;

typedef struct rank {
    torch_file *file;
    part *parts;
    int n;
} rank;

typedef struct joining {
    foreign_model *m;
    rank_files files;
    rank *ranks; // as files.file
    const char *prefix;
    bool layers_are_local; // counted from 0 in each stage
    int n_chunks;          // model chunks of a stage: Megatron's virtual stages
    name_map by_name;      // foreign_tensor of each name
} joining;

// --- a rank
static drv_status open_file(joining *j, const char *path, bool keeps_open, torch_file **out) {
    static const torch_opts opts = {.more_names = megatron_names};
    foreign_model *m = j->m;
    *out = ARENA_NEW(m->a, torch_file);
    DRV_TRY(torch_open(m->a, path, &opts, *out));
    ARENA_GROW(m->a, m->files, m->n_files, m->cap_files);
    m->files[m->n_files++] = *out;
    if (!keeps_open) { // there may be more files than a process may have open
        close((*out)->part.fd);
        (*out)->owns_fd = false;
        (*out)->part.fd = FOREIGN_REOPENED;
    }
    return DRV_OK;
}

static bool is_reference(const pickle_value *v) {
    return v->kind == PICKLE_CALL && strcmp(v->call->name->name, "TensorReference") == 0;
}

// "model1." of a virtual stage is chunk 1.
static const char *take_chunk(const char *name, int *chunk) {
    int end = 0;
    *chunk = 0;
    if (sscanf(name, "model%d.%n", chunk, &end) == 1 && end && *chunk >= 0 && *chunk < 1000)
        return name + end;
    *chunk = 0;
    return name;
}

static void add_part(joining *j, rank *r, const char *name, torch_file *file,
        const torch_tensor *tensor) {
    part p = {.file = file, .tensor = tensor};
    const char *rest = take_chunk(name, &p.chunk);
    const bool chunked = rest != name;
    if (!chunked && !str_starts(name, j->prefix)) return;
    p.name = chunked ? rest : name + strlen(j->prefix);
    if (p.chunk >= j->n_chunks) j->n_chunks = p.chunk + 1;
    p.row = foreign_name_of(j->m->names, p.name, &p.layer);
    r->parts[r->n++] = p;
}

// A reference of xser is an object with a field tid, K of tensor_K.pt.
static drv_status add_reference(joining *j, rank *r, const char *name, const pickle_value *v) {
    const pickle_value *tid = v->call->state ? pickle_get(v->call->state, "tid") : NULL;
    torch_file *file;
    torch_tensor *tensor = ARENA_NEW(j->m->a, torch_tensor);
    bool is_tensor = false;
    if (!tid && v->call->arguments->list.n == 1) tid = v->call->arguments->list.items[0];
    if (!tid || tid->kind != PICKLE_INT)
        return drv_fail(DRV_E_DATA, "%s: the reference of \"%s\" has no number", r->file->part.path,
                name);
    const char *path = arena_printf(j->m->a, "%s.tensors/tensor_%lld.pt", r->file->part.path,
            (long long)tid->integer);
    if (!file_exists(path))
        return drv_fail(DRV_E_DATA, "%s: \"%s\" is in \"%s\", which is not there",
                r->file->part.path, name, path);
    DRV_TRY(open_file(j, path, false, &file));
    DRV_TRY(torch_tensor_of(file, file->root, tensor, &is_tensor));
    if (!is_tensor) return drv_fail(DRV_E_DATA, "%s: holds no tensor", path);
    add_part(j, r, name, file, tensor);
    return DRV_OK;
}

// Walks nested dicts; names are joined by dots.
static drv_status list_references(joining *j, rank *r, const pickle_value *v, const char *before,
        int *n, const char **names) {
    const pickle_dict *dict = pickle_entries(v);
    for (int i = 0; dict && i < dict->n; i++) {
        const pickle_value *key = dict->entries[i].key, *value = dict->entries[i].value;
        if (key->kind != PICKLE_TEXT || key->text.n > 500 || strlen(before) > 500) continue;
        const char *name = arena_printf(j->m->a, "%s%s%.*s", before, *before ? "." : "",
                (int)key->text.n, key->text.p);
        if (is_reference(value) && names) names[*n] = name;
        if (is_reference(value) && !names && r->parts && !str_starts(name, "optimizer"))
            DRV_TRY(add_reference(j, r, name, value));
        *n += is_reference(value);
        DRV_TRY(list_references(j, r, value, name, n, names));
    }
    return DRV_OK;
}

// The names of all tensors of a rank.
static drv_status list_names(joining *j, rank *r, const char ***names, int *n) {
    int n_references = 0;
    *n = 0;
    DRV_TRY(list_references(j, r, r->file->root, "", &n_references, NULL));
    *names = ARENA_ARRAY(j->m->a, const char *, r->file->n + n_references + 1);
    DRV_TRY(list_references(j, r, r->file->root, "", n, *names));
    for (int i = 0; i < r->file->n; i++)
        (*names)[(*n)++] = r->file->tensors[i].name;
    return DRV_OK;
}

static drv_status list_parts(joining *j, rank *r) {
    const char **names;
    int n, n_references = 0;
    DRV_TRY(list_names(j, r, &names, &n));
    r->parts = ARENA_ARRAY(j->m->a, part, n + 1);
    for (int i = 0; i < r->file->n; i++)
        add_part(j, r, r->file->tensors[i].name, r->file, &r->file->tensors[i]);
    return list_references(j, r, r->file->root, "", &n_references, NULL);
}

// --- layers
static int layers_of(const joining *j, int stage, int chunk) {
    const rank *r = &j->ranks[stage * j->files.tensor];
    int n = 0;
    for (int i = 0; i < r->n; i++)
        if (r->parts[i].chunk == chunk && r->parts[i].row && r->parts[i].layer >= n)
            n = r->parts[i].layer + 1;
    return n;
}

// The number of a layer in the model: chunks go around the stages, chunk 0 of all before chunk 1.
static int layer_in_model(const joining *j, int stage, const part *p) {
    int before = 0;
    if (!j->layers_are_local || p->layer < 0) return p->layer;
    for (int chunk = 0; chunk <= p->chunk; chunk++)
        for (int k = 0; k < (chunk < p->chunk ? j->files.pipeline : stage); k++)
            before += layers_of(j, k, chunk);
    return before + p->layer;
}

// Stages beyond the first that have a layer 0 count on their own.
static void find_numbering(joining *j) {
    j->layers_are_local = j->n_chunks > 1;
    for (int stage = 1; stage < j->files.pipeline; stage++)
        for (int i = 0; i < j->ranks[stage * j->files.tensor].n; i++)
            if (j->ranks[stage * j->files.tensor].parts[i].layer == 0) j->layers_are_local = true;
}

// --- joining
typedef enum cut { CUT_ROWS, CUT_COLUMNS, CUT_NOT } cut;

static cut cut_of(const foreign_name *row) {
    if (str_ends(row->part[0], "norm.weight")) return CUT_NOT;
    return str_ends(row->part[0], "o_proj.weight") || str_ends(row->part[0], "down_proj.weight")
                   ? CUT_COLUMNS
                   : CUT_ROWS;
}

static const part *find_part(const rank *r, const part *like) {
    for (int i = 0; i < r->n; i++)
        if (r->parts[i].chunk == like->chunk && strcmp(r->parts[i].name, like->name) == 0)
            return &r->parts[i];
    return NULL;
}

static drv_status disagree(const joining *j, const part *p, const part *other, const char *what) {
    return drv_fail(DRV_E_DATA, "\"%s\": \"%s\" of %s and of %s %s", j->m->path, p->name,
            p->file->part.path, other ? other->file->part.path : "another rank", what);
}

static foreign_block block_of(const part *p) {
    const torch_tensor *t = p->tensor;
    return (foreign_block){.rows = t->dim[0],
            .cols = t->n_dims == 2 ? t->dim[1] : 1,
            .file = p->file,
            .tensor = t};
}

// Norms are the same on all tensor ranks.
static drv_status check_same(const joining *j, const part *p, const part *other) {
    const foreign_block x = block_of(p), y = block_of(other);
    const size_t n = (size_t)(p->tensor->elements * p->tensor->type->bytes);
    char *mine = mem_alloc(n + 1), *theirs = mem_alloc(n + 1);
    drv_status status = foreign_read_block(&x, 0, p->tensor->elements, mine);
    if (status == DRV_OK) status = foreign_read_block(&y, 0, p->tensor->elements, theirs);
    if (status == DRV_OK && memcmp(mine, theirs, n) != 0)
        status = disagree(j, p, other, "differ, expected equal values");
    free(mine);
    free(theirs);
    return status;
}

static drv_status add_rank(const joining *j, foreign_tensor *t, cut how, const part *first,
        const part *p) {
    foreign_block b = block_of(p);
    if (p->tensor->type != t->type || p->tensor->n_dims != first->tensor->n_dims)
        return disagree(j, first, p, "have other types or dimensions");
    const foreign_block expected = block_of(first);
    if (how == CUT_COLUMNS ? b.rows != expected.rows : b.cols != expected.cols)
        return disagree(j, first, p, "have shapes that do not fit together");
    if (how == CUT_NOT) {
        if (b.rows != expected.rows) return disagree(j, first, p, "have other sizes");
        return check_same(j, first, p);
    }
    b.row = how == CUT_ROWS ? t->rows : 0;
    b.col = how == CUT_COLUMNS ? t->cols : 0;
    if (how == CUT_ROWS) t->rows += b.rows;
    if (how == CUT_COLUMNS) t->cols += b.cols;
    t->blocks[t->n_blocks++] = b;
    return DRV_OK;
}

// Joins a tensor of all tensor ranks of a stage.
static drv_status join(joining *j, int stage, const part *p) {
    foreign_model *m = j->m;
    const cut how = cut_of(p->row);
    const char *name = llama_name_print(m->a, p->row->foreign, layer_in_model(j, stage, p));
    if (name_map_get(&j->by_name, name)) return disagree(j, p, NULL, "are one tensor");
    if (p->tensor->n_dims < 1 || p->tensor->n_dims > 2)
        return drv_fail(DRV_E_DATA, "%s: \"%s\" has %d dimensions, expected 1 or 2",
                p->file->part.path, p->name, p->tensor->n_dims);
    const foreign_block first = block_of(p);
    foreign_tensor *t = &m->tensors[m->n++];
    *t = (foreign_tensor){.name = name,
            .type = p->tensor->type,
            .rows = first.rows,
            .cols = first.cols,
            .blocks = ARENA_ARRAY(m->a, foreign_block, j->files.tensor),
            .n_blocks = 1};
    t->blocks[0] = first;
    name_map_set(&j->by_name, name, t);
    for (int k = 1; k < j->files.tensor; k++) {
        const rank *r = &j->ranks[stage * j->files.tensor + k];
        const part *other = find_part(r, p);
        if (!other)
            return drv_fail(DRV_E_DATA, "%s: has no tensor \"%s\", which tensor rank 0 has",
                    r->file->part.path, p->name);
        DRV_TRY(add_rank(j, t, how, p, other));
    }
    return DRV_OK;
}

static drv_status join_all(joining *j) {
    int n = 0;
    for (int i = 0; i < j->files.tensor * j->files.pipeline; i++)
        n += j->ranks[i].n;
    j->m->tensors = ARENA_ARRAY(j->m->a, foreign_tensor, n + 1);
    for (int stage = 0; stage < j->files.pipeline; stage++) {
        const rank *r = &j->ranks[stage * j->files.tensor];
        for (int i = 0; i < r->n; i++) {
            const part *p = &r->parts[i];
            if (foreign_name_is_ignored(p->name)) continue;
            if (p->row)
                DRV_TRY(join(j, stage, p));
            else if (*j->prefix || j->n_chunks > 1)
                return drv_fail(DRV_E_DATA, "%s: tensor \"%s%s\" is none of a Llama's",
                        r->file->part.path, j->prefix, p->name);
        }
    }
    return DRV_OK;
}

// --- copies of keys
static drv_status rows_equal(const foreign_tensor *t, int64_t x, int64_t y, int64_t n,
        bool *equal) {
    const size_t bytes = (size_t)(n * t->cols * t->type->bytes);
    char *p = mem_alloc(bytes), *q = mem_alloc(bytes);
    drv_status status = foreign_read_rows(t, x, n, p);
    if (status == DRV_OK) status = foreign_read_rows(t, y, n, q);
    *equal = status == DRV_OK && memcmp(p, q, bytes) == 0;
    free(p);
    free(q);
    return status;
}

// NxD repeats keys for tensor ranks beyond their number: all heads and again all heads, or each
// head so many times. The values say which.
static drv_status find_copies(joining *j) {
    foreign_sizes *sizes = &j->m->sizes;
    const int64_t heads = sizes->kv_heads, own = heads * sizes->head_dim;
    for (int i = 0; i < j->m->n; i++) {
        const foreign_tensor *t = &j->m->tensors[i];
        bool again = true, adjacent = true;
        int layer;
        const foreign_name *row = foreign_name_of(j->m->names, t->name, &layer);
        const int64_t keys = row->rows == FOREIGN_COPIES ? t->rows
                             : row->rows == FOREIGN_RANKS
                                     ? (t->rows - sizes->heads * sizes->head_dim) / 2
                                     : 0;
        if (!keys) continue;
        sizes->key_copies = keys / own;
        if (sizes->key_copies < 1 || sizes->heads % (heads * sizes->key_copies) || keys % own)
            return drv_fail(DRV_E_DATA,
                    "\"%s\": \"%s\" has %lld rows of keys, expected a multiple of %lld that the "
                    "queries divide by",
                    j->m->path, t->name, (long long)keys, (long long)own);
        if (sizes->key_copies == 1 || heads == 1 || row->rows != FOREIGN_COPIES) continue;
        for (int64_t c = 1; c < sizes->key_copies && again; c++)
            DRV_TRY(rows_equal(t, 0, c * own, own, &again));
        for (int64_t head = 0; head < heads && !again && adjacent; head++)
            for (int64_t c = 1; c < sizes->key_copies && adjacent; c++)
                DRV_TRY(rows_equal(t, head * sizes->key_copies * sizes->head_dim,
                        (head * sizes->key_copies + c) * sizes->head_dim, sizes->head_dim,
                        &adjacent));
        if (!again && !adjacent)
            return drv_fail(DRV_E_DATA,
                    "\"%s\": ranks disagree on \"%s\", of which there are %lld copies", j->m->path,
                    t->name, (long long)sizes->key_copies);
        sizes->copies_adjacent = !again;
    }
    return DRV_OK;
}

// --- opening
static drv_status open_ranks(joining *j) {
    const int n = j->files.tensor * j->files.pipeline;
    const char **names;
    int n_names;
    j->ranks = ARENA_ARRAY(j->m->a, rank, n);
    for (int i = 0; i < n; i++)
        DRV_TRY(open_file(j, j->files.file[i], n <= 256, &j->ranks[i].file));
    DRV_TRY(list_names(j, &j->ranks[0], &names, &n_names));
    j->m->names = foreign_names_choose(j->m->a, names, n_names, &j->prefix);
    if (!j->m->names)
        return drv_fail(DRV_E_DATA,
                "%s: no tensor is the embedding of a Llama, expected "
                "\"model.language_model.embedding.word_embeddings.weight\", "
                "\"model.embedding.word_embeddings.weight\" or \"model.embed_tokens.weight\"",
                j->files.file[0]);
    j->n_chunks = 1;
    for (int i = 0; i < n; i++)
        DRV_TRY(list_parts(j, &j->ranks[i]));
    find_numbering(j);
    return DRV_OK;
}

static drv_status open_all(joining *j, const char *config_file, model_source *out) {
    json_t *own = NULL;
    DRV_TRY(rank_files_find(j->m->a, j->m->path, &j->files));
    DRV_TRY(open_ranks(j));
    DRV_TRY(megatron_args_config(j->files.file[0], pickle_get(j->ranks[0].file->top, "args"),
            &own));
    DRV_TRY(foreign_config(j->m, config_file, own));
    j->m->sizes.tensor_ranks = j->files.tensor;
    DRV_TRY(join_all(j));
    DRV_TRY(find_copies(j));
    return foreign_source(j->m, out);
}

drv_status source_open_ranks(arena *a, const char *path, model_source *out) {
    foreign_model *m = ARENA_NEW(a, foreign_model);
    joining j = {.m = m, .by_name = {.a = a}};
    *m = (foreign_model){.a = a,
            .path = arena_strdup(a, path),
            .folder = arena_strdup(a, path),
            .format = "a checkpoint of tensor and pipeline ranks"};
    const drv_status status = open_all(&j, out->config_file, out);
    if (status != DRV_OK) {
        foreign_model_close(m);
        *out = (model_source){.path = m->path};
    }
    return status;
}

drv_status source_open_ranks_optimizer(arena *a, const char *path, model_source *out,
        foreign_progress *progress) {
    (void)a, (void)out, (void)progress;
    return drv_fail(DRV_E_DATA,
            "\"%s\" is a checkpoint in files of ranks, whose optimizer's state is not read; give "
            "model.weights: load, which begins at step 0",
            path);
}
