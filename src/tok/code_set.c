// Sets of code points as bit maps.
#include "tok/code_set.h"

#include <string.h>

#include "base/str.h"
#include "tok/unicode.h"

enum { N_WORDS = N_CODE_POINTS / 64, MAX_NAME = 32 };

void code_set_add(code_set *s, uint32_t first, uint32_t last) {
    for (uint32_t cp = first; cp <= last; cp++)
        s->bits[cp >> 6] |= 1ull << (cp & 63);
}

void code_set_unite(code_set *s, const code_set *other) {
    for (int i = 0; i < N_WORDS; i++)
        s->bits[i] |= other->bits[i];
}

void code_set_intersect(code_set *s, const code_set *other) {
    for (int i = 0; i < N_WORDS; i++)
        s->bits[i] &= other->bits[i];
}

void code_set_subtract(code_set *s, const code_set *other) {
    for (int i = 0; i < N_WORDS; i++)
        s->bits[i] &= ~other->bits[i];
}

void code_set_complement(code_set *s) {
    for (int i = 0; i < N_WORDS; i++)
        s->bits[i] = ~s->bits[i];
}

bool code_set_is_empty(const code_set *s) {
    uint64_t all = 0;
    for (int i = 0; i < N_WORDS; i++)
        all |= s->bits[i];
    return all == 0;
}

// --- what names stand for
enum {
    SET_WORD,
    SET_HAN,
    SET_HIRAGANA,
    SET_KATAKANA,
    SET_HANGUL,
    SET_LATIN,
    SET_GREEK,
    SET_CYRILLIC,
    SET_ARABIC,
    SET_HEBREW,
    SET_THAI,
    SET_DEVANAGARI
};

static const struct {
    uint32_t first, last;
    uint8_t set;
} members[] = {
#include "tok/unicode_scripts.inc"
};

// Names in the form that is compared (lower-case letters only), and their categories [first, last].
static const struct {
    const char *name, *long_name;
    uint8_t first, last;
} categories[] = {
        {"l", "letter", CAT_LU, CAT_LO},
        {"m", "mark", CAT_MN, CAT_ME},
        {"n", "number", CAT_ND, CAT_NO},
        {"p", "punctuation", CAT_PC, CAT_PO},
        {"s", "symbol", CAT_SM, CAT_SO},
        {"z", "separator", CAT_ZS, CAT_ZP},
        {"c", "other", CAT_CC, CAT_CN},
        {"lu", "uppercaseletter", CAT_LU, CAT_LU},
        {"ll", "lowercaseletter", CAT_LL, CAT_LL},
        {"lt", "titlecaseletter", CAT_LT, CAT_LT},
        {"lm", "modifierletter", CAT_LM, CAT_LM},
        {"lo", "otherletter", CAT_LO, CAT_LO},
        {"mn", "nonspacingmark", CAT_MN, CAT_MN},
        {"mc", "spacingmark", CAT_MC, CAT_MC},
        {"me", "enclosingmark", CAT_ME, CAT_ME},
        {"nd", "decimalnumber", CAT_ND, CAT_ND},
        {"nl", "letternumber", CAT_NL, CAT_NL},
        {"no", "othernumber", CAT_NO, CAT_NO},
        {"pc", "connectorpunctuation", CAT_PC, CAT_PC},
        {"pd", "dashpunctuation", CAT_PD, CAT_PD},
        {"ps", "openpunctuation", CAT_PS, CAT_PS},
        {"pe", "closepunctuation", CAT_PE, CAT_PE},
        {"pi", "initialpunctuation", CAT_PI, CAT_PI},
        {"pf", "finalpunctuation", CAT_PF, CAT_PF},
        {"po", "otherpunctuation", CAT_PO, CAT_PO},
        {"sm", "mathsymbol", CAT_SM, CAT_SM},
        {"sc", "currencysymbol", CAT_SC, CAT_SC},
        {"sk", "modifiersymbol", CAT_SK, CAT_SK},
        {"so", "othersymbol", CAT_SO, CAT_SO},
        {"zs", "spaceseparator", CAT_ZS, CAT_ZS},
        {"zl", "lineseparator", CAT_ZL, CAT_ZL},
        {"zp", "paragraphseparator", CAT_ZP, CAT_ZP},
        {"cc", "control", CAT_CC, CAT_CC},
        {"cf", "format", CAT_CF, CAT_CF},
        {"co", "privateuse", CAT_CO, CAT_CO},
        {"cn", "unassigned", CAT_CN, CAT_CN},
};

static const char *const scripts[] = {NULL, "han", "hiragana", "katakana", "hangul", "latin",
        "greek", "cyrillic", "arabic", "hebrew", "thai", "devanagari"}; // by their sets

static void add_categories(code_set *s, int first, int last) {
    const uint8_t *of = cp_categories();
    for (uint32_t cp = 0; cp < N_CODE_POINTS; cp++)
        s->bits[cp >> 6] |= (uint64_t)(of[cp] >= first && of[cp] <= last) << (cp & 63);
}

static void add_members(code_set *s, int set) {
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (members[i].set == set) code_set_add(s, members[i].first, members[i].last);
}

bool code_set_add_property(code_set *into, const char *name, size_t n_name) {
    char plain[MAX_NAME + 1];
    size_t k = 0;
    for (size_t i = 0; i < n_name; i++) {
        const char lower = name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] + 32) : name[i];
        if (lower == ' ' || lower == '_' || lower == '-') continue;
        if (lower < 'a' || lower > 'z' || k == MAX_NAME) return false;
        plain[k++] = lower;
    }
    plain[k] = 0;
    for (size_t i = 0; i < sizeof categories / sizeof *categories; i++)
        if (strcmp(plain, categories[i].name) == 0 || strcmp(plain, categories[i].long_name) == 0) {
            add_categories(into, categories[i].first, categories[i].last);
            return true;
        }
    const int set = str_index(plain, scripts, sizeof scripts / sizeof *scripts);
    if (set >= 0) add_members(into, set);
    return set >= 0;
}

void code_set_add_word(code_set *s, bool brackets) {
    static const uint32_t latin_1[] = {0xB2, 0xB3, 0xB9, 0xBC, 0xBD, 0xBE};
    add_categories(s, CAT_LU, CAT_ME); // letters and marks
    add_categories(s, CAT_ND, CAT_NL);
    add_categories(s, CAT_PC, CAT_PC);
    add_members(s, SET_WORD);
    for (int i = 0; i < 6 && !brackets; i++)
        code_set_add(s, latin_1[i], latin_1[i]);
}

void code_set_add_spaces(code_set *s) {
    const uint8_t *class = cp_table();
    for (uint32_t cp = 0; cp < N_CODE_POINTS; cp++)
        s->bits[cp >> 6] |= (uint64_t)(class[cp] == CP_SPACE) << (cp & 63);
}

static bool is_listed(const code_set *s, uint32_t cp) {
    return (cp < 0xD800 || cp > 0xDFFF) && code_set_has(s, cp);
}

void code_set_print(const code_set *s, str *out) {
    for (uint32_t cp = 0; cp < N_CODE_POINTS; cp++) {
        if (s->bits[cp >> 6] == 0) {
            cp |= 63;
            continue;
        }
        if (!is_listed(s, cp)) continue;
        const uint32_t first = cp;
        while (cp + 1 < N_CODE_POINTS && is_listed(s, cp + 1))
            cp++;
        str_printf(out, "\\x{%X}", first);
        if (cp > first) str_printf(out, "-\\x{%X}", cp);
    }
}
