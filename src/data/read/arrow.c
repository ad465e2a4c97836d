// Chooses the form in which the rows of an Arrow stream are read, and reads them.
#include "base/log.h"
#include "data/read/arrow_columns.h"
#include "data/read/id_row.h"
#include "data/read/json_row.h"
#include "data/read/record_source.h"

enum { MAX_ROW = 1 << 28 }; // bytes of JSON: lists of nulls or of empty structs take none in a file

typedef struct arrow_reader {
    arena *a;
    const char *path;
    arrow_stream *stream;
    const arrow_schema *schema;
    arrow_columns columns;
    row_form form;
    int text;               // field of the text
    int lists[N_ROW_LISTS]; // their fields
    id_row ids;
    int64_t row, rows; // of the current batch
    size_t row_at;     // offset at which the current row begins in the output
    json_row_notes notes;
} arrow_reader;

// --- which columns
static column_type type_of(const void *file, const char *name) {
    const arrow_schema *schema = ((const arrow_reader *)file)->schema;
    const int field = arrow_find(schema, name);
    if (field < 0) return COLUMN_NONE;
    const arrow_type type = schema->fields[field].type;
    if (type == ARROW_TEXT) return COLUMN_TEXT;
    if (type != ARROW_LIST && type != ARROW_FIXED_LIST) return COLUMN_OTHER;
    const arrow_type element = schema->fields[field + 1].type;
    return element == ARROW_INT ? COLUMN_IDS : element == ARROW_BOOL ? COLUMN_FLAGS : COLUMN_OTHER;
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
    const drv_status status = drv_fail(DRV_E_DATA, "%s: no %s; it has %s%s", arrow->path, expected,
            names.n ? names.p : "none", n > NAMED ? ", ..." : "");
    str_free(&names);
    return status;
}

static void choose_list(arrow_reader *arrow, row_list list, const char *name) {
    arrow->ids.has[list] = true;
    arrow->lists[list] = arrow_find(arrow->schema, name);
    want_all_below(arrow, arrow->lists[list]);
}

static drv_status choose_ids(arrow_reader *arrow, const char *ids) {
    bool has_mask;
    choose_list(arrow, ROW_IDS, ids);
    if (arrow->form == FORM_LABELLED_IDS) choose_list(arrow, ROW_LABELS, "labels");
    DRV_TRY(id_row_find_mask(arrow->path, type_of, arrow, &has_mask));
    if (has_mask) choose_list(arrow, ROW_MASK, "attention_mask");
    return DRV_OK;
}

static drv_status no_text(const arrow_reader *arrow, const reader_opts *opts) {
    char expected[256];
    snprintf(expected, sizeof expected, "column \"%.100s\" of text%s", opts->key,
            opts->ids.taken ? ", nor \"input_ids\" of lists of integers" : "");
    return no_column(arrow, expected);
}

static drv_status choose_rows(arrow_reader *arrow, const reader_opts *opts) {
    const arrow_schema *schema = arrow->schema;
    bool any = false;
    for (int i = 0; opts->fields[i]; i++) {
        const int field = arrow_find(schema, opts->fields[i]);
        if (field >= 0) want_values(arrow, schema->fields[field].name, field, &any);
    }
    if (any) return DRV_OK;
    str expected = {0};
    str_puts(&expected, "text column with a known name (");
    for (int i = 0; opts->fields[i]; i++)
        str_printf(&expected, "%s%s", i ? ", " : "", opts->fields[i]);
    str_puts(&expected, ")");
    if (opts->ids.taken)
        str_puts(&expected, ", nor lists of integers named \"input_ids\" and \"labels\"");
    const drv_status status = no_column(arrow, expected.p);
    str_free(&expected);
    return status;
}

static drv_status choose_columns(arrow_reader *arrow, const reader_opts *opts) {
    const char *ids;
    arrow->form = row_form_choose(arrow->path, opts, type_of, arrow, &ids);
    if (arrow->form == FORM_NONE) return no_text(arrow, opts);
    if (arrow->form == FORM_JSON) return choose_rows(arrow, opts);
    if (arrow->form != FORM_TEXT) return choose_ids(arrow, ids);
    arrow->text = arrow_find(arrow->schema, opts->key);
    arrow->columns.wanted[arrow->text] = true;
    return DRV_OK;
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
static const char *push_list(arrow_reader *arrow, row_list list, int64_t i) {
    const int field = arrow->lists[list];
    const bool flags = arrow->schema->fields[field + 1].type == ARROW_BOOL;
    int64_t begin, end;
    if (arrow_is_null(&arrow->columns, field, i)) return id_row_null_list;
    arrow_range(&arrow->columns, field, i, &begin, &end);
    for (int64_t k = begin; k < end; k++) {
        if (arrow_is_null(&arrow->columns, field + 1, k)) return id_row_null_element;
        id_row_push(&arrow->ids, list,
                flags ? arrow_bool(&arrow->columns, field + 1, k)
                      : arrow_number(&arrow->columns, field + 1, k));
    }
    return NULL;
}

static const char *add_ids(arrow_reader *arrow, int64_t i, str *out) {
    const char *why = NULL;
    id_row_clear(&arrow->ids);
    for (int list = 0; list < N_ROW_LISTS && !why; list++)
        if (arrow->ids.has[list]) why = push_list(arrow, (row_list)list, i);
    return why ? why : id_row_add(&arrow->ids, out);
}

// --- rows
static drv_status next(void *state, str *out, record *to, bool *done) {
    arrow_reader *arrow = state;
    bool row;
    to->json = arrow->form == FORM_JSON;
    to->labels = arrow->form == FORM_LABELLED_IDS;
    to->ids = arrow->ids.has[ROW_IDS];
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
    if (arrow->form == FORM_JSON) {
        arrow->notes.depth = 0;
        arrow->row_at = out->n;
        DRV_TRY(add_members(arrow, 0, i, out));
        to->nulls_cut = arrow->notes.nulls_cut;
        return DRV_OK;
    }
    if (arrow->form != FORM_TEXT) {
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
    id_row_free(&arrow->ids);
    arrow_columns_free(&arrow->columns);
    arrow_stream_close(arrow->stream);
    arena_free(arrow->a);
}

drv_status arrow_open(const input_file *file, const reader_opts *opts, record_source *out) {
    static const record_source_ops ops = {next, where, close_reader};
    arena *a = arena_new("arrow");
    arrow_reader *arrow = ARENA_NEW(a, arrow_reader);
    *arrow = (arrow_reader){.a = a, .path = file->path};
    *out = (record_source){.ops = &ops, .state = arrow};
    DRV_TRY(arrow_stream_open(a, file->path, &arrow->stream));
    arrow->schema = arrow_stream_schema(arrow->stream);
    arrow_columns_init(a, arrow->path, arrow->stream, &arrow->columns);
    DRV_TRY(choose_columns(arrow, opts));
    out->ids = arrow->ids.has[ROW_IDS] ? IDS_TYPED : IDS_NONE;
    out->labels = arrow->form == FORM_LABELLED_IDS;
    return DRV_OK;
}
