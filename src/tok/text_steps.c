// Applies each step to the result of the one before it.
#include "tok/text_steps.h"

#include <string.h>

#include "tok/unicode.h"

typedef struct made { // an intermediate text, and the origins of its bytes
    str text;
    offset_list origins;
} made;

static bool is_space(uint32_t cp) {
    return cp_table()[cp] & CP_SPACE;
}

static size_t spaces_at_begin(const unsigned char *s, size_t n) {
    const unsigned char *p = s, *end = s + n, *next = s;
    while (p < end && is_space(utf8_next(&next)))
        p = next;
    return (size_t)(p - s);
}

static size_t spaces_at_end(const unsigned char *s, size_t n) {
    size_t end = n;
    while (end > 0) {
        size_t begin = end - 1;
        while (begin > 0 && (s[begin] & 0xC0) == 0x80)
            begin--;
        const unsigned char *p = s + begin;
        if (!is_space(utf8_next(&p))) break;
        end = begin;
    }
    return n - end;
}

static void join_spaces(const unsigned char *s, size_t n, const char *content, made *to) {
    for (size_t i = 0, run; i < n; i += run) {
        run = 1;
        while (s[i] == ' ' && i + run < n && s[i + run] == ' ')
            run++;
        const size_t n_put = run > 1 ? strlen(content) : 1;
        str_add(&to->text, run > 1 ? content : (const char *)s + i, n_put);
        for (size_t k = 0; k < n_put; k++)
            offset_list_add(&to->origins, (int64_t)i);
    }
}

static void take_step(const struct text_step *step, const unsigned char *s, size_t n, made *to) {
    size_t begin = 0, end = n;
    if (step->kind == STEP_RULES) {
        piece_rules_apply_map(step->rules, s, n, &to->text, &to->origins);
        return;
    }
    if (step->kind == STEP_JOIN_SPACES) {
        join_spaces(s, n, step->content, to);
        return;
    }
    if (step->kind == STEP_STRIP_LEFT) begin = spaces_at_begin(s, n);
    if (step->kind == STEP_STRIP_RIGHT) end = n - spaces_at_end(s, n);
    str_add(&to->text, s + begin, end - begin);
    for (size_t i = begin; i < end; i++)
        offset_list_add(&to->origins, (int64_t)i);
}

void text_steps_apply(const text_steps *steps, const void *text, size_t n_bytes, str *out,
        offset_list *origins) {
    made now = {0};
    const unsigned char *s = text;
    size_t n = n_bytes;
    for (int i = 0; i < steps->n; i++) {
        made next = {0};
        take_step(&steps->step[i], s, n, &next);
        for (int64_t k = 0; i > 0 && k < next.origins.n; k++)
            next.origins.p[k] = now.origins.p[next.origins.p[k]];
        str_free(&now.text);
        offset_list_free(&now.origins);
        now = next;
        s = (const unsigned char *)now.text.p;
        n = now.text.n;
    }
    if (n) str_add(out, s, n);
    for (int64_t k = 0; origins && k < now.origins.n; k++)
        offset_list_add(origins, now.origins.p[k]);
    str_free(&now.text);
    offset_list_free(&now.origins);
}
