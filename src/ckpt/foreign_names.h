// The tensors of a Llama under the names of other trainers, and where the rows of ours lie in
// theirs. A foreign tensor holds one of ours, or several of them joined.
#pragma once
#include <stdbool.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"

// Sizes by config.json, and how the tensors were cut.
typedef struct foreign_sizes {
    int64_t layers, heads, kv_heads, head_dim, intermediate;
    int64_t vocab;        // 0: config.json does not say
    int64_t tensor_ranks; // whose parts lie one after the other in the foreign tensor
    int64_t key_copies;   // of each head of keys and values; 0 counts as 1
    bool copies_adjacent; // K0 K0 K1 K1, and queries in their order; else K0 K1 K0 K1, and queries
                          // in the order of the ranks, each with the heads of its key
} foreign_sizes;
// DRV_E_DATA: a field is missing or no size; `where` is for the message.
DRV_CHECKED drv_status foreign_sizes_read(const char *where, const json_t *config,
        foreign_sizes *out);

typedef enum foreign_rows {
    FOREIGN_SAME,      // one tensor, as ours
    FOREIGN_ROTARY,    // one; in each head the halves of the rotary pairs side by side (Meta)
    FOREIGN_QKV,       // q, k, v: for each head of keys its queries, itself, its values (Megatron)
    FOREIGN_GATE_UP,   // gate and up: of each tensor rank its rows of the one, then of the other
    FOREIGN_QUERY,     // q with copies of keys, in their order (NxD)
    FOREIGN_COPIES,    // k or v with its copies
    FOREIGN_RANKS,     // q, k, v: of each tensor rank its rows of all three, with copies
    FOREIGN_KEY_VALUE, // k, v: of each head its key and its value (NeMo)
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
    const char *name; // as --names has it
    const foreign_name *rows;
    int n;
    const foreign_name *more; // read, but not written: further names of the same
    int n_more;
    bool stacked;    // "%d" is left out, and a layer is an index of a dimension before all others
    bool needs_head; // the output weight is there even where it is the embedding
} foreign_names;
extern const foreign_names foreign_name_sets[];
extern const int n_foreign_name_sets;
// Returns the row for a foreign name and its layer (-1: none, or all layers in one tensor). NULL:
// the trainer has no tensor of that name.
const foreign_name *foreign_name_of(const foreign_names *names, const char *foreign, int *layer);
// Returns whether a foreign tensor is none of a Llama's weights, and nothing is lost without it.
bool foreign_name_is_ignored(const char *foreign);
// NULL: no trainer has that name.
const foreign_names *foreign_names_find(const char *name);

// Returns the rows that part `part` of a layer has by the sizes; -1: they do not say.
int64_t foreign_part_rows(foreign_rows rows, const foreign_sizes *sizes, int part);
// Returns where row `row` of part `part` lies in the foreign tensor, and the way back.
int64_t foreign_row_of(foreign_rows rows, const foreign_sizes *sizes, int part, int64_t row);
int64_t foreign_row_back(foreign_rows rows, const foreign_sizes *sizes, int64_t foreign, int *part);
