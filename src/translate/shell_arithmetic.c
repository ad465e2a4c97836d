// Computes $((...)) on whole numbers (POSIX, Shell Command Language, 2.6.4): + - * / and brackets.
#include <ctype.h>

#include "translate/shell_internal.h"

typedef struct sum { // an expression that is being computed
    const shell_script *script;
    const char *p, *end;
    int depth;
} sum;

static bool read_sum(sum *self, int64_t *out);

static void skip_space(sum *self) {
    while (self->p < self->end && isspace((unsigned char)*self->p))
        self->p++;
}

static bool next_is(sum *self, char c) {
    skip_space(self);
    if (self->p >= self->end || *self->p != c) return false;
    self->p++;
    return true;
}

// NAME, $NAME or ${NAME}, which holds a whole number.
static bool read_name(sum *self, int64_t *out) {
    const bool braces = self->end - self->p > 2 && self->p[0] == '$' && self->p[1] == '{';
    char name[128];
    size_t n = 0;
    if (*self->p == '$') self->p += 1 + braces;
    while (self->p < self->end && (isalnum((unsigned char)*self->p) || *self->p == '_') &&
            n < sizeof name - 1)
        name[n++] = *self->p++;
    name[n] = 0;
    if (braces && (self->p >= self->end || *self->p++ != '}')) return false;
    const shell_variable *v = n ? shell_find(self->script, name) : NULL;
    return v && !v->value.unknown && str_to_i64(v->value.text, out);
}

static bool read_value(sum *self, int64_t *out) {
    skip_space(self);
    if (self->p >= self->end || self->depth > MAX_NESTED) return false;
    if (next_is(self, '(')) {
        self->depth++;
        const bool well = read_sum(self, out) && next_is(self, ')');
        self->depth--;
        return well;
    }
    if (!isdigit((unsigned char)*self->p)) return read_name(self, out);
    for (*out = 0; self->p < self->end && isdigit((unsigned char)*self->p); self->p++)
        if (*out > INT64_MAX / 10 - 10)
            return false;
        else
            *out = *out * 10 + (*self->p - '0');
    return true;
}

// Products and quotients, which are rounded towards 0.
static bool read_product(sum *self, int64_t *out) {
    if (!read_value(self, out)) return false;
    for (;;) {
        int64_t y;
        skip_space(self);
        const char c = self->p < self->end ? *self->p : 0;
        if (c != '*' && c != '/') return true;
        self->p++;
        if (!read_value(self, &y)) return false;
        if (c == '*') {
            if (__builtin_mul_overflow(*out, y, out)) return false;
        } else if (y == 0 || y == -1) {
            return false;
        } else {
            *out /= y;
        }
    }
}

static bool read_sum(sum *self, int64_t *out) {
    if (!read_product(self, out)) return false;
    for (;;) {
        int64_t y;
        const bool plus = next_is(self, '+');
        if (!plus && !next_is(self, '-')) return true;
        if (!read_product(self, &y)) return false;
        if (plus ? __builtin_add_overflow(*out, y, out) : __builtin_sub_overflow(*out, y, out))
            return false;
    }
}

bool shell_arithmetic(const shell_script *script, const char *text, size_t n, int64_t *out) {
    sum self = {script, text, text + n, 0};
    if (!read_sum(&self, out)) return false;
    skip_space(&self);
    return self.p == self.end;
}
