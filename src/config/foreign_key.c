// Looks names up in the list of other trainers' keys, and prints it.
#include "config/foreign_key.h"

#include <string.h>

#include "config/foreign_tables.h"

static const struct {
    const char *title;
    const foreign_key *rows;
} tables[] = {
        {"Keys of other trainers", foreign_peers},
        {"NxD Training and neuronx-nemo-megatron", foreign_nxdt},
        {"Flags of transformers, Optimum Neuron, TRL and NxD's scripts", foreign_args},
        {"Axolotl", foreign_axolotl},
        {"Variables and options of scripts", foreign_scripts},
        {"Launchers", foreign_launchers},
};
enum { N_TABLES = sizeof tables / sizeof *tables };

// The next of the words at *p; false: there is none. It is *n bytes long.
static bool next_word(const char **p, const char **word, size_t *n) {
    *word = *p + strspn(*p, " ");
    *n = strcspn(*word, " ");
    *p = *word + *n;
    return *n > 0;
}

// Returns whether one of the words is `name`, or begins it and ends in "*".
static bool has_name(const char *names, const char *name) {
    const char *word;
    size_t n;
    while (next_word(&names, &word, &n)) {
        if (word[n - 1] == '*' && strncmp(word, name, n - 1) == 0) return true;
        if (strncmp(word, name, n) == 0 && name[n] == 0) return true;
    }
    return false;
}

const foreign_key *foreign_find(unsigned kinds, const char *name) {
    for (int t = 0; t < N_TABLES; t++)
        for (const foreign_key *row = tables[t].rows; row->names; row++)
            if ((row->kinds & kinds) && has_name(row->names, name)) return row;
    return NULL;
}

// The names of rows of these kinds (0: those of the first table) into `out`, unless it is NULL.
static int names_of(arena *a, unsigned kinds, const char **out) {
    int n_names = 0;
    for (int t = 0; t < (kinds ? N_TABLES : 1); t++)
        for (const foreign_key *row = tables[t].rows; row->names; row++) {
            const char *p = row->names, *word;
            size_t n;
            if (kinds && !(row->kinds & kinds)) continue;
            while (next_word(&p, &word, &n)) {
                if (out) out[n_names] = arena_strndup(a, word, n);
                n_names++;
            }
        }
    return n_names;
}

int foreign_names(arena *a, const char **out) {
    return names_of(a, 0, out);
}

const char *foreign_nearest(arena *a, unsigned kinds, const char *name) {
    const int n = names_of(a, kinds, NULL);
    const char **names = ARENA_ARRAY(a, const char *, n);
    names_of(a, kinds, names);
    return str_nearest(name, names, n);
}

static const char *hint_of(arena *a, const foreign_key *row) {
    if (!row->ours) return row->remark;
    return arena_printf(a, "here it is \"%s\"%s%s%s", row->ours, row->remark ? " (" : "",
            row->remark ? row->remark : "", row->remark ? ")" : "");
}

const char *foreign_hint(arena *a, const char *full, bool whole) {
    const char *dot = whole ? NULL : strrchr(full, '.'), *word = dot ? dot + 1 : full;
    const foreign_key *row = foreign_peers;
    for (; row->names; row++)
        if (has_name(row->names, word) || has_name(row->names, full)) return hint_of(a, row);
    row = strchr(full, '.') ? foreign_find(FOREIGN_NXDT | FOREIGN_NEMO, full) : NULL;
    return row ? hint_of(a, row) : NULL;
}

const char *foreign_flag_hint(arena *a, const char *name) {
    const foreign_key *row = foreign_find(FOREIGN_ARGS | FOREIGN_AXOLOTL, name);
    return row ? hint_of(a, row) : NULL;
}

// The descriptions of rules in docs/keys.md.
static const char *const how_of[] = {
        [FOREIGN_hint] = "",
        [FOREIGN_same] = "the same value",
        [FOREIGN_count] = "the same number; all becomes 0",
        [FOREIGN_map] = "",
        [FOREIGN_none] = "no effect in drover",
        [FOREIGN_only] = "refused until accepted, unless it is",
        [FOREIGN_changes] = "refused until accepted",
        [FOREIGN_never] = "refused",
        [FOREIGN_fact] = "derived together with other keys",
};

static void print_words(const char *words, const char *joined, str *out) {
    const char *word;
    size_t n;
    for (bool first = true; next_word(&words, &word, &n); first = false)
        str_printf(out, "%s `%.*s`", first ? "" : joined, (int)n, word);
}

static void print_row(const foreign_key *row, str *out) {
    const char *how = how_of[row->rule], *remark = row->remark ? row->remark : "",
               *ours = row->ours;
    str_puts(out, "|");
    print_words(row->names, ",", out);
    str_printf(out, " | %s%s%s | %s", ours ? "`" : "", ours ? ours : "", ours ? "`" : "", how);
    if (row->rule == FOREIGN_map) str_puts(out, row->argument);
    if (row->rule == FOREIGN_only) print_words(row->argument, " or", out);
    str_printf(out, "%s%s |\n", (*how || row->rule == FOREIGN_map) && *remark ? ": " : "", remark);
}

void foreign_keys_print(str *out) {
    for (int t = 0; t < N_TABLES; t++) {
        if (t > 0) str_printf(out, "\n### %s\n\n", tables[t].title);
        str_puts(out, "| other trainer | drover | |\n|---|---|---|\n");
        for (const foreign_key *row = tables[t].rows; row->names; row++)
            print_row(row, out);
    }
}
