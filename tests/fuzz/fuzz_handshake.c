// What a stranger sends to a port that is proven by handshake.h: the first byte says which side it
// plays. Nothing may be proven, and nothing read beyond the handshake.
#include "fuzz.h"

#include <sys/socket.h>
#include <unistd.h>

#include "comm/handshake.h"

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    const job_secret secret = {{1, 2, 3}};
    handshake h;
    int fd[2];
    if (n_bytes == 0 || n_bytes > 4096 ||
            socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd) != 0)
        return;
    handshake_begin(&h, fd[0], bytes[0] & 1, &secret, "fuzz", 60);
    for (size_t at = 1; at < n_bytes && h.state == HANDSHAKE_UNDERWAY; at += 7) {
        const size_t left = n_bytes - at;
        if (send(fd[1], bytes + at, left < 7 ? left : 7, MSG_NOSIGNAL) < 0) break;
        handshake_go_on(&h);
    }
    shutdown(fd[1], SHUT_WR);
    if (handshake_go_on(&h) != HANDSHAKE_REFUSED) abort();
    close(fd[0]), close(fd[1]);
}
