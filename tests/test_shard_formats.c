// Token ids and texts in the formats of other trainers (.bin, .npy, MDS, WebDataset) against what
// the packages that wrote them read back (tools/golden_shards.py); broken files.
#include "harness.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/json.h"
#include "base/log.h"
#include "data/read/reader.h"

static const char *const fields[] = {"prompt", "response", NULL};
static const reader_opts plain = {.ids.taken = true};

static const char *golden_file(arena *a, const char *name) {
    return arena_printf(a, "%s/%s", golden_path(a, "shards"), name);
}

// A document as Python has it: a text, or a list of ids.
static json_t *as_python(const str *bytes, const record *r, const reader_opts *opts) {
    const char *p = bytes->p ? bytes->p : "";
    if (r->json) {
        json_t *row = json_loadb(p, bytes->n, JSON_DECODE_ANY, NULL);
        if (!row) return json_null();
        if (opts->lines) return row;
        json_t *text = json_incref(json_object_get(row, opts->key ? opts->key : "text"));
        json_decref(row);
        return text ? text : json_null();
    }
    if (!r->ids) return json_stringn(p, bytes->n);
    json_t *ids = json_array();
    for (size_t i = 0; i < bytes->n / sizeof(int32_t); i++) {
        int32_t id;
        memcpy(&id, p + i * sizeof id, sizeof id);
        json_array_append_new(ids, json_integer(id));
    }
    return ids;
}

// Reads all documents of a file or folder; those that are broken come as null.
static drv_status documents_of(const char *path, const reader_opts *opts, json_t *out) {
    arena *a = arena_new("documents");
    reader *in = NULL;
    drv_status status = reader_open(a, &path, 1, opts, &in);
    str bytes = {0};
    reader_event event = READER_RECORD;
    while (status == DRV_OK && event != READER_END) {
        record r;
        const size_t before = bytes.n;
        status = reader_next(in, &bytes, &r, &event);
        if (status != DRV_OK || event != READER_RECORD) continue;
        assert_true(r.begins == (before == 0 && r.passed == 0));
        if (r.ids) assert_int_equal(r.passed, before / sizeof(int32_t));
        if (!r.ends) continue;
        json_array_append_new(out, r.broken ? json_null() : as_python(&bytes, &r, opts));
        str_clear(&bytes);
    }
    if (in) reader_close(in);
    str_free(&bytes);
    arena_free(a);
    return status;
}

static void compare(const char *file, const char *want_file, const reader_opts *opts) {
    arena *a = arena_new("rows");
    char *text;
    size_t n, i = 0;
    json_t *got = json_array();
    OK(file_read(a, golden_file(a, want_file), &text, &n));
    OK(documents_of(golden_file(a, file), opts, got));
    for (char *rest = text, *line; (line = strsep(&rest, "\n")) && *line; i++) {
        json_t *want = json_loads(line, JSON_DECODE_ANY, NULL);
        if (!json_equal(json_array_get(got, i), want))
            fail_msg("%s, document %zu: %s", file, i,
                    json_dumps(json_array_get(got, i), JSON_COMPACT | JSON_ENCODE_ANY));
        json_decref(want);
    }
    assert_int_equal(json_array_size(got), i);
    json_decref(got);
    arena_free(a);
}

TEST(bins_are_cut_before_a_token) {
    compare("gpt2.bin", "gpt2.jsonl",
            &(reader_opts){.ids = {.taken = true, .bin = {CUT_BEFORE, 50256}}});
    compare("llama3.bin", "llama3.jsonl",
            &(reader_opts){.ids = {.taken = true, .bin = {CUT_BEFORE, 128000}}});
}

TEST(arrays_are_cut_after_a_token) {
    static const char *const with_type[] = {"olmo_u16.npy", "numpy_u16.npy", "numpy_i64.npy",
            "numpy_v2.npy"};
    reader_opts opts = {.ids = {.taken = true, .n_vocab = 50280, .npy = {CUT_AFTER, 50279}}};
    for (int i = 0; i < 4; i++)
        compare(with_type[i], "olmo.jsonl", &opts);
    opts.ids.n_vocab = 100000; // so many need uint32
    compare("olmo_u32.npy", "olmo.jsonl", &opts);
    opts.ids.n_vocab = 50280;
    opts.ids.type = (token_type){4, false};
    compare("olmo_u32.npy", "olmo.jsonl", &opts);
}

TEST(samples_of_mosaic) {
    static const char *const names[] = {"mds_i32", "mds_any", "mds_shape", "mds_bytes", "mds_text",
            "mds_zstd", "mds_gz"};
    for (int i = 0; i < 7; i++)
        compare(names[i], arena_printf(a, "%s.jsonl", names[i]), &plain);
    compare("mds_text/shard.00000.mds", "mds_first.jsonl", &plain);
    compare("mds_chat", "mds_chat.jsonl", &(reader_opts){.lines = true, .fields = fields});
}

TEST(samples_of_webdataset) {
    static const char *const names[] = {"wds_txt", "wds_json", "wds_json_gz", "wds_ids", "wds_gnu",
            "wds_pax", "wds_ustar"};
    for (int i = 0; i < 7; i++)
        compare(arena_printf(a, "%s.tar", names[i]), arena_printf(a, "%s.jsonl", names[i]), &plain);
    compare("wds_packed.tar.gz", "wds_packed.jsonl", &plain);
}

// Whether a shard heeds an option about ids is in its content: it has texts, ids, or ids whose type
// it does not name.
TEST(options_that_no_content_heeds) {
    static const struct {
        const char *file;
        bool type, cut; // heeds --token-type; --cut-before
    } cases[] = {{"mds_text", false, false}, {"mds_zstd", false, false}, {"mds_i32", false, true},
            {"mds_any", false, true}, {"mds_bytes", true, true}, {"numpy_u16.npy", false, true},
            {"olmo_u16.npy", true, true}, {"wds_ids.tar", false, true},
            {"../arrow/ids_i32.arrow", false, true}, {"../arrow/text_plain.arrow", false, false}};
    const reader_opts type = {.ids = {.taken = true, .type = {2, false}}},
                      cut = {.ids = {.taken = true, .rows = {CUT_BEFORE, 1}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int option = 0; option < 2; option++) {
            const char *path = golden_file(a, cases[i].file);
            reader *in;
            const drv_status status = reader_open(a, &path, 1, option ? &cut : &type, &in);
            if (option ? cases[i].cut : cases[i].type) {
                OK(status);
                reader_close(in);
                continue;
            }
            FAILS(status, DRV_E_USAGE, option ? "--cut-before has no" : "--token-type has no");
        }
}

// Rows of ids are one stream when a token is named that cuts them; documents go over rows.
TEST(rows_are_joined_and_cut) {
    json_t *rows = json_array(), *cut = json_array(), *one;
    const char *path = golden_file(a, "mds_i32");
    OK(documents_of(path, &plain, rows));
    const json_t *middle = json_array_get(rows, 2);
    const json_int_t token =
            json_integer_value(json_array_get(middle, json_array_size(middle) / 2));
    log_to_file_only(true);
    OK(documents_of(path,
            &(reader_opts){.ids = {.taken = true, .rows = {CUT_AFTER, (int32_t)token}}}, cut));
    log_to_file_only(false);
    size_t i, n_cut = 0, n_rows = 0, longest = 0;
    json_array_foreach(rows, i, one) n_rows += json_array_size(one);
    json_array_foreach(cut, i, one) {
        const size_t n = json_array_size(one);
        for (size_t k = 0; k + 1 < n; k++)
            assert_true(json_integer_value(json_array_get(one, k)) != token);
        n_cut += n;
        longest = n > longest ? n : longest;
    }
    assert_int_equal(n_cut, n_rows);
    assert_true(longest > 300); // than any row
    json_decref(rows);
    json_decref(cut);
}

// --- refusals
static const char *write_file(arena *a, const char *name, const void *p, size_t n) {
    const char *path = path_join(a, temporary_dir(a), name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(p, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
    return path;
}

static void refused(const char *path, const reader_opts *opts, const char *why) {
    json_t *got = json_array();
    FAILS(documents_of(path, opts, got), DRV_E_DATA, why);
    assert_non_null(strstr(drv_message(), path));
    json_decref(got);
}

TEST(headers_of_bins) {
    int32_t header[256 + 1] = {20240520, 1, 2};
    const size_t n = sizeof header;
    refused(write_file(a, "a.bin", header, 3), &plain, "3 bytes long, expected a header of 1024");
    refused(write_file(a, "a.bin", header, 1000), &plain, "cut short at byte 1000");
    refused(write_file(a, "a.bin", header, n - 1), &plain,
            "1027 bytes long, which is 1 tokens of 2 bytes, but its header says 2");
    header[2] = 3;
    refused(write_file(a, "a.bin", header, n), &plain,
            "2 tokens of 2 bytes, but its header says 3");
    header[2] = -1;
    refused(write_file(a, "a.bin", header, n), &plain, "says -1 tokens");
    header[1] = 7;
    refused(write_file(a, "a.bin", header, n), &plain, "version is 7, expected 1");
    header[0] = (int32_t)__builtin_bswap32(20240520);
    refused(write_file(a, "a.bin", header, n), &plain, "big-endian");
    header[0] = 20240522;
    refused(write_file(a, "a.bin", header, n), &plain, "examples of an evaluation");
    header[0] = 7;
    refused(write_file(a, "a.bin", header, n), &plain, "begins with 7, expected 20240520");
    refused(golden_file(a, "gpt2.bin"), &(reader_opts){0}, "token ids, expected text");
}

TEST(headers_of_arrays) {
    static const struct {
        const char *dict, *why;
    } cases[] = {{"{'descr': '>u2', 'fortran_order': False, 'shape': (2,), }", "big-endian"},
            {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }",
                    "type '<f4', expected integers"},
            {"{'descr': '<u2', 'fortran_order': False, 'shape': (1, 2), }",
                    "array is (1, 2), expected one axis"},
            {"{'descr': '<u2', 'fortran_order': False, 'shape': (3,), }", "its header says 3"},
            {"{'descr': [('a', '<u2')], 'shape': (2,)}", "one array of numbers"},
            {"{}", "one array of numbers"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char bytes[256] = "\x93NUMPY\1\0";
        const size_t n = strlen(cases[i].dict);
        bytes[8] = (char)n;
        memcpy(bytes + 10, cases[i].dict, n);
        memcpy(bytes + 10 + n, "abcd", 4);
        refused(write_file(a, "a.npy", bytes, 14 + n), &plain, cases[i].why);
    }
    refused(write_file(a, "a.npy", "\x93NUMPY\4\0\0\0", 10), &plain, "version of NumPy's format");
    refused(write_file(a, "a.npy", "\x93NUMPY\1\0\xFF\0abc", 13), &plain,
            "cut short within its header");
    refused(write_file(a, "a.npy", "abc", 3), &plain, "3 bytes long, which are no whole tokens");
    refused(golden_file(a, "olmo_u32.npy"), &plain, "as uint16 every second token is 0");
    const int64_t negative[] = {5, -1};
    refused(write_file(a, "a.npy", negative, 16),
            &(reader_opts){.ids = {.taken = true, .type = {8, true}}}, "token 1 is -1");
}

// Replaces `from` in the index of a copy of a golden folder by `to`.
static const char *folder_with(arena *a, const char *name, const char *shard, const char *from,
        const char *to) {
    const char *folder = temporary_dir(a);
    char *bytes;
    size_t n;
    OK(file_read(a, golden_file(a, arena_printf(a, "%s/%s", name, shard)), &bytes, &n));
    OK(file_write_atomic(path_join(a, folder, shard), bytes, n));
    OK(file_read(a, golden_file(a, arena_printf(a, "%s/index.json", name)), &bytes, &n));
    str index = {0};
    str_replace(&index, bytes, n, from, to);
    assert_true(index.n != n || memcmp(index.p, bytes, n) != 0);
    OK(file_write_atomic(path_join(a, folder, "index.json"), index.p, index.n));
    str_free(&index);
    return folder;
}

static const char *folder_of(arena *a, const char *file) {
    return arena_strndup(a, file, (size_t)(strrchr(file, '/') - file));
}

TEST(indexes_of_mosaic) {
    static const struct {
        const char *from, *to, *why;
    } cases[] = {{"\"samples\": 9", "\"samples\": 8", "has 9 samples, expected 8"},
            {"\"version\": 2, \"zip", "\"version\": 1, \"zip",
                    "version of shard 0 is 1, expected 2"},
            {"\"mds\"", "\"csv\"", "format of shard 0 is \"csv\""},
            {"shard.00000.mds.zstd", "../shard.00000.mds.zstd", "expected a file of this folder"},
            {"shard.00000.mds.zstd", "/etc/passwd", "expected a file of this folder"},
            {"shard.00000.mds.zstd", "shard.00001.mds.zstd", "names shard 0, which is not there"},
            {"\"bytes\": ", "\"bytes\": 1", "as index.json says"},
            {"\"bytes\": ", "\"bytes\": -", "expected a file of this folder and its size"},
            {"\"shards\": [", "\"shards\": {}, \"other\": [", "no list \"shards\""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused(folder_with(a, "mds_shape", "shard.00000.mds.zstd", cases[i].from, cases[i].to),
                &plain, cases[i].why);
    static const char empty[] = "{\"version\": 2, \"shards\": []}";
    refused(folder_of(a, write_file(a, "index.json", empty, sizeof empty - 1)), &plain,
            "index.json: the list \"shards\" is empty, expected the shards (.mds)");
    refused(folder_of(a, write_file(a, "shard.00000.mds.zstd", "", 0)),
            &(reader_opts){.inputs.others = "--ending"},
            "it has 1 .mds.zstd without the index.json that lists them: a pattern");
    // The size when unpacked is that of the index: a packed shard that says another one is a trap.
    char *bytes;
    size_t n;
    OK(file_read(a, golden_file(a, "mds_shape/index.json"), &bytes, &n));
    const char *raw = strstr(strstr(bytes, "raw_data"), "\"bytes\": ");
    const char *end = strchr(raw, ',');
    char old[32];
    snprintf(old, sizeof old, "%.*s", (int)(end - raw), raw);
    refused(folder_with(a, "mds_shape", "shard.00000.mds.zstd", old, "\"bytes\": 99"), &plain,
            "by its offsets, expected 99, as index.json says");
    refused(golden_file(a, "mds_text"), &(reader_opts){.key = "body", .ids.taken = true},
            "no column \"body\" of text or of token ids; it has \"id\" (str), \"text\" (str)");
    refused(golden_file(a, "mds_i32"), &(reader_opts){0}, "no column \"text\" of text; it has");
}

static uint32_t *u32s(arena *a, const char *name, size_t *n) {
    char *bytes;
    OK(file_read(a, golden_file(a, name), &bytes, n));
    return (uint32_t *)(void *)bytes;
}

// Counts and offsets that lie, as they are and packed, where no size of a file warns.
TEST(shards_that_lie) {
    size_t n_bytes;
    uint32_t *shard = u32s(a, "mds_text/shard.00000.mds", &n_bytes);
    const uint32_t n_samples = shard[0], first = shard[1], second = shard[2];
    shard[0] = UINT32_MAX;
    refused(write_file(a, "a.mds", shard, n_bytes), &plain,
            "its header has 4294967295 samples, expected at most");
    shard[0] = 1 << 20;
    refused(write_file(a, "a.mds", shard, n_bytes), &plain,
            "cut short within the offsets of its samples");
    shard[0] = n_samples;
    shard[2] = first - 1;
    refused(write_file(a, "a.mds", shard, n_bytes), &plain, "offset 1 is");
    shard[2] = second + 1;
    refused(write_file(a, "a.mds", shard, n_bytes), &plain,
            "sample 0: the sizes of its columns are less");
    shard[2] = second;
    refused(write_file(a, "a.mds", shard, n_bytes - 1), &plain, "but ends at byte");
    const char *path = write_file(a, "a.mds", shard, n_bytes);
    const char *packed = arena_printf(a, "%s.gz", path);
    gzFile z = gzopen(packed, "wb");
    assert_non_null(z);
    assert_int_equal(gzwrite(z, shard, (unsigned)n_bytes), n_bytes);
    assert_int_equal(gzwrite(z, "x", 1), 1);
    assert_int_equal(gzclose(z), Z_OK);
    refused(packed, &plain, "the end of its last sample");
}

static unsigned tar_sum(const char *header) {
    unsigned sum = 8 * ' ';
    for (int i = 0; i < 512; i++)
        sum += i >= 148 && i < 156 ? 0 : (unsigned char)header[i];
    return sum;
}

TEST(odd_archives) {
    char *tar;
    size_t n;
    OK(file_read(a, golden_file(a, "wds_txt.tar"), &tar, &n));
    refused(write_file(a, "a.tar", tar, 700), &plain, "member 1 of the tar archive: is cut short");
    refused(write_file(a, "a.tar", tar, 100), &plain, "cut short within its header");
    refused(write_file(a, "a.tar", "", 0), &plain, "member 1 of the tar archive");
    tar[0] ^= 1;
    refused(write_file(a, "a.tar", tar, n), &plain, "does not fit its checksum");
    tar[0] ^= 1;
    char *sum = tar + 148;
    memcpy(tar + 124, "77777777777", 11); // of 8 GiB
    snprintf(sum, 7, "%06o", tar_sum(tar));
    refused(write_file(a, "a.tar", tar, n), &plain, "member 1 of the tar archive: is cut short");
    tar[156] = 'S';
    snprintf(sum, 7, "%06o", tar_sum(tar));
    refused(write_file(a, "a.tar", tar, n), &plain, "is sparse");
}

// Any file cut short or with wrong bytes is refused by its name or read, never more. What has its
// counts in front is refused at every length.
TEST(broken) {
    static const struct {
        const char *name;
        bool counts;
    } files[] = {{"gpt2.bin", true}, {"numpy_u16.npy", false}, {"mds_any/shard.00000.mds", true},
            {"mds_zstd/shard.00001.mds.zstd", true}, {"wds_ids.tar", false}, {"wds_pax.tar", false},
            {"wds_packed.tar.gz", false}};
    const char *folder = temporary_dir(a);
    log_to_file_only(true);
    for (int file = 0; file < 7; file++) {
        char *good;
        size_t n;
        OK(file_read(a, golden_file(a, files[file].name), &good, &n));
        const char *path =
                path_join(a, folder, strrchr(arena_printf(a, "/%s", files[file].name), '/') + 1);
        char *bytes = arena_alloc(a, n);
        for (size_t i = 0; i<2 * n; i += n> 4000 ? 97 : 7) {
            json_t *got = json_array();
            memcpy(bytes, good, n);
            if (i < n) bytes[i] = (char)(bytes[i] + 1 + (char)(i % 251));
            const size_t kept = i < n ? n : i - n;
            FILE *to = fopen(path, "w");
            assert_int_equal(fwrite(bytes, 1, kept, to), kept);
            assert_int_equal(fclose(to), 0);
            const drv_status status = documents_of(path, &plain, got);
            if (status != DRV_OK) assert_non_null(strstr(drv_message(), path));
            if (files[file].counts && kept < n) assert_int_not_equal(status, DRV_OK);
            json_decref(got);
        }
    }
    log_to_file_only(false);
}
