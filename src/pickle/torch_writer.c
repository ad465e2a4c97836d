// Writes the records of a zip in the order and with the padding that torch.save gives them.
#include "pickle/torch_writer.h"

#include <string.h>
#include <zlib.h>

#include "pickle/pickle_writer.h"

// The records of the zip format (APPNOTE.TXT 4.3), whose numbers are little-endian.
enum {
    LOCAL = 0x04034b50,
    CENTRAL = 0x02014b50,
    END = 0x06054b50,
    END64 = 0x06064b50,
    END64_LOCATOR = 0x07064b50,
    DESCRIPTOR = 0x08074b50,
    CRC_FOLLOWS = 1 << 3, // the CRC is in a descriptor after the data
    PADDING = 0x4246,     // torch's extra field, which brings data to a multiple of 64
    ALIGNMENT = 64,
};
static const uint64_t most = 0xFFFFFFFF; // what 32 bits cannot hold goes to fields of 64

static void put(str *out, uint64_t value, size_t bytes) {
    str_add(out, &value, bytes);
}

// Sizes and, in the directory, the place, where 32 bits do not do.
static void put_extra64(str *extra, uint64_t bytes, uint64_t at) {
    const bool large = bytes >= most, far = at >= most;
    if (!large && !far) return;
    put(extra, 1, 2);
    put(extra, (large ? 16U : 0U) + (far ? 8U : 0U), 2);
    if (large) put(extra, bytes, 8), put(extra, bytes, 8);
    if (far) put(extra, at, 8);
}

// The fields that a local header and the directory have in common, up to the length of the name.
static void put_common(str *out, uint16_t flags, uint32_t crc, uint64_t bytes, size_t n_name) {
    const uint64_t shown = bytes < most ? bytes : most;
    put(out, bytes < most ? 20 : 45, 2); // version needed
    put(out, flags, 2);
    put(out, 0, 2);          // stored
    put(out, 0x00210000, 4); // 1980-01-01
    put(out, crc, 4);
    put(out, shown, 4);
    put(out, shown, 4);
    put(out, n_name, 2);
}

static void put_local(torch_archive *t, str *out, const char *name, uint16_t flags, uint32_t crc,
        uint64_t bytes) {
    str extra = {0};
    const size_t before = out->n, n_name = strlen(name);
    put_extra64(&extra, bytes, 0);
    const uint64_t unpadded = t->at + 30 + n_name + extra.n + 4;
    const uint64_t padding = (ALIGNMENT - unpadded % ALIGNMENT) % ALIGNMENT;
    put(&extra, PADDING, 2);
    put(&extra, padding, 2);
    for (uint64_t i = 0; i < padding; i++)
        str_puts(&extra, "Z");
    put(out, LOCAL, 4);
    put_common(out, flags, crc, bytes, n_name);
    put(out, extra.n, 2);
    str_puts(out, name);
    str_add(out, extra.p, extra.n);
    str_free(&extra);
    t->at += out->n - before;
}

static void put_central(torch_archive *t, const char *name, uint16_t flags, uint32_t crc,
        uint64_t bytes, uint64_t at) {
    str extra = {0}, *out = &t->central;
    put_extra64(&extra, bytes, at);
    put(out, CENTRAL, 4);
    put(out, 0, 2); // version made by
    put_common(out, flags, crc, bytes, strlen(name));
    put(out, extra.n, 2);
    put(out, 0, 2); // comment
    put(out, 0, 4); // disk, internal attributes
    put(out, 0, 4); // external attributes
    put(out, at < most ? at : most, 4);
    str_puts(out, name);
    if (extra.n) str_add(out, extra.p, extra.n);
    str_free(&extra);
    t->n++;
}

static void put_record(torch_archive *t, str *out, const char *name, const void *p, size_t n) {
    const uint64_t at = t->at;
    const uint32_t crc = (uint32_t)crc32_z(0, p, n);
    put_local(t, out, name, 0, crc, n);
    str_add(out, p, n);
    t->at += n;
    put_central(t, name, 0, crc, n, at);
}

static void put_end(torch_archive *archive, str *out) {
    const uint64_t at = archive->at, n_central = archive->central.n;
    str_add(out, archive->central.p, n_central);
    if (at >= most) {
        put(out, END64, 4);
        put(out, 44, 8); // bytes that follow
        put(out, 45, 2); // version made by, version needed
        put(out, 45, 2);
        put(out, 0, 8); // disks
        put(out, (uint64_t)archive->n, 8);
        put(out, (uint64_t)archive->n, 8);
        put(out, n_central, 8);
        put(out, at, 8);
        put(out, END64_LOCATOR, 4);
        put(out, 0, 4);
        put(out, at + n_central, 8);
        put(out, 1, 4);
    }
    put(out, END, 4);
    put(out, 0, 4); // disks
    put(out, (uint64_t)archive->n, 2);
    put(out, (uint64_t)archive->n, 2);
    put(out, n_central, 4);
    put(out, at < most ? at : most, 4);
    put(out, 0, 2); // comment
    str_free(&archive->central);
}

// torch._utils._rebuild_tensor_v2(storage, 0, size, stride, False, OrderedDict())
static void put_tensor(str *out, const char *storage, const int64_t *dim, int n_dims,
        int64_t elements) {
    int64_t stride[8];
    for (int i = n_dims - 1; i >= 0; i--)
        stride[i] = i == n_dims - 1 ? 1 : stride[i + 1] * dim[i + 1];
    pickle_put_global(out, "torch._utils", "_rebuild_tensor_v2");
    pickle_put(out, PUT_MARK);
    pickle_put(out, PUT_MARK);
    pickle_put_text(out, "storage");
    pickle_put_global(out, "torch", storage);
    pickle_put_text(out, "0");
    pickle_put_text(out, "cpu");
    pickle_put_int(out, elements);
    pickle_put(out, PUT_TUPLE);
    pickle_put(out, PUT_PERSISTENT);
    pickle_put_int(out, 0);
    pickle_put_ints(out, dim, n_dims);
    pickle_put_ints(out, stride, n_dims);
    pickle_put(out, PUT_FALSE);
    pickle_put_global(out, "collections", "OrderedDict");
    pickle_put(out, PUT_EMPTY_TUPLE);
    pickle_put(out, PUT_REDUCE);
    pickle_put(out, PUT_TUPLE);
    pickle_put(out, PUT_REDUCE);
}

void torch_tensor_begin(torch_archive *t, str *out, const char *storage, const int64_t *dim,
        int n_dims, int64_t element_bytes) {
    str pickle = {0};
    int64_t elements = 1;
    for (int i = 0; i < n_dims; i++)
        elements *= dim[i];
    *t = (torch_archive){.data_bytes = (uint64_t)(elements * element_bytes)};
    pickle_begin(&pickle);
    put_tensor(&pickle, storage, dim, n_dims, elements);
    pickle_end(&pickle);
    put_record(t, out, "archive/data.pkl", pickle.p, pickle.n);
    put_record(t, out, "archive/byteorder", "little", 6);
    str_free(&pickle);
    t->data_at = t->at;
    put_local(t, out, "archive/data/0", CRC_FOLLOWS, 0, t->data_bytes);
    t->at += t->data_bytes;
}

void torch_tensor_data(torch_archive *t, const void *p, size_t n) {
    t->crc = (uint32_t)crc32_z(t->crc, p, n);
}

void torch_tensor_end(torch_archive *t, str *out) {
    const size_t before = out->n;
    put(out, DESCRIPTOR, 4);
    put(out, t->crc, 4);
    put(out, t->data_bytes, t->data_bytes < most ? 4 : 8);
    put(out, t->data_bytes, t->data_bytes < most ? 4 : 8);
    t->at += out->n - before;
    put_central(t, "archive/data/0", CRC_FOLLOWS, t->crc, t->data_bytes, t->data_at);
    put_record(t, out, "archive/version", "3\n", 2);
    put_end(t, out);
}

void torch_object(str *out, const str *pickle) {
    torch_archive t = {0};
    put_record(&t, out, "archive/data.pkl", pickle->p, pickle->n);
    put_record(&t, out, "archive/byteorder", "little", 6);
    put_record(&t, out, "archive/version", "3\n", 2);
    put_end(&t, out);
}
