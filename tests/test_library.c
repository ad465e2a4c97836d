// Libraries that are opened when first used: tables are filled, what is missing is named, and tried
// again.
#include "base/library.h"

#include <string.h>

#include "harness.h"

typedef struct math_calls {
    double (*cbrt)(double x);
    double (*hypot)(double x, double y);
} math_calls;

#define CALL(name)                                                                                 \
    { #name, offsetof(math_calls, name) }

TEST(a_table_is_filled) {
    static const library_call calls[] = {CALL(hypot), CALL(cbrt)};
    math_calls math;
    library self = {.file = "libm.so.6", .calls = calls, .n_calls = 2, .table = &math};
    for (int i = 0; i < 2; i++) {
        assert_true(library_ready(&self));
        assert_true(math.cbrt(8) == 2 && math.hypot(3, 4) == 5);
    }
}

TEST(what_is_missing_is_named) {
    static const library_call calls[] = {CALL(cbrt), {"cube_of_nobody", 0}};
    static const struct {
        const char *file, *why;
    } cases[] = {{"libm.so.6", "cube_of_nobody"}, {"libnobody.so.7", "libnobody.so.7"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        math_calls math;
        library self = {.file = cases[i].file, .calls = calls, .n_calls = 2, .table = &math};
        assert_false(library_ready(&self));
        assert_non_null(strstr(self.why, cases[i].why));
    }
}

TEST(tried_again) {
    static const library_call calls[] = {CALL(cbrt)};
    math_calls math = {0};
    library self = {.file = "libnobody.so.7", .calls = calls, .n_calls = 1, .table = &math};
    assert_false(library_ready(&self));
    assert_null(math.cbrt);
    self.file = "libm.so.6"; // as if it had been installed meanwhile
    assert_true(library_ready(&self));
    assert_true(math.cbrt(8) == 2);
}
