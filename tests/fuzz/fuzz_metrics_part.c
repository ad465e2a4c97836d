// Any bytes as metrics.jsonl, from any step: the answer is JSON, and its steps are asked for; and
// the newest record.
#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "watch/files/metrics_part.h"

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    char path[64];
    str out = {0};
    json_t *all = NULL, *record;
    size_t i;
    const int64_t from = n_bytes ? bytes[0] : 0;
    const int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, bytes, n_bytes) != (ssize_t)n_bytes) return;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (metrics_part(path, from, &out) == DRV_OK) {
        DRV_ASSERT(json_read_bytes("answer", out.p, out.n, &all) == DRV_OK, "%s", drv_message());
        json_array_foreach(json_object_get(all, "records"), i, record)
                DRV_ASSERT(json_integer_value(json_object_get(record, "step")) >= from,
                        "its steps");
        json_decref(all);
    }
    record = metrics_newest(path, "loss");
    DRV_ASSERT(!record || json_object_get(record, "loss"), "the newest has it");
    json_decref(record);
    str_free(&out);
    close(fd);
}
