// Standard output that cannot lose a result silently: the first write that fails ends the program,
// as SIGPIPE does when a reader is gone. So no verb runs on for hours to fill a full disk, and none
// needs to check each of its prints.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/cli.h"

static _Noreturn void give_up(int error) {
    progress_end();
    if (error == EPIPE) { // the reader has seen enough: silent, as other programs end
        signal(SIGPIPE, SIG_DFL);
        raise(SIGPIPE);
    }
    fprintf(stderr, "drover: could not write to standard output: %s\n", strerror(error));
    _exit(1);
}

// All of the bytes, or the end of the program.
static ssize_t write_all(void *cookie, const char *bytes, size_t n) {
    (void)cookie;
    for (size_t done = 0; done < n;) {
        const ssize_t k = write(STDOUT_FILENO, bytes + done, n - done);
        if (k >= 0) {
            done += (size_t)k;
        } else if (errno == EAGAIN) { // another program has made the descriptor non-blocking
            poll(&(struct pollfd){.fd = STDOUT_FILENO, .events = POLLOUT}, 1, -1);
        } else if (errno != EINTR) {
            give_up(errno);
        }
    }
    return (ssize_t)n;
}

void cli_open_stdout(void) {
    FILE *f = fopencookie(NULL, "w", (cookie_io_functions_t){.write = write_all});
    DRV_MEMORY(f, "a table or a state of some KiB");
    static char buffer[1 << 16]; // glibc takes a size only together with a buffer
    setvbuf(f, buffer, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, sizeof buffer);
    stdout = f;
}

// The stream itself is not closed: a C++ library loaded since (a plugin) has taken it for
// the C library's own, which is never freed, and flushes it when the process ends.
void cli_close_stdout(void) {
    if (fflush(stdout) != 0 || close(STDOUT_FILENO) != 0) // NFS and quotas tell bad news at a close
        give_up(errno);
}
