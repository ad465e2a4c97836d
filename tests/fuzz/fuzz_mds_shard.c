// Any bytes as a shard of MosaicML: texts or ids, and samples as objects.
#include "records.h"

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    static const char *const fields[] = {"prompt", "response", "tags", "text", NULL};
    read_records(a, ".mds", bytes, n_bytes,
            &(reader_opts){.ids = {.taken = true, .rows = {CUT_AFTER, 7}}});
    read_records(a, ".mds", bytes, n_bytes, &(reader_opts){.lines = true, .fields = fields});
}
