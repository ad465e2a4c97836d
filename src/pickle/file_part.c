// Reads of a part of a file.
#include "pickle/file_part.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

drv_status file_part_read(const file_part *part, int64_t at, int64_t n, void *out) {
    DRV_ASSERT(at >= 0 && n >= 0 && at <= part->size && n <= part->size - at, "bytes of \"%s\"",
            part->path);
    if (part->fd < 0) {
        if (n) memcpy(out, part->memory + part->base + at, (size_t)n);
        return DRV_OK;
    }
    for (int64_t done = 0; done < n;) {
        const int64_t place = part->base + at + done;
        const ssize_t got = pread(part->fd, (char *)out + done, (size_t)(n - done), place);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return file_fail("read", part->path);
        if (got == 0)
            return drv_fail(DRV_E_IO,
                    "\"%s\" ends at byte %lld: it was shortened while it was read", part->path,
                    (long long)place);
        done += got;
    }
    return DRV_OK;
}
