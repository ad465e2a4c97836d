// Any bytes as a .metadata of torch.distributed.checkpoint: refused by a message, or every tensor
// is filled by its chunks.
#include "fuzz.h"

#include "pickle/dcp_metadata.h"

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    dcp_metadata m;
    if (dcp_metadata_parse(a, "fuzz", bytes, n_bytes, &m) == DRV_OK)
        for (int i = 0; i < m.n; i++)
            for (int k = 0; k < m.entries[i].n_chunks; k++)
                DRV_ASSERT(m.entries[i].chunks[k].at >= 0, "a place");
}
