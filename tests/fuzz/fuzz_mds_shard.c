// Any bytes as a shard of MosaicML: texts or ids, and samples as objects.
#include "records.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n) {
    static const char *const fields[] = {"prompt", "response", "tags", "text", NULL};
    read_records(".mds", p, n, &(reader_opts){.ids = {.taken = true, .rows = {CUT_AFTER, 7}}});
    read_records(".mds", p, n, &(reader_opts){.lines = true, .fields = fields});
    return 0;
}
