// Proofs of a secret over sockets, by challenge and response in both directions.
#include "comm/handshake.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"

// A caller answers within a round trip; a busy machine may take seconds to let it run.
#define CALLER_S 10.0
// Connections accepted before the open ones are served again.
enum { AT_ONCE = MAX_CALLERS / 8 };

drv_status secret_make(job_secret *out) {
    if (getrandom(out->bytes, sizeof out->bytes, 0) == sizeof out->bytes) return DRV_OK;
    return drv_fail(DRV_E_IO, "could not get random bytes: %s", strerror(errno));
}

// --- one handshake
static bool send_all(int fd, const void *p, size_t n) {
    // A few bytes into the empty buffer of a new connection: all of them or none.
    return send(fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)n;
}

// Derives the key for `use` from the secret, in this handshake.
static drv_status derive(const handshake *h, const char *use, unsigned char out[HMAC_BYTES]) {
    char text[16 + PURPOSE_BYTES + 2 * NONCE_BYTES] = {0};
    snprintf(text, 16, "%s", use);
    memcpy(text + 16, h->purpose, PURPOSE_BYTES);
    memcpy(text + 16 + PURPOSE_BYTES, h->calls ? h->theirs : h->mine, NONCE_BYTES);
    memcpy(text + 16 + PURPOSE_BYTES + NONCE_BYTES, h->calls ? h->mine : h->theirs, NONCE_BYTES);
    return hmac_sha256(h->secret->bytes, SECRET_BYTES, text, sizeof text, out);
}

// The proof of the caller or of the listener.
static bool prove(const handshake *h, bool of_caller, unsigned char out[HMAC_BYTES]) {
    return derive(h, of_caller ? "caller" : "listener", out) == DRV_OK;
}

drv_status handshake_session(const handshake *h, job_secret *out) {
    return derive(h, "session", out->bytes);
}

static handshake_state refuse(handshake *h) {
    return h->state = HANDSHAKE_REFUSED;
}

void handshake_begin(handshake *h, int fd, bool calls, const job_secret *secret,
        const char *purpose, double seconds) {
    *h = (handshake){.fd = fd, .calls = calls, .secret = secret, .until_s = clock_s() + seconds};
    snprintf(h->purpose, sizeof h->purpose, "%s", purpose);
    if (getrandom(h->mine, NONCE_BYTES, 0) != NONCE_BYTES) refuse(h);
    if (!calls && !send_all(fd, h->mine, NONCE_BYTES)) refuse(h);
}

// Returns how many bytes the next message of the other side has.
static int awaited(const handshake *h) {
    if (!h->calls) return NONCE_BYTES + HMAC_BYTES;
    return h->step == 0 ? NONCE_BYTES : HMAC_BYTES;
}

static handshake_state answer_challenge(handshake *h) {
    unsigned char answer[NONCE_BYTES + HMAC_BYTES];
    memcpy(h->theirs, h->in, NONCE_BYTES);
    memcpy(answer, h->mine, NONCE_BYTES);
    if (!prove(h, true, answer + NONCE_BYTES) || !send_all(h->fd, answer, sizeof answer))
        return refuse(h);
    h->step = 1;
    h->n_in = 0;
    return h->state;
}

static handshake_state check_listener(handshake *h) {
    unsigned char proof[HMAC_BYTES];
    if (!prove(h, false, proof) || !hmac_equal(proof, h->in)) return refuse(h);
    return h->state = HANDSHAKE_PROVEN;
}

static handshake_state check_caller(handshake *h) {
    unsigned char proof[HMAC_BYTES];
    memcpy(h->theirs, h->in, NONCE_BYTES);
    if (!prove(h, true, proof) || !hmac_equal(proof, h->in + NONCE_BYTES)) return refuse(h);
    if (!prove(h, false, proof) || !send_all(h->fd, proof, HMAC_BYTES)) return refuse(h);
    return h->state = HANDSHAKE_PROVEN;
}

handshake_state handshake_go_on(handshake *h) {
    while (h->state == HANDSHAKE_UNDERWAY) {
        const ssize_t n =
                recv(h->fd, h->in + h->n_in, (size_t)(awaited(h) - h->n_in), MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) break;
        if (n <= 0) return refuse(h);
        h->n_in += (int)n;
        if (h->n_in < awaited(h)) continue;
        if (!h->calls)
            check_caller(h);
        else if (h->step == 0)
            answer_challenge(h);
        else
            check_listener(h);
    }
    if (h->state == HANDSHAKE_UNDERWAY && clock_s() > h->until_s) refuse(h);
    return h->state;
}

// --- callers
struct reception {
    int listener, n;
    const job_secret *secret;
    char purpose[PURPOSE_BYTES];
    handshake callers[MAX_CALLERS]; // [n], who has been here longest first
};

reception *reception_open(int listener, const job_secret *secret, const char *purpose) {
    reception *r = mem_zeroed(sizeof *r);
    r->listener = listener;
    r->secret = secret;
    snprintf(r->purpose, sizeof r->purpose, "%s", purpose);
    return r;
}

int reception_fds(const reception *r, struct pollfd *fds) {
    fds[0] = (struct pollfd){r->listener, POLLIN, 0};
    for (int i = 0; i < r->n; i++)
        fds[i + 1] = (struct pollfd){r->callers[i].fd, POLLIN, 0};
    return r->n + 1;
}

static void leave_out(reception *r, int i) {
    memmove(&r->callers[i], &r->callers[i + 1], sizeof *r->callers * (size_t)(r->n - i - 1));
    r->n--;
}

static void drop(reception *r, int i) {
    close(r->callers[i].fd);
    leave_out(r, i);
}

static void take_callers(reception *r) {
    for (int taken = 0; taken < AT_ONCE; taken++) {
        const int fd = accept4(r->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) return;
        if (r->n == MAX_CALLERS) drop(r, 0);
        handshake_begin(&r->callers[r->n++], fd, false, r->secret, r->purpose, CALLER_S);
    }
}

// Serves open connections before accepting new ones: their proof may have arrived already, and a
// flood of new ones would push them out unread.
int reception_serve(reception *r, handshake *proven) {
    for (int i = 0; i < r->n;) {
        const handshake_state state = handshake_go_on(&r->callers[i]);
        const int fd = r->callers[i].fd;
        if (state == HANDSHAKE_PROVEN) {
            if (proven) *proven = r->callers[i];
            leave_out(r, i);
            return fd;
        }
        if (state == HANDSHAKE_REFUSED)
            drop(r, i);
        else
            i++;
    }
    take_callers(r);
    return -1;
}

void reception_close(reception *r) {
    if (!r) return;
    while (r->n > 0)
        drop(r, 0);
    free(r);
}
