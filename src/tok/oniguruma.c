// Translates groups, assertions and quantifiers of a split pattern from Oniguruma's syntax to
// PCRE2's, in one pass. It tracks the lengths that parts match, to refuse repetitions and
// lookbehinds that the two engines treat differently.
#include "tok/oniguruma_internal.h"

#include <string.h>

#include "tok/unicode.h"

enum { MAX_DEPTH = 32, MAX_CLASSES = 96, MAX_REPEAT = 1000, UNBOUNDED = 1 << 20 };

typedef struct length { // of what a part matches, in characters
    int min, max;       // UNBOUNDED: any number
} length;

static int add_up(int x, int y) {
    return x + y < UNBOUNDED ? x + y : UNBOUNDED;
}

drv_status onig_refuse(const onig *tr, const char *from, const char *what) {
    size_t shown = strcspn(tr->pattern, "\r\n"); // messages have one line
    if (shown > 60) shown = 60;
    while (shown > 0 && ((unsigned char)tr->pattern[shown] & 0xC0) == 0x80) // and whole characters
        shown--;
    return drv_fail(DRV_E_DATA, "%s: split pattern \"%.*s\", byte %zu: %s is not supported",
            tr->where, (int)shown, tr->pattern, (size_t)(from - tr->pattern), what);
}

drv_status onig_enter(onig *tr) {
    if (++tr->depth > MAX_DEPTH) return onig_refuse(tr, tr->p, "nesting this deep");
    if (++tr->n_classes > MAX_CLASSES)
        return onig_refuse(tr, tr->p, "more than 96 groups and classes");
    return DRV_OK;
}

static drv_status read_alternatives(onig *tr, length *out, bool *fixed);

// --- groups
// Reads the options of (?im-im; tr->p is at the first letter.
static drv_status read_options(onig *tr) {
    const char *from = tr->p;
    bool on = true;
    for (;; tr->p++) {
        if (*tr->p == 'i')
            tr->fold = on;
        else if (*tr->p == 'm')
            tr->dot_all = on;
        else if (*tr->p == '-' && on)
            on = false;
        else
            break;
    }
    if (tr->p == from || (*tr->p != ':' && *tr->p != ')'))
        return onig_refuse(tr, from, "this kind of group");
    return DRV_OK;
}

static drv_status read_group_body(onig *tr, const char *opening, length *out, bool *fixed) {
    const char *from = tr->p;
    str_puts(tr->out, opening);
    DRV_TRY(read_alternatives(tr, out, fixed));
    if (*tr->p != ')') return onig_refuse(tr, from, "a '(' that is not closed");
    tr->p++;
    str_puts(tr->out, ")");
    return DRV_OK;
}

static drv_status read_assertion(onig *tr, const char *opening, length *out) {
    const bool was_behind = tr->behind;
    const char *from = tr->p;
    bool fixed;
    if (was_behind) return onig_refuse(tr, from, "an assertion in a lookbehind");
    tr->behind = opening[2] == '<';
    tr->p += strlen(opening) - 1;
    DRV_TRY(read_group_body(tr, opening, out, &fixed));
    if (tr->behind && !fixed) return onig_refuse(tr, from, "a lookbehind of several lengths");
    tr->behind = was_behind;
    *out = (length){0, 0};
    return DRV_OK;
}

// Reads a group; tr->p is after the "(".
static drv_status read_group(onig *tr, length *out, bool *assertion) {
    static const char *const assertions[] = {"(?=", "(?!", "(?<=", "(?<!"};
    const char *from = tr->p - 1;
    const onig outer = *tr;
    bool fixed;
    if (tr->fold) return onig_refuse(tr, from, "without regard to case, a group in a group");
    DRV_TRY(onig_enter(tr));
    *assertion = false;
    for (int i = 0; i < 4; i++)
        if (strncmp(from, assertions[i], strlen(assertions[i])) == 0) {
            *assertion = true;
            DRV_TRY(read_assertion(tr, assertions[i], out));
        }
    if (*assertion) {
        // done
    } else if (strncmp(from, "(?>", 3) == 0) {
        tr->p += 2;
        DRV_TRY(read_group_body(tr, "(?>", out, &fixed));
    } else {
        if (*tr->p == '?') {
            tr->p++;
            if (*tr->p != ':') DRV_TRY(read_options(tr));
            if (*tr->p++ != ':') return onig_refuse(tr, from, "options not at the front");
        }
        DRV_TRY(read_group_body(tr, "(?:", out, &fixed)); // no backreference needs a number
    }
    tr->fold = outer.fold;
    tr->dot_all = outer.dot_all;
    tr->depth--;
    return DRV_OK;
}

// --- assertions without a group
static drv_status word_boundary(onig *tr, bool is_one) {
    str class = {0};
    str *out = tr->out;
    const char *from = tr->p;
    tr->out = &class;
    tr->p = "\\w";
    const drv_status status =
            tr->fold ? onig_refuse(tr, from, "without regard to case, \\b") : onig_class(tr);
    tr->p = from;
    tr->out = out;
    if (status == DRV_OK)
        str_printf(out,
                is_one ? "(?:(?<=%s)(?!%s)|(?<!%s)(?=%s))" : "(?:(?<=%s)(?=%s)|(?<!%s)(?!%s))",
                class.p, class.p, class.p, class.p);
    str_free(&class);
    return status;
}

// Translates an assertion, if there is one at tr->p.
static drv_status read_anchor(onig *tr, bool *is_one) {
    static const struct {
        const char *theirs, *ours;
    } anchors[] = {{"^", "(?m:^)"}, {"$", "(?m:$)"}, {"\\A", "\\A"}, {"\\z", "\\z"},
            {"\\Z", "(?=\\n?\\z)"}, {"\\b", NULL}, {"\\B", NULL}};
    *is_one = false;
    for (size_t i = 0; i < sizeof anchors / sizeof *anchors; i++) {
        const size_t n = strlen(anchors[i].theirs);
        if (strncmp(tr->p, anchors[i].theirs, n) != 0) continue;
        if (tr->behind) return onig_refuse(tr, tr->p, "an assertion in a lookbehind");
        *is_one = true;
        tr->p += n;
        if (!anchors[i].ours) return word_boundary(tr, anchors[i].theirs[1] == 'b');
        str_puts(tr->out, anchors[i].ours);
    }
    return DRV_OK;
}

// --- quantifiers
// Reads {n}, {n,}, {n,m} or {,m}; tr->p is at the brace.
static drv_status read_interval(onig *tr, int *min, int *max) {
    const char *from = tr->p++;
    int number[2] = {-1, -1}, k = 0;
    for (; *tr->p && *tr->p != '}'; tr->p++) {
        if (*tr->p == ',' && k == 0) {
            k = 1;
        } else if (*tr->p >= '0' && *tr->p <= '9') {
            number[k] = (number[k] < 0 ? 0 : 10 * number[k]) + (*tr->p - '0');
            if (number[k] > MAX_REPEAT) return onig_refuse(tr, from, "more than 1000 repetitions");
        } else {
            return onig_refuse(tr, from, "a '{' that begins no quantifier");
        }
    }
    if (*tr->p != '}' || (number[0] < 0 && number[1] < 0))
        return onig_refuse(tr, from, "a '{' that begins no quantifier");
    tr->p++;
    *min = number[0] < 0 ? 0 : number[0];
    *max = k == 0 ? number[0] : number[1] < 0 ? UNBOUNDED : number[1];
    if (*max < *min || *max == 0) return onig_refuse(tr, from, "this quantifier");
    return DRV_OK;
}

static void put_before(str *s, size_t from, const char *text) {
    str tail = {0};
    str_add(&tail, s->p + from, s->n - from);
    s->n = from;
    str_puts(s, text);
    str_add(s, tail.p, tail.n);
    str_free(&tail);
}

static bool is_quantifier(char c) {
    return c && strchr("*+?{", c);
}

// Translates the quantifier at tr->p, if any, of what begins at `begin` in the output.
static drv_status read_quantifier(onig *tr, size_t begin, bool assertion, length *of) {
    const char *from = tr->p;
    if (!is_quantifier(*from)) return DRV_OK;
    if (assertion) return onig_refuse(tr, from, "a quantifier after an assertion");
    const bool interval = *from == '{';
    const size_t end = tr->out->n;
    const length once = *of;
    int min = *from == '+', max = *from == '?' ? 1 : UNBOUNDED;
    if (interval)
        DRV_TRY(read_interval(tr, &min, &max));
    else
        tr->p++;
    // The two engines leave a loop over an empty match at different times.
    if (of->min == 0 && max > 1) return onig_refuse(tr, from, "repeating what may be empty");
    if (interval)
        str_printf(tr->out, max == UNBOUNDED ? "{%d,}" : "{%d,%d}", min, max);
    else
        str_add(tr->out, from, 1);
    *of = (length){of->min * min < UNBOUNDED ? of->min * min : UNBOUNDED,
            max == UNBOUNDED || (int64_t)of->max * max >= UNBOUNDED ? UNBOUNDED : of->max * max};
    if (*tr->p == '?' && interval && min == max) { // a{2}? is (?:a{2})? in Oniguruma
        put_before(tr->out, begin, "(?:");
        str_puts(tr->out, ")?");
        of->min = 0;
        tr->p++;
    } else if (*tr->p == '+' && interval) { // a{1,3}+ is (?:a{1,3})+ in Oniguruma, and so a+
        if (once.min != 1 || once.max != 1 || min != 1)
            return onig_refuse(tr, from, "repeating a repetition of this kind");
        tr->out->n = end;
        str_puts(tr->out, "+");
        of->max = UNBOUNDED;
        tr->p++;
    } else if (*tr->p == '?' || *tr->p == '+') {
        str_add(tr->out, tr->p++, 1);
    }
    if (is_quantifier(*tr->p)) return onig_refuse(tr, tr->p, "a quantifier after a quantifier");
    return DRV_OK;
}

// --- rows and alternatives
// Refuses pairs of letters that Oniguruma under (?i) also matches with one character (U+00DF for
// "ss", U+FB01 for "fi"). All begin with s or f; what follows these must be known to form no pair.
static drv_status check_fold(const onig *tr, const char *from) {
    const char letter = (char)(*from | 0x20), next = *tr->p, low = (char)(next | 0x20);
    if (!tr->fold || (letter != 's' && letter != 'f')) return DRV_OK;
    const bool ends = next == 0 || next == '|' || next == ')';
    const bool pair =
            letter == 's' ? low == 's' || low == 't' : low == 'f' || low == 'i' || low == 'l';
    if (ends || (low >= 'a' && low <= 'z' && !pair)) return DRV_OK;
    return onig_refuse(tr, from, "without regard to case, what follows this letter");
}

// Translates one part and its quantifier.
static drv_status read_part(onig *tr, length *out) {
    const char *from = tr->p;
    const size_t begin = tr->out->n;
    bool assertion;
    *out = (length){0, 0};
    DRV_TRY(read_anchor(tr, &assertion));
    if (assertion) return read_quantifier(tr, begin, true, out);
    if (is_quantifier(*from)) return onig_refuse(tr, from, "a quantifier with nothing before it");
    *out = (length){1, 1};
    if (*from == '(') {
        tr->p++;
        DRV_TRY(read_group(tr, out, &assertion));
    } else if (*from == '[' || *from == '.' || (*from == '\\' && onig_names_class(from[1]))) {
        DRV_TRY(onig_class(tr));
    } else {
        const unsigned char *p = (const unsigned char *)from;
        uint32_t cp;
        if (*from == '\\') {
            tr->p++;
            DRV_TRY(onig_escaped(tr, &cp));
            if (tr->fold && ((cp | 0x20) == 's' || (cp | 0x20) == 'f'))
                return onig_refuse(tr, from, "without regard to case, this escape");
        } else {
            cp = utf8_next(&p);
            tr->p = (const char *)p;
            DRV_TRY(check_fold(tr, from));
        }
        DRV_TRY(onig_literal(tr, from, cp));
    }
    return read_quantifier(tr, begin, assertion, out);
}

// Translates up to the end of the pattern or group. *fixed: each alternative has one length.
static drv_status read_alternatives(onig *tr, length *out, bool *fixed) {
    *fixed = true;
    for (bool first = true;; first = false) {
        length row = {0, 0};
        while (*tr->p && *tr->p != '|' && *tr->p != ')') {
            length part;
            DRV_TRY(read_part(tr, &part));
            row = (length){add_up(row.min, part.min), add_up(row.max, part.max)};
        }
        *fixed &= row.min == row.max;
        if (first) *out = row;
        if (row.min < out->min) out->min = row.min;
        if (row.max > out->max) out->max = row.max;
        if (*tr->p != '|') return DRV_OK;
        tr->p++;
        str_puts(tr->out, "|");
    }
}

drv_status oniguruma_to_pcre2(const char *where, const char *pattern, str *out) {
    onig o = {.where = where, .pattern = pattern, .p = pattern, .out = out};
    length all;
    bool fixed;
    o.mem = arena_new("split pattern");
    drv_status status = DRV_OK;
    if (strncmp(pattern, "(?", 2) == 0 && strspn(pattern + 2, "im-") > 0 &&
            pattern[2 + strspn(pattern + 2, "im-")] == ')') {
        o.p += 2;
        status = read_options(&o);
        o.p++;
    }
    if (status == DRV_OK) status = read_alternatives(&o, &all, &fixed);
    if (status == DRV_OK && *o.p) status = onig_refuse(&o, o.p, "a ')' that closes nothing");
    arena_free(o.mem);
    return status;
}
