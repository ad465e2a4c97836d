// Words that Python writes for numbers get quotes before jansson sees them.
#include "base/json_python.h"

#include <string.h>

#include "base/file.h"
#include "base/str.h"

// The length of such a word at the beginning of p[0, n); 0: there is none.
static size_t word_at(const char *p, size_t n) {
    static const char *const words[] = {"NaN", "Infinity", "-Infinity"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (n >= strlen(words[i]) && memcmp(p, words[i], strlen(words[i])) == 0)
            return strlen(words[i]);
    return 0;
}

static void quote_words(const char *p, size_t n, str *out) {
    bool text = false;
    for (size_t i = 0; i < n;) {
        const size_t word = text ? 0 : word_at(p + i, n - i);
        const size_t step = word ? word : text && p[i] == '\\' && i + 1 < n ? 2 : 1;
        if (p[i] == '"') text = !text;
        if (word) str_puts(out, "\"");
        str_add(out, p + i, step);
        if (word) str_puts(out, "\"");
        i += step;
    }
}

drv_status json_read_python(const char *path, json_t **out) {
    file_map m;
    str quoted = {0};
    DRV_TRY(file_map_open(path, &m));
    quote_words((const char *)m.p, m.n, &quoted);
    file_map_close(&m);
    const drv_status status = json_read_bytes(path, quoted.p ? quoted.p : "", quoted.n, out);
    str_free(&quoted);
    return status;
}
