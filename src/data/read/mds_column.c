// Parses the encodings of columns ("str", "json", "bytes", "ndarray[:type[:shape]]", others are
// skipped), and decodes arrays.
#include "data/read/mds_column.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_COLUMNS = 4096, MAX_VALUES = 1 << 28 };

// Counts the values of a shape ("2,3": 6); false: it is not a shape.
static bool count_values(const char *shape, int64_t *n) {
    *n = 1;
    for (;;) {
        char *end;
        const long dim = strtol(shape, &end, 10);
        if (end == shape || dim < 1 || dim > MAX_VALUES / *n) return false;
        *n *= dim;
        if (!*end) return true;
        if (*end != ',') return false;
        shape = end + 1;
    }
}

static bool parse_array(const char *args, mds_column *column) {
    column->kind = MDS_ARRAY;
    if (!*args) return true;
    const size_t n = strcspn(++args, ":");
    column->has_type = true;
    if (!token_type_of(args, n, &column->type)) column->kind = MDS_OTHER; // of real numbers
    return !args[n] || count_values(args + n + 1, &column->n_values);
}

static bool parse_encoding(mds_column *column) {
    const char *encoding = column->encoding;
    column->kind = strcmp(encoding, "str") == 0     ? MDS_TEXT
                   : strcmp(encoding, "json") == 0  ? MDS_JSON
                   : strcmp(encoding, "bytes") == 0 ? MDS_BYTES
                                                    : MDS_OTHER;
    if (str_starts(encoding, "ndarray") && (encoding[7] == ':' || !encoding[7]))
        return parse_array(encoding + 7, column);
    return true;
}

static drv_status parse_column(arena *a, const char *file, size_t i, const json_t *name,
        const json_t *encoding, const json_t *size, mds_column *out) {
    const json_int_t fixed = json_integer_value(size);
    if (!json_is_string(name) || !json_is_string(encoding) || fixed < 0 || fixed > MAX_VALUES ||
            !(json_is_null(size) || json_is_integer(size)))
        return drv_fail(DRV_E_DATA,
                "%s: column %zu has no name, no encoding, or a size that is not a number of bytes",
                file, i);
    *out = (mds_column){.name = arena_strdup(a, json_string_value(name)),
            .encoding = arena_strdup(a, json_string_value(encoding)),
            .fixed = (uint32_t)fixed};
    if (!parse_encoding(out))
        return drv_fail(DRV_E_DATA,
                "%s: encoding of column \"%.60s\" is \"%.60s\", expected a shape at its end, as in ndarray:int32:2,3",
                file, out->name, out->encoding);
    return DRV_OK;
}

drv_status mds_columns_parse(arena *a, const char *file, const json_t *root, mds_column **out,
        int *n_columns) {
    const json_t *names = json_object_get(root, "column_names"),
                 *encodings = json_object_get(root, "column_encodings"),
                 *sizes = json_object_get(root, "column_sizes");
    int64_t version = 0;
    if (!json_is_object(root)) return drv_fail(DRV_E_DATA, "%s: not an MDS shard", file);
    DRV_TRY(json_get_i64(file, root, "version", &version));
    if (version != 2)
        return drv_fail(DRV_E_DATA, "%s: version is %lld, expected 2", file, (long long)version);
    const size_t count = json_array_size(names);
    if (count == 0 || count > MAX_COLUMNS || json_array_size(encodings) != count ||
            json_array_size(sizes) != count)
        return drv_fail(DRV_E_DATA,
                "%s: lists %zu names, %zu encodings and %zu sizes of columns, expected as many of each",
                file, count, json_array_size(encodings), json_array_size(sizes));
    *n_columns = (int)count;
    *out = ARENA_ARRAY(a, mds_column, count);
    for (size_t i = 0; i < count; i++)
        DRV_TRY(parse_column(a, file, i, json_array_get(names, i), json_array_get(encodings, i),
                json_array_get(sizes, i), &(*out)[i]));
    return DRV_OK;
}

bool mds_column_may_hold_ids(const mds_column *column) {
    return column->kind == MDS_ARRAY || column->kind == MDS_BYTES;
}

// --- a value
// Decodes the number by which a value names the type of an array: its bits, plus 1 if it is signed.
static bool type_of_code(unsigned char code, token_type *out) {
    *out = (token_type){code / 8, code % 2 == 1};
    return code == 8 || code == 9 || code == 16 || code == 17 || code == 32 || code == 33 ||
           code == 64 || code == 65;
}

// Skips the shape before the values. *n: the number of values of that shape.
static const char *read_shape(str_view *value, int64_t *n) {
    static const char none[] = "has an array without a shape";
    if (value->n < 1) return none;
    const unsigned char head = (unsigned char)*value->p;
    const size_t width = (size_t)1 << (head & 3), dims = head >> 2;
    if (dims == 0 || value->n - 1 < dims * width) return none;
    *n = 1;
    for (size_t i = 0; i < dims; i++) {
        uint64_t dim = 0;
        memcpy(&dim, value->p + 1 + i * width, width);
        if (dim < 1 || dim > (uint64_t)(MAX_VALUES / *n))
            return "has an array whose shape does not fit its values";
        *n *= (int64_t)dim;
    }
    value->p += 1 + dims * width;
    value->n -= 1 + dims * width;
    return NULL;
}

const char *mds_column_add_ids(const mds_column *column, str *out) {
    str_view value = column->value;
    token_type type = column->type;
    int64_t n = column->n_values, bad;
    if (column->kind == MDS_ARRAY) {
        if (!column->has_type) {
            if (value.n < 1 || !type_of_code((unsigned char)*value.p, &type))
                return "has an array that is not of integers";
            value.p++;
            value.n--;
        }
        const char *why = n ? NULL : read_shape(&value, &n);
        if (why) return why;
    } else {
        n = (int64_t)(value.n / (size_t)type.bytes);
    }
    if ((uint64_t)n * (uint64_t)type.bytes != value.n)
        return "has another number of bytes than its ids take";
    const size_t before = out->n;
    if (token_ids_add(type, value.p, n, out, &bad) == n) return NULL;
    out->n = before;
    return "has an id below 0 or above 2147483647";
}
