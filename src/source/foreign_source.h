// Models in the files of other trainers as sources: their tensors are rectangles in files of
// torch.save, with names from foreign_names.h. A format's reader lists the foreign tensors; this
// file finds our tensors in them.
// Legend: m a foreign model, t a tensor, r a checkpoint that is read, e an entry of .metadata.
#pragma once
#include "source/foreign_names.h"
#include "source/model_source.h"
#include "pickle/torch_file.h"

// A rectangle of a foreign tensor that is stored row by row in a tensor of a file.
typedef struct foreign_block {
    int64_t row, rows, col, cols;
    torch_file *file;
    const torch_tensor *tensor;
    int64_t first; // index in `tensor` of its first element
} foreign_block;

// A vector has rows of one element. The rows of stacked layers are concatenated. The blocks cover
// the tensor without overlapping.
typedef struct foreign_tensor {
    const char *name;
    const char *before; // prefix of our name, such as "exp_avg."; NULL: a weight
    const torch_type *type;
    int64_t rows, cols, layers; // layers 0: of one layer
    foreign_block *blocks;
    int n_blocks;
} foreign_tensor;

// Returns a block that is a whole tensor of a file, of one or two dimensions.
foreign_block foreign_whole_block(torch_file *file, const torch_tensor *tensor);

enum { FOREIGN_REOPENED = -2 }; // instead of a file descriptor: the file is opened for each read
// Reads elements [first, first + n) of a block, or rows [row, row + n) of a tensor, as stored.
DRV_CHECKED drv_status foreign_read_block(const foreign_block *b, int64_t first, int64_t n,
        void *out);
DRV_CHECKED drv_status foreign_read_rows(const foreign_tensor *t, int64_t row, int64_t n,
        char *out);

typedef struct foreign_model { // single owner
    arena *a;
    const char *path, *folder; // as the user named it; the folder of config.json and tokenizer
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

// Chooses the set of names by the name of the embedding, and sets *prefix, in `a`, to the text that
// precedes all names. NULL: no set fits.
const foreign_names *foreign_names_choose(arena *a, const char *const *names, int n,
        const char **prefix);

// Reads config.json: the file `given` by the user, or the one in m->folder, or else takes over
// `own`, the config that the checkpoint contains (NULL: none). DRV_E_DATA: there is none of them.
DRV_CHECKED drv_status foreign_config(foreign_model *m, const char *given, json_t *own);
// Makes the source of all tensors, which owns and closes the model. If that fails, or if `status`,
// the result of reading so far, is a failure, it closes the model. DRV_E_DATA: a shape differs from
// config.json, or drover does not read a tensor's type.
DRV_CHECKED drv_status foreign_source(foreign_model *m, drv_status status, model_source *out);
void foreign_model_close(foreign_model *m);
