// The message of a failure: one line of bounded length, whatever is quoted in it. And the end of
// the process where memory is wanted that no machine has.
#include "harness.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/status.h"
#include "base/str.h"

enum { LONG = 10000 };

TEST(stays_one_line) {
    assert_int_equal(drv_fail(DRV_E_USAGE, "--n is \"%s\", expected 1", "a\nb\033[2Jc\177"),
            DRV_E_USAGE);
    assert_string_equal(drv_message(), "--n is \"a?b?[2Jc?\", expected 1");
    drv_fail(DRV_E_DATA, "\"%s\"", "größe");
    assert_string_equal(drv_message(), "\"größe\"");
}

// What was expected stands at the end: the middle of a long value goes, and no character is cut.
TEST(keeps_both_ends) {
    static const char *const letters[] = {"x", "ü", "語", "😀"};
    for (size_t k = 0; k < sizeof letters / sizeof *letters; k++)
        for (size_t shift = 0; shift < 4; shift++) {
            static char value[LONG + 8];
            memset(value, 0, sizeof value);
            memset(value, '.', shift);
            for (size_t n = shift; n + 4 < LONG; n += strlen(letters[k]))
                memcpy(value + n, letters[k], strlen(letters[k]) + 1);
            drv_fail(DRV_E_USAGE, "--n is \"%s\", expected 1", value);
            const char *text = drv_message(), *gap = strstr(text, " ... ");
            assert_non_null(gap);
            assert_int_equal(strncmp(text, "--n is \"", 8), 0);
            assert_string_equal(text + strlen(text) - strlen("\", expected 1"), "\", expected 1");
            const size_t n = strlen(letters[k]);
            assert_int_equal(strncmp(gap - n, letters[k], n), 0);
            assert_int_equal(strncmp(gap + 5, letters[k], n), 0);
        }
}

TEST(context_stands_in_front) {
    drv_fail(DRV_E_DATA, "%s", "bad");
    assert_int_equal(drv_context(DRV_E_DATA, "line %d", 7), DRV_E_DATA);
    assert_string_equal(drv_message(), "line 7: bad");
    drv_fail(DRV_E_DATA, "again: %s", drv_message()); // of itself
    assert_string_equal(drv_message(), "again: line 7: bad");
    static char name[LONG]; // ends in NUL
    memset(name, 'n', LONG - 1);
    drv_context(DRV_E_DATA, "%s", name);
    const char *text = drv_message();
    assert_string_equal(text + strlen(text) - strlen(": again: line 7: bad"),
            ": again: line 7: bad");
}

// A message for another thread has less room, and keeps its ends as well.
TEST(saved_messages_keep_both_ends) {
    static char value[LONG]; // ends in NUL
    drv_saved saved;
    memset(value, 'n', LONG - 1);
    drv_fail(DRV_E_USAGE, "--n is \"%s\", expected 1", value);
    drv_save(DRV_E_USAGE, &saved);
    assert_true(strlen(saved.message) < sizeof saved.message);
    assert_int_equal(strncmp(saved.message, "--n is \"", 8), 0);
    assert_non_null(strstr(saved.message, " ... "));
    assert_non_null(strstr(saved.message, "n\", expected 1"));
    drv_fail(DRV_E_DATA, "another");
    assert_int_equal(drv_restore(&saved), DRV_E_USAGE);
    assert_string_equal(drv_message(), saved.message);
    drv_save(DRV_OK, &saved);
    assert_string_equal(saved.message, "");
}

// --- sizes from outside that overflow
static void wants(int which) {
    const volatile size_t most = SIZE_MAX; // volatile: the compiler would refuse the calls
    const volatile int64_t below_zero = -1, many = ((int64_t)1 << 61) + 1;
    arena *a = arena_new("overflow");
    str text = {0};
    if (which == 0) arena_alloc(a, most - 10);
    if (which == 1) (void)ARENA_ARRAY(a, int64_t, below_zero);
    if (which == 2) (void)ARENA_ARRAY(a, int64_t, many);
    if (which == 3) mem_alloc_lines(most - 10);
    if (which == 4) str_reserve(&text, most - 10);
    if (which == 5 && !pages_alloc(most - 10)) _exit(1); // its caller says so
}

TEST(sizes_that_overflow_end_the_process) {
    enum { N_WANTS = 6 };
    for (int i = 0; i < N_WANTS; i++) {
        int status;
        const pid_t pid = fork();
        if (pid == 0) {
            alarm(20); // a loop without an end
            if (!freopen("/dev/null", "w", stderr)) _exit(98);
            wants(i);
            _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 1)
            fail_msg("size %d ends with %#x, expected exit status 1", i, (unsigned)status);
    }
}
