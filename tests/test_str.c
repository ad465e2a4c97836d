// Small strings: what messages and plans print.
#include "harness.h"

#include <math.h>

#include "base/str.h"

static void durations_in_words(void **state) {
    (void)state;
    const struct {
        double seconds;
        const char *says;
    } cases[] = {{0, "0.0 s"}, {4.46, "4.5 s"}, {9.94, "9.9 s"}, {9.96, "10 s"}, {59.4, "59 s"},
            {59.6, "1 min"}, {61, "1 min 1 s"}, {3599.4, "59 min 59 s"}, {3599.7, "1 h"},
            {3900, "1 h 5 min"}, {86399, "1 day"}, {86400, "1 day"}, {90000, "1 day 1 h"},
            {273600, "3 days 4 h"}, {1.9e5, "2 days 5 h"}, {364.99 * 86400, "1 year"},
            {366 * 86400.0, "1 year 1 day"}, {800 * 86400.0, "2 years 70 days"},
            {1e13, "more than 30,000 years"}, {INFINITY, "more than 30,000 years"}, {-1, "?"},
            {NAN, "?"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(str_long_duration(cases[i].seconds), cases[i].says);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(durations_in_words)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
