// Checkpoints of torch.distributed.checkpoint: of PyTorch itself, torchtitan, Megatron-Core
// (torch_dist), NeMo 2.
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "source/megatron_args.h"
#include "source/rank_files.h"
#include "source/source_dcp_internal.h"

enum { MAX_METADATA = 1 << 30 };

// --- files
static drv_status open_part(dcp_reading *r, const char *name, const file_part **out) {
    foreign_model *m = r->m;
    file_part *part = name_map_get(&r->parts, name);
    if (!part) {
        part = ARENA_NEW(m->a, file_part);
        *part = (file_part){.path = path_join(m->a, r->folder, name), .fd = -1};
        if (!file_exists(part->path))
            return drv_fail(DRV_E_DATA, "%s/.metadata names \"%s\", which is not there", r->folder,
                    name);
        DRV_TRY(file_open_regular(part->path, &part->fd, &part->size));
        ARENA_GROW(m->a, m->fds, m->n_fds, m->cap_fds);
        m->fds[m->n_fds++] = part->fd;
        name_map_set(&r->parts, name, part);
    }
    *out = part;
    return DRV_OK;
}

drv_status dcp_open_archive(dcp_reading *r, const dcp_entry *e, const dcp_chunk *c,
        torch_file **out) {
    foreign_model *m = r->m;
    const file_part *file = NULL;
    DRV_TRY(open_part(r, c->file, &file));
    if (c->bytes > file->size || c->at > file->size - c->bytes)
        return drv_fail(DRV_E_DATA,
                "%s: has %lld bytes, but \"%s\" lies in bytes %lld to %lld: is it truncated?",
                file->path, (long long)file->size, e->name, (long long)c->at,
                (long long)(c->at + c->bytes));
    file_part part = *file;
    part.base = c->at;
    part.size = c->bytes;
    *out = ARENA_NEW(m->a, torch_file);
    DRV_TRY_CTX(torch_open_part(m->a, &part, NULL, *out), "\"%s\"", e->name);
    ARENA_GROW(m->a, m->files, m->n_files, m->cap_files);
    m->files[m->n_files++] = *out;
    return DRV_OK;
}

// --- tensors
drv_status dcp_open_chunk(dcp_reading *r, const dcp_entry *e, const dcp_chunk *c, torch_file **file,
        torch_tensor **out) {
    bool is_tensor;
    *out = ARENA_NEW(r->m->a, torch_tensor);
    DRV_TRY(dcp_open_archive(r, e, c, file));
    DRV_TRY(torch_tensor_of(*file, (*file)->root, *out, &is_tensor));
    if (is_tensor && (*out)->type == e->type && (*out)->n_dims == e->n_dims &&
            memcmp((*out)->dim, c->size, sizeof *c->size * (size_t)e->n_dims) == 0)
        return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "%s: the chunk of \"%s\" at byte %lld has not the type and the sizes of .metadata",
            (*file)->part.path, e->name, (long long)c->at);
}

// A chunk of stacked layers is a block for each of its layers. `first`: the dimension that rows are
// counted along; the one before it, if any, is the layer.
static void add_blocks(foreign_tensor *t, const dcp_chunk *c, int first, bool vector,
        torch_file *file, const torch_tensor *tensor) {
    const int64_t layers = first ? c->size[0] : 1, rows = c->size[first],
                  cols = vector ? 1 : c->size[first + 1];
    for (int64_t layer = 0; layer < layers; layer++)
        t->blocks[t->n_blocks++] =
                (foreign_block){.row = first ? (c->offset[0] + layer) * (t->rows / t->layers) +
                                                       c->offset[first]
                                             : c->offset[0],
                        .rows = rows,
                        .col = vector ? 0 : c->offset[first + 1],
                        .cols = cols,
                        .file = file,
                        .tensor = tensor,
                        .first = layer * rows * cols};
}

int dcp_row_dim(const foreign_name *row, int layer) {
    return layer < 0 && strstr(row->foreign, "%d") ? 1 : 0;
}

drv_status dcp_add_tensor(dcp_reading *r, const dcp_entry *e, const char *name, const char *before,
        const foreign_name *row, int layer) {
    foreign_model *m = r->m;
    const bool vector = foreign_is_vector(row);
    const int first = dcp_row_dim(row, layer);
    int64_t blocks = 0;
    if (e->n_dims != first + (vector ? 1 : 2))
        return drv_fail(DRV_E_DATA, "%s/.metadata: \"%s\" has %d dimensions, expected %d",
                r->folder, e->name, e->n_dims, first + (vector ? 1 : 2));
    foreign_tensor *t = &m->tensors[m->n++];
    *t = (foreign_tensor){.name = name,
            .before = before,
            .type = e->type,
            .rows = e->dim[first] * (first ? e->dim[0] : 1),
            .cols = vector ? 1 : e->dim[first + 1],
            .layers = first ? e->dim[0] : 0};
    for (int i = 0; i < e->n_chunks; i++)
        blocks += first ? e->chunks[i].size[0] : 1;
    t->blocks = ARENA_ARRAY(m->a, foreign_block, blocks + 1);
    for (int i = 0; i < e->n_chunks; i++) {
        torch_file *file = NULL;
        torch_tensor *tensor = NULL;
        if (!e->chunks[i].file) continue; // empty
        DRV_TRY(dcp_open_chunk(r, e, &e->chunks[i], &file, &tensor));
        add_blocks(t, &e->chunks[i], first, vector, file, tensor);
    }
    return DRV_OK;
}

// Returns whether it is stored with the weights in a checkpoint of a run.
static bool is_state(const char *name) {
    static const char *const kinds[] = {"optimizer.", "optim.", "lr_scheduler", "train_state",
            "dataloader", "rng_state", "opt_param_scheduler", "rerun_state_machine", "common_state",
            "chained_"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (str_starts(name, kinds[i])) return true;
    return false;
}

static drv_status add_tensors(dcp_reading *r) {
    foreign_model *m = r->m;
    const char *prefix = r->prefix;
    for (int i = 0; i < r->metadata.n; i++) {
        const dcp_entry *e = &r->metadata.entries[i];
        int layer;
        if (!e->type || foreign_name_is_ignored(e->name) || is_state(e->name)) continue;
        const bool begins = str_starts(e->name, prefix);
        const char *name = begins ? e->name + strlen(prefix) : e->name;
        const foreign_name *row = begins ? foreign_name_of(m->names, name, &layer) : NULL;
        if (!row)
            return drv_fail(DRV_E_DATA,
                    "%s/.metadata: tensor \"%s\" is none of a Llama's, expected names as \"%s%s\"",
                    r->folder, e->name, prefix,
                    (m->names->n ? m->names->rows : m->names->more)[1].foreign);
        DRV_TRY(dcp_add_tensor(r, e, name, NULL, row, layer));
    }
    return DRV_OK;
}

// Megatron-Core stores the arguments of the run with the tensors, in a file or as an object.
static drv_status read_args(dcp_reading *r, json_t **out) {
    static const torch_opts opts = {.more_names = megatron_names};
    const char *common = path_join(r->m->a, r->folder, "common.pt");
    torch_file file;
    *out = NULL;
    if (!file_exists(common)) return DRV_OK;
    DRV_TRY(torch_open(r->m->a, common, &opts, &file));
    if (r->progress) megatron_progress(file.top, r->progress);
    const drv_status status = megatron_args_config(common, pickle_get(file.top, "args"), out);
    torch_close(&file);
    return status;
}

static drv_status open_all(dcp_reading *r, const char *config_file) {
    foreign_model *m = r->m;
    const char *file = path_join(m->a, r->folder, ".metadata");
    char *bytes;
    size_t n;
    json_t *own = NULL;
    DRV_TRY(file_read_small(m->a, file, MAX_METADATA, &bytes, &n));
    DRV_TRY(dcp_metadata_parse(m->a, file, bytes, n, &r->metadata));
    const char **names = ARENA_ARRAY(m->a, const char *, r->metadata.n + 1);
    for (int i = 0; i < r->metadata.n; i++)
        names[i] = r->metadata.entries[i].name;
    m->names = foreign_names_choose(m->a, names, r->metadata.n, &r->prefix);
    if (!m->names)
        return drv_fail(DRV_E_DATA,
                "%s: no tensor is the embedding of a Llama, expected \"tok_embeddings.weight\", "
                "\"model.embed_tokens.weight\" or \"embedding.word_embeddings.weight\"",
                file);
    DRV_TRY(read_args(r, &own));
    DRV_TRY(foreign_config(m, config_file, own));
    m->tensors = ARENA_ARRAY(m->a, foreign_tensor, r->metadata.n + 1);
    return r->progress ? dcp_add_optimizer(r) : add_tensors(r);
}

// --- which folder
// The newest of an experiment of NeMo 2 (nemo_experiments/NAME/VERSION/checkpoints/...-step=N-
// consumed_samples=N[-last]); one that is being written has a file ...-unfinished beside it.
static const char *newest_of_nemo(arena *a, const char *path) {
    static const char samples[] = "consumed_samples=";
    const char *dir = path_join(a, path, "checkpoints"), *best = NULL;
    double most = -1;
    char **names;
    int n;
    if (!file_is_dir(dir) || dir_list(a, dir, &names, &n) != DRV_OK) return NULL;
    for (int i = 0; i < n; i++) {
        const char *folder = path_join(a, dir, names[i]), *mark = strstr(names[i], samples);
        const double taken = mark ? strtod(mark + strlen(samples), NULL) : 0;
        if (file_exists(arena_printf(a, "%s-unfinished", folder)) || taken < most ||
                !file_exists(path_join(a, folder, "weights/.metadata")))
            continue;
        best = path_join(a, folder, "weights");
        most = taken;
    }
    return best;
}

static const char *folder_of(arena *a, const char *path) {
    // NeMo 2 and Accelerate (FSDP) have them in a folder below.
    static const char *const places[] = {"", "weights", "pytorch_model_fsdp_0"};
    path = rank_files_iteration(a, path); // of Megatron
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *folder = *places[i] ? path_join(a, path, places[i]) : path;
        if (file_exists(path_join(a, folder, ".metadata"))) return folder;
    }
    return newest_of_nemo(a, path);
}

bool source_is_dcp(arena *a, const char *path) {
    return file_is_dir(path) && folder_of(a, path) != NULL;
}

drv_status source_open_dcp(arena *a, const char *path, foreign_progress *progress,
        model_source *out) {
    foreign_model *m = ARENA_NEW(a, foreign_model);
    dcp_reading r = {.m = m, .folder = folder_of(a, path), .parts = {.a = a}, .progress = progress};
    *m = (foreign_model){.a = a,
            .path = arena_strdup(a, path),
            .folder = arena_strdup(a, path),
            .format = "a checkpoint of torch.distributed.checkpoint"};
    return foreign_source(m, open_all(&r, out->config_file), out);
}
