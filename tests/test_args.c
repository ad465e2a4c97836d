// The arguments of a verb: what an option takes as its value.
#include "cli/cli.h"
#include "harness.h"

static const cli_option options[] = {
        {"--text", "TEXT", "a text"},
        {"--input", "PATH...", "files"},
        {"--count", "N", "a number"},
        {"--json", NULL, "a switch"},
};
static const verb tried = {.name = "try", CLI_OPTIONS(options), CLI_WORDS(0, 2)};

static drv_status parse(arena *a, const char *option, const char *value, cli_args *out) {
    char *argv[] = {(char *)(uintptr_t)option, (char *)(uintptr_t)value};
    return cli_parse(a, NULL, &tried, value ? 2 : 1, argv, out);
}

// Returns the value that --text has after `argv`; NULL: it is refused.
static const char *text_of(arena *a, const char *option, const char *value) {
    cli_args args;
    return parse(a, option, value, &args) == DRV_OK ? cli_get(&args, "--text", NULL) : NULL;
}

static void values_may_begin_with_a_dash(void **state) {
    static const char *const values[] = {"-", "-1", "-0.5e3", "- item", "-x", "-help", "---",
            "--- title ---", "-- a remark", "--\nline", "--a text", "--=", "----x"};
    arena *a = arena_new("values");
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        assert_string_equal(text_of(a, "--text", values[i]), values[i]);
    arena_free(a);
}

static void options_are_no_values(void **state) {
    static const char *const words[] = {"--json", "--text", "--input=x", "--help", "-h", "--",
            "--unknown", "--unknown=- item", "--Json", "--a.b"};
    arena *a = arena_new("words");
    cli_args args;
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
            assert_int_equal(parse(a, options[k].name, words[i], &args), DRV_E_USAGE);
            assert_string_equal(drv_message(),
                    arena_printf(a,
                            "try: %s needs a value: %s, but \"%s\" follows; a value that begins like an option is written %s=VALUE",
                            options[k].name, options[k].value, words[i], options[k].name));
        }
    arena_free(a);
}

static void any_value_follows_an_equals_sign(void **state) {
    static const char *const values[] = {"--json", "--", "-h", "- item", "a=b", "--text=x"};
    arena *a = arena_new("values");
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        assert_string_equal(text_of(a, arena_printf(a, "--text=%s", values[i]), NULL), values[i]);
    arena_free(a);
}

static void a_list_ends_at_an_option(void **state) {
    char *argv[] = {(char[]){"--input"}, (char[]){"a"}, (char[]){"-"}, (char[]){"--json"}};
    arena *a = arena_new("list");
    cli_args args;
    int n;
    assert_int_equal(cli_parse(a, NULL, &tried, 4, argv, &args), DRV_OK);
    assert_string_equal(cli_get_all(a, &args, "--input", &n)[1], "-");
    assert_int_equal(n, 2);
    assert_true(cli_has(&args, "--json"));
    arena_free(a);
}

static void choices(void **state) {
    static const char words[] = "train, compile or data", *const refused[] = {"or", "trai",
                                                                  "trains", ",", "train, compile"};
    arena *a = arena_new("choices");
    cli_args args;
    int index = 7;
    assert_int_equal(parse(a, "--json", NULL, &args), DRV_OK);
    assert_int_equal(cli_get_choice(&args, "--text", words, &index), DRV_OK);
    assert_int_equal(index, 7);
    for (int i = 0; i < 3; i++) {
        const char *const values[] = {"train", "compile", "data"};
        assert_int_equal(parse(a, "--text", values[i], &args), DRV_OK);
        assert_int_equal(cli_get_choice(&args, "--text", words, &index), DRV_OK);
        assert_int_equal(index, i);
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_int_equal(parse(a, "--text", refused[i], &args), DRV_OK);
        assert_int_equal(cli_get_choice(&args, "--text", words, &index), DRV_E_USAGE);
        assert_string_equal(drv_message(),
                arena_printf(a, "try: --text is \"%s\", expected %s", refused[i], words));
    }
    arena_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
            cmocka_unit_test(values_may_begin_with_a_dash),
            cmocka_unit_test(options_are_no_values),
            cmocka_unit_test(any_value_follows_an_equals_sign),
            cmocka_unit_test(a_list_ends_at_an_option),
            cmocka_unit_test(choices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
