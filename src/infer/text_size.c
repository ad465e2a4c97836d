// Counts bytes and words by a table of all ids, since the texts of tokens make up the text.
#include "infer/text_size.h"

#include <string.h>

#include "base/file.h"
#include "base/str.h"
#include "tok/unicode.h"

static bool is_known(arena *a, const char *path, const rows *r) {
    uint64_t hash;
    if (!file_exists(path) || dataset_tokenizer_hash(path, &hash) != DRV_OK) return false;
    const char *hex = arena_printf(a, "%016llx", (unsigned long long)hash);
    for (int i = 0; i < rows_n_sources(r); i++) {
        const char *built = rows_source(r, i)->about.tokenizer_hash;
        if (built && strcmp(built, hex) != 0) return false;
    }
    return true;
}

// Measures the text of a token. A part of a UTF-8 character never counts as white space.
static token_text measure(const str *text) {
    const unsigned char *p = (const unsigned char *)text->p, *const end = p + text->n;
    const bool whole = utf8_valid(text->p, text->n);
    token_text out = {.bytes = (int32_t)text->n, .after_space = true};
    for (bool first = true; p < end; first = false) {
        const uint32_t letter = whole ? utf8_next(&p) : *p++;
        const bool space = cp_is_python_space(letter) && (whole || letter < 0x80);
        if (first) out.is_space = space;
        out.begins += !first && !space && out.after_space;
        out.after_space = space;
    }
    return out;
}

drv_status text_size_open(arena *a, const char *folder, const rows *r, text_size *out) {
    tokenizer *t;
    *out = (text_size){0};
    if (!is_known(a, path_join(a, folder, "tokenizer.json"), r)) return DRV_OK;
    DRV_TRY(tokenizer_open(a, folder, &t));
    out->n = tokenizer_n_vocab(t);
    out->id = ARENA_ARRAY(a, token_text, out->n + 1);
    str text = {0};
    for (int32_t id = 0; id < out->n; id++) {
        str_clear(&text);
        tokenizer_add_bytes(t, id, &text);
        if (text.n) out->id[id] = measure(&text);
        out->id[id].after_space |= text.n == 0;
    }
    str_free(&text);
    tokenizer_close(t);
    return DRV_OK;
}

void text_size_add(text_size *size, int32_t before, int32_t id) {
    if (!size->id || id < 0 || id >= size->n) return;
    const token_text *text = &size->id[id];
    const bool after_space = before < 0 || before >= size->n || size->id[before].after_space;
    size->bytes += text->bytes;
    size->words += text->begins + (text->bytes > 0 && after_space && !text->is_space);
}
