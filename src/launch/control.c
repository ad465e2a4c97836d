// Frames with authentication codes.
#include "launch/control.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "comm/host_address.h"

#define BEAT_S 2.0
enum { HEAD_BYTES = 8 };

void control_open(control *self, int fd, bool calls, const job_secret *key) {
    *self = (control){.fd = fd,
            .calls = calls,
            .key = *key,
            .heard_s = clock_s(),
            .beat_s = clock_s()};
}

void control_close(control *self) {
    if (self->fd >= 0) close(self->fd);
    str_free(&self->in);
    str_free(&self->out);
    str_free(&self->text);
    free(self->fields);
    *self = (control){.fd = -1, .closed = true};
}

// Computes the code of frame `number` of a side.
static bool sign(const control *self, bool of_caller, uint64_t number, const char *frame, size_t n,
        unsigned char out[HMAC_BYTES]) {
    str signed_ = {0};
    str_puts(&signed_, of_caller ? "c" : "l");
    str_add(&signed_, &number, sizeof number);
    str_add(&signed_, frame, n);
    const drv_status status = hmac_sha256(self->key.bytes, SECRET_BYTES, signed_.p, signed_.n, out);
    str_free(&signed_);
    return status == DRV_OK;
}

void control_send(control *self, control_kind kind, const char *const *fields, int n_fields) {
    uint32_t head[2] = {(uint32_t)kind, 0};
    unsigned char code[HMAC_BYTES];
    if (self->closed) return;
    const size_t begin = self->out.n;
    str_add(&self->out, head, sizeof head);
    for (int i = 0; i < n_fields; i++)
        str_add(&self->out, fields[i], strlen(fields[i]) + 1);
    head[1] = (uint32_t)(self->out.n - begin - HEAD_BYTES);
    DRV_ASSERT(head[1] <= CONTROL_MAX_TEXT && n_fields <= CONTROL_MAX_FIELDS, "%u bytes", head[1]);
    memcpy(self->out.p + begin, head, sizeof head);
    self->closed = !sign(self, self->calls, self->n_sent++, self->out.p + begin,
            self->out.n - begin, code);
    str_add(&self->out, code, sizeof code);
}

static void forget(str *s, size_t n) {
    memmove(s->p, s->p + n, s->n - n);
    s->n -= n;
}

static void send_out(control *self) {
    while (!self->closed && self->out.n > 0) {
        const ssize_t n = send(self->fd, self->out.p, self->out.n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        // Bytes that the other side sent before it closed are still read.
        if (n <= 0)
            str_clear(&self->out);
        else
            forget(&self->out, (size_t)n);
    }
}

static void receive(control *self) {
    char bytes[4096];
    while (!self->closed && self->in.n <= CONTROL_MAX_TEXT + HEAD_BYTES + HMAC_BYTES) {
        const ssize_t n = recv(self->fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        if (n <= 0) {
            self->closed = true;
            return;
        }
        self->heard_s = clock_s();
        str_add(&self->in, bytes, (size_t)n);
    }
}

void control_pump(control *self) {
    const double now = clock_s();
    if (self->closed) return;
    if (now - self->beat_s >= BEAT_S) {
        if (host_is_unreachable(self->fd, &self->n_silent)) self->closed = true;
        control_send(self, CONTROL_BEAT, NULL, 0);
        self->beat_s = now;
    }
    send_out(self);
    receive(self);
    if (now - self->heard_s > CONTROL_SILENT_S) self->closed = true;
}

static bool split_text(control *self, control_message *out) {
    int n = 0;
    if (self->text.n > 0 && self->text.p[self->text.n - 1] != 0) return false;
    for (size_t i = 0; i < self->text.n; i++)
        n += self->text.p[i] == 0;
    if (n > CONTROL_MAX_FIELDS) return false;
    self->fields = mem_realloc(self->fields, sizeof *self->fields * (size_t)(n + 1));
    const char *field = self->text.p;
    for (int i = 0; i < n; i++, field += strlen(field) + 1)
        self->fields[i] = field;
    out->field = self->fields;
    out->n_fields = n;
    return true;
}

bool control_take(control *self, control_message *out) {
    uint32_t head[2];
    unsigned char code[HMAC_BYTES];
    for (;;) {
        if (self->in.n < HEAD_BYTES) return false;
        memcpy(head, self->in.p, sizeof head);
        const size_t n = HEAD_BYTES + (size_t)head[1];
        const bool known = head[0] > 0 && head[0] < N_CONTROL_KINDS && head[1] <= CONTROL_MAX_TEXT;
        if (known && self->in.n < n + HMAC_BYTES) return false;
        if (!known || !sign(self, !self->calls, self->n_received++, self->in.p, n, code) ||
                !hmac_equal(code, (const unsigned char *)self->in.p + n)) {
            str_clear(&self->in);
            self->closed = true;
            return false;
        }
        str_clear(&self->text);
        str_add(&self->text, self->in.p + HEAD_BYTES, head[1]);
        forget(&self->in, n + HMAC_BYTES);
        out->kind = (control_kind)head[0];
        if (out->kind == CONTROL_BEAT) continue;
        if (split_text(self, out)) return true;
        self->closed = true;
        return false;
    }
}

int control_number(const char *field) {
    int64_t n;
    return str_to_i64(field, &n) && n >= 0 && n <= INT32_MAX ? (int)n : -1;
}

void control_flush(control *self, double seconds) {
    for (const double end = clock_s() + seconds;
            !self->closed && self->out.n > 0 && clock_s() < end;) {
        struct pollfd p = {self->fd, POLLOUT, 0};
        poll(&p, 1, 50);
        send_out(self);
    }
}
