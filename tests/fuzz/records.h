// Any bytes as an input file of one ending: all its records up to a bound, or a message.
#pragma once
#include "fuzz.h"

#include "data/read/reader.h"

static void read_records(arena *a, const char *ending, const uint8_t *data, size_t n_data,
        const reader_opts *opts) {
    enum { MAX_RECORDS = 10000, MAX_BYTES = 1 << 24 };
    const char *path = fuzz_file(a, arena_printf(a, "input%s", ending), data, n_data);
    reader *in = NULL;
    str bytes = {0};
    log_to_file_only(true);
    if (reader_open(a, &path, 1, opts, &in) == DRV_OK) {
        reader_event event = READER_RECORD;
        for (int i = 0; i < MAX_RECORDS && bytes.n < MAX_BYTES && event != READER_END; i++) {
            record r;
            if (reader_next(in, &bytes, &r, &event) != DRV_OK) break;
            DRV_ASSERT(event != READER_RECORD || r.at + r.n == bytes.n, "not the last bytes");
            DRV_ASSERT(event != READER_RECORD || !r.ids || r.n % 4 == 0, "no ids");
        }
        reader_close(in);
    }
    str_free(&bytes);
}
