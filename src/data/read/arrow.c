// Chooses the form in which the rows of an Arrow stream are read, and reads them.
#include "base/log.h"
#include "data/read/arrow_columns.h"
#include "data/read/json_row.h"
#include "data/read/record_source.h"

enum { NO_LABEL = -100 };   // of a token without a loss, in PyTorch and transformers
enum { MAX_ROW = 1 << 28 }; // bytes of JSON: lists of nulls or of empty structs take none in a file

// The kind of rows that a file gives. LABELLED_IDS: after the ids a byte for each, which says
// whether its label is itself, or else -100.
typedef enum arrow_gives {
    ARROW_GIVES_TEXT,
    ARROW_GIVES_JSON,
    ARROW_GIVES_IDS,
    ARROW_GIVES_LABELLED_IDS,
} arrow_gives;

typedef struct arrow_reader {
    arena *a;
    const char *path;
    arrow_stream *stream;
    const arrow_schema *schema;
    arrow_columns columns;
    arrow_gives gives;
    int text;              // field of the text
    int ids, labels, mask; // fields of lists; -1: none
    int64_t row, rows;     // of the current batch
    size_t row_at;         // offset at which the current row begins in the output
    json_row_notes notes;
} arrow_reader;

// --- which columns
static bool is_ids(const arrow_schema *schema, int field) {
    if (field < 0) return false;
    const arrow_type type = schema->fields[field].type;
    return (type == ARROW_LIST || type == ARROW_FIXED_LIST) &&
           schema->fields[field + 1].type == ARROW_INT;
}

static void want_all_below(arrow_reader *arrow, int field) {
    for (int i = field; i < field + arrow->schema->fields[field].n_fields; i++)
        arrow->columns.wanted[i] = true;
}

static void say_left_out(const arrow_reader *arrow, const char *column, const arrow_field *of) {
    const bool within = column != of->name;
    log_warn("%s: column \"%s\" is left out%s%s%s: %s are not read", arrow->path, of->name,
            within ? " of \"" : "", within ? column : "", within ? "\"" : "", of->words);
}

// Marks the fields of the subtree of `field`, which is `column` or lies in it, that are read. Sets
// *text if one of them has text. Returns whether any is read.
static bool want_values(arrow_reader *arrow, const char *column, int field, bool *text) {
    const arrow_field *of = &arrow->schema->fields[field];
    if (of->type == ARROW_OTHER) {
        say_left_out(arrow, column, of);
        return false;
    }
    bool any = of->n_children == 0;
    *text |= of->type == ARROW_TEXT;
    for (int k = field + 1; k < field + of->n_fields; k += arrow->schema->fields[k].n_fields)
        any |= want_values(arrow, column, k, text);
    return arrow->columns.wanted[field] = any;
}

static drv_status no_column(const arrow_reader *arrow, const char *expected) {
    enum { NAMED = 20 };
    const arrow_schema *schema = arrow->schema;
    str names = {0};
    int n = 0;
    for (int i = 1; i < schema->n; i += schema->fields[i].n_fields)
        if (n++ < NAMED)
            str_printf(&names, "%s\"%s\" (%s)", names.n ? ", " : "", schema->fields[i].name,
                    schema->fields[i].words);
    const drv_status status = drv_fail(DRV_E_DATA, "%s: no column %s; it has %s%s", arrow->path,
            expected, names.n ? names.p : "none", n > NAMED ? ", ..." : "");
    str_free(&names);
    return status;
}

static drv_status choose_ids(arrow_reader *arrow, int ids, bool labelled) {
    const arrow_schema *schema = arrow->schema;
    arrow->gives = labelled ? ARROW_GIVES_LABELLED_IDS : ARROW_GIVES_IDS;
    arrow->ids = ids;
    if (labelled) arrow->labels = arrow_find(schema, "labels");
    const int mask = arrow_find(schema, "attention_mask");
    if (is_ids(schema, mask)) {
        arrow->mask = mask;
        log_info("%s: tokens whose attention_mask is 0 are padding and left out", arrow->path);
    }
    const int lists[] = {arrow->ids, arrow->labels, arrow->mask};
    for (int i = 0; i < 3; i++)
        if (lists[i] >= 0) want_all_below(arrow, lists[i]);
    return DRV_OK;
}

static drv_status choose_text(arrow_reader *arrow, const reader_opts *opts) {
    const arrow_schema *schema = arrow->schema;
    const int column = arrow_find(schema, opts->key), ids = arrow_find(schema, "input_ids");
    if (column >= 0 && schema->fields[column].type == ARROW_TEXT) {
        arrow->gives = ARROW_GIVES_TEXT;
        arrow->text = column;
        arrow->columns.wanted[column] = true;
        if (opts->ids.taken && !opts->is_key_given && is_ids(schema, ids))
            log_info("%s: the text is encoded; --json-key input_ids takes the ids beside it",
                    arrow->path);
        return DRV_OK;
    }
    if (opts->ids.taken && is_ids(schema, column)) return choose_ids(arrow, column, false);
    if (opts->ids.taken && !opts->is_key_given && is_ids(schema, ids))
        return choose_ids(arrow, ids, false);
    char expected[256];
    snprintf(expected, sizeof expected, "\"%.100s\" of text%s", opts->key,
            opts->ids.taken ? ", nor \"input_ids\" of lists of integers" : "");
    return no_column(arrow, expected);
}

static drv_status choose_rows(arrow_reader *arrow, const reader_opts *opts) {
    const arrow_schema *schema = arrow->schema;
    const int ids = arrow_find(schema, "input_ids");
    if (opts->ids.taken && is_ids(schema, ids) && is_ids(schema, arrow_find(schema, "labels")))
        return choose_ids(arrow, ids, true);
    bool any = false;
    for (int i = 0; opts->fields[i]; i++) {
        const int field = arrow_find(schema, opts->fields[i]);
        if (field >= 0) want_values(arrow, schema->fields[field].name, field, &any);
    }
    arrow->gives = ARROW_GIVES_JSON;
    if (any) return DRV_OK;
    str expected = {0};
    str_puts(&expected, "of text by a name that is known (");
    for (int i = 0; opts->fields[i]; i++)
        str_printf(&expected, "%s%s", i ? ", " : "", opts->fields[i]);
    str_puts(&expected, "), nor \"input_ids\" and \"labels\" of lists of integers");
    const drv_status status = no_column(arrow, expected.p);
    str_free(&expected);
    return status;
}

// --- a row as JSON
static drv_status add_value(arrow_reader *arrow, int field, int64_t i, str *out);

static drv_status add_members(arrow_reader *arrow, int field, int64_t i, str *out) {
    const arrow_field *fields = arrow->schema->fields;
    json_members members;
    json_members_begin(&arrow->notes, &members, out);
    for (int k = field + 1; k < field + fields[field].n_fields; k += fields[k].n_fields) {
        if (!arrow->columns.wanted[k]) continue;
        json_members_name(&members, fields[k].name);
        DRV_TRY(add_value(arrow, k, i, out));
        json_members_added(&members);
    }
    json_members_end(&members);
    return DRV_OK;
}

static drv_status add_list(arrow_reader *arrow, int field, int64_t i, str *out) {
    int64_t begin, end;
    arrow_range(&arrow->columns, field, i, &begin, &end);
    str_puts(out, "[");
    for (int64_t k = begin; k < end; k++) {
        if (out->n - arrow->row_at > MAX_ROW)
            return drv_fail(DRV_E_DATA, "%s: a row of more than %d MiB", arrow->path,
                    MAX_ROW >> 20);
        if (k > begin) str_puts(out, ",");
        DRV_TRY(add_value(arrow, field + 1, k, out));
    }
    str_puts(out, "]");
    return DRV_OK;
}

static void add_number(const arrow_reader *arrow, int field, int64_t i, str *out) {
    const int64_t number = arrow_number(&arrow->columns, field, i);
    if (arrow->schema->fields[field].is_signed)
        str_printf(out, "%lld", (long long)number);
    else
        str_printf(out, "%llu", (unsigned long long)number);
}

static void add_text(const arrow_columns *columns, int field, int64_t i, str *out) {
    size_t n;
    const char *text = arrow_text(columns, field, i, &n);
    str_add_json(out, text, n);
}

static drv_status add_value(arrow_reader *arrow, int field, int64_t i, str *out) {
    const arrow_columns *columns = &arrow->columns;
    if (arrow_is_null(columns, field, i)) {
        str_puts(out, "null");
        return DRV_OK;
    }
    switch (arrow->schema->fields[field].type) {
    case ARROW_STRUCT:
        return add_members(arrow, field, i, out);
    case ARROW_LIST:
    case ARROW_FIXED_LIST:
        return add_list(arrow, field, i, out);
    case ARROW_TEXT:
        add_text(columns, field, i, out);
        return DRV_OK;
    case ARROW_BOOL:
        str_puts(out, arrow_bool(columns, field, i) ? "true" : "false");
        return DRV_OK;
    case ARROW_INT:
        add_number(arrow, field, i, out);
        return DRV_OK;
    case ARROW_REAL:
        str_add_json_real(out, arrow_real(columns, field, i));
        return DRV_OK;
    case ARROW_NULL:
    case ARROW_OTHER:
        break;
    }
    DRV_ASSERT(false, "a column that is not read");
    return DRV_OK;
}

// --- a row as ids
static const char *list_at(const arrow_reader *arrow, int field, int64_t i, int64_t *begin,
        int64_t *end) {
    if (arrow_is_null(&arrow->columns, field, i)) return "is null";
    arrow_range(&arrow->columns, field, i, begin, end);
    for (int64_t k = *begin; k < *end; k++)
        if (arrow_is_null(&arrow->columns, field + 1, k))
            return "has an id, label or mask that is null";
    return NULL;
}

// The lists of a row; n is the length of all of them.
typedef struct id_row {
    int64_t ids, labels, mask, n; // first elements
} id_row;

static const char *find_lists(const arrow_reader *arrow, int64_t i, id_row *out) {
    const int fields[] = {arrow->ids, arrow->labels, arrow->mask};
    int64_t *const begins[] = {&out->ids, &out->labels, &out->mask};
    for (int k = 0; k < 3; k++) {
        int64_t end;
        if (fields[k] < 0) continue;
        const char *why = list_at(arrow, fields[k], i, begins[k], &end);
        if (why) return why;
        const int64_t n = end - *begins[k];
        if (k == 0) out->n = n;
        if (n != out->n) return "has labels or a mask of another length than its ids";
    }
    return NULL;
}

static bool is_padding(const arrow_reader *arrow, const id_row *row, int64_t k) {
    return arrow->mask >= 0 && arrow_number(&arrow->columns, arrow->mask + 1, row->mask + k) == 0;
}

static const char *add_ids(const arrow_reader *arrow, int64_t i, str *out) {
    const size_t begin = out->n;
    id_row row = {0};
    const char *why = find_lists(arrow, i, &row);
    if (why) return why;
    for (int64_t k = 0; k < row.n; k++) {
        const int64_t id = arrow_number(&arrow->columns, arrow->ids + 1, row.ids + k);
        const int32_t narrow = (int32_t)id;
        if (narrow != id || id < 0) {
            out->n = begin;
            return "has an id below 0 or above 2147483647";
        }
        if (!is_padding(arrow, &row, k)) str_add(out, &narrow, sizeof narrow);
    }
    for (int64_t k = 0; arrow->labels >= 0 && k < row.n; k++) {
        const int64_t id = arrow_number(&arrow->columns, arrow->ids + 1, row.ids + k),
                      label = arrow_number(&arrow->columns, arrow->labels + 1, row.labels + k);
        if (is_padding(arrow, &row, k)) continue;
        if (label != NO_LABEL && label != id) {
            out->n = begin;
            return "has a label that is neither its id nor -100";
        }
        str_add(out, &(char){label != NO_LABEL}, 1);
    }
    return NULL;
}

// --- rows
static drv_status next(void *state, str *out, record *to, bool *done) {
    arrow_reader *arrow = state;
    bool row;
    to->json = arrow->gives == ARROW_GIVES_JSON;
    to->labels = arrow->gives == ARROW_GIVES_LABELLED_IDS;
    to->ids = to->labels || arrow->gives == ARROW_GIVES_IDS;
    to->broken = NULL;
    *done = false;
    while (arrow->row == arrow->rows) {
        arrow_batch batch;
        arrow->row = arrow->rows = 0;
        DRV_TRY(arrow_stream_next(arrow->stream, &batch, &row));
        *done = !row;
        if (*done) return DRV_OK;
        if (batch.is_dictionary) {
            DRV_TRY(arrow_columns_define(&arrow->columns, &batch));
            continue;
        }
        DRV_TRY(arrow_columns_load(&arrow->columns, batch.rows));
        arrow->rows = batch.rows;
    }
    const int64_t i = arrow->row++;
    if (arrow->gives == ARROW_GIVES_JSON) {
        arrow->notes.depth = 0;
        arrow->row_at = out->n;
        DRV_TRY(add_members(arrow, 0, i, out));
        to->nulls_cut = arrow->notes.nulls_cut;
        return DRV_OK;
    }
    if (arrow->gives != ARROW_GIVES_TEXT) {
        to->broken = add_ids(arrow, i, out);
        return DRV_OK;
    }
    if (arrow_is_null(&arrow->columns, arrow->text, i)) {
        to->broken = "is null";
        return DRV_OK;
    }
    size_t n;
    const char *text = arrow_text(&arrow->columns, arrow->text, i, &n);
    str_add(out, text, n);
    return DRV_OK;
}

static int64_t where(const void *state) {
    return arrow_stream_where(((const arrow_reader *)state)->stream);
}

static void close_reader(void *state) {
    arrow_reader *arrow = state;
    arrow_columns_free(&arrow->columns);
    arrow_stream_close(arrow->stream);
    arena_free(arrow->a);
}

drv_status arrow_open(const input_file *file, const reader_opts *opts, record_source *out) {
    static const record_source_ops ops = {next, where, close_reader};
    arena *a = arena_new("arrow");
    arrow_reader *arrow = ARENA_NEW(a, arrow_reader);
    *arrow = (arrow_reader){.a = a,
            .path = file->path,
            .text = -1,
            .ids = -1,
            .labels = -1,
            .mask = -1};
    *out = (record_source){.ops = &ops, .state = arrow};
    DRV_TRY(arrow_stream_open(a, file->path, &arrow->stream));
    arrow->schema = arrow_stream_schema(arrow->stream);
    arrow_columns_init(a, arrow->path, arrow->stream, &arrow->columns);
    DRV_TRY(opts->fields ? choose_rows(arrow, opts) : choose_text(arrow, opts));
    out->ids = arrow->ids >= 0 ? IDS_TYPED : IDS_NONE;
    out->labels = arrow->gives == ARROW_GIVES_LABELLED_IDS;
    return DRV_OK;
}
