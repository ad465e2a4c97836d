// Checks ids, and turns labels into roles.
#include "data/set/build_ids.h"

#include <string.h>

static drv_status append_ids(const char *p, int64_t n, int64_t passed, const tokenizer *tok,
        sft_example *made) {
    const int32_t n_vocab = tokenizer_n_vocab(tok);
    id_list_reserve(&made->ids, n);
    for (int64_t i = 0; i < n; i++) {
        int32_t id;
        memcpy(&id, p + (size_t)i * sizeof id, sizeof id); // records lie at any byte
        if (id >= n_vocab) {
            made->misfit = true;
            return drv_fail(DRV_E_DATA,
                    "token %lld is id %d, expected below %d, the tokens of %s; ids of another tokenizer?",
                    (long long)(passed + i), id, n_vocab, tokenizer_path(tok));
        }
        id_list_add(&made->ids, id);
    }
    return DRV_OK;
}

static drv_status append_roles(const char *labelled, int64_t n, sft_example *made) {
    int64_t last = n;
    while (last > 0 && !labelled[last - 1])
        last--;
    if (last == 0)
        return drv_fail(DRV_E_DATA, "has no label but -100, so nothing is to be learned");
    int64_t first = last;
    while (first > 0 && labelled[first - 1])
        first--;
    str_reserve(&made->roles, (size_t)n);
    for (int64_t i = 0; i < n; i++) {
        const sft_role role = !labelled[i]             ? ROLE_OTHER
                              : i >= first && i < last ? ROLE_LAST_ANSWER
                                                       : ROLE_ANSWER;
        str_add(&made->roles, &(char){(char)role}, 1);
    }
    return DRV_OK;
}

drv_status build_take_ids(const record *of, const char *p, size_t n, const tokenizer *tok,
        sft_example *made) {
    const size_t bytes = sizeof(int32_t) + of->labels;
    const int64_t n_ids = (int64_t)(n / bytes), before = made->ids.n;
    made->misfit = false;
    drv_status status = append_ids(p, n_ids, of->passed, tok, made);
    if (status == DRV_OK && of->labels)
        status = append_roles(p + (size_t)n_ids * sizeof(int32_t), n_ids, made);
    if (status != DRV_OK) made->ids.n = before;
    return status;
}
