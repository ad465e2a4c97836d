// Any bytes as an input file of one ending: all its records up to a bound, or a message.
#pragma once
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "data/read/reader.h"

static void read_records(const char *ending, const uint8_t *data, size_t n_data,
        const reader_opts *opts) {
    enum { MAX_RECORDS = 10000, MAX_BYTES = 1 << 24 };
    char file[64];
    const char *path = file;
    reader *in = NULL;
    str bytes = {0};
    arena *a = arena_new("fuzz");
    snprintf(file, sizeof file, "/tmp/drover-fuzz-%d%s", (int)getpid(), ending);
    log_to_file_only(true);
    if (file_write_atomic(path, data, n_data) == DRV_OK &&
            reader_open(a, &path, 1, opts, &in) == DRV_OK) {
        reader_event event = READER_RECORD;
        for (int i = 0; i < MAX_RECORDS && bytes.n < MAX_BYTES && event != READER_END; i++) {
            record r;
            if (reader_next(in, &bytes, &r, &event) != DRV_OK) break;
            DRV_ASSERT(event != READER_RECORD || r.at + r.n == bytes.n, "not the last bytes");
            DRV_ASSERT(event != READER_RECORD || !r.ids || r.n % 4 == 0, "no ids");
        }
        reader_close(in);
    }
    unlink(path);
    str_free(&bytes);
    arena_free(a);
}
