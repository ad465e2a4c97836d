// Any bytes on a line between nodes, after a frame that is right: that one is taken, and nothing
// that has no code of the key. Behind it the fields and ends of ranks are read as they would be
// with one.
// Legend: c the end that is tried, m a message.
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launch/control.h"
#include "launch/outcome.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes) {
    const job_secret key = {{1}};
    const char *field = "3 1 0";
    char text[64] = "";
    control sender, c;
    control_message m;
    outcome end;
    int fd[2], n_taken = 0;
    if (n_bytes > 1 << 14 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd) != 0) return 0;
    control_open(&sender, fd[1], true, &key);
    control_open(&c, fd[0], false, &key);
    control_send(&sender, CONTROL_RESULT, &field, 1);
    control_pump(&sender);
    if (send(fd[1], bytes, n_bytes, MSG_NOSIGNAL) < 0 && n_bytes > 0) abort();
    control_pump(&c);
    while (control_take(&c, &m))
        n_taken++;
    DRV_ASSERT(n_taken == 1, "%d frames", n_taken);
    for (size_t i = 0; i < n_bytes && i + 1 < sizeof text; i++)
        text[i] = (char)bytes[i];
    if (outcome_parse(text, &end))
        DRV_ASSERT(end.rank >= 0 && end.kind < N_OUTCOMES, "%d", end.rank);
    control_close(&sender);
    control_close(&c);
    return 0;
}
