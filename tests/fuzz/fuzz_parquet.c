// Any bytes as a Parquet file.
#include "tables.h"

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    static const char *const fields[] = {"text", "tags", "page", "messages", "tools", NULL};
    const char *path = fuzz_file(a, "rows.parquet", bytes, n_bytes);
    log_to_file_only(true);
    read_rows(path, INPUT_PARQUET, &(reader_opts){.key = "text", .ids.taken = true});
    read_rows(path, INPUT_PARQUET, &(reader_opts){.fields = fields});
    read_rows(path, INPUT_PARQUET, &(reader_opts){.fields = fields, .ids.taken = true});
}
