// PREFIX.roles: which tokens are answers, a byte for each. All of it is read once when the set is
// opened: a set of instructions is small, and a wrong mask would train on the wrong tokens without
// a sign.
#include <errno.h>
#include <string.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/file.h"
#include "base/log.h"
#include "data/sft/sft.h"
#include "data/set/dataset_internal.h"

enum { PIECE_BYTES = 1 << 20 };

static drv_status read_at(const dataset *set, int64_t first, int64_t n, unsigned char *out) {
    const int64_t got = file_read_at(set->roles_fd, out, n, first);
    if (got == n) return DRV_OK;
    return drv_fail(DRV_E_IO, "could not read \"%s.roles\" at token %lld: %s", set->prefix,
            (long long)(first + got), errno ? strerror(errno) : "the file has become shorter");
}

static drv_status check_bytes(const dataset *set, int64_t first, int64_t n,
        const unsigned char *p) {
    for (int64_t i = 0; i < n; i++)
        if (p[i] >= N_SFT_ROLES)
            return drv_fail(DRV_E_DATA,
                    "%s.roles: token %lld has role %d, expected 0 (none), 1 (answer) or 2 (last answer)",
                    set->prefix, (long long)(first + i), p[i]);
    return DRV_OK;
}

static drv_status check_all(dataset *set) {
    XXH3_state_t *state = XXH3_createState();
    unsigned char *piece = mem_alloc(PIECE_BYTES);
    drv_status status = DRV_OK;
    DRV_MEMORY(state && XXH3_64bits_reset(state) == XXH_OK, "a table or a state of some KiB");
    for (int64_t i = 0; status == DRV_OK && i < set->n_tokens; i += PIECE_BYTES) {
        const int64_t n = set->n_tokens - i < PIECE_BYTES ? set->n_tokens - i : PIECE_BYTES;
        status = read_at(set, i, n, piece);
        if (status == DRV_OK) status = check_bytes(set, i, n, piece);
        XXH3_64bits_update(state, piece, (size_t)n);
    }
    snprintf(set->roles_hash, sizeof set->roles_hash, "%016llx",
            (unsigned long long)XXH3_64bits_digest(state));
    XXH3_freeState(state);
    free(piece);
    return status;
}

drv_status dataset_open_roles(arena *a, dataset *set) {
    const char *path = arena_printf(a, "%s.roles", set->prefix);
    const dataset_about *about = &set->about;
    int64_t n_bytes;
    if (access(path, F_OK) != 0 && errno == ENOENT) {
        if (!about->known || !about->roles_hash) return DRV_OK;
        return drv_fail(DRV_E_DATA,
                "%s: is missing, but by %s.idx.json it marks the answers of this set", path,
                set->prefix);
    }
    DRV_TRY(file_open_regular(path, &set->roles_fd, &n_bytes));
    if (about->known && !about->roles_hash) {
        log_warn("%s: belongs to another set, since %s.idx.json has no roles; it is ignored", path,
                set->prefix);
        close(set->roles_fd);
        set->roles_fd = -1;
        return DRV_OK;
    }
    if (n_bytes != set->n_tokens)
        return drv_fail(DRV_E_DATA, "%s: %lld bytes long, expected %lld, one for each token", path,
                (long long)n_bytes, (long long)set->n_tokens);
    DRV_TRY(check_all(set));
    if (about->known && strcmp(about->roles_hash, set->roles_hash) != 0)
        return drv_fail(DRV_E_DATA,
                "%s: its hash is %s, expected %s as in %s.idx.json: the file is damaged or of another set",
                path, set->roles_hash, about->roles_hash, set->prefix);
    return DRV_OK;
}

bool dataset_has_roles(const dataset *set) {
    return set->roles_fd >= 0;
}

drv_status dataset_read_roles(const dataset *set, int64_t first, int64_t n, unsigned char *out) {
    DRV_ASSERT(dataset_has_roles(set) && first >= 0 && n >= 0 && first + n <= set->n_tokens,
            "roles %lld + %lld", (long long)first, (long long)n);
    DRV_TRY(read_at(set, first, n, out));
    return check_bytes(set, first, n, out);
}

// One document. After the last answer no other one begins.
static drv_status count_document(const dataset *set, int64_t document, const unsigned char *roles,
        int64_t n, dataset_answers *out) {
    int64_t answers = 0, last = 0;
    for (int64_t i = 0; i < n; i++) {
        answers += roles[i] != ROLE_OTHER;
        last += roles[i] == ROLE_LAST_ANSWER;
        if (roles[i] == ROLE_ANSWER && last)
            return drv_fail(DRV_E_DATA,
                    "%s.roles: token %lld of document %lld is an answer (1) after its last answer (2)",
                    set->prefix, (long long)i, (long long)document);
    }
    out->tokens += answers;
    out->last_tokens += last;
    out->without += answers == 0;
    return DRV_OK;
}

static drv_status count_documents(const dataset *set, int64_t row_tokens, dataset_answers *out) {
    unsigned char *roles = NULL;
    int64_t cap = 0;
    drv_status status = DRV_OK;
    for (int64_t i = 0; status == DRV_OK && i < set->n_documents; i++) {
        int64_t first, n;
        status = dataset_find_document(set, i, &first, &n);
        if (status != DRV_OK) break;
        MEM_GROW(roles, n, cap);
        status = dataset_read_roles(set, first, n, roles);
        if (status == DRV_OK) status = count_document(set, i, roles, n, out);
        if (n > out->longest) out->longest = n;
        if (n <= row_tokens + 1) continue;
        out->n_longer++;
        out->n_beyond += n - row_tokens - 1;
    }
    free(roles);
    return status;
}

drv_status dataset_count_answers(const dataset *set, int64_t row_tokens, dataset_answers *out) {
    *out = (dataset_answers){.documents = set->n_documents};
    DRV_TRY(count_documents(set, row_tokens, out));
    const dataset_about *about = &set->about;
    if (about->known && about->roles_hash &&
            (about->answers != out->tokens || about->last_answers != out->last_tokens))
        return drv_fail(DRV_E_DATA,
                "%s.idx.json: counts %lld tokens of answers, %lld of last ones, but %s.roles has %lld and %lld",
                set->prefix, (long long)about->answers, (long long)about->last_answers, set->prefix,
                (long long)out->tokens, (long long)out->last_tokens);
    return DRV_OK;
}
