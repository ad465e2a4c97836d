// A checkpoint of torch.distributed.checkpoint from outside: weights and the optimizer's state of
// it are refused by a message, or every row of them is read. An input has the size of .metadata in
// four bytes (the lowest first), .metadata, and __0_0.distcp.
#include "fuzz.h"

#include "source/foreign_state.h"

static const char config[] =
        "{\"num_hidden_layers\": 2, \"hidden_size\": 4, \"intermediate_size\": 4, "
        "\"num_attention_heads\": 1, \"head_dim\": 4, \"vocab_size\": 4}";

// Rows of sizes that a corpus has; a tensor that is said to be huge is left.
static void read_all(const model_source *s) {
    float row[1024];
    for (int i = 0; i < s->n; i++) {
        const source_tensor *t = &s->tensors[i];
        drv_status status = DRV_OK;
        for (int64_t k = 0; t->cols <= 1024 && k < t->rows && k < 1024 && status == DRV_OK; k++)
            status = source_read_f32(s, t, k, 1, row);
    }
}

static void write_input(arena *a, const uint8_t *p, size_t n) {
    const size_t size = n < 4 ? 0 : p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16,
                 left = n < 4 ? 0 : n - 4, metadata = size < left ? size : left;
    const uint8_t *from = n < 4 ? (const uint8_t *)"" : p + 4;
    fuzz_file(a, ".metadata", from, metadata);
    fuzz_file(a, "__0_0.distcp", from + metadata, left - metadata);
}

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    model_source s;
    foreign_progress stood;
    fuzz_file(a, "config.json", config, sizeof config - 1);
    write_input(a, bytes, n_bytes);
    if (model_source_open(a, fuzz_folder(), &s) == DRV_OK) {
        read_all(&s);
        model_source_close(&s);
    }
    if (model_source_open_optimizer(a, fuzz_folder(), NULL, &s, &stood) == DRV_OK) {
        DRV_ASSERT(stood.step >= 0 && stood.updates <= stood.step, "a step");
        read_all(&s);
        model_source_close(&s);
    }
}
