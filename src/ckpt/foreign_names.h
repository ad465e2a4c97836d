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
    int64_t tensor_ranks; // whose parts lie one after the other in the foreign tensor
} foreign_sizes;
// DRV_E_DATA: a field is missing or no size; `where` is for the message.
DRV_CHECKED drv_status foreign_sizes_read(const char *where, const json_t *config,
        foreign_sizes *out);

typedef enum foreign_rows {
    FOREIGN_SAME,    // one tensor, as ours
    FOREIGN_ROTARY,  // one; in each head the halves of the rotary pairs side by side (Meta)
    FOREIGN_QKV,     // q, k, v: for each head of keys its queries, itself, its values (Megatron)
    FOREIGN_GATE_UP, // gate and up: of each tensor rank its rows of the one, then of the other
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
    bool stacked;    // "%d" is left out, and a layer is an index of a dimension before all others
    bool needs_head; // the output weight is there even where it is the embedding
} foreign_names;
extern const foreign_names foreign_name_sets[];
extern const int n_foreign_name_sets;
// NULL: no trainer has that name.
const foreign_names *foreign_names_find(const char *name);

// Returns where row `row` of part `part` lies in the foreign tensor, and the way back.
int64_t foreign_row_of(foreign_rows rows, const foreign_sizes *sizes, int part, int64_t row);
int64_t foreign_row_back(foreign_rows rows, const foreign_sizes *sizes, int64_t foreign, int *part);
