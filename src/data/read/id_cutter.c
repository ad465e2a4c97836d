// Searches the buffered ids for the token.
#include "data/read/id_cutter.h"

#include <string.h>

static int32_t id_at(const id_cutter *cutter, size_t i) {
    int32_t id;
    memcpy(&id, cutter->ids.p + cutter->at + i * sizeof id, sizeof id);
    return id;
}

bool id_cutter_take(id_cutter *cutter, str *out, bool *begins, bool *ends) {
    const id_cut cut = cutter->cut;
    const size_t n = (cutter->ids.n - cutter->at) / sizeof(int32_t);
    if (n == 0) return false;
    size_t i = cut.where == CUT_BEFORE && !cutter->within; // that token is the document's own
    cutter->found |= i == 1 && id_at(cutter, 0) == cut.token;
    while (i < n && id_at(cutter, i) != cut.token)
        i++;
    *begins = !cutter->within;
    *ends = i < n;
    if (i < n && cut.where == CUT_AFTER) i++;
    cutter->found |= *ends;
    str_add(out, cutter->ids.p + cutter->at, i * sizeof(int32_t));
    cutter->at += i * sizeof(int32_t);
    cutter->passed = *ends ? 0 : cutter->passed + (int64_t)i;
    cutter->within = !*ends;
    return true;
}

void id_cutter_reset(id_cutter *cutter) {
    str_clear(&cutter->ids);
    cutter->at = 0;
    cutter->passed = 0;
    cutter->within = cutter->found = false;
}

void id_cutter_free(id_cutter *cutter) {
    str_free(&cutter->ids);
}
