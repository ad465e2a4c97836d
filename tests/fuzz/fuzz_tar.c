// Any bytes as a tar archive: members that lie in it, or a message.
#include "fuzz.h"

#include "pickle/tar.h"

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    const file_part part = {.path = "fuzz", .fd = -1, .memory = bytes, .size = (int64_t)n_bytes};
    tar_file tar;
    if (tar_is_tar(&part) && tar_read(a, &part, &tar) == DRV_OK)
        for (int i = 0; i < tar.n; i++) {
            const file_part *in = &tar.members[i].part;
            DRV_ASSERT(in->base >= 0 && in->size >= 0 && in->base <= part.size - in->size,
                    "a member beyond the archive");
        }
}
