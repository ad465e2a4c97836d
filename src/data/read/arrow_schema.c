// Walks the fields of a schema message and counts nodes and buffers, also for types that drover
// does not read.
#include "data/read/arrow_schema.h"

#include <string.h>

enum { MAX_FIELDS = 4096, MAX_DEPTH = 32 };

// Fields of the tables, in the order of Schema.fbs.
enum { SCHEMA_ENDIANNESS, SCHEMA_FIELDS };
enum { DICTIONARY_ID, DICTIONARY_INDEX_TYPE };
enum { FIELD_NAME, FIELD_NULLABLE, FIELD_TYPE_KIND, FIELD_TYPE, FIELD_DICTIONARY, FIELD_CHILDREN };

// The union Type of Schema.fbs: the number of buffers of a column of each type, without its
// children's.
typedef struct type_row {
    const char *name;
    arrow_type type;
    int width; // of offsets
    int buffers;
} type_row;
enum { KIND_UNION = 14, KIND_RUNS = 22 };
static const type_row types[] = {
        [1] = {"nulls", ARROW_NULL, 0, 0},
        [2] = {"integers", ARROW_INT, 0, 2},
        [3] = {"floats", ARROW_REAL, 0, 2},
        [4] = {"bytes", ARROW_TEXT, 4, 3},
        [5] = {"text", ARROW_TEXT, 4, 3},
        [6] = {"booleans", ARROW_BOOL, 0, 2},
        [7] = {"decimals", ARROW_OTHER, 0, 2},
        [8] = {"dates", ARROW_OTHER, 0, 2},
        [9] = {"times", ARROW_OTHER, 0, 2},
        [10] = {"timestamps", ARROW_OTHER, 0, 2},
        [11] = {"intervals", ARROW_OTHER, 0, 2},
        [12] = {"lists", ARROW_LIST, 4, 2},
        [13] = {"structs", ARROW_STRUCT, 0, 1},
        [KIND_UNION] = {"unions", ARROW_OTHER, 0, 1},
        [15] = {"fixed bytes", ARROW_OTHER, 0, 2},
        [16] = {"lists of one size", ARROW_FIXED_LIST, 0, 1},
        [17] = {"maps", ARROW_OTHER, 0, 2},
        [18] = {"durations", ARROW_OTHER, 0, 2},
        [19] = {"bytes", ARROW_TEXT, 8, 3},
        [20] = {"text", ARROW_TEXT, 8, 3},
        [21] = {"lists", ARROW_LIST, 8, 2},
        [KIND_RUNS] = {"runs", ARROW_OTHER, 0, 0},
        [23] = {"bytes", ARROW_TEXT, 0, 2},
        [24] = {"text", ARROW_TEXT, 0, 2},
        [25] = {"list views", ARROW_OTHER, 0, 3},
        [26] = {"list views", ARROW_OTHER, 0, 3},
};

typedef struct builder {
    arena *a;
    const char *path;
    flatbuffer *message;
    arrow_schema *out;
    bool has_version_4; // of the metadata, in which unions and runs have a buffer of nulls too
} builder;

static const char *copy_name(builder *self, size_t field) {
    const fb_vector text = fb_elements(self->message, field, FIELD_NAME, 1);
    char *name = arena_alloc(self->a, (size_t)text.n + 1);
    if (text.n) memcpy(name, self->message->p + text.at, (size_t)text.n);
    name[text.n] = 0;
    for (char *c = name; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7F) *c = '?';
    return name;
}

// Int of Schema.fbs. `bits`: the width if the file has none.
static drv_status read_int(builder *self, const arrow_field *of, size_t type, int64_t bits,
        int *width, bool *is_signed) {
    if (type) {
        bits = fb_int(self->message, type, 0, 4, 0);
        *is_signed = fb_int(self->message, type, 1, 1, 0) != 0;
    }
    *width = (int)(bits / 8);
    if (bits == 8 || bits == 16 || bits == 32 || bits == 64) return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "%s: column \"%s\" has integers of %lld bits, expected 8, 16, 32 or 64", self->path,
            of->name, (long long)bits);
}

// FloatingPoint of Schema.fbs. Those of half precision are not read.
static void read_real(builder *self, size_t type, arrow_field *out) {
    enum { SINGLE = 1, DOUBLE = 2 };
    const int64_t precision = type ? fb_int(self->message, type, 0, 2, 0) : 0;
    out->width = precision == DOUBLE ? sizeof(double) : sizeof(float);
    if (precision != SINGLE && precision != DOUBLE) out->type = ARROW_OTHER;
}

// Handles a column whose values are indices into a dictionary. Only dictionaries of text are read.
static drv_status read_dictionary(builder *self, size_t coding, arrow_field *out) {
    if (out->type != ARROW_TEXT || out->coding != ARROW_PLAIN) {
        out->type = ARROW_OTHER;
        out->words = "a dictionary";
        out->has_views = false;
        return DRV_OK;
    }
    out->coding = ARROW_DICTIONARY;
    out->dictionary = fb_int(self->message, coding, DICTIONARY_ID, 8, 0);
    out->index_signed = true;
    return read_int(self, out, fb_table(self->message, coding, DICTIONARY_INDEX_TYPE), 32,
            &out->index_width, &out->index_signed);
}

// Reads the type of a field: its row of `types`, and the details of its own table.
static drv_status read_type(builder *self, size_t field, arrow_field *out, int *n_buffers) {
    const int64_t kind = fb_int(self->message, field, FIELD_TYPE_KIND, 1, 0);
    const size_t type = fb_table(self->message, field, FIELD_TYPE);
    const size_t n_types = sizeof types / sizeof *types;
    if (kind < 1 || (size_t)kind >= n_types || !types[kind].name)
        return drv_fail(DRV_E_DATA, "%s: column \"%s\" is of Arrow type %lld, which is not read",
                self->path, out->name, (long long)kind);
    out->type = types[kind].type;
    out->words = types[kind].name;
    out->width = types[kind].width;
    *n_buffers = types[kind].buffers;
    if (kind == KIND_UNION) *n_buffers += fb_int(self->message, type, 0, 2, 0) != 0; // dense
    if (kind == KIND_UNION || kind == KIND_RUNS) *n_buffers += self->has_version_4;
    if (out->type == ARROW_TEXT && out->width == 0) {
        out->coding = ARROW_VIEWS;
        out->has_views = true;
    }
    if (out->type == ARROW_INT) DRV_TRY(read_int(self, out, type, 0, &out->width, &out->is_signed));
    if (out->type == ARROW_REAL) read_real(self, type, out);
    if (out->type == ARROW_FIXED_LIST) {
        out->list_size = fb_int(self->message, type, 0, 4, 0);
        if (out->list_size < 0)
            return drv_fail(DRV_E_DATA, "%s: column \"%s\" has lists of %lld elements", self->path,
                    out->name, (long long)out->list_size);
    }
    const size_t dictionary = fb_table(self->message, field, FIELD_DICTIONARY);
    if (!dictionary) return DRV_OK;
    *n_buffers = 2;
    return read_dictionary(self, dictionary, out);
}

static bool has_children(const arrow_field *f, int n, bool is_dictionary) {
    const bool is_list = f->type == ARROW_LIST || f->type == ARROW_FIXED_LIST;
    return is_dictionary || !is_list || n == 1;
}

static drv_status add_fields(builder *self, const fb_vector *list, int depth);

static drv_status add_field(builder *self, size_t field, int depth) {
    arrow_schema *out = self->out;
    int n_buffers = 0;
    if (out->n == MAX_FIELDS || depth == MAX_DEPTH)
        return drv_fail(DRV_E_DATA, "%s: its schema has more than %d columns or %d levels of them",
                self->path, MAX_FIELDS, MAX_DEPTH);
    const int i = out->n++;
    arrow_field *f = &out->fields[i];
    *f = (arrow_field){.name = copy_name(self, field),
            .node = out->n_nodes++,
            .buffer = out->n_buffers};
    DRV_TRY(read_type(self, field, f, &n_buffers));
    out->n_buffers += n_buffers;
    out->n_views += f->has_views;
    const bool is_dictionary = fb_table(self->message, field, FIELD_DICTIONARY) != 0;
    const fb_vector children = fb_elements(self->message, field, FIELD_CHILDREN, 4);
    if (!has_children(f, (int)children.n, is_dictionary))
        return drv_fail(DRV_E_DATA, "%s: column \"%s\" is a list of %lld columns, expected one",
                self->path, f->name, (long long)children.n);
    f->n_children = is_dictionary ? 0 : (int)children.n;
    if (!is_dictionary) DRV_TRY(add_fields(self, &children, depth + 1));
    f->n_fields = out->n - i;
    return DRV_OK;
}

static drv_status add_fields(builder *self, const fb_vector *list, int depth) {
    for (int64_t k = 0; k < list->n && !self->message->broken; k++)
        DRV_TRY(add_field(self, fb_table_of(self->message, list, k), depth));
    return DRV_OK;
}

drv_status arrow_read_schema(arena *a, const char *path, flatbuffer *message, size_t header,
        arrow_schema *out) {
    builder b = {.a = a,
            .path = path,
            .message = message,
            .out = out,
            .has_version_4 = fb_int(message, fb_root(message), 0, 2, 0) == 3};
    if (fb_int(message, header, SCHEMA_ENDIANNESS, 2, 0) != 0)
        return drv_fail(DRV_E_DATA, "%s: an Arrow file of numbers in big-endian order", path);
    const fb_vector columns = fb_elements(message, header, SCHEMA_FIELDS, 4);
    out->fields = ARENA_ARRAY(a, arrow_field, MAX_FIELDS);
    out->fields[0] = (arrow_field){.name = "", .type = ARROW_STRUCT, .node = -1, .buffer = -1};
    out->n = 1;
    out->n_nodes = out->n_buffers = out->n_views = 0;
    const drv_status status = add_fields(&b, &columns, 0);
    if (message->broken)
        return drv_fail(DRV_E_DATA, "%s: a broken Arrow schema: an offset leads out of it", path);
    out->fields[0].n_children = (int)columns.n;
    out->fields[0].n_fields = out->n;
    return status;
}

int arrow_find(const arrow_schema *schema, const char *name) {
    for (int i = 1; i < schema->n; i += schema->fields[i].n_fields)
        if (strcmp(schema->fields[i].name, name) == 0) return i;
    return -1;
}
