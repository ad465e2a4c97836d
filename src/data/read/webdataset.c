// Groups the members of a tar archive into samples (webdataset/webdataset,
// tariterators.py) and takes the text of each.
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

#include "base/file.h"
#include "base/json_cursor.h"
#include "base/tar_members.h"
#include "data/read/byte_stream.h"
#include "data/read/record_source.h"

enum { MAX_MEMBER = 1 << 28 };

typedef enum member_rank { RANK_NONE, RANK_SECOND, RANK_FIRST } member_rank;

typedef struct webdataset {
    const input_file *file;
    const reader_opts *o;
    byte_stream *stream;
    tar_members *tar;
    tar_member member; // the first one of the next sample
    bool has_member, ended;
    str key;   // of the current sample
    str value; // of its best member so far
    str packed;
    member_rank rank;
    bool is_json;
    const char *broken;
} webdataset;

static drv_status read_stream(void *ctx, char *out, size_t n, size_t *got) {
    return byte_stream_read_all(ctx, out, n, got);
}

static drv_status skip_stream(void *ctx, int64_t n, int64_t *got) {
    char dropped[1 << 12];
    size_t read = 1;
    for (*got = 0; *got < n && read; *got += (int64_t)read) {
        const int64_t left = n - *got;
        DRV_TRY(byte_stream_read(ctx, dropped,
                left < (int64_t)sizeof dropped ? (size_t)left : sizeof dropped, &read));
    }
    return DRV_OK;
}

// Returns where the ending begins, after the first dot of the last part; NULL: the member has none,
// or its first part is __NAME__, by which WebDataset marks metadata.
static const char *ending_of(const char *name) {
    const char *last = path_name(name), *dot = strchr(last, '.');
    const size_t n = strcspn(name, "/");
    const bool is_meta = n >= 4 && str_starts(name, "__") && memcmp(name + n - 2, "__", 2) == 0;
    if (!dot || dot == last || is_meta) return NULL;
    return dot + 1;
}

static member_rank rank_of(const webdataset *set, const char *ending, bool *is_json, bool *packed) {
    size_t n = strlen(ending);
    *packed = n > 3 && strcasecmp(ending + n - 3, ".gz") == 0;
    if (*packed) n -= 3;
    *is_json = n == 4 && strncasecmp(ending, "json", n) == 0;
    const bool is_text = (n == 3 && strncasecmp(ending, "txt", n) == 0) ||
                         (n == 4 && strncasecmp(ending, "text", n) == 0);
    if (*is_json) return set->o->is_key_given || set->o->lines ? RANK_FIRST : RANK_SECOND;
    if (!is_text || set->o->lines) return RANK_NONE;
    return set->o->is_key_given ? RANK_SECOND : RANK_FIRST;
}

// Decompresses a sequence of gzip members. Returns what is wrong, else NULL.
static const char *unpack(const str *packed, str *out) {
    enum { STEP = 1 << 18 };
    z_stream z = {.next_in = (Bytef *)packed->p, .avail_in = (uInt)packed->n};
    int code = Z_OK;
    DRV_MEMORY(inflateInit2(&z, 15 + 16) == Z_OK, "the state of a decoder, some KiB");
    while (code == Z_OK && out->n <= MAX_MEMBER) {
        str_reserve(out, STEP);
        z.next_out = (Bytef *)out->p + out->n;
        z.avail_out = STEP;
        code = inflate(&z, Z_NO_FLUSH);
        out->n += STEP - z.avail_out;
        out->p[out->n] = 0;
        if (code == Z_STREAM_END && z.avail_in) code = inflateReset(&z);
    }
    inflateEnd(&z);
    if (out->n > MAX_MEMBER) return "is longer than 256 MiB when unpacked";
    return code == Z_STREAM_END ? NULL : "is broken gzip";
}

// Takes the current member if it is preferred to the one that the sample has so far.
static drv_status take_member(webdataset *set, const char *ending) {
    bool is_json, packed;
    const member_rank rank = rank_of(set, ending, &is_json, &packed);
    if (rank <= set->rank) {
        if (rank == RANK_NONE || rank < set->rank) return DRV_OK;
        return drv_fail(DRV_E_DATA, "%s: two members are the text of sample \"%.80s\"",
                set->file->name, set->key.p);
    }
    set->rank = rank;
    set->is_json = is_json;
    set->broken = set->member.bytes > MAX_MEMBER ? "is longer than 256 MiB" : NULL;
    if (set->broken) return DRV_OK;
    str_clear(&set->value);
    str_clear(&set->packed);
    DRV_TRY(tar_members_take(set->tar, packed ? &set->packed : &set->value));
    if (packed) set->broken = unpack(&set->packed, &set->value);
    return DRV_OK;
}

// Reads the members of the next sample; *done: there are no more.
static drv_status read_sample(webdataset *set, bool *done) {
    set->rank = RANK_NONE;
    set->broken = NULL;
    str_clear(&set->value);
    for (bool begun = false;;) {
        if (!set->has_member) {
            if (!set->ended) DRV_TRY(tar_members_next(set->tar, &set->member, &set->ended));
            *done = set->ended && !begun;
            if (set->ended) return DRV_OK;
        }
        const char *name = set->member.name, *ending = ending_of(name);
        set->has_member = false;
        if (!ending || !set->member.is_file) continue;
        const size_t n = (size_t)(ending - 1 - name);
        const bool same = begun && set->key.n == n && memcmp(set->key.p, name, n) == 0;
        set->has_member = begun && !same;
        *done = false;
        if (set->has_member) return DRV_OK;
        if (!begun) {
            str_clear(&set->key);
            str_add(&set->key, name, n);
        }
        begun = true;
        DRV_TRY(take_member(set, ending));
    }
}

// Appends a JSON array of integers as ids. Returns what is wrong, else NULL.
static const char *add_ids(const str *json, str *out) {
    json_cursor c = {.p = json->p, .end = json->p + json->n};
    const size_t before = out->n;
    int64_t id = 0;
    for (bool first = true; jc_next(&c, '[', &first, NULL);) {
        if (!jc_i64(&c, &id)) break;
        const int32_t narrow = (int32_t)id;
        if (narrow != id || id < 0) {
            out->n = before;
            return "has an id below 0 or above 2147483647";
        }
        str_add(out, &narrow, sizeof narrow);
    }
    if (!c.error && jc_at_end(&c)) return NULL;
    out->n = before;
    return "is an array, but not of token ids";
}

static drv_status next(void *state, str *out, record *to, bool *done) {
    webdataset *set = state;
    to->json = to->ids = false;
    DRV_TRY(read_sample(set, done));
    to->broken = set->broken;
    if (*done || to->broken) return DRV_OK;
    if (set->rank == RANK_NONE) {
        to->broken =
                set->o->lines ? "is a sample without .json" : "is a sample without .txt or .json";
        return DRV_OK;
    }
    json_cursor c = {.p = set->value.p, .end = set->value.p + set->value.n};
    if (set->is_json && set->o->ids.taken && set->value.n && jc_peek(&c) == '[') {
        to->ids = true;
        to->broken = add_ids(&set->value, out);
        return DRV_OK;
    }
    to->json = set->is_json;
    str_add(out, set->value.p ? set->value.p : "", set->value.n);
    return DRV_OK;
}

static int64_t where(const void *state) {
    return byte_stream_where(((const webdataset *)state)->stream);
}

static void close_set(void *state) {
    webdataset *set = state;
    tar_members_close(set->tar);
    byte_stream_close(set->stream);
    str_free(&set->key);
    str_free(&set->value);
    str_free(&set->packed);
    free(set);
}

drv_status webdataset_open(const input_file *file, const reader_opts *opts, record_source *out) {
    static const record_source_ops ops = {next, where, close_set};
    webdataset *set = mem_alloc(sizeof *set);
    *set = (webdataset){.file = file, .o = opts};
    *out = (record_source){.ops = &ops, .state = set, .ids = IDS_TYPED};
    DRV_TRY(byte_stream_open(file, false, &set->stream));
    set->tar = tar_members_open(&(tar_input){file->name, read_stream, skip_stream, set->stream});
    return DRV_OK;
}
