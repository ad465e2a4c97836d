// Small pieces of base: durations, escapes, locks.
#include "harness.h"

#include <math.h>
#include <signal.h>

#include "base/str.h"

#include <sys/wait.h>
#include <unistd.h>

TEST(durations_in_words) {
    const struct {
        double seconds;
        const char *says;
    } cases[] = {{0, "0.0 s"}, {4.46, "4.5 s"}, {9.94, "9.9 s"}, {9.96, "10 s"}, {59.4, "59 s"},
            {59.6, "1 min"}, {61, "1 min 1 s"}, {3599.4, "59 min 59 s"}, {3599.7, "1 h"},
            {3900, "1 h 5 min"}, {86399, "1 day"}, {86400, "1 day"}, {90000, "1 day 1 h"},
            {273600, "3 days 4 h"}, {1.9e5, "2 days 5 h"}, {364.99 * 86400, "1 year"},
            {366 * 86400.0, "1 year 1 day"}, {800 * 86400.0, "2 years 70 days"},
            {1e13, "more than 30,000 years"}, {HUGE_VAL, "more than 30,000 years"}, {-1, "?"},
            {(double)NAN, "?"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(str_long_duration(cases[i].seconds), cases[i].says);
}

// The forms with ":" and "-" as sbatch's manual has them.
TEST(times) {
    const struct {
        const char *text;
        double seconds;
    } cases[] = {{"30s", 30}, {"90m", 5400}, {"24h", 86400}, {"7d", 604800}, {"1.5h", 5400},
            {"0.25s", 0.25}, {"1h30m", 5400}, {"2d12h", 216000}, {"1d1s", 86401},
            {"1d2h3m4.5s", 93784.5}, {"0h0m", 0}, {"10:30", 630}, {"90:00", 5400},
            {"01:00:00", 3600}, {"100:00:00", 360000}, {"2-12", 216000}, {"1-00:30", 88200},
            {"7-01:02:03", 608523}, {"0-00:00:00", 0}};
    const char *const wrong[] = {"", "0", "90", "1.5", "x", "-1", "-1s", "1s ", "24 h", "h",
            "1.2.3h", ".s", "nand", "0x1m", "1e3s", "30m1h", "1h1h", "1h30", "h30m", "1h-2m", "1y",
            "1H", "1:60", "1:60:00", "1:2:3:4", "1:", ":1", "1:2:", "1-", "-1:00", "1-1-1",
            "1:00-1", "1-0:60", "1.5:00", "1:0x1", "1:+1", "1: 1", "1h:30", "9999999999:00"};
    double seconds;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!str_to_seconds(cases[i].text, &seconds) || seconds != cases[i].seconds)
            fail_msg("\"%s\" is not read as %g s", cases[i].text, cases[i].seconds);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (str_to_seconds(wrong[i], &seconds))
            fail_msg("\"%s\" is read as %g s", wrong[i], seconds);
}

TEST(escapes) {
    const struct {
        const char *from, *to; // to NULL: refused
    } cases[] = {{"", ""}, {"a b", "a b"}, {"\\n\\n", "\n\n"}, {"x\\ty\\r", "x\ty\r"},
            {"\\\\n", "\\n"}, {"\\", NULL}, {"a\\x", NULL}, {"\\\\\\", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[32];
        snprintf(text, sizeof text, "%s", cases[i].from);
        assert_int_equal(str_unescape(text), cases[i].to != NULL);
        if (cases[i].to) assert_string_equal(text, cases[i].to);
    }
}

// A shell reads each name back as it is, but for "./" before one that would be an option.
TEST(names_for_a_shell) {
    static const char *const names[] = {"runs/a-1.yaml", "my run", "o'clock", "$HOME `x` \\",
            "\"a\"", "-rf", "--out", "~/x", "a\nb", "*?[a]", "#a;b&c|d<e>(f)!{g,h}",
            "\xC3\xA9t\xC3\xA9", "", "'"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char read[64] = "";
        FILE *f = popen(arena_printf(a, "printf %%s %s", path_for_shell(a, names[i])), "r");
        assert_non_null(f);
        const size_t n = fread(read, 1, sizeof read - 1, f);
        assert_int_equal(pclose(f), 0);
        assert_string_equal(read, arena_printf(a, "%s%s", *names[i] == '-' ? "./" : "", names[i]));
        assert_int_equal(n, strlen(read));
    }
}

// Another process holds it: refused by name; when that process dies it is free, whatever it left.
TEST(locks) {
    const char *path = path_join(a, temporary_dir(a), "x.lock");
    file_lock mine, other;
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const bool ok = file_lock_take(a, path, "x", &other) == DRV_OK;
        if (write(ready[1], ok ? "1" : "0", 1) == 1) pause();
        _exit(1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, '1');
    FAILS(file_lock_take(a, path, "the set \"s\"", &mine), DRV_E_IO,
            arena_printf(a, "another drover (process %d) is writing the set \"s\"", (int)child));
    assert_non_null(strstr(drv_message(), path));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_true(file_exists(path));
    OK(file_lock_take(a, path, "x", &mine));
    FAILS(file_lock_take(a, path, "x", &other), DRV_E_IO, "another drover");
    file_lock_release(&mine);
    assert_false(file_exists(path));
    OK(file_lock_take(a, path, "x", &other));
    file_lock_release(&other);
    file_lock_release(&other);
    close(ready[0]);
    close(ready[1]);
}

// A file that is no lock stays as it is, for instance the poetry.lock of a Python project.
TEST(no_locks) {
    static const char *const texts[] = {"[[package]]\n", "12", "12\n13\n", "\n12"};
    const char *path = path_join(a, temporary_dir(a), "x.lock");
    file_lock mine;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char *text;
        size_t n;
        OK(file_write_atomic(path, texts[i], strlen(texts[i])));
        FAILS(file_lock_take(a, path, "x", &mine), DRV_E_USAGE, "x.lock\" is in the way");
        OK(file_read(a, path, &text, &n));
        assert_string_equal(text, texts[i]);
    }
}

TEST(names_in_a_list) {
    const char *const names[] = {"a", NULL, "bc"};
    assert_int_equal(str_index("a", names, 3), 0);
    assert_int_equal(str_index("bc", names, 3), 2);
    assert_int_equal(str_index("bc", names, 2), -1);
    assert_int_equal(str_index("", names, 3), -1);
    assert_int_equal(str_index(NULL, names, 3), -1);
    assert_true(STR_ONE_OF("bc", "a", "bc"));
    assert_false(STR_ONE_OF("b", "a", "bc"));
}

TEST(a_text_moves_into_an_arena) {
    str text = {0};
    assert_string_equal(str_keep(a, &text), "");
    str_puts(&text, "abc");
    assert_string_equal(str_keep(a, &text), "abc");
    assert_null(text.p);
}
