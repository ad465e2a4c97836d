// Any bytes on a line between nodes, after a frame that is right: that one is taken, and nothing
// that has no code of the key. Behind it the ends of ranks and the order of a daemon are read as
// they would be with one: fields that each end in a NUL.
// Legend: c the end that is tried, m a message.
#include "fuzz.h"

#include <sys/socket.h>
#include <unistd.h>

#include "launch/control.h"
#include "launch/daemon_command.h"
#include "launch/outcome.h"

static void read_order(const uint8_t *bytes, size_t n_bytes) {
    enum { MOST = 64 };
    const char *fields[MOST];
    int n = 0;
    daemon_order order;
    char *copy = mem_zeroed(n_bytes + 1);
    if (n_bytes > 0) memcpy(copy, bytes, n_bytes);
    for (size_t at = 0; at < n_bytes && n < MOST; at += strlen(copy + at) + 1)
        fields[n++] = copy + at;
    if (daemon_order_parse(fields, n, &order) == DRV_OK)
        DRV_ASSERT(order.place > 0 && order.place < order.n_nodes && order.n_args > 0 &&
                           order.n_variables + order.n_args + DAEMON_ORDER_NUMBERS == n,
                "%d fields", n);
    free(copy);
}

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    const job_secret key = {{1}};
    const char *field = "3 1 0 2";
    char text[64] = "";
    control sender, c;
    control_message m;
    outcome end;
    int fd[2], n_taken = 0;
    if (n_bytes > 1 << 14 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd) != 0) return;
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
    read_order(bytes, n_bytes);
    control_close(&sender);
    control_close(&c);
}
