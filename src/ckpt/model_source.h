// A model on disk, whatever its format: tensors by their Hugging Face names, in the shapes that
// transformers gives them, read by ranges of rows. Memory is bounded by what a caller asks for at
// once. A new format is a row in model_source.c: what recognises it, and what opens it.
#pragma once
#include "base/json.h"
#include "kernels/blocks/quants.h"
#include "ckpt/safetensors.h"

typedef struct source_tensor {
    const char *name;
    const char *file;      // where it is stored, for messages
    const char *type_name; // as stored: "BF16", "Q4_K"
    st_type type;          // ST_OTHER: what safetensors of a Llama do not hold, as "Q4_K"
    int n_dims;
    int64_t dim[MAX_ST_DIMS];
    int64_t rows, cols;      // dim[0], and the product of the others; a scalar is one row of one
    int64_t row_bytes;       // as stored
    const quant_type *quant; // of a matrix of a GGUF file; else NULL
    const void *origin;      // the reader's own
} source_tensor;

// A file that goes with the weights, as it is: tokenizer, chat template, generation defaults.
typedef struct ckpt_carried {
    const char *name;
    const void *bytes;
    size_t n;
    const char *folder; // that it lies in, for messages; NULL: it is made of a GGUF file
} ckpt_carried;
// The names that a Hugging Face folder has for them.
extern const char *const ckpt_carried_names[];
extern const int n_ckpt_carried_names;

typedef struct model_source model_source; // single owner

// A format of models. Rows are in range when these are called.
typedef struct source_reader {
    const char *format; // "a Hugging Face folder", for messages
    // Reads rows [row, row + n) as stored, n * row_bytes bytes.
    drv_status (*read_raw)(const model_source *s, const source_tensor *t, int64_t row, int64_t n,
            void *out);
    // NULL: what read_raw reads, widened.
    drv_status (*read_f32)(const model_source *s, const source_tensor *t, int64_t row, int64_t n,
            float *out);
    // See model_source_config and model_source_files. NULL: those of the source's folder.
    drv_status (*config)(const model_source *s, json_t **out);
    drv_status (*files)(arena *a, const model_source *s, ckpt_carried **list, int *n);
    void (*close)(model_source *s); // what the arena does not free
} source_reader;

struct model_source {
    const char *path, *folder; // folder: where config.json and a tokenizer lie; NULL: nowhere
    const source_reader *reader;
    source_tensor *tensors; // in the order of the data
    int n;
    name_map by_name;
    void *state;             // the reader's own
    const char *config_file; // config.json of a format that has none; NULL: not given
};

// Opens a model. `path`: a Hugging Face folder (a checkpoint is one) with safetensors or with
// pytorch_model.bin, a file of torch.save beside a config.json, Meta's own files, a GGUF file, or a
// folder that has one by the name of SOURCE_GGUF instead of safetensors. The source lives in `a`,
// but is closed by hand. DRV_E_DATA: a format that drover does not read (named, with what to do),
// or a broken one.
DRV_CHECKED drv_status model_source_open(arena *a, const char *path, model_source *out);
#define SOURCE_GGUF "model.gguf"
// The same with the config.json of a checkpoint that has none; NULL: not given.
DRV_CHECKED drv_status model_source_open_with(arena *a, const char *path, const char *config_file,
        model_source *out);
// Opens the tensors of WHICH.safetensors, or of the files of its index, in a folder.
DRV_CHECKED drv_status model_source_open_folder(arena *a, const char *path, const char *which,
        model_source *out);
// Opens the tensors of WHICH.bin, or of the files of its index, which torch.save wrote.
DRV_CHECKED drv_status model_source_open_torch_folder(arena *a, const char *path, const char *which,
        model_source *out);
bool model_source_is_torch_folder(arena *a, const char *path, const char *which);
// Opens a file of torch.save. `key`: the keys, joined by dots, of the dict of the model's tensors;
// NULL: the file is that dict, or one dict in it. config.json and the tokenizer lie beside it.
DRV_CHECKED drv_status model_source_open_torch(arena *a, const char *path, const char *key,
        model_source *out);
// Opens Meta's own files in a folder: consolidated.NN.pth and params.json.
DRV_CHECKED drv_status model_source_open_meta(arena *a, const char *path, model_source *out);
bool model_source_is_meta_folder(arena *a, const char *path);
// Reads config.json, in transformers' field names; the caller owns the value.
DRV_CHECKED drv_status model_source_config(const model_source *s, json_t **out);
// Lists those of ckpt_carried_names that a model has, in `a`.
DRV_CHECKED drv_status model_source_files(arena *a, const model_source *s, ckpt_carried **list,
        int *n);
// Returns the type of a tensor of torch's files as safetensors have it.
typedef struct torch_type torch_type;
st_type source_torch_type(const torch_type *type);
// Lists those of ckpt_carried_names that a folder has, in `a`.
DRV_CHECKED drv_status model_folder_files(arena *a, const char *path, ckpt_carried **list, int *n);
// Adds the tensors of `more` that `first` has none of the same name of; config and files are those
// of `more`, and both are closed by `first`.
void model_source_join(arena *a, model_source *first, const model_source *more);
// Before the name of a weight in optimizer.safetensors: its values as the run has them.
#define CKPT_MASTER "master."
// Keeps the masters of an optimizer's tensors, under the names of the weights.
void model_source_keep_masters(arena *a, model_source *s);
// Opens the weights of a checkpoint as the run had them, under their own names: those that lie
// beside the model file because it has them rounded, and of all others those of the model.
DRV_CHECKED drv_status model_source_open_masters(arena *a, const char *path, model_source *out);
// Names a file that people have and drover does not read, in a folder without a model, and what to
// do: "FILE: that is ..."; NULL: nothing known. Lives in `a`.
const char *model_source_foreign(arena *a, const char *folder);
// Opens a GGUF file.
DRV_CHECKED drv_status model_source_open_gguf(arena *a, const char *path, model_source *out);
void model_source_close(model_source *s); // fine when opening failed
// Returns whether a path is of a format that is read, by what lies there.
bool model_source_is(arena *a, const char *path);

const source_tensor *model_source_find(const model_source *s, const char *name); // NULL: absent

// Reads any range of rows as fp32. Values are checked: DRV_E_DATA names the tensor and the place of
// one that is not finite.
DRV_CHECKED drv_status source_read_f32(const model_source *s, const source_tensor *t, int64_t row,
        int64_t n, float *out);
// The same bytes as stored, for tensors of F32, F16 or BF16; checked as well.
DRV_CHECKED drv_status source_read_raw(const model_source *s, const source_tensor *t, int64_t row,
        int64_t n, void *out);
// Reads rows of a tensor with `quant`, as its blocks lie in the file; their values are not looked
// at.
DRV_CHECKED drv_status source_read_blocks(const model_source *s, const source_tensor *t,
        int64_t row, int64_t n, void *out);
// Two tensors have the same shape and, in fp32, the same values.
DRV_CHECKED drv_status model_source_same(const model_source *s, const source_tensor *t,
        const model_source *other, const source_tensor *u, bool *same);
// Finds out whether a tensor is one that transformers drops, and so does drover: the frequencies
// that old releases stored (they follow from rope_theta), and a copy of the tied output weight.
// Asked of a tensor that the config has no place for. DRV_E_DATA: an output weight that differs
// from the embedding.
DRV_CHECKED drv_status model_source_drops(const model_source *s, const source_tensor *t,
        bool *drops);
// Returns how many rows make a piece of about `bytes` in fp32; at least one.
int64_t source_piece_rows(const source_tensor *t, int64_t bytes);
