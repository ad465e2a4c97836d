// A signal that ends the program while the status line is being drawn, which a test that sends it
// from outside meets once in a thousand times: here it comes within the write itself.
#include "harness.h"

#include <pty.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"

static int comes_with_status; // a signal; 0: none

// In the place of the C library's.
ssize_t write(int descriptor, const void *bytes, size_t n) {
    const ssize_t written = syscall(SYS_write, descriptor, bytes, n);
    if (comes_with_status && memmem(bytes, n, "step 1", 6)) kill(getpid(), comes_with_status);
    return written;
}

// What the terminal was sent by a program that draws a status line and is ended by the signal.
static void draw_and_end(int signal_number, char *sent, size_t size) {
    int terminal, status;
    size_t n = 0;
    const pid_t pid = forkpty(&terminal, NULL, NULL, NULL);
    if (pid < 0) skip(); // no pseudo-terminal is to be had
    if (pid == 0) {
        setenv("TERM", "xterm", 1);
        comes_with_status = signal_number;
        progress("step 1 of 3");
        progress_end();
        _exit(0);
    }
    for (ssize_t k; n + 1 < size && (k = read(terminal, sent + n, size - n - 1)) > 0;)
        n += (size_t)k;
    sent[n] = 0;
    close(terminal);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), signal_number);
}

static void ended_while_drawing(void **state) {
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char sent[256];
        draw_and_end(ends[i], sent, sizeof sent);
        const char *drawn = strstr(sent, "step 1");
        assert_non_null(drawn);
        const char *cleared = strstr(drawn, "\r\033[J");
        assert_non_null(cleared);
        assert_null(strstr(cleared, "step 1"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(ended_while_drawing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
