// JSON Lines, read piece by piece.
#include "base/json_lines.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"

enum { PIECE = 1 << 18 };

drv_status json_lines_open(const char *path, bool regular, json_lines *out) {
    int64_t bytes;
    *out = (json_lines){.fd = -1, .path = path};
    if (regular) return file_open_regular(path, &out->fd, &bytes);
    out->fd = open(path, O_RDONLY | O_CLOEXEC);
    return out->fd < 0 ? file_fail("open", path) : DRV_OK;
}

// Reads more of the file, behind the lines that were not taken. False: nothing more is there now.
static bool read_piece(json_lines *self) {
    str *b = &self->buffer;
    if (self->taken > 0) {
        memmove(b->p, b->p + self->taken, b->n - self->taken);
        b->n -= self->taken;
        self->taken = 0;
    }
    str_reserve(b, PIECE);
    ssize_t n;
    do {
        n = read(self->fd, b->p + b->n, PIECE);
    } while (n < 0 && errno == EINTR);
    self->error = n < 0 ? errno : 0;
    if (n <= 0) return false;
    b->n += (size_t)n;
    self->offset += n;
    return true;
}

static const char *give_up(json_lines *self) {
    self->too_long = true;
    self->n_broken++;
    str_free(&self->buffer);
    self->taken = 0;
    return NULL;
}

// Returns the next whole line, without its line feed; NULL: there is none yet.
static const char *next_line(json_lines *self, size_t *n) {
    str *b = &self->buffer;
    size_t looked = self->taken;
    for (;;) {
        const char *end = b->n > looked ? memchr(b->p + looked, '\n', b->n - looked) : NULL;
        if (end) {
            const char *line = b->p + self->taken;
            *n = (size_t)(end - line);
            self->taken += *n + 1;
            return line;
        }
        if (b->n - self->taken > JSON_LINE_MAX) return give_up(self);
        const size_t kept = b->n - self->taken;
        const bool late = self->until_s > 0 && clock_s() > self->until_s;
        if (late || !read_piece(self)) return NULL;
        looked = kept;
    }
}

json_t *json_lines_next(json_lines *self) {
    size_t n;
    for (const char *line; !self->too_long && (line = next_line(self, &n));) {
        json_t *value = json_loadb(line, n, 0, NULL);
        if (json_is_object(value)) return value;
        json_decref(value);
        self->n_broken += n > 0;
    }
    return NULL;
}

drv_status json_lines_status(const json_lines *self) {
    errno = self->error;
    return self->error ? file_fail("read", self->path) : DRV_OK;
}

bool json_lines_replaced(const json_lines *self) {
    struct stat open_file, named;
    if (fstat(self->fd, &open_file) != 0 || stat(self->path, &named) != 0) return false;
    return open_file.st_ino != named.st_ino || open_file.st_dev != named.st_dev ||
           named.st_size < self->offset;
}

void json_lines_close(json_lines *self) {
    if (self->fd >= 0) close(self->fd);
    str_free(&self->buffer);
    *self = (json_lines){.fd = -1};
}
