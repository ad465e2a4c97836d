// Standard output after a verb: closed, but never freed.
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "harness.h"

// What a C++ library that was loaded meanwhile does when the process ends.
static _Noreturn void flush_after_close(void) {
    cli_open_stdout();
    FILE *seen = stdout;
    cli_close_stdout();
    for (size_t size = 16; size < 1024; size += 8) // all memory that the close may have freed
        for (int i = 0; i < 16; i++) {
            void *block = malloc(size); // kept: freed, it would be given out again
            if (!block) _exit(2);
            memset(block, 0, size);
        }
    _exit(fflush(seen) == 0 ? 0 : 3);
}

TEST(a_later_flush_finds_it_alive) {
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) flush_after_close();
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}
