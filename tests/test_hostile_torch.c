// Files of torch.save that lie: about the places of their storages, the sizes of their tensors, the
// entries of the zip file. Each ends in one line, in little memory.
// Legend: s bytes that are made, n a number of bytes.
#include "harness.h"

#include <unistd.h>

#include "pickle/torch_file.h"

// --- making files
static void put(str *s, uint64_t x, int bytes) {
    for (int i = 0; i < bytes; i++)
        str_add(s, &(char){(char)(i < 8 ? x >> 8 * i : 0)}, 1);
}

// An integer of 64 bits, as LONG1.
static void put_int(str *s, int64_t x) {
    str_add(s, "\x8a\x08", 2);
    put(s, (uint64_t)x, 8);
}

// Stored entries one after the other, and the directory.
typedef struct zip_builder {
    str data, directory;
    int n;
} zip_builder;

static void add_entry(zip_builder *zip, const char *name, const void *p, size_t n) {
    const size_t at = zip->data.n, n_name = strlen(name);
    str_puts(&zip->data, "PK\3\4");
    put(&zip->data, 0, 14);
    put(&zip->data, n, 4);
    put(&zip->data, n, 4);
    put(&zip->data, n_name, 4); // and no extra field
    str_puts(&zip->data, name);
    str_add(&zip->data, p, n);
    str_puts(&zip->directory, "PK\1\2");
    put(&zip->directory, 0, 16);
    put(&zip->directory, n, 4);
    put(&zip->directory, n, 4);
    put(&zip->directory, n_name, 2);
    put(&zip->directory, 0, 12);
    put(&zip->directory, at, 4);
    str_puts(&zip->directory, name);
    zip->n++;
}

// Returns all bytes; the caller frees them.
static str end_zip(zip_builder *zip) {
    str s = {0};
    str_add(&s, zip->data.p, zip->data.n);
    str_add(&s, zip->directory.p, zip->directory.n);
    str_puts(&s, "PK\5\6");
    put(&s, 0, 4);
    put(&s, (uint64_t)zip->n, 2);
    put(&s, (uint64_t)zip->n, 2);
    put(&s, zip->directory.n, 4);
    put(&s, zip->data.n, 4);
    put(&s, 0, 2);
    str_free(&zip->data);
    str_free(&zip->directory);
    return s;
}

static drv_status open_bytes(arena *a, const str *s, torch_file *f) {
    const file_part part = {.path = "x.pt",
            .fd = -1,
            .memory = (const unsigned char *)s->p,
            .size = (int64_t)s->n};
    return torch_open_part(a, &part, NULL, f);
}

// --- tensors
typedef struct view {
    int64_t elements, first, dim[2], stride[2];
    const char *storage;
} view;

static void put_tensor(str *s, const view *v) {
    str_puts(s, "ctorch._utils\n_rebuild_tensor_v2\n((X");
    put(s, 7, 4);
    str_printf(s, "storagectorch\n%s\nX", v->storage);
    put(s, 1, 4);
    str_puts(s, "0X");
    put(s, 3, 4);
    str_puts(s, "cpu");
    put_int(s, v->elements);
    str_puts(s, "tQ");
    put_int(s, v->first);
    for (int i = 0; i < 2; i++) {
        str_puts(s, "(");
        put_int(s, i ? v->stride[0] : v->dim[0]);
        put_int(s, i ? v->stride[1] : v->dim[1]);
        str_puts(s, "t");
    }
    str_puts(s, "\x89}tR.");
}

// A file with one tensor, and 24 bytes of storage "0".
static str file_of(const view *v) {
    str values = {0};
    zip_builder zip = {0};
    put_tensor(&values, v);
    add_entry(&zip, "a/data.pkl", values.p, values.n);
    add_entry(&zip, "a/data/0", "0123456789abcdefghijklmn", 24);
    str_free(&values);
    return end_zip(&zip);
}

TEST(tensors_beyond_their_storage) {
    const int64_t large = INT64_MAX;
    const struct {
        view v;
        const char *says; // NULL: it is good
    } cases[] = {{{6, 0, {2, 3}, {3, 1}, "FloatStorage"}, NULL},
            {{6, 0, {3, 2}, {1, 3}, "FloatStorage"}, NULL},
            {{6, 5, {1000, 1000}, {0, 0}, "FloatStorage"}, NULL},
            {{6, 9, {0, 3}, {3, 1}, "FloatStorage"}, NULL},
            {{6, 1, {2, 3}, {3, 1}, "FloatStorage"},
                    "reaches to element 6 of its storage, which has 6"},
            {{6, 0, {2, 3}, {4, 1}, "FloatStorage"}, "reaches to element 6"},
            {{7, 0, {2, 3}, {3, 1}, "FloatStorage"}, "storage \"0\" has 24 bytes, expected 28"},
            {{6, 0, {2, 3}, {3, 1}, "DoubleStorage"}, "storage \"0\" has 24 bytes, expected 48"},
            {{large / 64, 0, {2, 3}, {3, 1}, "ByteStorage"}, "storage \"0\" has 24 bytes"},
            {{large, 0, {2, 3}, {3, 1}, "FloatStorage"}, "without a number of elements"},
            {{-1, 0, {2, 3}, {3, 1}, "FloatStorage"}, "without a number of elements"},
            {{6, -1, {2, 3}, {3, 1}, "FloatStorage"}, "has a size, a stride or an offset"},
            {{6, 0, {-2, 3}, {3, 1}, "FloatStorage"}, "has a size, a stride or an offset"},
            {{6, 0, {2, 3}, {-3, 1}, "FloatStorage"}, "has a size, a stride or an offset"},
            {{6, 0, {1LL << 40, 1LL << 40}, {0, 0}, "FloatStorage"}, "has too many elements"},
            {{6, 0, {1LL << 40, 2}, {0, 1}, "FloatStorage"}, "repeats the elements of its storage"},
            {{6, 0, {1LL << 50, 2}, {1LL << 50, 1}, "FloatStorage"}, "reaches beyond its storage"},
            {{6, 0, {2, 3}, {3, 1}, "UntypedStorage"}, "names \"torch.UntypedStorage\""},
            {{6, 0, {2, 3}, {3, 1}, "float32"}, "storage of a type that is not read"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        torch_file f;
        str s = file_of(&cases[i].v);
        if (cases[i].says) {
            FAILS(open_bytes(a, &s, &f), DRV_E_DATA, cases[i].says);
        } else {
            OK(open_bytes(a, &s, &f));
            float *values = mem_alloc(4000000);
            OK(torch_read(&f, &f.tensors[0], 0, f.tensors[0].elements, values));
            free(values);
            torch_close(&f);
        }
        str_free(&s);
    }
}

// Lists that double, with a tensor at the end: 2^60 paths lead to it.
TEST(paths_without_end) {
    torch_file f;
    str values = {0};
    zip_builder zip = {0};
    str_add(&values, "(]q\0", 4);
    for (int k = 1; k < 60; k++)
        str_add(&values,
                (char[]){']', '(', 'h', (char)(k - 1), 'h', (char)(k - 1), 'e', 'q', (char)k}, 9);
    str_add(&values, "t0h\73.", 5);
    add_entry(&zip, "a/data.pkl", values.p, values.n);
    str s = end_zip(&zip);
    FAILS(open_bytes(a, &s, &f), DRV_E_DATA, "values to look at for tensors");
    str_free(&s);
    str_free(&values);
}

// --- the zip file. Each case changes bytes of a good file: those of a field of a record.
static const char *find(const str *s, const char *mark, int nth) {
    const char *p = s->p;
    for (;; p++) {
        p = memmem(p, s->n - (size_t)(p - s->p), mark, 4);
        if (!p) fail_msg("no record %s", mark + 2);
        if (nth-- == 0) return p;
    }
}

TEST(zip_files_that_lie) {
    static const char end[] = "PK\5\6", central[] = "PK\1\2", local[] = "PK\3\4";
    static const struct {
        const char *record;
        int nth, at, bytes;
        uint32_t value;
        const char *says;
    } cases[] = {{end, 0, 10, 2, 3, "has 3 entries in"}, {end, 0, 10, 2, 1, "is not in the file"},
            {end, 0, 10, 2, 60000, "has 60000 entries"}, {end, 0, 10, 2, 0xFFFF, "zip64 record"},
            {end, 0, 12, 4, 0x7FFFFFFF, "does not fit a file of"},
            {end, 0, 16, 4, 0x7FFFFFFF, "does not fit a file of"},
            {end, 0, 16, 4, 0xFFFFFFFF, "without its zip64 record"},
            {end, 0, 20, 2, 7, "without its directory: is it truncated?"},
            {central, 0, 0, 4, 0, "with a broken directory"},
            {central, 1, 8, 2, 1, "entry \"a/data/0\" of the zip file is encrypted"},
            {central, 1, 10, 2, 8, "entry \"a/data/0\" of the zip file is compressed"},
            {central, 1, 20, 4, 23, "is compressed, expected it stored"},
            {central, 1, 28, 2, 60000, "with a broken directory"},
            {central, 1, 30, 2, 60000, "with a broken directory"},
            {central, 1, 42, 4, 1, "another local header than the directory says"},
            {central, 1, 42, 4, 0x7FFFFFFF, "lies beyond the data of the file"},
            {local, 1, 26, 2, 7, "another local header"},
            {local, 1, 28, 2, 9, "but the data end at"},
            {central, 1, 46, 1, 'b', "another local header"}};
    const view good = {6, 0, {2, 3}, {3, 1}, "FloatStorage"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        torch_file f;
        str s = file_of(&good);
        memcpy(s.p + (find(&s, cases[i].record, cases[i].nth) - s.p) + cases[i].at, &cases[i].value,
                (size_t)cases[i].bytes);
        FAILS(open_bytes(a, &s, &f), DRV_E_DATA, cases[i].says);
        str_free(&s);
    }
}

// Two entries in the same bytes, the same name twice, an entry whose size reaches into the next one.
TEST(entries_that_overlap) {
    for (int i = 0; i < 3; i++) {
        torch_file f;
        zip_builder zip = {0};
        add_entry(&zip, "a/data.pkl", "N.", 2);
        add_entry(&zip, i == 1 ? "a/data.pkl" : "a/data/0", "0123", 4);
        add_entry(&zip, "a/data/1", "4567", 4);
        str s = end_zip(&zip);
        char *second = s.p + (find(&s, "PK\1\2", 1) - s.p),
             *third = s.p + (find(&s, "PK\1\2", 2) - s.p);
        if (i == 0) memcpy(third, second, 46 + 8); // the directory names it a second time
        if (i == 2) {
            const uint32_t size = 5;
            memcpy(second + 20, &size, 4);
            memcpy(second + 24, &size, 4);
        }
        FAILS(open_bytes(a, &s, &f), DRV_E_DATA,
                i == 1 ? "is there twice" : "overlaps another one");
        str_free(&s);
    }
}

// Sizes and places of 64 bits, in an extra field: what they claim is held against the file.
TEST(zip64_fields) {
    static const struct {
        uint64_t bytes, at;
        const char *says;
    } cases[] = {{4, 0, NULL}, {5, 0, "but the data end"}, {UINT64_MAX, 0, "but the data end"},
            {1ULL << 63, 0, "but the data end"}, {4, UINT64_MAX, "lies beyond the data"},
            {4, 1ULL << 63, "lies beyond the data"}, {4, 3, "another local header"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        file_part part = {.path = "x.pt", .fd = -1};
        zip_file found;
        zip_builder zip = {0};
        add_entry(&zip, "e", "0123", 4);
        char *sizes = zip.directory.p + 20;
        memset(sizes, 0xFF, 8);
        memset(zip.directory.p + 42, 0xFF, 4);
        zip.directory.p[30] = 28; // bytes of the extra field
        put(&zip.directory, 1, 2);
        put(&zip.directory, 24, 2);
        put(&zip.directory, cases[i].bytes, 8);
        put(&zip.directory, cases[i].bytes, 8);
        put(&zip.directory, cases[i].at, 8);
        str s = end_zip(&zip);
        part.memory = (const unsigned char *)s.p;
        part.size = (int64_t)s.n;
        if (cases[i].says)
            FAILS(zip_read(a, &part, &found), DRV_E_DATA, cases[i].says);
        else
            OK(zip_read(a, &part, &found));
        str_free(&s);
    }
}

TEST(other_contents) {
    static const struct {
        const char *name, *bytes, *says;
    } cases[] = {{"a/byteorder", "big", "its byte order is \"big\", expected \"little\""},
            {"a/byteorder", "a longer text", "expected \"little\""},
            {"a/constants.pkl", "N.", "is a program of torch.jit"}};
    torch_file f;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        zip_builder zip = {0};
        add_entry(&zip, "a/data.pkl", "N.", 2);
        add_entry(&zip, cases[i].name, cases[i].bytes, strlen(cases[i].bytes));
        str s = end_zip(&zip);
        FAILS(open_bytes(a, &s, &f), DRV_E_DATA, cases[i].says);
        str_free(&s);
    }
    zip_builder zip = {0};
    add_entry(&zip, "word/document.xml", "<xml>", 5);
    str s = end_zip(&zip), text = {0};
    FAILS(open_bytes(a, &s, &f), DRV_E_DATA, "so torch.save did not write it");
    str_puts(&text, "not a file of torch.save");
    FAILS(open_bytes(a, &text, &f), DRV_E_DATA, "is not a file of torch.save");
    str_free(&s);
    str_free(&text);
}

// --- files of torch that are cut, and changed
static void read_corpus(arena *a, const char *name, str *s) {
    char *bytes;
    size_t n;
    OK(file_read(a, path_join(a, TEST_DIR "/corpus/torch_file", name), &bytes, &n));
    str_add(s, bytes, n);
}

TEST(every_truncation) {
    static const char *const names[] = {"zip", "old"};
    for (int i = 0; i < 2; i++) {
        torch_file f;
        str s = {0};
        read_corpus(a, names[i], &s);
        OK(open_bytes(a, &s, &f));
        torch_close(&f);
        for (s.n--; s.n > 0; s.n--) {
            arena *b = arena_new("cut");
            if (open_bytes(b, &s, &f) != DRV_E_DATA) fail_msg("%s: %zu bytes", names[i], s.n);
            assert_null(strchr(drv_message(), '\n'));
            arena_free(b);
        }
        str_free(&s);
    }
}

TEST(the_older_form) {
    static const struct {
        const char *from, *to, *says;
        size_t n;
    } cases[] = {{"little_endianq\2\x88", "little_endianq\2\x89", "on a big-endian machine", 16},
            {"\6\0\0\0\0\0\0\0\0", "\7\0\0\0\0\0\0\0\0", "has 7 elements from byte", 9},
            {"\6\0\0\0\0\0\0\0\0", "\6\0\0\0\0\0\0\x80\0", "elements from byte", 9},
            {"ShortStorage", "FloatStorage", "elements from byte", 12}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        torch_file f;
        str s = {0};
        read_corpus(a, "old", &s);
        char *p = memmem(s.p, s.n, cases[i].from, cases[i].n);
        if (!p) fail_msg("the file has no %s", cases[i].from);
        memcpy(p, cases[i].to, cases[i].n);
        FAILS(open_bytes(a, &s, &f), DRV_E_DATA, cases[i].says);
        str_free(&s);
    }
}

// Files that others shorten while they are read, contiguous tensors or not.
TEST(a_file_that_becomes_shorter) {
    const view views[] = {{6, 0, {2, 3}, {3, 1}, "FloatStorage"},
            {6, 0, {3, 2}, {1, 3}, "FloatStorage"}};
    for (int i = 0; i < 2; i++) {
        const char *path = path_join(a, temporary_dir(a), "x.pt");
        torch_file f;
        float values[6];
        str s = file_of(&views[i]);
        OK(file_write_atomic(path, s.p, s.n));
        OK(torch_open(a, path, NULL, &f));
        OK(torch_read(&f, &f.tensors[0], 0, 6, values));
        assert_int_equal(truncate(path, 0), 0);
        assert_int_equal(torch_read(&f, &f.tensors[0], 0, 6, values), DRV_E_IO);
        torch_close(&f);
        str_free(&s);
    }
}
