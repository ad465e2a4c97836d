// Reads of a part of a file.
#include "pickle/file_part.h"

#include <errno.h>
#include <string.h>

#include "base/file.h"

drv_status file_part_read(const file_part *part, int64_t at, int64_t n, void *out) {
    DRV_ASSERT(at >= 0 && n >= 0 && at <= part->size && n <= part->size - at, "bytes of \"%s\"",
            part->path);
    if (part->fd < 0) {
        if (n) memcpy(out, part->memory + part->base + at, (size_t)n);
        return DRV_OK;
    }
    const int64_t got = file_read_at(part->fd, out, n, part->base + at);
    if (got == n) return DRV_OK;
    if (errno) return file_fail("read", part->path);
    return drv_fail(DRV_E_IO, "\"%s\" ends at byte %lld: it was shortened while it was read",
            part->path, (long long)(part->base + at + got));
}
