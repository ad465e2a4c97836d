// Any bytes as an Arrow file.
#include "tables.h"

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    static const char *const fields[] = {"messages", "system", "text", NULL};
    const char *path = fuzz_file(a, "rows.arrow", bytes, n_bytes);
    log_to_file_only(true);
    read_rows(path, INPUT_ARROW, &(reader_opts){.key = "text", .ids.taken = true});
    read_rows(path, INPUT_ARROW,
            &(reader_opts){.key = "text", .fields = fields, .ids.taken = true});
}
