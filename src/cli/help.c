// drover help: prints the table of verbs.
#include <ctype.h>
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"

enum {
    MAX_VERBS = 32, // most verbs, and most subverbs of one
    WIDTH = 80,
    FULL = 50,       // a line of a help text that is shorter ends its paragraph
    MAX_INDENT = 40, // most indent of the second column of a list
    USAGE_INDENT = 11,
};

// Prints n bytes of words from `column` on, in lines of WIDTH that begin at `indent`. Words in
// brackets stay together.
static void print_words(FILE *f, const char *text, int n, int column, int indent) {
    for (int at = 0; at < n;) {
        int spaces = 0, word = 0, depth = 0;
        while (at + spaces < n && isspace((unsigned char)text[at + spaces]))
            spaces++;
        for (const char *c = text + at + spaces; at + spaces + word < n; c++, word++) {
            if (isspace((unsigned char)*c) && depth == 0) break;
            depth += (*c == '[') - (*c == ']');
        }
        at += spaces;
        if (column > indent && column + spaces + word > WIDTH) {
            fputs("\n", f);
            column = 0, spaces = indent;
        }
        column += fprintf(f, "%*s%.*s", spaces, "", word, text + at);
        at += word;
    }
}

// Returns the column at which a long line continues: below the text after a gap of several spaces,
// else below its beginning.
static int indent_of(const char *line, int n) {
    int begin = 0;
    while (begin < n && line[begin] == ' ')
        begin++;
    for (int i = begin; i + 2 < n && i < MAX_INDENT; i++)
        if (line[i] == ' ' && line[i + 1] == ' ' && line[i + 2] != ' ') return i + 2;
    return begin;
}

static bool is_prose(const char *line, int n) {
    return n > 0 && indent_of(line, n) == 0;
}

// Returns the bytes of the paragraph at `text`: several lines of prose, or one line of another kind.
static int paragraph_bytes(const char *text) {
    int n = 0;
    for (int line = (int)strcspn(text, "\n");; line = (int)strcspn(text + n, "\n")) {
        const char *next = text + n + line + 1;
        const bool full = is_prose(text + n, line) && line >= FULL;
        n += line;
        if (!full || !text[n] || !is_prose(next, (int)strcspn(next, "\n")) ||
                strncmp(next, "Example: ", 9) == 0)
            return n;
        n++;
    }
}

// Fills paragraphs; examples and lists keep their lines.
static void print_text(FILE *f, const char *text) {
    fputs("\n", f);
    for (const char *paragraph = text; paragraph;) {
        const int n = paragraph_bytes(paragraph);
        print_words(f, paragraph, n, 0, indent_of(paragraph, (int)strcspn(paragraph, "\n")));
        fputs("\n", f);
        paragraph = paragraph[n] ? paragraph + n + 1 : NULL;
    }
}

static void print_names(FILE *f, const verb *const *list, int n) {
    int width = 0;
    for (int i = 0; i < n; i++)
        if ((int)strlen(list[i]->name) > width) width = (int)strlen(list[i]->name);
    for (int i = 0; i < n; i++)
        if (list[i]->summary) fprintf(f, "  %-*s  %s\n", width, list[i]->name, list[i]->summary);
}

static void print_verbs(FILE *f) {
    fputs("drover: pre-train Llama models, from text to a Hugging Face folder\n"
          "\n"
          "usage: drover VERB [SUBVERB] ...\n"
          "\n"
          "verbs:\n",
            f);
    print_names(f, cli_verbs, n_cli_verbs);
    fputs("\n"
          "drover help VERB [SUBVERB]    more about a verb; VERB --help does the same\n"
          "drover --version              print the version and the commit\n"
          "\n"
          "Results go to standard output; progress, log and errors go to standard error.\n"
          "Exit status: 0 done, 1 failed, 2 wrong usage, 3 stopped on request before the\n"
          "end, 75 failed, but another try may succeed.\n",
            f);
}

// Prints "usage: drover data build ...", a line for each form.
static void print_usage(FILE *f, const char *name, const char *usage) {
    const char *head = "usage:";
    for (const char *line = usage; line; head = "      ") {
        const int n = (int)strcspn(line, "\n");
        const int column = fprintf(f, "%s drover %s%s", head, name, n ? " " : "");
        print_words(f, line, n, column, USAGE_INDENT);
        fputs("\n", f);
        line = line[n] ? line + n + 1 : NULL;
    }
}

static void print_options(FILE *f, const verb *v) {
    if (v->n_options == 0) return;
    fputs("\noptions:\n", f);
    int width = 0;
    for (int i = 0; i < v->n_options; i++) {
        const cli_option *o = &v->options[i];
        const int n = (int)(strlen(o->name) + (o->value ? 1 + strlen(o->value) : 0));
        if (n > width) width = n;
    }
    for (int i = 0; i < v->n_options; i++) {
        const cli_option *o = &v->options[i];
        const int column = fprintf(f, "  %s%s%-*s  ", o->name, o->value ? " " : "",
                width - (int)strlen(o->name) - (o->value ? 1 : 0), o->value ? o->value : "");
        print_words(f, o->help, (int)strlen(o->help), column, column);
        fputs("\n", f);
    }
}

void cli_print_help(FILE *file, const verb *parent, const verb *shown) {
    if (!shown) {
        print_verbs(file);
        return;
    }
    char name[64];
    snprintf(name, sizeof name, "%s%s%s", parent ? parent->name : "", parent ? " " : "",
            shown->name);
    if (shown->summary) fprintf(file, "drover %s: %s\n\n", name, shown->summary);
    if (shown->n_subverbs == 0) {
        print_usage(file, name, shown->usage);
        if (shown->help) print_text(file, shown->help);
        print_options(file, shown);
        return;
    }
    fprintf(file, "usage: drover %s SUBVERB ...\n\nsubverbs:\n", name);
    const verb *list[MAX_VERBS];
    for (int i = 0; i < shown->n_subverbs; i++)
        list[i] = &shown->subverbs[i];
    print_names(file, list, shown->n_subverbs);
    if (shown->help) print_text(file, shown->help);
    fprintf(file, "\ndrover help %s SUBVERB    more about a subverb\n", name);
}

// Returns another verb that has a subverb of this name; NULL: none.
static const verb *parent_of(const char *name) {
    for (int i = 0; i < n_cli_verbs; i++)
        for (int k = 0; k < cli_verbs[i]->n_subverbs; k++)
            if (strcmp(cli_verbs[i]->subverbs[k].name, name) == 0) return cli_verbs[i];
    return NULL;
}

drv_status cli_find_verb(const verb *parent, const char *name, const verb **out) {
    const char *names[MAX_VERBS] = {0};
    int n_names = 0;
    const int n_words = parent ? parent->n_subverbs : n_cli_verbs;
    DRV_ASSERT(n_words <= MAX_VERBS, "%d verbs", n_words);
    for (int i = 0; i < n_words; i++) {
        const verb *v = parent ? &parent->subverbs[i] : cli_verbs[i];
        if (v->summary) names[n_names++] = v->name;
        if (strcmp(name, v->name) == 0) {
            *out = v;
            return DRV_OK;
        }
    }
    const char *near = str_nearest(name, names, n_names);
    if (near || !parent)
        return drv_fail(DRV_E_USAGE, "%s%sunknown %s \"%s\"%s%s%s; see drover help%s%s",
                parent ? parent->name : "", parent ? ": " : "", parent ? "subverb" : "verb", name,
                near ? ", did you mean \"" : "", near ? near : "", near ? "\"" : "",
                parent ? " " : "", parent ? parent->name : "");
    str list = {0};
    for (int i = 0; i < n_names; i++)
        str_printf(&list, "%s%s", i == 0 ? "" : i < n_names - 1 ? ", " : " or ", names[i]);
    const verb *other = parent_of(name);
    if (other) str_printf(&list, "; drover %s %s is there", other->name, name);
    drv_status status =
            drv_fail(DRV_E_USAGE, "%s: \"%s\" is unknown, expected %s", parent->name, name, list.p);
    str_free(&list);
    return status;
}

drv_status cli_help(int argc, char **argv) {
    const verb *parent = NULL, *v = NULL;
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) continue;
        if (v && v->n_subverbs == 0)
            return drv_fail(DRV_E_USAGE, "help: %s has no subverb \"%s\"", v->name, argv[i]);
        parent = v;
        DRV_TRY(cli_find_verb(parent, argv[i], &v));
    }
    cli_print_help(stdout, parent, v);
    return DRV_OK;
}
