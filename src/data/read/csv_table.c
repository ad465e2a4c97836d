// Reads the header, and the chosen columns of the rows below it.
#include "data/read/csv_table.h"

#include <string.h>

struct csv_table {
    arena *a;
    char delimiter;
    int n_columns;
    const char **name; // [n_columns] NULL: the column is not read
    int column;        // the text's; -1: rows become objects
    csv_fields fields;
};

static bool is_listed(const char *const *names, const char *name) {
    for (; *names; names++)
        if (strcmp(*names, name) == 0) return true;
    return false;
}

// "id", "prompt", ...: the header's names.
static const char *names_of(arena *a, const csv_fields *header) {
    enum { MOST = 12 };
    const char *list = "";
    for (int i = 0; i < header->n && i < MOST; i++) {
        size_t n;
        const char *name = csv_field(header, i, &n);
        list = arena_printf(a, "%s%s\"%.*s\"", list, i ? ", " : "", n < 40 ? (int)n : 40, name);
    }
    return header->n > MOST ? arena_printf(a, "%s, ...", list) : list;
}

// Chooses the columns to read by the header, and returns how many there are.
static int choose(csv_table *t, const csv_fields *header, const char *column,
        const char *const *fields) {
    int taken = 0;
    for (int i = 0; i < header->n; i++) {
        size_t n;
        const char *bytes = csv_field(header, i, &n), *name = arena_strndup(t->a, bytes, n);
        if (column ? strcmp(name, column) != 0 : !is_listed(fields, name)) continue;
        t->name[i] = name;
        t->column = column ? i : -1;
        taken++;
    }
    return taken;
}

static drv_status check_taken(const csv_table *t, int taken, const char *file, const char *column) {
    const char *has = names_of(t->a, &t->fields);
    if (taken == 0 && column)
        return drv_fail(DRV_E_DATA,
                "%s: no column \"%.80s\" in its header row, which has %s; --text-column names the one with the text",
                file, column, has);
    if (taken == 0)
        return drv_fail(DRV_E_DATA,
                "%s: no column of a conversation in its header row, which has %s; expected prompt and response, instruction and output, or question and answer",
                file, has);
    for (int i = 0; i < t->n_columns; i++)
        for (int k = 0; t->name[i] && k < i; k++)
            if (t->name[k] && strcmp(t->name[i], t->name[k]) == 0)
                return drv_fail(DRV_E_DATA, "%s: its header row has two columns \"%.80s\"", file,
                        t->name[i]);
    return DRV_OK;
}

drv_status csv_table_open(const char *file, char delimiter, const char *header, size_t n_header,
        const char *column, const char *const *fields, csv_table **out) {
    arena *a = arena_new("csv");
    csv_table *t = ARENA_NEW(a, csv_table);
    *t = (csv_table){.a = a, .delimiter = delimiter, .column = -1};
    csv_fields_read(&t->fields, delimiter, header, n_header);
    t->n_columns = t->fields.n;
    t->name = ARENA_ARRAY(a, const char *, t->n_columns);
    const int taken = choose(t, &t->fields, column, fields);
    const drv_status status = check_taken(t, taken, file, column);
    if (status != DRV_OK)
        csv_table_close(t);
    else
        *out = t;
    return status;
}

static void add_object(const csv_table *from, str *out) {
    const char *between = "{";
    for (int i = 0; i < from->n_columns; i++) {
        if (!from->name[i]) continue;
        size_t n;
        const char *text = csv_field(&from->fields, i, &n);
        str_puts(out, between);
        str_add_json(out, from->name[i], strlen(from->name[i]));
        str_puts(out, ": ");
        str_add_json(out, text, n);
        between = ", ";
    }
    str_puts(out, "}");
}

const char *csv_table_take(csv_table *table, const char *row, size_t n_bytes, str *out) {
    csv_fields_read(&table->fields, table->delimiter, row, n_bytes);
    if (table->fields.n < table->n_columns) return "fewer fields than the header row has";
    if (table->fields.n > table->n_columns) return "more fields than the header row has";
    if (table->column < 0) {
        add_object(table, out);
        return NULL;
    }
    size_t n;
    const char *text = csv_field(&table->fields, table->column, &n);
    str_add(out, text, n);
    return NULL;
}

void csv_table_close(csv_table *table) {
    if (!table) return;
    csv_fields_free(&table->fields);
    arena_free(table->a);
}
