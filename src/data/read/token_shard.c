// Reads the headers of .bin and .npy files and the ids after them.
//
// .bin: 256 int32, of which the first three are magic, version and count; then the ids
// (karpathy/llm.c dev/data/data_common.py, KellerJordan/modded-nanogpt, fineweb.py).
// .npy: numpy.lib.format, versions 1 to 3; OLMo writes numpy.memmap, which has no header at all
// (allenai/OLMo scripts/prepare_memmap_dataset.py).
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "data/read/byte_stream.h"
#include "data/read/record_source.h"

enum { CHUNK_BYTES = 1 << 18, BIN_HEADER = 256 * 4, MAX_NPY_HEADER = 1 << 16 };

typedef struct token_shard {
    const input_file *file;
    byte_stream *stream;
    token_type type;
    bool is_guessed;   // the type of a file without a header
    int64_t n_tokens;  // by the header; -1: up to the end
    int64_t header, n; // bytes of the header; ids handed out
    size_t ahead;      // bytes in `chunk` that were read with the header
    char chunk[CHUNK_BYTES];
} token_shard;

static const struct {
    int32_t magic, version;
    token_type type;
} bin_formats[] = {{20240520, 1, {2, false}}, {20240801, 7, {4, false}}}; // GPT-2, Llama 3
enum { BIN_EVALUATION = 20240522 };

static int32_t i32_at(const char *p) {
    int32_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

static int32_t swapped(int32_t x) {
    return (int32_t)__builtin_bswap32((uint32_t)x);
}

static drv_status not_a_bin(const token_shard *shard, int32_t magic) {
    const char *name = shard->file->name, *end = strrchr(name, '.');
    for (size_t i = 0; i < sizeof bin_formats / sizeof *bin_formats; i++)
        if (magic == swapped(bin_formats[i].magic))
            return drv_fail(DRV_E_DATA, "%s: its header is big-endian, expected little-endian",
                    name);
    if (magic == BIN_EVALUATION)
        return drv_fail(DRV_E_DATA,
                "%s: examples of an evaluation (magic number %d), expected token ids", name, magic);
    char index[4096];
    snprintf(index, sizeof index, "%.*s.idx", end ? (int)(end - name) : (int)strlen(name), name);
    return drv_fail(DRV_E_DATA,
            "%s: begins with %d, expected 20240520 or 20240801, the magic numbers of token files%s",
            name, magic, file_exists(index) ? "; with its .idx it is a data set already" : "");
}

static drv_status read_bin_header(token_shard *shard) {
    const char *name = shard->file->name;
    size_t got;
    DRV_TRY(byte_stream_read_all(shard->stream, shard->chunk, BIN_HEADER, &got));
    if (got < 4)
        return drv_fail(DRV_E_DATA, "%s: %zu bytes long, expected a header of %d", name, got,
                BIN_HEADER);
    const int32_t magic = i32_at(shard->chunk);
    size_t i = 0;
    while (i < sizeof bin_formats / sizeof *bin_formats && bin_formats[i].magic != magic)
        i++;
    if (i == sizeof bin_formats / sizeof *bin_formats) return not_a_bin(shard, magic);
    if (got < BIN_HEADER)
        return drv_fail(DRV_E_DATA, "%s: cut short at byte %zu, within its header of %d", name, got,
                BIN_HEADER);
    const int32_t version = i32_at(shard->chunk + 4), count = i32_at(shard->chunk + 8);
    if (version != bin_formats[i].version)
        return drv_fail(DRV_E_DATA, "%s: version is %d, expected %d with magic number %d", name,
                version, bin_formats[i].version, magic);
    if (count < 0) // 0: a shard without tokens
        return drv_fail(DRV_E_DATA, "%s: its header says %d tokens, expected 0 or more", name,
                count);
    shard->type = bin_formats[i].type;
    shard->n_tokens = count;
    shard->header = BIN_HEADER;
    return DRV_OK;
}

// Returns the bytes of a value that a message shows: up to its end, and 60 at most.
static int shown(const char *value) {
    const size_t n = *value == '(' ? strcspn(value, ")") + 1 : strcspn(value, ",}");
    return n < 60 ? (int)n : 60;
}

// Returns the value of a key in the Python dict that describes the array; NULL: no such key.
static const char *value_of(const char *header, const char *key) {
    const char *p = strstr(header, key);
    if (!p) return NULL;
    for (p += strlen(key); *p == ' ' || *p == ':';)
        p++;
    return p;
}

static drv_status read_npy_dict(token_shard *shard, const char *text) {
    static const char kinds[] = "ui";
    const char *name = shard->file->name, *descr = value_of(text, "'descr'"),
               *shape = value_of(text, "'shape'");
    long long count;
    int end = 0;
    if (!descr || *descr != '\'' || !shape)
        return drv_fail(DRV_E_DATA, "%s: its header does not describe one array of numbers", name);
    const char order = descr[1], kind = descr[2], bytes = descr[3];
    if (!order || !kind || !strchr(kinds, kind) || !bytes || !strchr("1248", bytes) ||
            descr[4] != '\'')
        return drv_fail(DRV_E_DATA, "%s: its array is of type %.*s, expected integers", name,
                shown(descr), descr);
    if (order == '>')
        return drv_fail(DRV_E_DATA, "%s: its array is big-endian, expected little-endian", name);
    if (sscanf(shape, "(%18lld,)%n", &count, &end) != 1 || !end || count < 0)
        return drv_fail(DRV_E_DATA, "%s: the shape of its array is %.*s, expected one axis", name,
                shown(shape), shape);
    shard->type = (token_type){bytes - '0', kind == 'i'};
    shard->n_tokens = count;
    return DRV_OK;
}

static drv_status read_npy_header(token_shard *shard) {
    enum { MAGIC = 6, VERSION = 2 };
    const char *name = shard->file->name;
    char *text = shard->chunk;
    size_t got, n = 0;
    DRV_TRY(byte_stream_read_all(shard->stream, text, MAGIC + VERSION, &got));
    if (got < MAGIC || memcmp(text, "\x93NUMPY", MAGIC) != 0) {
        shard->ahead = got;
        return DRV_OK;
    }
    const int width = got == MAGIC + VERSION && text[MAGIC] == 1 ? 2 : 4;
    if (got == MAGIC + VERSION && (text[MAGIC] < 1 || text[MAGIC] > 3))
        return drv_fail(DRV_E_DATA, "%s: version of NumPy's format is %d, expected 1 to 3", name,
                text[MAGIC]);
    DRV_TRY(byte_stream_read_all(shard->stream, text, (size_t)width, &got));
    if (got == (size_t)width) memcpy(&n, text, (size_t)width);
    if (n > MAX_NPY_HEADER)
        return drv_fail(DRV_E_DATA, "%s: its header has %zu bytes, expected at most %d", name, n,
                MAX_NPY_HEADER);
    DRV_TRY(byte_stream_read_all(shard->stream, text, n, &got));
    if (n == 0 || got < n) return drv_fail(DRV_E_DATA, "%s: cut short within its header", name);
    text[n] = 0;
    shard->header = MAGIC + VERSION + width + (int64_t)n;
    return read_npy_dict(shard, text);
}

static drv_status check_length(const token_shard *shard) {
    const input_file *file = shard->file;
    const int width = shard->type.bytes;
    if (byte_stream_packing(shard->stream) != PACKED_NOT || file->bytes == 0) return DRV_OK;
    const int64_t is = file->bytes - shard->header;
    if (shard->n_tokens >= 0 && is / width != shard->n_tokens)
        return drv_fail(DRV_E_DATA,
                "%s: %lld bytes long, which is %lld tokens of %d bytes, but its header says %lld",
                file->name, (long long)file->bytes, (long long)(is / width), width,
                (long long)shard->n_tokens);
    if (is % width)
        return drv_fail(DRV_E_DATA, "%s: %lld bytes long, which are no whole tokens of %s",
                file->name, (long long)file->bytes, token_type_name(shard->type));
    return DRV_OK;
}

// Refuses uint32 ids that would be read as uint16: if they are below 65536, every second one is 0.
static drv_status look_for_uint32(const token_shard *shard, size_t n_bytes) {
    enum { LEAST = 16, MOST = 4096 };
    const size_t n = n_bytes / 4 < MOST ? n_bytes / 4 : MOST;
    if (!shard->is_guessed || shard->header || shard->n || shard->type.bytes != 2 || n < LEAST)
        return DRV_OK;
    for (size_t i = 0; i < n; i++)
        if (shard->chunk[4 * i + 2] || shard->chunk[4 * i + 3]) return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "%s: as uint16 every second token is 0, so its type is probably uint32: give --token-type uint32, or --token-type uint16 if it is right",
            shard->file->name);
}

static drv_status check_end(const token_shard *shard) {
    if (shard->n_tokens < 0 || shard->n == shard->n_tokens) return DRV_OK;
    return drv_fail(DRV_E_DATA, "%s: holds %lld tokens%s, but its header says %lld",
            shard->file->name, (long long)shard->n, shard->n > shard->n_tokens ? " or more" : "",
            (long long)shard->n_tokens);
}

static drv_status next(void *state, str *out, record *to, bool *done) {
    token_shard *shard = state;
    to->ids = true;
    const size_t width = (size_t)shard->type.bytes;
    size_t got;
    DRV_TRY(byte_stream_read_all(shard->stream, shard->chunk + shard->ahead,
            CHUNK_BYTES - shard->ahead, &got));
    got += shard->ahead;
    shard->ahead = 0;
    *done = got == 0;
    if (*done) return check_end(shard);
    const int64_t n = (int64_t)(got / width);
    if (got % width)
        return drv_fail(DRV_E_DATA, "%s: ends within token %lld of %s", shard->file->name,
                (long long)(shard->n + n), token_type_name(shard->type));
    DRV_TRY(look_for_uint32(shard, got));
    int64_t bad = 0;
    const int64_t taken = token_ids_add(shard->type, shard->chunk, n, out, &bad);
    if (taken < n)
        return drv_fail(DRV_E_DATA, "%s: token %lld is %lld, expected 0 to 2147483647",
                shard->file->name, (long long)(shard->n + taken), (long long)bad);
    shard->n += n;
    return shard->n_tokens >= 0 && shard->n > shard->n_tokens ? check_end(shard) : DRV_OK;
}

static int64_t where(const void *state) {
    return byte_stream_where(((const token_shard *)state)->stream);
}

static void close_shard(void *state) {
    byte_stream_close(((token_shard *)state)->stream);
    free(state);
}

drv_status token_shard_open(const input_file *file, const reader_opts *opts, record_source *out) {
    static const record_source_ops ops = {next, where, close_shard};
    const id_opts *ids = &opts->ids;
    if (!ids->taken) return drv_fail(DRV_E_DATA, "%s: token ids, expected text", file->name);
    const bool is_said = ids->type.bytes != 0;
    // As OLMo chooses the type of its arrays.
    const token_type by_size = {ids->n_vocab <= 65536 ? 2 : 4, false};
    token_shard *shard = mem_alloc(sizeof *shard);
    *shard = (token_shard){.file = file,
            .type = is_said ? ids->type : by_size,
            .is_guessed = !is_said,
            .n_tokens = -1};
    *out = (record_source){.ops = &ops, .state = shard};
    DRV_TRY(byte_stream_open(file, false, &shard->stream));
    DRV_TRY(file->kind == INPUT_BIN ? read_bin_header(shard) : read_npy_header(shard));
    out->ids = shard->header ? IDS_TYPED : IDS_UNTYPED;
    return check_length(shard);
}
