// A string of JSON is cut at a space, which is part of no escape, before it is decoded.
#include "data/read/long_json.h"

#include <string.h>

#include "base/json_cursor.h"
#include "base/status.h"
#include "tok/tokenizer.h"

bool long_json_open(long_json *j, const char *line, size_t n, const char *key) {
    json_cursor c = {.p = line, .end = line + n};
    str name = {0};
    bool is_text = false;
    for (bool first = true; jc_next(&c, '{', &first, &name);) {
        const bool wanted = str_is(&name, key);
        if (wanted) is_text = jc_peek(&c) == '"';
        const char *begin = c.p + 1;
        jc_skip(&c);
        if (!wanted) continue;
        j->p = begin;
        j->end = c.p - 1;
    }
    str_free(&name);
    str_clear(&j->text);
    return is_text && !c.error && jc_at_end(&c);
}

// Decodes up to the first space behind `most` bytes.
static void decode(long_json *j, size_t most, int64_t *bad) {
    const char *cut = j->end;
    if ((size_t)(j->end - j->p) > most)
        cut = memchr(j->p + most, ' ', (size_t)(j->end - j->p) - most);
    if (!cut) cut = j->end;
    str_clear(&j->slice);
    str_puts(&j->slice, "\"");
    str_add(&j->slice, j->p, (size_t)(cut - j->p));
    str_puts(&j->slice, "\"");
    json_cursor c = {.p = j->slice.p, .end = j->slice.p + j->slice.n};
    DRV_ASSERT(jc_string(&c, &j->text), "a string that was read once: %s", c.error);
    *bad += c.bad_surrogates;
    j->p = cut;
}

bool long_json_next(long_json *j, size_t piece, str *out, int64_t *bad) {
    size_t cut = 0;
    *bad = 0;
    while (j->p < j->end && !cut) {
        decode(j, j->text.n > piece ? j->text.n : piece,
                bad); // twice as much where there is no cut
        if (j->p < j->end) cut = split_cut(j->text.p, j->text.n);
    }
    const bool last = !cut;
    if (last) cut = j->text.n;
    str_add(out, j->text.p ? j->text.p : "", cut);
    if (!last) memmove(j->text.p, j->text.p + cut, j->text.n - cut);
    j->text.n -= cut;
    return last;
}

void long_json_free(long_json *j) {
    str_free(&j->text);
    str_free(&j->slice);
}
