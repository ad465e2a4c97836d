// Evaluates the conditions of a script as far as its own variables decide them.
#include <string.h>

#include "translate/shell_internal.h"

static verdict of(bool yes) {
    return yes ? TEST_TRUE : TEST_FALSE;
}

// Evaluates an operator before a word. -v of a name that the script does not set is unknown, since
// it may come from outside.
static verdict unary(const shell_script *script, const char *operation, const shell_word *word,
        const char **why) {
    if (strcmp(operation, "-v") == 0) {
        const shell_variable *v = shell_find(script, word->text);
        if (v && !v->value.unknown) return of(!v->unset);
        *why = v ? v->value.unknown : word->text;
        return TEST_UNKNOWN;
    }
    if (strcmp(operation, "-z") == 0) return of(!*word->text);
    return strcmp(operation, "-n") == 0 ? of(*word->text) : TEST_UNKNOWN;
}

static verdict compare(const char *left, const char *operation, const char *right, bool patterns) {
    static const char *const names[] = {"-eq", "-ne", "-lt", "-le", "-gt", "-ge"};
    int64_t a, b;
    if (STR_ONE_OF(operation, "=", "==", "!=")) {
        if (patterns && strpbrk(right, "*?[")) return TEST_UNKNOWN;
        return of((strcmp(left, right) == 0) == (*operation == '='));
    }
    if (!str_to_i64(left, &a) || !str_to_i64(right, &b)) return TEST_UNKNOWN;
    const bool results[] = {a == b, a != b, a<b, a <= b, a> b, a >= b};
    const int i = str_index(operation, names, 6);
    return i >= 0 ? of(results[i]) : TEST_UNKNOWN;
}

verdict shell_test(const shell_script *script, const shell_word *words, int n_words,
        const char **why) {
    *why = NULL;
    if (n_words > 0 && strcmp(words[0].text, "getopts") == 0)
        return TEST_FALSE; // there are no options
    const bool patterns = n_words > 1 && strcmp(words[0].text, "[[") == 0;
    const bool brackets = n_words > 1 && strcmp(words[0].text, "[") == 0;
    if (!patterns && !brackets && !(n_words > 1 && strcmp(words[0].text, "test") == 0))
        return TEST_UNKNOWN;
    if (patterns || brackets) {
        if (strcmp(words[n_words - 1].text, patterns ? "]]" : "]") != 0) return TEST_UNKNOWN;
        n_words--;
    }
    words++, n_words--;
    const bool negated = n_words > 1 && strcmp(words[0].text, "!") == 0;
    if (negated) words++, n_words--;
    for (int i = 0; i < n_words && !*why; i++)
        *why = words[i].unknown;
    if (*why) return TEST_UNKNOWN;
    verdict v = TEST_UNKNOWN;
    if (n_words == 1) v = of(*words[0].text);
    if (n_words == 2) v = unary(script, words[0].text, &words[1], why);
    if (n_words == 3) v = compare(words[0].text, words[1].text, words[2].text, patterns);
    if (!negated || v == TEST_UNKNOWN) return v;
    return of(v == TEST_FALSE);
}
