// Writes a model as GGUF: the header in memory, then tensor after tensor.
#include "ckpt/gguf_writer.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "model/family/model_files.h"
#include "ckpt/tensor_writer.h"
#include "gguf/gguf_builder.h"
#include "gguf/llama_generation.h"
#include "gguf/llama_names.h"
#include "gguf/vocabulary.h"

enum { PIECE = 4 << 20 }; // bytes in fp32

static const struct {
    const char *name;
    quant_id type;
    uint32_t file_type; // general.file_type: the type of most tensors (ggml.h, ggml_ftype)
} written_types[] = {{"f32", QUANT_F32, 0}, {"f16", QUANT_F16, 1}, {"q8_0", QUANT_Q8_0, 7},
        {"q4_k", QUANT_Q4_K, 14}, {"bf16", QUANT_BF16, 32}};
enum { N_WRITTEN_TYPES = sizeof written_types / sizeof *written_types };

bool gguf_write_type(const char *name, quant_id *out) {
    // The config's names are understood too: fp32, fp16.
    const bool long_name = strcmp(name, "fp32") == 0 || strcmp(name, "fp16") == 0;
    for (int i = 0; i < N_WRITTEN_TYPES; i++) {
        const char *mine = written_types[i].name;
        if (strcmp(mine, name) != 0 && !(long_name && strcmp(mine + 1, name + 2) == 0)) continue;
        *out = written_types[i].type;
        return true;
    }
    return false;
}

drv_status gguf_write_check(const char *path, bool force) {
    if (file_is_dir(path))
        return drv_fail(DRV_E_USAGE, "\"%s\" is a folder, expected the name of a .gguf file", path);
    if (!file_exists(path) || force) return DRV_OK;
    return drv_fail(DRV_E_USAGE, "\"%s\" is there already; --force replaces it", path);
}

// --- what is written
typedef struct planned { // a tensor of the file
    const source_tensor *from;
    quant_id type;
    bool interleaved; // rows of q and k
    int64_t bytes;    // without padding
} planned;

typedef struct writing {
    arena *a;
    const model_source *source;
    const llama_meta *meta;
    const gguf_write_opts *opts;
    quant_id type;
    gguf_builder header;
    json_t *generation; // generation_config.json; NULL: there is none
    float *divisors;    // rope_freqs.weight; NULL: none
    planned *list;
    int n, n_wider; // of these, matrices whose rows are not whole blocks of the type
    const char *path, *tmp;
    int fd;
    int64_t done;
    double began;
} writing;

static quant_id own_type(const model_source *s) {
    const source_tensor *t = model_source_find(s, "model.embed_tokens.weight");
    if (!t) return QUANT_F32;
    return t->type == ST_BF16 ? QUANT_BF16 : t->type == ST_F16 ? QUANT_F16 : QUANT_F32;
}

// --- metadata
static const char *family_key(const writing *w, const char *name) {
    return arena_printf(w->a, "%s.%s", w->meta->family->gguf, name);
}

static void put_shape(writing *out) {
    const llama_meta *meta = out->meta;
    gguf_builder *header = &out->header;
    uint32_t file_type = 0;
    for (int i = 0; i < N_WRITTEN_TYPES; i++)
        if (written_types[i].type == out->type) file_type = written_types[i].file_type;
    gguf_put_text(header, "general.architecture", meta->family->gguf);
    gguf_put_text(header, "general.type", "model");
    gguf_put_text(header, "general.name",
            out->opts->name ? out->opts->name : path_folder_name(out->a, out->source->path));
    gguf_put_u32(header, "general.file_type", file_type);
    gguf_put_u32(header, "general.quantization_version", 2);
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {{"vocab_size", meta->vocab_size}, {"context_length", meta->context},
            {"embedding_length", meta->hidden_size}, {"block_count", meta->n_layers},
            {"feed_forward_length", meta->intermediate_size},
            {"attention.head_count", meta->n_heads}, {"attention.head_count_kv", meta->n_kv_heads},
            {"attention.key_length", meta->head_dim}, {"attention.value_length", meta->head_dim},
            {"rope.dimension_count", meta->head_dim}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        gguf_put_u32(header, family_key(out, numbers[i].name), (uint32_t)numbers[i].value);
    gguf_put_f32(header, family_key(out, "rope.freq_base"), (float)meta->rope_theta);
    gguf_put_f32(header, family_key(out, "attention.layer_norm_rms_epsilon"),
            (float)meta->rms_norm_eps);
    if (meta->window)
        gguf_put_u32(header, family_key(out, "attention.sliding_window"), (uint32_t)meta->window);
    if (meta->rope.original_context)
        gguf_put_u32(header, family_key(out, "rope.scaling.original_context_length"),
                (uint32_t)meta->rope.original_context);
}

static const char *carried_text(writing *out, const ckpt_carried *files, int n, const char *name) {
    const ckpt_carried *file = carried_find(files, n, name);
    return file ? arena_strndup(out->a, file->bytes, file->n) : NULL;
}

// Ids that end a text: those of generation_config.json, which transformers goes by, then those of
// the model that are not among them.
static int list_ends(const writing *w, const json_t *generation, int64_t *eos) {
    const json_t *list = json_object_get(generation, "eos_token_id");
    const int n_listed = json_is_integer(list) ? 1 : (int)json_array_size(list);
    int n = 0;
    for (int i = 0; i < n_listed + w->meta->n_eos && n < MAX_LLAMA_EOS; i++) {
        const json_t *listed = json_is_integer(list) ? list : json_array_get(list, (size_t)i);
        const int64_t id = i >= n_listed             ? w->meta->eos[i - n_listed]
                           : json_is_integer(listed) ? json_integer_value(listed)
                                                     : -1;
        bool seen = id < 0;
        for (int k = 0; k < n; k++)
            seen |= eos[k] == id;
        if (!seen) eos[n++] = id;
    }
    return n;
}

static drv_status read_generation(writing *w, const ckpt_carried *file) {
    if (!file) return DRV_OK;
    const char *folder = file->folder ? file->folder : w->source->path;
    DRV_TRY(json_read_bytes(arena_printf(w->a, "%s/%s", folder, file->name), file->bytes, file->n,
            &w->generation));
    llama_generation_put(w->generation, &w->header);
    return DRV_OK;
}

static drv_status put_tokenizer(writing *out) {
    const model_source *source = out->source;
    ckpt_carried *own;
    const ckpt_carried *files = out->opts->files;
    int n_rows = out->opts->n_files;
    if (!files) {
        DRV_TRY(model_source_files(out->a, source, &own, &n_rows));
        files = own;
    }
    const ckpt_carried *json = carried_find(files, n_rows, "tokenizer.json"),
                       *config = carried_find(files, n_rows, "tokenizer_config.json"),
                       *map = carried_find(files, n_rows, "special_tokens_map.json");
    const llama_meta *meta = out->meta;
    int64_t eos[MAX_LLAMA_EOS];
    DRV_TRY(read_generation(out, carried_find(files, n_rows, "generation_config.json")));
    const tokenizer_texts texts = {.folder = json && json->folder ? json->folder : source->path,
            .tokenizer_json = json ? json->bytes : NULL,
            .n_tokenizer_json = json ? json->n : 0,
            .tokenizer_config_json = config ? config->bytes : NULL,
            .n_tokenizer_config_json = config ? config->n : 0,
            .special_tokens_map_json = map ? map->bytes : NULL,
            .n_special_tokens_map_json = map ? map->n : 0,
            .chat_template = carried_text(out, files, n_rows, "chat_template.jinja"),
            .tool_template = carried_text(out, files, n_rows, TOOL_TEMPLATE_FILE),
            .vocab_size = meta->vocab_size,
            .bos = meta->bos,
            .pad = meta->pad,
            .eos = eos,
            .n_eos = list_ends(out, out->generation, eos)};
    if (!json)
        log_warn("%s has no tokenizer.json; the file will have no tokenizer, and llama.cpp does not run a model without one",
                source->path);
    return vocabulary_put(&texts, &out->header);
}

// --- tensors
// Chooses the type of a tensor: the requested one, or a wider one if its rows are not whole blocks.
static quant_id type_for(writing *w, const source_tensor *t) {
    const bool is_output =
            strcmp(t->name, w->meta->tied ? "model.embed_tokens.weight" : "lm_head.weight") == 0;
    const quant_id wanted[] = {quant_of_weight(w->type, is_output), QUANT_Q8_0, QUANT_F16};
    if (t->n_dims == 1) return QUANT_F32;
    int i = 0;
    while (t->cols % quant_type_of(wanted[i])->block != 0)
        i++;
    w->n_wider += i > 0;
    return wanted[i];
}

static void plan_tensor(writing *w, const llama_name *row, int layer) {
    const source_tensor *t = model_source_find(w->source, llama_name_print(w->a, row->hf, layer));
    if (!t) return; // lm_head of a tied model, or of another family
    planned *p = &w->list[w->n++];
    const bool vector = t->n_dims == 1;
    const int64_t dim[2] = {vector ? t->rows : t->cols, t->rows};
    *p = (planned){t, type_for(w, t), llama_name_interleaves(row, w->meta->family), 0};
    p->bytes = gguf_put_tensor(&w->header, llama_name_print(w->a, row->gguf, layer), p->type, dim,
            vector ? 1 : 2);
}

static void plan_tensors(writing *w) {
    const llama_meta *m = w->meta;
    w->list = ARENA_ARRAY(w->a, planned, n_llama_names * m->n_layers + n_llama_names);
    if (m->rope.original_context) {
        const int64_t n = m->head_dim / 2;
        w->divisors = ARENA_ARRAY(w->a, float, n);
        llama3_rope_divisors(&m->rope, m->rope_theta, m->head_dim, w->divisors);
        gguf_put_tensor(&w->header, "rope_freqs.weight", QUANT_F32, &n, 1);
    }
    for (int i = 0; i < n_llama_names; i++)
        if (!strstr(llama_names[i].gguf, "%d") &&
                !(m->tied && str_starts(llama_names[i].hf, "lm_head")))
            plan_tensor(w, &llama_names[i], 0);
    for (int layer = 0; layer < m->n_layers; layer++)
        for (int i = 0; i < n_llama_names; i++)
            if (strstr(llama_names[i].gguf, "%d")) plan_tensor(w, &llama_names[i], layer);
}

// --- data
static drv_status put(writing *w, const void *p, int64_t n) {
    w->done += n;
    return file_write_all(w->fd, w->tmp, p, (size_t)n);
}

static drv_status pad(writing *w, int64_t bytes) {
    static const char zeros[GGUF_ALIGNMENT] = {0};
    return put(w, zeros, gguf_padding(bytes));
}

static drv_status round_to(const planned *p, const float *values, int64_t n, unsigned char *out) {
    const quant_type *type = quant_type_of(p->type);
    const char *name = p->from->name;
    if (p->type == QUANT_F16) return tensor_round(name, ST_F16, values, n, out);
    if (p->type == QUANT_BF16) return tensor_round(name, ST_BF16, values, n, out);
    for (int64_t i = 0; i < n && type->limit > 0; i++)
        if (!(fabsf(values[i]) < type->limit))
            return drv_fail(DRV_E_DATA, "tensor \"%s\" has the value %g, which %s cannot hold",
                    name, (double)values[i], type->name);
    type->from_f32(values, n / type->block, out);
    return DRV_OK;
}

// Copies rows of whole heads in GGUF's order.
static void interleave(const float *heads, int64_t rows, int64_t cols, int64_t head_dim,
        float *out) {
    for (int64_t row = 0; row < rows; row++)
        memcpy(out + llama_row_in_gguf(row, head_dim) * cols, heads + row * cols,
                sizeof *out * (size_t)cols);
}

static drv_status copy_tensor(writing *out, const planned *plan) {
    const source_tensor *tensor = plan->from;
    const int64_t head = out->meta->head_dim;
    int64_t rows = source_piece_rows(tensor, PIECE);
    if (plan->interleaved) rows = rows < head ? head : rows - rows % head;
    const int64_t values_bytes = (int64_t)sizeof(float) * rows * tensor->cols;
    float *values = mem_alloc((size_t)values_bytes),
          *ordered = plan->interleaved ? mem_alloc((size_t)values_bytes) : NULL;
    unsigned char *bytes = mem_alloc((size_t)values_bytes);
    const quant_type *type = quant_type_of(plan->type);
    const model_change *change = out->opts->change;
    drv_status status = DRV_OK;
    for (int64_t row = 0; row < tensor->rows && status == DRV_OK; row += rows) {
        const int64_t n = tensor->rows - row < rows ? tensor->rows - row : rows;
        status = source_read_f32(out->source, tensor, row, n, values);
        if (status == DRV_OK && change && change->has(change->ctx, tensor))
            status = change->rows(change->ctx, tensor, row, n, values);
        if (status == DRV_OK && ordered) interleave(values, n, tensor->cols, head, ordered);
        if (status == DRV_OK)
            status = round_to(plan, ordered ? ordered : values, n * tensor->cols, bytes);
        if (status == DRV_OK)
            status = put(out, bytes, n * tensor->cols / type->block * type->block_bytes);
    }
    free(values);
    free(ordered);
    free(bytes);
    return status == DRV_OK ? pad(out, plan->bytes) : status;
}

static void show_progress(const writing *w, int i) {
    const double s = clock_s() - w->began, total = (double)w->header.data_bytes,
                 rest = w->done ? s / (double)w->done * (total - (double)w->done) : 0;
    progress("%s: tensor %d of %d, %s of %s, %s left", w->opts->verb, i + 1, w->n,
            str_bytes((double)w->done), str_bytes(total), str_duration(rest));
}

static drv_status write_data(writing *w) {
    str header = {0};
    gguf_builder_header(&w->header, &header);
    drv_status status = put(w, header.p, (int64_t)header.n);
    str_free(&header);
    if (status == DRV_OK && w->divisors) {
        const int64_t bytes = w->meta->head_dim / 2 * (int64_t)sizeof *w->divisors;
        status = put(w, w->divisors, bytes);
        if (status == DRV_OK) status = pad(w, bytes);
    }
    for (int i = 0; i < w->n && status == DRV_OK; i++) {
        show_progress(w, i);
        status = copy_tensor(w, &w->list[i]);
    }
    progress_end();
    return status;
}

// --- the file
static drv_status write_file(writing *w) {
    w->tmp = arena_printf(w->a, "%s" FILE_ASIDE, w->path);
    DRV_TRY(dir_make_parent(w->path));
    w->fd = open(w->tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (w->fd < 0) return file_fail("create", w->tmp);
    drv_status status = write_data(w);
    if (status == DRV_OK && fsync(w->fd) != 0) status = file_fail("sync", w->tmp);
    if (close(w->fd) != 0 && status == DRV_OK) status = file_fail("close", w->tmp);
    if (status == DRV_OK) status = file_put_in_place(w->path);
    if (!w->opts->force && file_exists(w->path)) status = out_placed(status);
    if (status != DRV_OK) unlink(w->tmp);
    return status;
}

// --- losses
static void say_lost(const writing *w, const char *name, const json_t *before, json_t *after) {
    const char *lost = llama_config_lost(w->a, before, after);
    if (lost) log_warn("%s/%s: a GGUF file loses or changes: %s", w->source->path, name, lost);
    json_decref(after);
}

// Reads the tokenizer back from the file, and logs which of the model's tokens are lost.
static drv_status compare_configs(const writing *w, const json_t *config) {
    gguf_file f;
    llama_meta m;
    json_t *generation = NULL;
    static const char *const ids[] = {"bos_token_id", "eos_token_id", "pad_token_id"};
    DRV_TRY(gguf_open(w->a, w->path, &f));
    drv_status status = llama_meta_read(w->a, &f, &m);
    if (status == DRV_OK) status = llama_generation_json(&f, &m, &generation);
    gguf_close(&f);
    DRV_TRY(status);
    json_t *before = json_object();
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        json_object_set(before, ids[i], json_object_get(config, ids[i]));
    say_lost(w, "config.json", before, llama_config_json(&m, ""));
    say_lost(w, "generation_config.json", w->generation, generation);
    json_decref(before);
    return DRV_OK;
}

static drv_status compare_with_source(const writing *w) {
    json_t *config;
    DRV_TRY(model_source_config(w->source, &config));
    const drv_status status = compare_configs(w, config);
    json_decref(config);
    return status;
}

static drv_status write_model(writing *w) {
    plan_tensors(w);
    DRV_TRY(write_file(w));
    return compare_with_source(w);
}

static gguf_written written_by(const writing *w) {
    return (gguf_written){.bytes = w->done,
            .type = w->type,
            .n_tensors = w->n,
            .n_wider = w->n_wider,
            .seconds = clock_s() - w->began};
}

drv_status gguf_write(const model_source *s, const llama_meta *m, const char *path,
        const gguf_write_opts *opts, gguf_written *out) {
    writing w = {.a = arena_new("gguf writer"),
            .source = s,
            .meta = m,
            .opts = opts,
            .type = opts->has_type ? opts->type : own_type(s),
            .path = path,
            .began = clock_s()};
    put_shape(&w);
    drv_status status = gguf_write_check(path, opts->force);
    if (status == DRV_OK) status = put_tokenizer(&w);
    if (status == DRV_OK) status = write_model(&w);
    if (status == DRV_OK) *out = written_by(&w);
    json_decref(w.generation);
    gguf_builder_free(&w.header);
    arena_free(w.a);
    return status;
}
