// Walks the trie at each offset of a text. The file is not trusted, so every index is checked.
#include "tok/piece_rules.h"

#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "tok/tokenizer_internal.h"
#include "tok/unicode.h"

struct piece_rules {
    const uint32_t *units; // of the trie
    size_t n_units;
    str_view texts; // at which its values point
    bool dummy_prefix, space_is_last, removes_spaces, escapes_spaces;
    str_view *whole; // user-defined pieces, which no rule changes: the longest first
    int n_whole;
};

// --- the trie: what a unit of Darts says
static uint32_t unit_offset(uint32_t unit) {
    return (unit >> 10) << ((unit & 1u << 9) >> 6);
}

static bool unit_has_value(uint32_t unit) {
    return unit >> 8 & 1;
}

static uint32_t unit_label(uint32_t unit) {
    return unit & (1u << 31 | 0xFF);
}

static uint32_t unit_value(uint32_t unit) {
    return unit & ~(1u << 31);
}

// Finds the longest key that the text begins with; returns its length, 0: none.
static size_t longest_key(const piece_rules *rules, const unsigned char *s, size_t n,
        uint32_t *value) {
    size_t found = 0;
    if (rules->n_units == 0) return 0;
    uint32_t node = unit_offset(rules->units[0]);
    for (size_t i = 0; i < n; i++) {
        node ^= s[i];
        if (node >= rules->n_units || unit_label(rules->units[node]) != s[i]) break;
        const uint32_t unit = rules->units[node];
        node ^= unit_offset(unit);
        if (!unit_has_value(unit) || node >= rules->n_units) continue;
        *value = unit_value(rules->units[node]);
        found = i + 1;
    }
    return found;
}

// Finds the shortest key that the text, up to a NUL, begins with; returns whether there is one.
static bool shortest_key(const piece_rules *rules, const unsigned char *s, size_t n,
        uint32_t *value) {
    for (size_t i = 1; i <= n && s[i - 1]; i++)
        if (longest_key(rules, s, i, value)) return true;
    return false;
}

// --- a step: what the beginning of the text becomes
static str_view replaced_by(const piece_rules *rules, uint32_t value) {
    if (value >= rules->texts.n) return (str_view){"", 0};
    return (str_view){rules->texts.p + value,
            strnlen(rules->texts.p + value, rules->texts.n - value)};
}

// Finds what replaces the beginning of the text; returns how many bytes it replaces.
static size_t take_step(const piece_rules *rules, const unsigned char *s, size_t n, str_view *out) {
    uint32_t value = 0;
    for (int i = 0; i < rules->n_whole; i++) {
        *out = rules->whole[i];
        if (out->n <= n && memcmp(s, out->p, out->n) == 0) return out->n;
    }
    size_t taken = longest_key(rules, s, n, &value);
    if (taken) {
        *out = replaced_by(rules, value);
        return taken;
    }
    const unsigned char *next = s;
    utf8_next(&next);
    *out = (str_view){(const char *)s, (size_t)(next - s)};
    return out->n;
}

typedef struct output {
    const piece_rules *rules;
    str *text;
    offset_list *origins;
    size_t first; // where the text begins
} output;

static void put(output *o, const char *p, size_t n, size_t origin) {
    for (size_t i = 0; i < n; i++) {
        const bool mark = o->rules->escapes_spaces && n - i >= sizeof SPACE_MARK - 1 &&
                          memcmp(p + i, SPACE_MARK, sizeof SPACE_MARK - 1) == 0;
        str_add(o->text, mark ? " " : p + i, 1);
        if (mark) i += sizeof SPACE_MARK - 2;
        if (o->origins) offset_list_add(o->origins, (int64_t)origin);
    }
}

static void drop_last_spaces(const output *o) {
    str *text = o->text;
    while (text->n > o->first && text->p[text->n - 1] == ' ') {
        text->p[--text->n] = 0;
        if (o->origins) o->origins->n--;
    }
}

void piece_rules_apply(const piece_rules *rules, const void *text, size_t n_bytes, str *out,
        offset_list *origins) {
    output to = {rules, out, origins, out->n};
    const unsigned char *s = text;
    size_t at = 0;
    str_view step;
    while (rules->removes_spaces && at < n_bytes) {
        const size_t taken = take_step(rules, s + at, n_bytes - at, &step);
        if (step.n != 1 || *step.p != ' ') break;
        at += taken;
    }
    if (at == n_bytes) return;
    if (rules->dummy_prefix && !rules->space_is_last) put(&to, " ", 1, at);
    for (bool after_space = rules->removes_spaces; at < n_bytes;) {
        const size_t taken = take_step(rules, s + at, n_bytes - at, &step);
        while (after_space && step.n && *step.p == ' ')
            step.p++, step.n--;
        put(&to, step.p, step.n, at);
        if (step.n) after_space = rules->removes_spaces && step.p[step.n - 1] == ' ';
        at += taken;
    }
    if (rules->removes_spaces) drop_last_spaces(&to);
    if (rules->dummy_prefix && rules->space_is_last) put(&to, " ", 1, n_bytes);
}

// --- as tokenizers has it
// Returns the bytes of the first grapheme cluster (UAX 29).
static size_t cluster_bytes(const unsigned char *s, size_t n) {
    const unsigned char *p = s, *end = s + n;
    utf8proc_int32_t state = 0, last = (utf8proc_int32_t)utf8_next(&p);
    while (p < end) {
        const unsigned char *next = p;
        const utf8proc_int32_t now = (utf8proc_int32_t)utf8_next(&next);
        if (utf8proc_grapheme_break_stateful(last, now, &state)) break;
        last = now;
        p = next;
    }
    return (size_t)(p - s);
}

static void put_plain(str *out, offset_list *origins, str_view text, size_t origin) {
    str_add(out, text.p, text.n);
    for (size_t i = 0; origins && i < text.n; i++)
        offset_list_add(origins, (int64_t)origin);
}

void piece_rules_apply_map(const piece_rules *rules, const void *text, size_t n_bytes, str *out,
        offset_list *origins) {
    const unsigned char *s = text;
    uint32_t value;
    for (size_t at = 0, n; at < n_bytes; at += n) {
        n = cluster_bytes(s + at, n_bytes - at);
        if (n < 6 && shortest_key(rules, s + at, n, &value)) {
            put_plain(out, origins, replaced_by(rules, value), at);
            continue;
        }
        for (size_t i = at, k; i < at + n; i += k) {
            const unsigned char *next = s + i;
            utf8_next(&next);
            k = (size_t)(next - (s + i));
            const bool found = shortest_key(rules, s + i, k, &value);
            put_plain(out, origins,
                    found ? replaced_by(rules, value) : (str_view){(const char *)s + i, k}, i);
        }
    }
}

// --- making
static drv_status read_charsmap(arena *a, const char *path, str_view map, piece_rules *out) {
    uint32_t n_trie;
    if (map.n == 0) return DRV_OK;
    if (map.n > sizeof n_trie) memcpy(&n_trie, map.p, sizeof n_trie); // little-endian, as we are
    if (map.n <= sizeof n_trie || n_trie >= map.n - sizeof n_trie || n_trie % sizeof *out->units)
        return drv_fail(DRV_E_DATA,
                "%s: precompiled_charsmap: %zu bytes, expected the size of a trie, a trie and texts",
                path, map.n);
    uint32_t *units = arena_alloc(a, n_trie + 1);
    memcpy(units, map.p + sizeof n_trie, n_trie);
    out->units = units;
    out->n_units = n_trie / sizeof *units;
    out->texts = (str_view){map.p + sizeof n_trie + n_trie, map.n - sizeof n_trie - n_trie};
    for (size_t i = 0; i < out->texts.n;) { // each may become part of a text
        const size_t n = strnlen(out->texts.p + i, out->texts.n - i);
        if (!utf8_valid(out->texts.p + i, n))
            return drv_fail(DRV_E_DATA, "%s: precompiled_charsmap: a text is not UTF-8", path);
        i += n + 1;
    }
    return DRV_OK;
}

static int by_length(const void *x, const void *y) {
    const str_view *a = x, *b = y;
    return (a->n < b->n) - (a->n > b->n);
}

drv_status piece_rules_open_map(arena *a, const char *path, str_view map, const piece_rules **out) {
    piece_rules *rules = ARENA_NEW(a, piece_rules);
    *rules = (piece_rules){0};
    DRV_TRY(read_charsmap(a, path, map, rules));
    *out = rules;
    return DRV_OK;
}

drv_status piece_rules_make(arena *a, const char *path, const piece_model *m,
        const piece_rules **out) {
    *out = NULL;
    const bool engine_puts_prefix = m->escapes_spaces && !m->space_is_last;
    if (m->charsmap.n == 0 && !m->removes_spaces && (!m->dummy_prefix || engine_puts_prefix))
        return DRV_OK;
    piece_rules *rules = ARENA_NEW(a, piece_rules);
    *rules = (piece_rules){.dummy_prefix = m->dummy_prefix,
            .space_is_last = m->space_is_last,
            .removes_spaces = m->removes_spaces,
            .escapes_spaces = m->escapes_spaces,
            .whole = ARENA_ARRAY(a, str_view, m->n + 1)};
    for (int32_t id = 0; id < m->n; id++)
        if (m->types[id] == PIECE_USER_DEFINED) rules->whole[rules->n_whole++] = m->pieces[id];
    qsort(rules->whole, (size_t)rules->n_whole, sizeof *rules->whole, by_length);
    DRV_TRY(read_charsmap(a, path, m->charsmap, rules));
    *out = rules;
    return DRV_OK;
}
