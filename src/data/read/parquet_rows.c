// Reads the text or the ids of a row, or assembles rows from columns as the Dremel paper does
// (doi.org/10.14778/1920841.1920886, record assembly): a definition level says how much of a path
// is there, a repetition level which list continues. All leaves below a node are walked side by
// side and must agree.
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "data/read/id_row.h"
#include "data/read/json_row.h"
#include "data/read/parquet_pages.h"
#include "data/read/record_source.h"

// Bytes of JSON, or of ids as they are held: a few bytes of a page can describe a very long list.
enum { MAX_ROW = 1 << 28 };

typedef struct row_leaf {
    parquet_column column;
    parquet_pages *pages; // NULL: it is not read
} row_leaf;

typedef struct parquet_rows {
    arena *a;
    parquet_file file;
    parquet_schema schema;
    row_leaf *leaves; // [schema.n] by node
    bool *wanted;     // [schema.n] it or a node below it is read
    row_form form;
    int lists[N_ROW_LISTS]; // the leaves of the ids, labels and mask
    id_row ids;
    int first;     // the first leaf that is read
    size_t row_at; // offset at which the current row begins in the output
    json_row_notes notes;
} parquet_rows;

// --- which columns
static bool is_field(const char *name, const char *const *fields) {
    while (*fields && strcmp(*fields, name) != 0)
        fields++;
    return *fields;
}

typedef struct chosen {
    const parquet_node *left_out; // a node that is not read; NULL: all are read
    bool text;                    // one of the nodes has text
} chosen;

// Marks the nodes of the subtree of node i that are read. Returns whether one of them is.
static bool choose(parquet_rows *rows, int i, chosen *all) {
    const parquet_node *node = &rows->schema.nodes[i];
    if (node->is_map || (node->leaf >= 0 && node->kind == PARQUET_UNREAD)) {
        all->left_out = node;
        return false;
    }
    rows->wanted[i] = node->leaf >= 0;
    all->text |= node->kind == PARQUET_TEXT;
    for (int k = i + 1; k < i + node->n_nodes; k += rows->schema.nodes[k].n_nodes)
        rows->wanted[i] |= choose(rows, k, all);
    return rows->wanted[i];
}

static void say_left_out(const parquet_rows *rows, const parquet_node *node) {
    str path = {0};
    parquet_add_path(&rows->schema, node, &path);
    log_warn("%s: column \"%s\" is left out: maps, decimals, dates, times and fixed-length byte arrays are not read",
            rows->file.path, path.p);
    str_free(&path);
}

static drv_status choose_rows(parquet_rows *rows, const reader_opts *opts) {
    const char *const *fields = opts->fields;
    chosen all = {0};
    const parquet_node *nodes = rows->schema.nodes;
    for (int i = 1; i < rows->schema.n; i += nodes[i].n_nodes) {
        if (!is_field(nodes[i].name, fields)) continue;
        all.left_out = NULL;
        choose(rows, i, &all);
        if (all.left_out) say_left_out(rows, all.left_out);
    }
    if (all.text) return DRV_OK;
    str expected = {0}, names = {0};
    for (int i = 0; fields[i]; i++)
        str_printf(&expected, "%s%s", i ? ", " : "", fields[i]);
    parquet_name_columns(&rows->schema, true, &names);
    const drv_status status = drv_fail(DRV_E_DATA,
            "%s: no text column with a known name (%s)%s; it has %s", rows->file.path,
            expected.p ? expected.p : "",
            opts->ids.taken ? ", nor lists of integers named \"input_ids\" and \"labels\"" : "",
            names.n ? names.p : "none");
    str_free(&expected);
    str_free(&names);
    return status;
}

static column_type type_of(const void *file, const char *name) {
    const parquet_node *leaf;
    const parquet_schema *schema = &((const parquet_rows *)file)->schema;
    if (parquet_find_text(schema, name)) return COLUMN_TEXT;
    if (!parquet_find_list(schema, name, &leaf)) return COLUMN_NONE;
    if (leaf && leaf->kind == PARQUET_BOOL) return COLUMN_FLAGS;
    return leaf && (leaf->kind == PARQUET_INT || leaf->kind == PARQUET_UINT) ? COLUMN_IDS
                                                                             : COLUMN_OTHER;
}

static void choose_list(parquet_rows *rows, row_list list, const char *name) {
    const parquet_node *leaf;
    parquet_find_list(&rows->schema, name, &leaf);
    rows->ids.has[list] = true;
    rows->lists[list] = (int)(leaf - rows->schema.nodes);
    rows->wanted[rows->lists[list]] = true;
}

static drv_status choose_columns(parquet_rows *rows, const reader_opts *opts) {
    const char *ids;
    bool has_mask;
    rows->form = row_form_choose(rows->file.path, opts, type_of, rows, &ids);
    if (rows->form == FORM_NONE)
        return parquet_no_text(&rows->file, &rows->schema, opts->key, opts->ids.taken);
    if (rows->form == FORM_JSON) return choose_rows(rows, opts);
    if (rows->form == FORM_TEXT) {
        rows->wanted[parquet_find_text(&rows->schema, opts->key) - rows->schema.nodes] = true;
        return DRV_OK;
    }
    choose_list(rows, ROW_IDS, ids);
    if (rows->form == FORM_LABELLED_IDS) choose_list(rows, ROW_LABELS, "labels");
    DRV_TRY(id_row_find_mask(rows->file.path, type_of, rows, &has_mask));
    if (has_mask) choose_list(rows, ROW_MASK, "attention_mask");
    return DRV_OK;
}

static drv_status open_leaves(parquet_rows *rows, const parquet_footer *footer) {
    rows->leaves = ARENA_ARRAY(rows->a, row_leaf, rows->schema.n);
    memset(rows->leaves, 0, sizeof *rows->leaves * (size_t)rows->schema.n);
    for (int i = 1; i < rows->schema.n; i++) {
        const parquet_node *node = &rows->schema.nodes[i];
        row_leaf *leaf = &rows->leaves[i];
        if (node->leaf < 0 || !rows->wanted[i]) continue;
        DRV_TRY(parquet_place_column(rows->a, &rows->file, footer, node, &leaf->column));
        leaf->pages = parquet_pages_new(&rows->file, &leaf->column);
    }
    return DRV_OK;
}

static drv_status open_all(parquet_rows *rows, const reader_opts *opts) {
    parquet_footer footer;
    DRV_TRY(parquet_read_footer(rows->a, &rows->file, &footer));
    rows->schema = footer.schema;
    rows->wanted = ARENA_ARRAY(rows->a, bool, rows->schema.n);
    memset(rows->wanted, 0, sizeof *rows->wanted * (size_t)rows->schema.n);
    DRV_TRY(choose_columns(rows, opts));
    return open_leaves(rows, &footer);
}

// --- a row
static drv_status disagree(const parquet_rows *rows, int i) {
    return drv_fail(DRV_E_DATA, "%s: the columns below \"%s\" do not agree on the rows",
            rows->file.path, rows->schema.nodes[i].name);
}

static drv_status too_long(const parquet_rows *rows) {
    return drv_fail(DRV_E_DATA, "%s: a row of more than %d MiB", rows->file.path, MAX_ROW >> 20);
}

// Reads the current entry of leaf i, which must exist and continue the list of this level.
static drv_status slot_of(const parquet_rows *rows, int i, int repetition, parquet_slot *slot) {
    bool there;
    DRV_TRY(parquet_pages_peek(rows->leaves[i].pages, slot, &there));
    return there && slot->repetition == repetition ? DRV_OK : disagree(rows, i);
}

// The first leaf of a wanted subtree.
static int first_leaf(const parquet_rows *rows, int i) {
    while (!rows->leaves[i].pages)
        i++;
    return i;
}

// Skips a missing value, which has one entry in each leaf.
static drv_status pass_missing(parquet_rows *rows, int i, int repetition) {
    parquet_slot slot;
    const parquet_node *node = &rows->schema.nodes[i];
    for (int k = i; k < i + node->n_nodes; k++) {
        if (!rows->leaves[k].pages) continue;
        DRV_TRY(slot_of(rows, k, repetition, &slot));
        if (slot.definition >= node->definition) return disagree(rows, k);
        parquet_pages_pass(rows->leaves[k].pages);
    }
    return DRV_OK;
}

static int64_t number_of(const parquet_node *node, const byte_array *value) {
    int64_t whole = 0;
    memcpy(&whole, value->p, value->n);
    return node->kind == PARQUET_INT && value->n == 4 ? (int32_t)whole : whole;
}

static void add_scalar(const parquet_node *node, const byte_array *value, str *out) {
    float single;
    double real;
    if (node->kind == PARQUET_TEXT) {
        str_add_json(out, (const char *)value->p, value->n);
    } else if (node->kind == PARQUET_REAL && value->n == sizeof single) {
        memcpy(&single, value->p, sizeof single);
        str_add_json_real(out, (double)single);
    } else if (node->kind == PARQUET_REAL) {
        memcpy(&real, value->p, sizeof real);
        str_add_json_real(out, real);
    } else if (node->kind == PARQUET_BOOL) {
        str_puts(out, number_of(node, value) ? "true" : "false");
    } else if (node->kind == PARQUET_UINT) {
        str_printf(out, "%llu", (unsigned long long)number_of(node, value));
    } else {
        str_printf(out, "%lld", (long long)number_of(node, value));
    }
}

static drv_status add_node(parquet_rows *rows, int i, int repetition, str *out);

// Appends the children of a group as an object.
static drv_status add_members(parquet_rows *rows, int i, int repetition, str *out) {
    const parquet_node *nodes = rows->schema.nodes;
    json_members members;
    json_members_begin(&rows->notes, &members, out);
    for (int k = i + 1; k < i + nodes[i].n_nodes; k += nodes[k].n_nodes) {
        if (!rows->wanted[k]) continue;
        json_members_name(&members, nodes[k].name);
        DRV_TRY(add_node(rows, k, repetition, out));
        json_members_added(&members);
    }
    json_members_end(&members);
    return DRV_OK;
}

// Appends one element of the list that the repeated node i is. The element is node i itself, or its
// only child if i is just the wrapper of a list.
static drv_status add_element(parquet_rows *rows, int i, int repetition, str *out) {
    const parquet_node *node = &rows->schema.nodes[i];
    parquet_slot slot;
    if (node->leaf >= 0) {
        DRV_TRY(slot_of(rows, i, repetition, &slot));
        if (!slot.present) return disagree(rows, i);
        add_scalar(node, &slot.value, out);
        parquet_pages_pass(rows->leaves[i].pages);
        return DRV_OK;
    }
    return parquet_is_list_wrapper(&rows->schema, node) ? add_node(rows, i + 1, repetition, out)
                                                        : add_members(rows, i, repetition, out);
}

static drv_status add_list(parquet_rows *rows, int i, int repetition, str *out) {
    const parquet_node *node = &rows->schema.nodes[i];
    const int first = first_leaf(rows, i);
    parquet_slot slot;
    bool there;
    DRV_TRY(slot_of(rows, first, repetition, &slot));
    if (slot.definition < node->definition) {
        str_puts(out, "[]");
        return pass_missing(rows, i, repetition);
    }
    const char *before = "[";
    for (int at = repetition;; at = node->repetition) {
        if (out->n - rows->row_at > MAX_ROW) return too_long(rows);
        str_puts(out, before);
        DRV_TRY(add_element(rows, i, at, out));
        DRV_TRY(parquet_pages_peek(rows->leaves[first].pages, &slot, &there));
        if (!there || slot.repetition != node->repetition) break;
        before = ",";
    }
    str_puts(out, "]");
    return DRV_OK;
}

// Appends the value of node i, whose first entries continue the list of level `repetition` (0: they
// begin a row).
static drv_status add_node(parquet_rows *rows, int i, int repetition, str *out) {
    const parquet_node *node = &rows->schema.nodes[i];
    parquet_slot slot;
    if (node->repeated) return add_list(rows, i, repetition, out);
    DRV_TRY(slot_of(rows, first_leaf(rows, i), repetition, &slot));
    if (slot.definition < node->definition) {
        str_puts(out, "null");
        return pass_missing(rows, i, repetition);
    }
    if (node->leaf < 0)
        return node->is_list && node->n_children == 1 ? add_node(rows, i + 1, repetition, out)
                                                      : add_members(rows, i, repetition, out);
    if (!slot.present) return disagree(rows, i);
    add_scalar(node, &slot.value, out);
    parquet_pages_pass(rows->leaves[i].pages);
    return DRV_OK;
}

// --- a row as ids
// Reads the list of the current row, and sets *why to what is wrong with it.
static drv_status push_list(parquet_rows *rows, row_list list, const char **why) {
    const int i = rows->lists[list];
    const parquet_node *leaf = &rows->schema.nodes[i],
                       *repeated = leaf->repeated ? leaf : &rows->schema.nodes[leaf->parent];
    parquet_pages *pages = rows->leaves[i].pages;
    parquet_slot slot;
    DRV_TRY(slot_of(rows, i, 0, &slot));
    const bool is_empty = slot.definition < repeated->definition;
    if (slot.definition + 1 < repeated->definition) *why = id_row_null_list;
    for (bool more = true; more;) {
        if (slot.present)
            id_row_push(&rows->ids, list, number_of(leaf, &slot.value));
        else if (!is_empty && !*why)
            *why = id_row_null_element;
        if (rows->ids.n[list] >= MAX_ROW / (int)sizeof(int64_t)) return too_long(rows);
        parquet_pages_pass(pages);
        DRV_TRY(parquet_pages_peek(pages, &slot, &more));
        more &= slot.repetition > 0;
        if (more && (is_empty || slot.definition < repeated->definition)) return disagree(rows, i);
    }
    return DRV_OK;
}

static drv_status add_ids(parquet_rows *rows, str *out, record *to) {
    id_row_clear(&rows->ids);
    to->ids = true;
    to->labels = rows->form == FORM_LABELLED_IDS;
    for (int list = 0; list < N_ROW_LISTS; list++)
        if (rows->ids.has[list]) DRV_TRY(push_list(rows, (row_list)list, &to->broken));
    if (!to->broken) to->broken = id_row_add(&rows->ids, out);
    return DRV_OK;
}

// --- rows
// Appends the text of the current row.
static drv_status add_text(parquet_rows *rows, str *out, record *to) {
    parquet_slot slot;
    DRV_TRY(slot_of(rows, rows->first, 0, &slot));
    if (slot.present)
        str_add(out, slot.value.p, slot.value.n);
    else
        to->broken = "is null";
    parquet_pages_pass(rows->leaves[rows->first].pages);
    return DRV_OK;
}

static drv_status add_json(parquet_rows *rows, str *out, record *to) {
    to->json = true;
    rows->row_at = out->n;
    rows->notes.depth = 0;
    DRV_TRY(add_members(rows, 0, 0, out));
    to->nulls_cut = rows->notes.nulls_cut;
    return DRV_OK;
}

static drv_status next(void *state, str *out, record *to, bool *done) {
    parquet_rows *rows = state;
    parquet_slot slot;
    bool row;
    DRV_TRY(parquet_pages_peek(rows->leaves[rows->first].pages, &slot, &row));
    *done = !row;
    to->broken = NULL;
    if (row && rows->form == FORM_TEXT) return add_text(rows, out, to);
    if (row) return rows->ids.has[ROW_IDS] ? add_ids(rows, out, to) : add_json(rows, out, to);
    for (int i = rows->first; i < rows->schema.n; i++) {
        bool more = false;
        if (rows->leaves[i].pages) DRV_TRY(parquet_pages_peek(rows->leaves[i].pages, &slot, &more));
        if (more) return disagree(rows, i);
    }
    return DRV_OK;
}

static int64_t where(const void *state) {
    const parquet_rows *rows = state;
    int64_t last = 0;
    for (int i = 0; i < rows->schema.n; i++) {
        if (!rows->leaves[i].pages) continue;
        const int64_t at = parquet_pages_where(rows->leaves[i].pages);
        last = at > last ? at : last;
    }
    return last;
}

static void close_rows(void *state) {
    parquet_rows *rows = state;
    close(rows->file.fd);
    id_row_free(&rows->ids);
    for (int i = 0; rows->leaves && i < rows->schema.n; i++)
        parquet_pages_free(rows->leaves[i].pages);
    arena_free(rows->a);
}

drv_status parquet_open(const input_file *file, const reader_opts *opts, record_source *out) {
    static const record_source_ops ops = {next, where, close_rows};
    arena *a = arena_new("parquet rows");
    parquet_rows *rows = ARENA_NEW(a, parquet_rows);
    *rows = (parquet_rows){.a = a, .file.path = file->path};
    *out = (record_source){.ops = &ops, .state = rows};
    DRV_TRY(file_open_regular(file->path, &rows->file.fd, &rows->file.size));
    DRV_TRY(open_all(rows, opts));
    rows->first = first_leaf(rows, 0);
    out->ids = rows->ids.has[ROW_IDS] ? IDS_TYPED : IDS_NONE;
    out->labels = rows->form == FORM_LABELLED_IDS;
    return DRV_OK;
}
