// Any bytes as a .metadata of torch.distributed.checkpoint: refused by a message, or every tensor
// is filled by its chunks.
#include "pickle/dcp_metadata.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n) {
    arena *a = arena_new("fuzz");
    dcp_metadata m;
    if (dcp_metadata_parse(a, "fuzz", p, n, &m) == DRV_OK)
        for (int i = 0; i < m.n; i++)
            for (int k = 0; k < m.entries[i].n_chunks; k++)
                DRV_ASSERT(m.entries[i].chunks[k].at >= 0, "a place");
    arena_free(a);
    return 0;
}
