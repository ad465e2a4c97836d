// A model on disk in any supported format: tensors with the names and shapes of transformers, read
// by ranges of rows. Memory is bounded by the range that a caller reads at once. A new format is a
// row in model_source.c with two functions: one that detects it, one that opens it.
#pragma once
#include "base/json.h"
#include "kernels/blocks/quants.h"
#include "source/safetensors.h"

typedef struct source_tensor {
    const char *name;
    const char *file;      // where it is stored, for messages
    const char *type_name; // as stored: "BF16", "Q4_K"
    st_type type;          // ST_OTHER: any type that drover does not compute with, such as "Q4_K"
    int n_dims;
    int64_t dim[MAX_ST_DIMS];
    int64_t rows,
            cols;      // dim[0], and the product of the others; a scalar has one row and one column
    int64_t row_bytes; // as stored
    const quant_type *quant; // of a matrix of a GGUF file; else NULL
    const void *origin;      // private to the reader
} source_tensor;

// A file that is copied unchanged with the weights: tokenizer, chat template, generation defaults.
typedef struct ckpt_carried {
    const char *name;
    const void *bytes;
    size_t n;
    const char *folder; // its folder, for messages; NULL: it was made from a GGUF file
} ckpt_carried;
// The names of these files in a Hugging Face folder.
extern const char *const ckpt_carried_names[];
extern const int n_ckpt_carried_names;

typedef struct model_source model_source; // single owner

// A format of models. The callers of these functions have checked that rows are in range.
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
    void (*close)(model_source *s); // frees resources that are not in the arena
} source_reader;

struct model_source {
    const char *path, *folder; // folder: where config.json and a tokenizer lie; NULL: nowhere
    const source_reader *reader;
    source_tensor *tensors; // in the order of the data
    int n;
    name_map by_name;
    void *state;             // private to the reader
    const char *config_file; // read instead of the folder's config.json; NULL: not given
};

// Opens a model. `path`: a Hugging Face folder (a checkpoint is one) with safetensors or with
// pytorch_model.bin, a file of torch.save beside a config.json, Meta's own files, a GGUF file, or a
// folder with a GGUF file named SOURCE_GGUF instead of safetensors. The source lives in `a`; the
// caller closes it. DRV_E_DATA: drover does not read the format (the message names it and says what
// to do), or the file is broken.
DRV_CHECKED drv_status model_source_open(arena *a, const char *path, model_source *out);
#define SOURCE_GGUF "model.gguf"
// The same, with a config.json instead of the one in the folder; NULL: not given. DRV_E_USAGE: the
// format has the sizes of the model itself.
DRV_CHECKED drv_status model_source_open_with(arena *a, const char *path, const char *config_file,
        model_source *out);
// Opens the tensors of WHICH.safetensors, or of the files of its index, in a folder.
DRV_CHECKED drv_status model_source_open_folder(arena *a, const char *path, const char *which,
        model_source *out);
// Reads the index of a model of several files: its weight_map, which the caller owns, after a
// failure as well, and the files that it names, each once, in the order of their names.
DRV_CHECKED drv_status model_index_read(arena *a, const char *index, json_t **map,
        const char ***paths, int *n);
// Checks that every tensor of `source`, whose by_name is filled, is in the file that weight_map
// names, and in no other.
DRV_CHECKED drv_status model_index_check(const char *index, json_t *map,
        const model_source *source);
// Opens the tensors of WHICH.bin, or of the files of its index, which torch.save wrote.
DRV_CHECKED drv_status model_source_open_torch_folder(arena *a, const char *path, const char *which,
        model_source *out);
bool model_source_is_torch_folder(arena *a, const char *path, const char *which);
// Opens a file of torch.save. `key`: the keys, joined by dots, of the dict of the model's tensors;
// NULL: the file is that dict, or one dict in it. config.json and the tokenizer are in the same
// folder.
DRV_CHECKED drv_status model_source_open_torch(arena *a, const char *path, const char *key,
        model_source *out);
// Gives the tensors of a model the names of transformers' classes: removes what wrappers of a
// module and trainers put before them, and adds the "model." that a model without an output weight
// lacks. If `opened`, the result of opening the source, is a failure, returns it. DRV_E_DATA: two
// tensors get one name; the source is closed then.
DRV_CHECKED drv_status model_source_rename(drv_status opened, arena *a, model_source *s);
// Opens Meta's own files in a folder: consolidated.NN.pth and params.json.
DRV_CHECKED drv_status model_source_open_meta(arena *a, const char *path, model_source *out);
bool model_source_is_meta_folder(arena *a, const char *path);
// Returns the type of a tensor of torch's files as safetensors have it.
typedef struct torch_type torch_type;
st_type source_torch_type(const torch_type *type);
// Reads config.json, in transformers' field names; the caller owns the value.
DRV_CHECKED drv_status model_source_config(const model_source *s, json_t **out);
// Lists the files of ckpt_carried_names that a model has, in `a`.
DRV_CHECKED drv_status model_source_files(arena *a, const model_source *s, ckpt_carried **list,
        int *n);
// Lists the files of ckpt_carried_names that a folder has, in `a`.
DRV_CHECKED drv_status model_folder_files(arena *a, const char *path, ckpt_carried **list, int *n);
// Finds one of these files by its name; NULL: it is not among them.
const ckpt_carried *carried_find(const ckpt_carried *files, int n, const char *name);
// Checks that a model with this many rows has one for each token that tokenizer.json and
// tokenizer_config.json define (carried_tokens.c). DRV_E_DATA names a token without a row. Ignores
// a file that is not JSON, which its reader will refuse.
DRV_CHECKED drv_status carried_tokens_check(const ckpt_carried *files, int n_files, int64_t rows);
// Adds the tensors of `more` whose names `first` does not have. The result has the config and files
// of `more`; closing `first` closes both.
void model_source_join(arena *a, model_source *first, const model_source *more);
// Prefix of a weight's name in optimizer.safetensors for its master values.
#define CKPT_MASTER "master."
// Reduces an optimizer's source to the master weights, named as the weights.
void model_source_keep_masters(arena *a, model_source *s);
// Opens the weights of a checkpoint in the precision of the run, named as in the model: the master
// weights, where the model file has rounded ones, else those of the model file.
DRV_CHECKED drv_status model_source_open_masters(arena *a, const char *path, model_source *out);
// For a folder without a model: names a file in a known format that drover does not read, and says
// what to do: "FILE: that is ..."; NULL: there is no such file. Lives in `a`.
const char *model_source_foreign(arena *a, const char *folder);
// Opens a GGUF file.
DRV_CHECKED drv_status model_source_open_gguf(arena *a, const char *path, model_source *out);
void model_source_close(model_source *s); // also allowed after opening failed
// Returns whether a path has a format that is read.
bool model_source_is(arena *a, const char *path);

const source_tensor *model_source_find(const model_source *s, const char *name); // NULL: absent

// Reads any range of rows as fp32. Values are checked: DRV_E_DATA names the tensor and the index of
// a value that is not finite.
DRV_CHECKED drv_status source_read_f32(const model_source *s, const source_tensor *t, int64_t row,
        int64_t n, float *out);
// The same without conversion, for tensors of F32, F16 or BF16.
DRV_CHECKED drv_status source_read_raw(const model_source *s, const source_tensor *t, int64_t row,
        int64_t n, void *out);
// Reads rows of a quantised tensor as blocks, as stored; their values are not checked.
DRV_CHECKED drv_status source_read_blocks(const model_source *s, const source_tensor *t,
        int64_t row, int64_t n, void *out);
// Sets *same to whether two tensors have the same shape and, as fp32, the same values.
DRV_CHECKED drv_status model_source_same(const model_source *s, const source_tensor *t,
        const model_source *other, const source_tensor *u, bool *same);
// Sets *drops to whether an unexpected tensor can be ignored, as transformers ignores it: rotary
// frequencies that old releases stored (they follow from rope_theta), and a copy of the tied output
// weight. DRV_E_DATA: a tied output weight differs from the embedding.
DRV_CHECKED drv_status model_source_drops(const model_source *s, const source_tensor *t,
        bool *drops);
// Returns the number of rows that have about `bytes` in fp32; at least one.
int64_t source_piece_rows(const source_tensor *t, int64_t bytes);
