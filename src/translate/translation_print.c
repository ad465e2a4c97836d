// Prints the translated config and the report.
#include <string.h>

#include "base/status_line.h"
#include "config/key.h"
#include "translate/translation.h"

void translation_print(const translation *self, str *out) {
    enum { COMMENT_COLUMN = 44 };
    const char *last = "";
    str_printf(out, "# drover config --from %s%s", self->opts->kind,
            self->opts->n_files ? " " : "");
    if (self->opts->n_files) text_add_clean(out, self->opts->files[0], false);
    if (self->ranks)
        str_printf(out, "; for %lld rank%s", (long long)self->ranks, str_plural(self->ranks));
    str_puts(out, "\n");
    for (int i = 0; i < key_count(); i++) {
        int depth;
        const char *path = key_of_index(self->a, i).path;
        const setting *s = translation_setting(self, path);
        const char *given = translation_given(self, path);
        if (!s && !given) continue;
        const char *name = key_open_sections(last, path, out, &depth);
        const size_t start = out->n;
        str_printf(out, "%*s%s: %s", 2 * depth, "", name, given ? given : s->value);
        const int width = (int)(out->n - start);
        str_printf(out, "%*s# ", width < COMMENT_COLUMN ? COMMENT_COLUMN - width : 1, "");
        text_add_clean(out, given ? "--set" : s->origin, false); // it names the user's file
        str_puts(out, "\n");
        last = path;
    }
}

static bool is_accepted(const translation *self, const char *name) {
    const char *dot = strrchr(name, '.');
    for (int i = 0; i < self->opts->n_accepts; i++) {
        const char *accepted = self->opts->accepts[i];
        if (strcmp(accepted, "all") == 0 || strcmp(accepted, name) == 0 ||
                (dot && strcmp(accepted, dot + 1) == 0))
            return true;
    }
    return false;
}

static void print_list(const translation *self, const char *title, outcome what, str *out) {
    bool any = false;
    for (int i = 0; i < self->n_lines; i++) {
        const report_line *line = &self->lines[i];
        if (line->outcome != what) continue;
        if (!any) str_printf(out, "%s\n", title);
        any = true;
        str_printf(out, "  %s (%s): %s%s\n", line->name, line->where ? line->where : "",
                line->text ? line->text : "",
                what != CHANGES ? ""
                : is_accepted(self, line->name)
                        ? "; accepted"
                        : arena_printf(self->a, "; --accept %s", line->name));
    }
}

void translation_report(const translation *self, str *out) {
    print_list(self, "translated", TRANSLATED, out);
    print_list(self, "no effect here", NO_EFFECT, out);
    print_list(self, "differs from there", DIFFERS, out);
    print_list(self, "would change the result", CHANGES, out);
    print_list(self, "refused", REFUSED, out);
}

drv_status translation_judge(const translation *self) {
    const report_line *first[N_OUTCOMES] = {NULL};
    int n[N_OUTCOMES] = {0};
    for (int i = 0; i < self->n_lines; i++) {
        const report_line *line = &self->lines[i];
        if (line->outcome == CHANGES && is_accepted(self, line->name)) continue;
        if (n[line->outcome]++ == 0) first[line->outcome] = line;
    }
    const outcome worst = n[REFUSED] ? REFUSED : CHANGES;
    if (n[worst] == 0) return DRV_OK;
    return drv_fail(DRV_E_USAGE, "%s: \"%s\" %s%s%s", first[worst]->where, first[worst]->name,
            first[worst]->text,
            worst == CHANGES
                    ? arena_printf(self->a, "; accept it by --accept %s", first[worst]->name)
                    : "",
            n[worst] > 1 ? arena_printf(self->a, " (and %d more, listed above)", n[worst] - 1)
                         : "");
}
