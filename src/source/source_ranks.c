// Lists the tensors of each rank by the trainer's names, and has them joined.
//
// Legend: j a joining of ranks, r a rank, p a part, t a tensor
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "source/megatron_args.h"
#include "source/rank_join.h"
#include "source/rank_tensors.h"
#include "source/optimizer_states.h"

// --- a rank
// Removes "model1." of a virtual stage, which is chunk 1, from a name.
static const char *take_chunk(const char *name, int *chunk) {
    int end = 0;
    *chunk = 0;
    if (sscanf(name, "model%d.%n", chunk, &end) == 1 && end && *chunk >= 0 && *chunk < 1000)
        return name + end;
    *chunk = 0;
    return name;
}

static void add_part(rank_joining *j, rank *r, const char *name, torch_file *file,
        const torch_tensor *tensor) {
    rank_part p = {.path = file->part.path, .type = tensor->type, .n_dims = tensor->n_dims};
    const char *rest = take_chunk(name, &p.chunk);
    const bool chunked = rest != name;
    if (!chunked && !str_starts(name, j->prefix)) return;
    p.name = chunked ? rest : name + strlen(j->prefix);
    if (p.chunk >= j->n_chunks) j->n_chunks = p.chunk + 1;
    p.row = foreign_name_of(j->m->names, p.name, &p.layer);
    p.blocks = ARENA_NEW(j->m->a, foreign_block);
    *p.blocks = foreign_whole_block(file, tensor);
    p.n_blocks = 1;
    p.rows = p.blocks->rows;
    p.cols = p.blocks->cols;
    r->parts[r->n++] = p;
}

static drv_status add_reference(rank_joining *j, rank *r, const char *name, const pickle_value *v) {
    torch_file *file;
    const torch_tensor *tensor;
    DRV_TRY(rank_tensor_of(j->m, r->file, name, v, &file, &tensor));
    add_part(j, r, name, file, tensor);
    return DRV_OK;
}

// Walks nested dicts; names are joined by dots.
static drv_status list_references(rank_joining *j, rank *r, const pickle_value *v,
        const char *before, int *n, const char **names) {
    const pickle_dict *dict = pickle_entries(v);
    for (int i = 0; dict && i < dict->n; i++) {
        const pickle_value *key = dict->entries[i].key, *value = dict->entries[i].value;
        if (key->kind != PICKLE_TEXT || key->text.n > 500 || strlen(before) > 500) continue;
        const char *name = arena_printf(j->m->a, "%s%s%.*s", before, *before ? "." : "",
                (int)key->text.n, key->text.p);
        if (rank_is_reference(value) && names) names[*n] = name;
        if (rank_is_reference(value) && !names && r->parts && !str_starts(name, "optimizer"))
            DRV_TRY(add_reference(j, r, name, value));
        *n += rank_is_reference(value);
        DRV_TRY(list_references(j, r, value, name, n, names));
    }
    return DRV_OK;
}

// Lists the names of all tensors of a rank.
static drv_status list_names(rank_joining *j, rank *r, const char ***names, int *n) {
    int n_references = 0;
    *n = 0;
    DRV_TRY(list_references(j, r, r->file->root, "", &n_references, NULL));
    *names = ARENA_ARRAY(j->m->a, const char *, r->file->n + n_references + 1);
    DRV_TRY(list_references(j, r, r->file->root, "", n, *names));
    for (int i = 0; i < r->file->n; i++)
        (*names)[(*n)++] = r->file->tensors[i].name;
    return DRV_OK;
}

static drv_status list_parts(rank_joining *j, rank *r) {
    const char **names;
    int n, n_references = 0;
    DRV_TRY(list_names(j, r, &names, &n));
    r->parts = ARENA_ARRAY(j->m->a, rank_part, n + 1);
    for (int i = 0; i < r->file->n; i++)
        add_part(j, r, r->file->tensors[i].name, r->file, &r->file->tensors[i]);
    return list_references(j, r, r->file->root, "", &n_references, NULL);
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

// If there are more tensor ranks than heads of keys, NxD repeats either the list of all heads or
// each head. Compares the values to find out which.
static drv_status find_copies(rank_joining *j) {
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
static drv_status open_files(rank_joining *j) {
    const int n = j->files.tensor * j->files.pipeline;
    j->ranks = ARENA_ARRAY(j->m->a, rank, n);
    for (int i = 0; i < n; i++)
        DRV_TRY(j->files.parts
                        ? rank_open_part(j->m, &j->files.parts[i], &j->ranks[i].file)
                        : rank_open_file(j->m, j->files.file[i], n <= 256, &j->ranks[i].file));
    return DRV_OK;
}

static drv_status list_ranks(rank_joining *j) {
    const char **names;
    int n_names;
    DRV_TRY(list_names(j, &j->ranks[0], &names, &n_names));
    j->m->names = foreign_names_choose(j->m->a, names, n_names, &j->prefix);
    if (!j->m->names)
        return drv_fail(DRV_E_DATA,
                "%s: no tensor is the embedding of a Llama, expected "
                "\"model.language_model.embedding.word_embeddings.weight\", "
                "\"model.embedding.word_embeddings.weight\" or \"model.embed_tokens.weight\"",
                j->files.file[0]);
    j->n_chunks = 1;
    for (int i = 0; i < j->files.tensor * j->files.pipeline; i++)
        DRV_TRY(list_parts(j, &j->ranks[i]));
    rank_join_number(j);
    return DRV_OK;
}

// Makes room for the optimizer's tensors as well.
static void make_room(rank_joining *j) {
    int n = 1;
    for (int i = 0; i < j->files.tensor * j->files.pipeline; i++)
        n += j->ranks[i].n;
    j->m->tensors = ARENA_ARRAY(j->m->a, foreign_tensor, N_OPTIMIZER_KINDS * n);
}

static drv_status open_weights(rank_joining *j, const char *config_file) {
    json_t *own = NULL;
    DRV_TRY(rank_files_find(j->m->a, j->m->path, &j->files));
    if (j->files.parts) {
        ARENA_GROW(j->m->a, j->m->fds, j->m->n_fds, j->m->cap_fds);
        j->m->fds[j->m->n_fds++] = j->files.parts[0].fd;
    }
    DRV_TRY(open_files(j));
    DRV_TRY(list_ranks(j));
    DRV_TRY(megatron_args_config(j->files.file[0], pickle_get(j->ranks[0].file->top, "args"),
            &own));
    DRV_TRY(foreign_config(j->m, config_file, own));
    j->m->sizes.tensor_ranks = j->files.tensor;
    make_room(j);
    DRV_TRY(rank_join(j, j->ranks, NULL));
    return find_copies(j);
}

drv_status source_open_ranks(arena *a, const char *path, foreign_progress *progress,
        model_source *out) {
    foreign_model *m = ARENA_NEW(a, foreign_model);
    rank_joining j = {.m = m, .by_name = {.a = a}};
    path = arena_strdup(a, path);
    *m = (foreign_model){.a = a,
            .path = path,
            .folder = path_folder(a, path),
            .format = "a checkpoint of tensor and pipeline ranks"};
    drv_status status = open_weights(&j, out->config_file);
    if (status == DRV_OK && progress) status = ranks_optimizer_read(&j, progress);
    return foreign_source(m, status, out);
}
