// What a test from outside meets once in a thousand times comes within the write itself here: a
// signal that ends the program while the status line is being drawn, and a log that another thread
// closes while a line is written to it.
#include "harness.h"

#include <pthread.h>
#include <pty.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"

static int comes_with_status; // a signal; 0: none
static pthread_t closer;
static atomic_bool closes, closed;

static void *close_log(void *arg DRV_UNUSED) {
    log_close_file();
    closed = true;
    return NULL;
}

// Lets another thread close the log, which it cannot do before the line is written.
static void close_elsewhere(void) {
    const double end = clock_s() + 0.05;
    assert_int_equal(pthread_create(&closer, NULL, close_log, NULL), 0);
    while (!closed && clock_s() < end)
        usleep(1000);
}

// In the place of the C library's.
ssize_t write(int descriptor, const void *bytes, size_t n) {
    const ssize_t written = syscall(SYS_write, descriptor, bytes, n);
    if (comes_with_status && memmem(bytes, n, "step 1", 6)) kill(getpid(), comes_with_status);
    if (closes && memmem(bytes, n, "a last line", 11)) close_elsewhere();
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

TEST(ended_while_drawing) {
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

TEST(closed_while_writing) {
    const char *path = path_join(a, temporary_dir(a), "log.txt");
    char *text;
    OK(log_open_file(path));
    closes = true;
    log_info("a last line");
    closes = false;
    assert_int_equal(pthread_join(closer, NULL), 0);
    OK(file_read(a, path, &text, NULL));
    assert_non_null(strstr(text, "a last line"));
}

TEST(a_line_is_one_line) {
    const char *path = path_join(a, temporary_dir(a), "log.txt");
    char *text;
    OK(log_open_file(path));
    log_info("the file %s", "a\nb.bin");
    log_close_file();
    OK(file_read(a, path, &text, NULL));
    assert_non_null(strstr(text, "the file a?b.bin\n"));
}
