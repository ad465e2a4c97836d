// Models in the files of other trainers as sources: their tensors are rectangles in files of
// torch.save, under names of foreign_names.h. A reader of a format lists the tensors, and what is
// here finds ours in them.
// Legend: m a foreign model, t a tensor, r a checkpoint that is read, e an entry of .metadata.
#pragma once
#include "ckpt/foreign_names.h"
#include "ckpt/model_source.h"
#include "pickle/torch_file.h"

// A rectangle of a foreign tensor that lies row by row in a tensor of a file.
typedef struct foreign_block {
    int64_t row, rows, col, cols;
    torch_file *file;
    const torch_tensor *tensor;
    int64_t first; // the element of `tensor` that its rows begin with
} foreign_block;

// Matrices have rows and columns, vectors rows of one element. Of stacked layers the rows of all
// follow each other. Blocks fill it without overlapping.
typedef struct foreign_tensor {
    const char *name;
    const char *before; // our names get it in front, as "exp_avg."; NULL: a weight
    const torch_type *type;
    int64_t rows, cols, layers; // 0: of one layer
    foreign_block *blocks;
    int n_blocks;
} foreign_tensor;

enum { FOREIGN_REOPENED = -2 }; // in the place of a descriptor: its file is opened for each read
// Reads elements [first, first + n) of a block, or rows [row, row + n) of a tensor, as stored.
DRV_CHECKED drv_status foreign_read_block(const foreign_block *b, int64_t first, int64_t n,
        void *out);
DRV_CHECKED drv_status foreign_read_rows(const foreign_tensor *t, int64_t row, int64_t n,
        char *out);

typedef struct foreign_model { // single owner
    arena *a;
    const char *path, *folder; // as the user named it; what config.json and a tokenizer lie in
    const char *format;        // for messages
    const foreign_names *names;
    foreign_sizes sizes;
    json_t *config; // owned
    foreign_tensor *tensors;
    int n;
    torch_file **files; // closed with the model
    int n_files, cap_files;
    int *fds; // likewise
    int n_fds, cap_fds;
    bool cuts_vocabulary; // rows beyond the vocabulary of config.json are padding
} foreign_model;

// Chooses the set of names by the embedding, and takes away what stands before all of them. NULL:
// no set has one. `prefix` lives in `a`.
const foreign_names *foreign_names_choose(arena *a, const char *const *names, int n,
        const char **prefix);

// Reads config.json: `given` by the user, or the one in m->folder, or else `own`, which the
// checkpoint says and which the model owns then; NULL: it says nothing. DRV_E_DATA: there is none.
DRV_CHECKED drv_status foreign_config(foreign_model *m, const char *given, json_t *own);
// Makes the source of all tensors; the model lives in its arena, and is closed by it. DRV_E_DATA: a
// tensor has another shape than config.json says, or a type that is not read.
DRV_CHECKED drv_status foreign_source(foreign_model *m, model_source *out);
void foreign_model_close(foreign_model *m);
