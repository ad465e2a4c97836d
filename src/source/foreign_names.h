// The names that other trainers give to the tensors of a Llama, and how their rows map to ours. A
// foreign tensor contains one of our tensors, or several of them joined.
#pragma once
#include <stdbool.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"

// The sizes of the model by config.json, and how its tensors were divided among ranks.
typedef struct foreign_sizes {
    int64_t layers, heads, kv_heads, head_dim, intermediate;
    int64_t vocab;        // 0: not in config.json
    int64_t tensor_ranks; // their parts are consecutive in the foreign tensor
    int64_t key_copies;   // copies of each key-value head; 0 means 1
    bool copies_adjacent; // heads are K0 K0 K1 K1, and queries in their order; else K0 K1 K0 K1, and
                          // queries in the order of the ranks, each with the query heads of its key
} foreign_sizes;
// DRV_E_DATA: a field is missing or not a valid size; `where` is for the message.
DRV_CHECKED drv_status foreign_sizes_read(const char *where, const json_t *config,
        foreign_sizes *out);

typedef enum foreign_rows {
    FOREIGN_SAME,    // one tensor, the same rows
    FOREIGN_ROTARY,  // one tensor; in each head the two halves of a rotary pair are adjacent (Meta)
    FOREIGN_QKV,     // q, k, v: for each key-value head its queries, keys, values (Megatron)
    FOREIGN_GATE_UP, // gate and up: for each tensor rank its rows of gate, then of up
    FOREIGN_QUERY,   // q, in the order of the copied keys (NxD)
    FOREIGN_COPIES,  // k or v, with copies of heads
    FOREIGN_RANKS,   // q, k, v: for each tensor rank its rows of all three, with copies
    FOREIGN_KEY_VALUE, // k, v: for each head its keys and its values (NeMo)
} foreign_rows;

enum { MAX_FOREIGN_PARTS = 3 };
typedef struct foreign_name {
    const char *foreign; // "%d" stands for the layer
    const char *part[MAX_FOREIGN_PARTS];
    foreign_rows rows;
    int n_parts;
} foreign_name;

// The names of a trainer.
typedef struct foreign_names {
    const char *name; // the argument of --names
    const foreign_name *rows;
    int n;
    const foreign_name *more; // further names of the same tensors, which are read but not written
    int n_more;
    bool stacked;    // names have no "%d"; the layer is the index of an additional first dimension
    bool needs_head; // the output weight is stored even if it is tied to the embedding
} foreign_names;
extern const foreign_names foreign_name_sets[];
extern const int n_foreign_name_sets;
// The way in which tensor ranks divide a tensor.
typedef enum foreign_cut { CUT_ROWS, CUT_COLUMNS, CUT_NOT } foreign_cut;
foreign_cut foreign_cut_of(const foreign_name *row);
bool foreign_is_vector(const foreign_name *row); // a norm or a bias
// Returns the row for a foreign name and its layer (-1: none, or all layers in one tensor). NULL:
// the trainer has no tensor of that name.
const foreign_name *foreign_name_of(const foreign_names *names, const char *foreign, int *layer);
// Returns whether a foreign tensor is not a weight and can be ignored without loss.
bool foreign_name_is_ignored(const char *foreign);
// Returns the names of a trainer by the argument of --names; NULL: unknown.
const foreign_names *foreign_names_find(const char *name);

// Returns the number of rows of part `part` in one layer; -1: not known from the sizes.
int64_t foreign_part_rows(foreign_rows rows, const foreign_sizes *sizes, int part);
// Return the row of the foreign tensor that is row `row` of part `part`, and the inverse.
int64_t foreign_row_of(foreign_rows rows, const foreign_sizes *sizes, int part, int64_t row);
int64_t foreign_row_back(foreign_rows rows, const foreign_sizes *sizes, int64_t foreign, int *part);
