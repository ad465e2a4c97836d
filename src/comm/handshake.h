// The handshake by which two processes of a job prove to each other, over a socket, that they know
// its secret, before either reads anything else. Messages, in bytes; || joins:
//
//   listener -> caller:  16 of chance, L
//   caller -> listener:  16 of chance, C, and HMAC-SHA256(secret, "caller" || purpose || L || C)
//   listener -> caller:  HMAC-SHA256(secret, "listener" || purpose || L || C)
//
// Purpose is a text that both know: a proof for one purpose is none for another, and no proof holds
// twice. Nothing here waits: sockets are non-blocking, and who is slow holds up nobody.
#pragma once
#include <poll.h>
#include <stdbool.h>

#include "base/hmac.h"
#include "base/status.h"

enum { SECRET_BYTES = 32, NONCE_BYTES = 16, PURPOSE_BYTES = 64 };

typedef struct job_secret {
    unsigned char bytes[SECRET_BYTES];
} job_secret;

// 256 bits of chance. DRV_E_IO: the system has none.
DRV_CHECKED drv_status secret_make(job_secret *out);

typedef enum handshake_state {
    HANDSHAKE_UNDERWAY,
    HANDSHAKE_PROVEN,
    HANDSHAKE_REFUSED
} handshake_state;

typedef struct handshake {
    int fd; // -1: none; belongs to whoever holds the handshake
    bool calls;
    handshake_state state;
    const job_secret *secret;
    char purpose[PURPOSE_BYTES];
    unsigned char mine[NONCE_BYTES], theirs[NONCE_BYTES];
    unsigned char in[NONCE_BYTES + HMAC_BYTES]; // what has been read of the message that is awaited
    int n_in, step;
    double until_s; // clock: refused afterwards
} handshake;

// Begins on a connected, non-blocking socket; `calls`: this side has connected. The secret must
// outlive the handshake. It is refused after `seconds`.
void handshake_begin(handshake *h, int fd, bool calls, const job_secret *secret,
        const char *purpose, double seconds);
// Goes on as far as bytes are there. Never reads a byte beyond the handshake. Who does not know the
// secret, closes or is too slow is refused; the caller of this closes the socket.
handshake_state handshake_go_on(handshake *h);

// Makes a key for this connection alone, the same on both sides of a proven handshake.
DRV_CHECKED drv_status handshake_session(const handshake *h, job_secret *out);

// --- Callers of a listening socket, served side by side.
typedef struct reception reception;
enum { MAX_CALLERS = 64 };

// The listener stays the caller's, and the secret must outlive the reception.
reception *reception_open(int listener, const job_secret *secret, const char *purpose);
// Fills fds for poll(), at most MAX_CALLERS + 1; the number of them.
int reception_fds(const reception *r, struct pollfd *fds);
// Takes new callers and what callers have sent. The socket of one that has proven the secret, which
// is now the caller's of this function, with its handshake in *proven (NULL: not wanted); -1: none
// at the moment. One that takes more than ten seconds is dropped, and when there are MAX_CALLERS,
// the one that has been there longest.
int reception_serve(reception *r, handshake *proven);
void reception_close(reception *r); // drops who is there
