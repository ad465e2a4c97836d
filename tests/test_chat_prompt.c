// Ctrl-C at the prompt of drover chat, whenever it comes: here between the look whether it came and
// the wait for a line, which a test that sends it from outside hardly ever meets.
#include "harness.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/chat_prompt.h"

static bool comes_before_wait;

// In the place of the C library's.
int poll(struct pollfd *of, nfds_t n, int timeout_ms) {
    if (comes_before_wait) kill(getpid(), SIGINT);
    comes_before_wait = false;
    return (int)syscall(SYS_poll, of, n, timeout_ms);
}

// A prompt whose input is `text` and goes on; its exit status.
static int prompt_of(const char *text) {
    int input[2], status;
    assert_int_equal(pipe(input), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(60); // one that nothing ends
        dup2(input[0], STDIN_FILENO);
        if (chat_prompt_listen() != DRV_OK) _exit(2);
        comes_before_wait = true;
        _exit(chat_prompt_run(NULL) == DRV_OK ? 0 : 1);
    }
    assert_int_equal(write(input[1], text, strlen(text)), strlen(text));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    close(input[0]);
    close(input[1]);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(an_interrupt_before_the_wait_is_heard) {
    assert_int_equal(prompt_of(""), 0);
    assert_int_equal(prompt_of("half a li"), 0);
}
