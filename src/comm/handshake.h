// The handshake by which two processes of a job prove to each other, over a socket, that they know
// its secret, before either reads anything else. Messages, where || concatenates:
//
//   listener -> caller:  16 random bytes, L
//   caller -> listener:  16 random bytes, C, HMAC-SHA256(secret, "caller" || purpose || L || C)
//   listener -> caller:  HMAC-SHA256(secret, "listener" || purpose || L || C)
//
// Both sides know the purpose, a text: a proof for one purpose is not valid for another, and none
// is valid twice. Nothing here blocks: a slow peer does not hold up others.
#pragma once
#include <poll.h>
#include <stdbool.h>

#include "base/hmac.h"
#include "base/status.h"

enum { SECRET_BYTES = 32, NONCE_BYTES = 16, PURPOSE_BYTES = 64 };

typedef struct job_secret {
    unsigned char bytes[SECRET_BYTES];
} job_secret;

// Draws 256 random bits. DRV_E_IO: the system cannot provide them.
DRV_CHECKED drv_status secret_make(job_secret *out);

typedef enum handshake_state {
    HANDSHAKE_UNDERWAY,
    HANDSHAKE_PROVEN,
    HANDSHAKE_REFUSED
} handshake_state;

typedef struct handshake {
    int fd;     // -1: none; belongs to the owner of the handshake
    bool calls; // this side has connected
    handshake_state state;
    const job_secret *secret;
    char purpose[PURPOSE_BYTES];
    unsigned char mine[NONCE_BYTES], theirs[NONCE_BYTES];
    unsigned char in[NONCE_BYTES + HMAC_BYTES]; // the awaited message, as far as it has been read
    int n_in, step;
    double until_s; // clock: refused afterwards
} handshake;

// Begins on a connected, non-blocking socket; `calls`: this side has connected. The secret must
// outlive the handshake. It is refused after `seconds`.
void handshake_begin(handshake *h, int fd, bool calls, const job_secret *secret,
        const char *purpose, double seconds);
// Continues as far as bytes have arrived; never reads beyond the handshake. A peer that does not
// know the secret, closes the connection or is too slow is refused; the caller closes the socket.
handshake_state handshake_go_on(handshake *h);

// Derives a key for this connection, the same on both sides of a proven handshake.
DRV_CHECKED drv_status handshake_session(const handshake *h, job_secret *out);

// --- callers of a listening socket, served concurrently
typedef struct reception reception;
enum { MAX_CALLERS = 64 };

// The listener stays the caller's; the secret must outlive the reception.
reception *reception_open(int listener, const job_secret *secret, const char *purpose);
// Fills fds for poll(), at most MAX_CALLERS + 1, and returns their number.
int reception_fds(const reception *r, struct pollfd *fds);
// Accepts new connections and reads what they have sent. Returns the socket of one that has proven
// the secret, which then belongs to the caller, and copies its handshake to *proven (may be NULL);
// -1: none at the moment. Drops a connection after ten seconds, and the oldest one when there are
// MAX_CALLERS.
int reception_serve(reception *r, handshake *proven);
void reception_close(reception *r); // drops the connections that are still open
