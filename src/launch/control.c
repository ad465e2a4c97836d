// Frames with codes.
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

void control_open(control *c, int fd, bool calls, const job_secret *key) {
    *c = (control){.fd = fd, .calls = calls, .key = *key, .heard_s = clock_s(), .beat_s = clock_s()};
}

void control_close(control *c) {
    if (c->fd >= 0) close(c->fd);
    str_free(&c->in);
    str_free(&c->out);
    str_free(&c->text);
    free(c->fields);
    *c = (control){.fd = -1, .closed = true};
}

// The code of frame `number` of a side.
static bool sign(const control *c, bool of_caller, uint64_t number, const char *frame, size_t n,
        unsigned char out[HMAC_BYTES]) {
    str signed_ = {0};
    str_puts(&signed_, of_caller ? "c" : "l");
    str_add(&signed_, &number, sizeof number);
    str_add(&signed_, frame, n);
    const drv_status status = hmac_sha256(c->key.bytes, SECRET_BYTES, signed_.p, signed_.n, out);
    str_free(&signed_);
    return status == DRV_OK;
}

void control_send(control *c, control_kind kind, const char *const *fields, int n_fields) {
    uint32_t head[2] = {(uint32_t)kind, 0};
    unsigned char code[HMAC_BYTES];
    if (c->closed) return;
    const size_t begin = c->out.n;
    str_add(&c->out, head, sizeof head);
    for (int i = 0; i < n_fields; i++)
        str_add(&c->out, fields[i], strlen(fields[i]) + 1);
    head[1] = (uint32_t)(c->out.n - begin - HEAD_BYTES);
    DRV_ASSERT(head[1] <= CONTROL_MAX_TEXT && n_fields <= CONTROL_MAX_FIELDS, "%u bytes", head[1]);
    memcpy(c->out.p + begin, head, sizeof head);
    c->closed = !sign(c, c->calls, c->n_sent++, c->out.p + begin, c->out.n - begin, code);
    str_add(&c->out, code, sizeof code);
}

static void forget(str *s, size_t n) {
    memmove(s->p, s->p + n, s->n - n);
    s->n -= n;
}

static void send_out(control *c) {
    while (!c->closed && c->out.n > 0) {
        const ssize_t n = send(c->fd, c->out.p, c->out.n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        // Bytes that the other side has sent before it went are still read.
        if (n <= 0)
            str_clear(&c->out);
        else
            forget(&c->out, (size_t)n);
    }
}

static void receive(control *c) {
    char bytes[4096];
    while (!c->closed && c->in.n <= CONTROL_MAX_TEXT + HEAD_BYTES + HMAC_BYTES) {
        const ssize_t n = recv(c->fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        if (n <= 0) {
            c->closed = true;
            return;
        }
        c->heard_s = clock_s();
        str_add(&c->in, bytes, (size_t)n);
    }
}

void control_pump(control *c) {
    const double now = clock_s();
    if (c->closed) return;
    if (now - c->beat_s >= BEAT_S) {
        if (host_is_gone(c->fd, &c->n_silent)) c->closed = true;
        control_send(c, CONTROL_BEAT, NULL, 0);
        c->beat_s = now;
    }
    send_out(c);
    receive(c);
    if (now - c->heard_s > CONTROL_SILENT_S) c->closed = true;
}

static bool split_text(control *c, control_message *out) {
    int n = 0;
    if (c->text.n > 0 && c->text.p[c->text.n - 1] != 0) return false;
    for (size_t i = 0; i < c->text.n; i++)
        n += c->text.p[i] == 0;
    if (n > CONTROL_MAX_FIELDS) return false;
    c->fields = mem_realloc(c->fields, sizeof *c->fields * (size_t)(n + 1));
    const char *field = c->text.p;
    for (int i = 0; i < n; i++, field += strlen(field) + 1)
        c->fields[i] = field;
    out->field = c->fields;
    out->n_fields = n;
    return true;
}

bool control_take(control *c, control_message *out) {
    uint32_t head[2];
    unsigned char code[HMAC_BYTES];
    for (;;) {
        if (c->in.n < HEAD_BYTES) return false;
        memcpy(head, c->in.p, sizeof head);
        const size_t n = HEAD_BYTES + (size_t)head[1];
        const bool known = head[0] > 0 && head[0] < N_CONTROL_KINDS && head[1] <= CONTROL_MAX_TEXT;
        if (known && c->in.n < n + HMAC_BYTES) return false;
        if (!known || !sign(c, !c->calls, c->n_received++, c->in.p, n, code) ||
                !hmac_equal(code, (const unsigned char *)c->in.p + n)) {
            str_clear(&c->in);
            c->closed = true;
            return false;
        }
        str_clear(&c->text);
        str_add(&c->text, c->in.p + HEAD_BYTES, head[1]);
        forget(&c->in, n + HMAC_BYTES);
        out->kind = (control_kind)head[0];
        if (out->kind == CONTROL_BEAT) continue;
        if (split_text(c, out)) return true;
        c->closed = true;
        return false;
    }
}

int control_number(const char *field) {
    int64_t n;
    return str_to_i64(field, &n) && n >= 0 && n <= INT32_MAX ? (int)n : -1;
}

void control_flush(control *c, double seconds) {
    for (const double end = clock_s() + seconds; !c->closed && c->out.n > 0 && clock_s() < end;) {
        struct pollfd p = {c->fd, POLLOUT, 0};
        poll(&p, 1, 50);
        send_out(c);
    }
}
