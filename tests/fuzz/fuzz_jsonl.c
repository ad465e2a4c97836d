// Lines of JSON: what jansson takes is taken, and the text is the same.
#include "fuzz.h"

#include <jansson.h>

#include "base/json_cursor.h"
#include "data/read/text_batch.h"
#include "tok/unicode.h"

static void same_as_jansson(const char *bytes, size_t n_bytes) {
    json_cursor cursor = {.p = bytes, .end = bytes + n_bytes};
    str key = {0}, text = {0};
    bool found = false;
    for (bool first = true; jc_next(&cursor, '{', &first, &key);) {
        found = str_is(&key, "text") && jc_peek(&cursor) == '"';
        str_clear(&text);
        if (found)
            jc_string(&cursor, &text);
        else
            jc_skip(&cursor);
    }
    const bool ours = !cursor.error && jc_at_end(&cursor) && found;
    json_error_t why;
    json_t *o = json_loadb(bytes, n_bytes, JSON_ALLOW_NUL, &why);
    const json_t *want = json_object_get(o, "text");
    // Jansson also refuses what is not UTF-8, half surrogate pairs and numbers that do not fit.
    if (o && json_object_size(o) == 1 && json_is_string(want)) {
        DRV_ASSERT(ours, "jansson takes it");
        DRV_ASSERT(text.n == json_string_length(want) &&
                           (text.n == 0 || memcmp(text.p, json_string_value(want), text.n) == 0),
                "jansson reads another text");
    }
    DRV_ASSERT(!ours || o || json_error_code(&why) != json_error_end_of_input_expected,
            "jansson finds more after it");
    json_decref(o);
    str_free(&key);
    str_free(&text);
}

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    same_as_jansson((const char *)bytes, n_bytes);
    reader *r;
    const char *inputs[] = {fuzz_file(a, "rows.jsonl", bytes, n_bytes)};
    const reader_opts o = {.strict = true};
    if (reader_open(a, inputs, 1, &o, &r) == DRV_OK) {
        text_batch *b = text_batch_new();
        while (b->more) {
            if (text_batch_read(b, r) != DRV_OK || text_batch_decode(b, r, NULL, NULL) != DRV_OK)
                break;
            for (int i = 0; i < b->n; i++)
                DRV_ASSERT(!b->pieces[i].p || utf8_valid(b->pieces[i].p, b->pieces[i].n),
                        "not UTF-8");
        }
        text_batch_free(b);
        reader_close(r);
    }
}
