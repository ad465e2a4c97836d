// Makes the first failed write to standard output end the program, as SIGPIPE does when a reader is
// gone. So no result is lost silently, no verb runs on for hours while the disk is full, and no
// verb has to check each print.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "cli/cli.h"

static _Noreturn void give_up(int error) {
    progress_end();
    if (error == EPIPE) { // the reader has closed its end: exit silently, as other programs do
        signal(SIGPIPE, SIG_DFL);
        raise(SIGPIPE);
    }
    fprintf(stderr, "drover: could not write to standard output: %s\n", strerror(error));
    _exit(1);
}

// Writes all bytes, or ends the program.
static ssize_t write_all(void *cookie DRV_UNUSED, const char *bytes, size_t n) {
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
    static char buffer[1 << 16]; // glibc takes a size only with a buffer
    setvbuf(f, buffer, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, sizeof buffer);
    stdout = f;
}

// The stream itself is not closed: a C++ library that was loaded since (a plugin) may flush it when
// the process ends.
void cli_close_stdout(void) {
    if (fflush(stdout) != 0 ||
            close(STDOUT_FILENO) != 0) // NFS and quotas may report errors only at close
        give_up(errno);
}

void cli_puts_json(json_t *value, char *text) {
    DRV_ASSERT(text, "a value has no JSON text");
    puts(text);
    free(text);
    json_decref(value);
}

drv_status cli_write_text(const char *file, str *text) {
    drv_status status = DRV_OK;
    if (file)
        status = file_write_atomic(file, text->p, text->n);
    else
        fwrite(text->n ? text->p : "", 1, text->n, stdout);
    str_free(text);
    return status;
}

int cli_columns(int otherwise) {
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
    const char *value = getenv("COLUMNS");
    const long columns = value ? strtol(value, NULL, 10) : 0;
    return columns > 0 && columns < 10000 ? (int)columns : otherwise;
}
