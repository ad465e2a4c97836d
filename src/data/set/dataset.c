// Opening and reading Megatron's .bin/.idx: the index is checked whole, tokens are read by pread.
#include "data/set/dataset_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/bus_error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"

const char dataset_magic[9] = "MMIDIDX\0";

// By dtype code; 0, 6 and 7: floating point or unknown.
static const token_type types[9] =
        {[1] = {1, false}, {1, true}, {2, true}, {4, true}, {8, true}, [8] = {2, false}};

static int64_t get_i64(const unsigned char *p) {
    int64_t x;
    memcpy(&x, p, 8);
    return x;
}
static int32_t sequence_tokens(const dataset *set, int64_t i) {
    int32_t x;
    memcpy(&x, set->idx.p + DATASET_HEADER + 4 * i, 4);
    return x;
}
static int64_t sequence_offset(const dataset *set, int64_t i) { // bytes in .bin
    return get_i64(set->idx.p + DATASET_HEADER + 4 * set->n_sequences + 8 * i);
}
static int64_t document_sequence(const dataset *set, int64_t i) {
    return get_i64(set->idx.p + DATASET_HEADER + 12 * set->n_sequences + 8 * i);
}

static drv_status check_header(dataset *set, const char *path) {
    const unsigned char *header = set->idx.p;
    const size_t n_magic = sizeof dataset_magic;
    if (set->idx.n &&
            memcmp(header, dataset_magic, set->idx.n < n_magic ? set->idx.n : n_magic) != 0)
        return drv_fail(DRV_E_DATA, "%s: not a Megatron index: it does not begin with MMIDIDX",
                path);
    if (set->idx.n < DATASET_HEADER)
        return drv_fail(DRV_E_DATA, "%s: %zu bytes long, cut short: expected %d or more", path,
                set->idx.n, DATASET_HEADER);
    if (get_i64(header + 9) != 1)
        return drv_fail(DRV_E_DATA, "%s: version is %lld, expected 1", path,
                (long long)get_i64(header + 9));
    set->code = header[17];
    if (set->code < 9) set->type = types[set->code];
    if (!set->type.bytes)
        return drv_fail(DRV_E_DATA, "%s: dtype code is %d, expected 1, 2, 3, 4, 5 or 8", path,
                set->code);
    set->n_sequences = get_i64(header + 18);
    const int64_t entries = get_i64(header + 26), max = (int64_t)set->idx.n / 8;
    const bool possible =
            set->n_sequences >= 0 && entries >= 1 && set->n_sequences <= max && entries <= max;
    // A mode for each sequence, one byte, ends the index of a multimodal data set.
    const int64_t modes = (int64_t)set->idx.n - DATASET_HEADER -
                          (possible ? 12 * set->n_sequences + 8 * entries : 0);
    if (!possible || (modes != 0 && modes != set->n_sequences))
        return drv_fail(DRV_E_DATA,
                "%s: %zu bytes long, which does not fit %lld sequences and %lld document entries",
                path, set->idx.n, (long long)set->n_sequences, (long long)entries);
    set->n_documents = entries - 1;
    return DRV_OK;
}

// Gives back the pages that reading the index brought in: memory must not grow with the data set,
// and lookups touch few.
void dataset_forget(const dataset *set) {
    madvise((void *)(uintptr_t)set->idx.p, set->idx.n, MADV_DONTNEED);
}

static drv_status check_index(dataset *set, const char *path) {
    int64_t bytes = 0;
    for (int64_t i = 0; i < set->n_sequences; i++) {
        const int32_t n = sequence_tokens(set, i);
        if (n < 0)
            return drv_fail(DRV_E_DATA, "%s: the length of sequence %lld is %d, expected 0 or more",
                    path, (long long)i, n);
        if (sequence_offset(set, i) != bytes)
            return drv_fail(DRV_E_DATA,
                    "%s: sequence %lld begins at byte %lld of the .bin by the index, expected %lld, the end of the previous one",
                    path, (long long)i, (long long)sequence_offset(set, i), (long long)bytes);
        bytes += (int64_t)n * set->type.bytes;
        if (i % (1 << 16) == 0) dataset_forget(set);
    }
    set->n_tokens = bytes / set->type.bytes;
    int64_t before = 0;
    for (int64_t i = 0; i <= set->n_documents; i++) {
        const int64_t sequence = document_sequence(set, i);
        const int64_t min = i == set->n_documents ? set->n_sequences : before,
                      max = i == 0 ? 0 : set->n_sequences;
        if (sequence < min || sequence > max)
            return drv_fail(DRV_E_DATA,
                    "%s: document entry %lld is %lld, expected %lld to %lld (a number of sequences "
                    "that does not fall)",
                    path, (long long)i, (long long)sequence, (long long)min, (long long)max);
        before = sequence;
        if (i % (1 << 16) == 0) dataset_forget(set);
    }
    dataset_forget(set);
    return DRV_OK;
}

static uint64_t hash_index(const dataset *set) {
    enum { PIECE = 1 << 20 };
    XXH3_state_t *state = XXH3_createState();
    DRV_MEMORY(state && XXH3_64bits_reset(state) == XXH_OK, "a table or a state of some KiB");
    for (size_t at = 0; at < set->idx.n; at += PIECE) {
        XXH3_64bits_update(state, set->idx.p + at,
                set->idx.n - at < PIECE ? set->idx.n - at : PIECE);
        dataset_forget(set);
    }
    const uint64_t hash = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return hash;
}

static drv_status read_index(void *ctx) {
    dataset *set = ctx;
    char path[4096];
    snprintf(path, sizeof path, "%s.idx", set->prefix);
    DRV_TRY(check_header(set, path));
    DRV_TRY(check_index(set, path));
    set->idx_hash = hash_index(set);
    return DRV_OK;
}

static drv_status check(arena *a, dataset *set) {
    char *idx = arena_printf(a, "%s.idx", set->prefix),
         *bin = arena_printf(a, "%s.bin", set->prefix);
    int64_t n_bytes;
    DRV_TRY(file_map_open(idx, &set->idx));
    DRV_TRY(bus_error_guard(read_index, set, "the index of a data set"));
    DRV_TRY(file_open_regular(bin, &set->fd, &n_bytes));
    if (n_bytes != set->n_tokens * set->type.bytes)
        return drv_fail(DRV_E_DATA,
                "%s: %lld bytes long, but its index has %lld tokens of %d bytes", bin,
                (long long)n_bytes, (long long)set->n_tokens, set->type.bytes);
    return DRV_OK;
}

static void read_about(arena *a, dataset *set) {
    const char *path = arena_printf(a, "%s.idx.json", set->prefix);
    char *text;
    size_t n;
    set->about = (dataset_about){.eod = -1, .largest_id = -1, .turn_end = -1};
    if (!file_exists(path)) return;
    if (file_read(a, path, &text, &n) != DRV_OK ||
            dataset_about_parse(a, set, path, text, n, &set->about) != DRV_OK)
        log_warn("%s; this file is ignored", drv_message());
}

// A shell completes names of files; and a file that is not tokenised yet is not a data set.
static drv_status check_prefix(arena *a, const char *prefix) {
    const int n = (int)strlen(prefix);
    if (n == 0)
        return drv_fail(DRV_E_USAGE,
                "the name of the data set is empty, expected the prefix of its files, PREFIX.bin and PREFIX.idx");
    if (!file_exists(prefix) || file_exists(arena_printf(a, "%s.idx", prefix))) return DRV_OK;
    const bool part = str_ends(prefix, ".bin") || str_ends(prefix, ".idx");
    if (part && file_exists(arena_printf(a, "%.*s.idx", n - 4, prefix)))
        return drv_fail(DRV_E_USAGE, "\"%s\" is one file of a data set, expected its prefix: %.*s",
                prefix, n - 4, prefix);
    return drv_fail(DRV_E_DATA,
            "\"%s\" is not a data set, expected the prefix of one; to make one from a text or token ids: drover data build --input %s --tokenizer DIR --out PREFIX",
            prefix, path_for_shell(a, prefix));
}

drv_status dataset_open(arena *a, const char *prefix, dataset **out) {
    DRV_TRY(check_prefix(a, prefix));
    dataset *set = ARENA_NEW(a, dataset);
    *set = (dataset){.prefix = arena_strdup(a, prefix), .fd = -1, .roles_fd = -1};
    drv_status status = check(a, set);
    if (status == DRV_OK) {
        read_about(a, set);
        status = dataset_open_roles(a, set);
    }
    if (status == DRV_OK)
        *out = set;
    else
        dataset_close(set);
    return status;
}

void dataset_close(dataset *set) {
    file_map_close(&set->idx);
    if (set->fd >= 0) close(set->fd);
    if (set->roles_fd >= 0) close(set->roles_fd);
    set->fd = set->roles_fd = -1;
}

static int64_t sequence_start(const dataset *set, int64_t sequence) { // in tokens
    return sequence == set->n_sequences ? set->n_tokens
                                        : sequence_offset(set, sequence) / set->type.bytes;
}

int64_t dataset_document_start(const dataset *set, int64_t document) {
    return sequence_start(set, document_sequence(set, document));
}

int64_t dataset_document_of(const dataset *set, int64_t token) {
    int64_t low = 0,
            high = set->n_documents; // the last document that starts at or before the token
    while (high - low > 1) {
        int64_t mid = low + (high - low) / 2;
        if (dataset_document_start(set, mid) <= token)
            low = mid;
        else
            high = mid;
    }
    return low;
}

typedef struct lookup {
    const dataset *set;
    int64_t document, first, n, token;
} lookup;

static drv_status find_document(void *ctx) {
    lookup *x = ctx;
    x->first = dataset_document_start(x->set, x->document);
    x->n = dataset_document_start(x->set, x->document + 1) - x->first;
    return DRV_OK;
}

static drv_status find_token(void *ctx) {
    lookup *x = ctx;
    x->document = dataset_document_of(x->set, x->token);
    return DRV_OK;
}

drv_status dataset_find_document(const dataset *set, int64_t document, int64_t *first, int64_t *n) {
    lookup x = {.set = set, .document = document};
    DRV_TRY(bus_error_guard(find_document, &x, "the index of a data set"));
    *first = x.first;
    *n = x.n;
    return DRV_OK;
}

drv_status dataset_bad_token(const dataset *set, int64_t token, int64_t id, int64_t n_vocab) {
    lookup x = {.set = set, .token = token};
    DRV_TRY(bus_error_guard(find_token, &x, "the index of a data set"));
    return drv_fail(DRV_E_DATA,
            "%s.bin: token %lld (in document %lld) is %lld, expected 0 to %lld: the vocabulary has "
            "%lld entries",
            set->prefix, (long long)token, (long long)x.document, (long long)id,
            (long long)n_vocab - 1, (long long)n_vocab);
}

drv_status dataset_read_bytes(const dataset *set, int64_t first, int64_t n, void *out) {
    const int64_t width = set->type.bytes,
                  got = file_read_at(set->fd, out, n * width, first * width);
    if (got == n * width) return DRV_OK;
    return drv_fail(DRV_E_IO, "could not read \"%s.bin\" at token %lld: %s", set->prefix,
            (long long)(first + got / width),
            errno ? strerror(errno) : "the file has become shorter");
}

drv_status dataset_read(const dataset *set, int64_t first, int64_t n, int64_t n_vocab,
        int32_t *out) {
    DRV_ASSERT(first >= 0 && n >= 0 && first + n <= set->n_tokens, "tokens %lld + %lld",
            (long long)first, (long long)n);
    unsigned char buffer[4096];
    const int64_t step = (int64_t)sizeof buffer / set->type.bytes;
    for (int64_t i = 0; i < n; i += step) {
        const int64_t k = n - i < step ? n - i : step;
        DRV_TRY(dataset_read_bytes(set, first + i, k, buffer));
        for (int64_t j = 0; j < k; j++) {
            const int64_t id = token_at(set->type, buffer + j * set->type.bytes);
            if (id < 0 || id >= n_vocab) return dataset_bad_token(set, first + i + j, id, n_vocab);
            out[i + j] = (int32_t)id;
        }
    }
    return DRV_OK;
}
