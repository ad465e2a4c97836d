// Any bytes as what an optimizer keeps for a rank with three weights: every row of it can be read,
// or a message.
#include "fuzz.h"

#include "source/optimizer_states.h"

static void read_all(const optimizer_states *o) {
    float values[8]; // of a weight's
    for (int i = 0; i < o->n; i++)
        for (int k = 0; k < N_OPTIMIZER_KINDS; k++)
            for (int b = 0; b < o->parts[k][i].n_blocks; b++) {
                const foreign_block *block = &o->parts[k][i].blocks[b];
                DRV_ASSERT(block->rows * block->cols <= 8, "rows beyond the weight");
                if (block->tensor->type->bytes > (int)sizeof *values) continue;
                if (foreign_read_block(block, block->first, block->rows * block->cols, values) !=
                        DRV_OK)
                    abort();
            }
}

// Calls the readers of all forms.
static void read_forms(foreign_model *model, const rank *of, torch_file *file) {
    optimizer_states o;
    for (int shards = 1; shards <= 3; shards++) {
        optimizer_states_begin(model, of, false, &o);
        if (optimizer_states_read(&o, file, file->root, shards - 1, shards) == DRV_OK) read_all(&o);
    }
    optimizer_states_begin(model, of, false, &o);
    if (optimizer_states_read_buffers(&o, file, 1) == DRV_OK) read_all(&o);
}

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    static const char *const names[] = {"model.embed_tokens.weight", "model.norm.weight",
            "lm_head.weight"};
    const file_part part = {.path = "fuzz", .fd = -1, .memory = bytes, .size = (int64_t)n_bytes};
    foreign_model model = {.a = a, .names = foreign_names_find("hf")};
    rank_part parts[3] = {0};
    const rank of = {.parts = parts, .n = 3};
    torch_file file;
    for (int i = 0; i < 3; i++) {
        parts[i] = (rank_part){.name = names[i],
                .type = torch_type_of("bfloat16"),
                .n_dims = i == 1 ? 1 : 2,
                .rows = i == 1 ? 2 : 4,
                .cols = i == 1 ? 1 : 2};
        parts[i].row = foreign_name_of(model.names, names[i], &parts[i].layer);
    }
    if (torch_open_part(a, &part, &(torch_opts){.max_values = 100000}, &file) == DRV_OK) {
        read_forms(&model, &of, &file);
        torch_close(&file);
    }
    foreign_model_close(&model);
}
