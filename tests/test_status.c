// The message of a failure: one line of bounded length, whatever is quoted in it.
#include "harness.h"

#include <string.h>

#include "base/status.h"

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
