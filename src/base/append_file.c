// Appends to a file, and keeps the lines that a full disk did not take.
#include "base/append_file.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"

enum { MOST_KEPT = 64 << 20 };

struct append_file {
    const char *path;
    int fd;
    str kept; // not written yet
};

drv_status append_file_open(arena *a, const char *path, append_file **out) {
    int fd;
    DRV_TRY(file_append(path, &fd));
    *out = ARENA_NEW(a, append_file);
    **out = (append_file){.path = path, .fd = fd};
    return DRV_OK;
}

static drv_status write_kept(append_file *f) {
    size_t done = 0;
    drv_status status = DRV_OK;
    while (status == DRV_OK && done < f->kept.n) {
        const ssize_t k = write(f->fd, f->kept.p + done, f->kept.n - done);
        if (k >= 0)
            done += (size_t)k;
        else if (errno != EINTR)
            status = file_fail("write", f->path);
    }
    if (done) memmove(f->kept.p, f->kept.p + done, f->kept.n - done);
    f->kept.n -= done;
    return status;
}

drv_status append_file_add(append_file *f, const void *bytes, size_t n) {
    const drv_status status = write_kept(f);
    if (status != DRV_OK && f->kept.n + n > MOST_KEPT) return status; // these bytes are dropped
    str_add(&f->kept, bytes, n);
    return status == DRV_OK ? write_kept(f) : status;
}

drv_status append_file_sync(append_file *f) {
    return fsync(f->fd) == 0 ? DRV_OK : file_fail("sync", f->path);
}

void append_file_close(append_file *f) {
    if (!f) return;
    close(f->fd);
    str_free(&f->kept);
}
