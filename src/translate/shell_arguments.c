// The arguments with which a script is started: $1, "$@", $#, shift and getopts (POSIX, Shell
// Command Language, 2.5, and getopts).
#include <string.h>

#include "translate/shell_internal.h"

void shell_set_arguments(shell_script *script, const shell_word *words, int n) {
    script->arguments = (shell_arguments){.words = words, .n = n, .known = true, .option = 0};
}

int shell_argument_length(const reader *self) {
    int n = 0;
    if (!self->script->arguments.known) return 0;
    while (shell_peek(self, n) >= '0' && shell_peek(self, n) <= '9')
        n++;
    return n > 0 ? n : shell_peek(self, 0) && strchr("@*#", shell_peek(self, 0)) ? 1 : 0;
}

shell_word shell_argument(const reader *self, const char *name) {
    shell_arguments *of = &self->script->arguments;
    int64_t number;
    shell_word out = {"", NULL, self->line};
    of->used = true;
    if (*name == '#') {
        out.text = arena_printf(self->a, "%d", of->n);
    } else if (*name == '@' || *name == '*') {
        for (int i = 0; i < of->n; i++) {
            out.text = arena_printf(self->a, "%s%s%s", out.text, i ? " " : "", of->words[i].text);
            if (!out.unknown) out.unknown = of->words[i].unknown;
        }
    } else if (str_to_i64(name, &number) && number > 0 && number <= of->n) {
        out = of->words[number - 1];
    } else if (number == 0) {
        out.text = self->file;
    }
    return out;
}

void shell_shift(shell_script *script, const shell_word *words, int n_words) {
    shell_arguments *of = &script->arguments;
    int64_t n = 1;
    if (n_words > 1 && (words[1].unknown || !str_to_i64(words[1].text, &n))) n = of->n;
    of->used = true;
    if (n < 0 || n > of->n) return; // a shell shifts nothing then
    of->words += n;
    of->n -= (int)n;
}

static void set(shell_script *script, const char *name, const shell_word *word) {
    shell_variable *v = shell_variable_named(script, name);
    if (!v->file) return; // the caller's
    v->value = *word;
    v->unset = false;
    v->n_items = 0;
}

verdict shell_getopts(reader *self, const word_list *list) {
    shell_arguments *of = &self->script->arguments;
    of->used = true;
    if (list->n < 3 || list->words[1].unknown || list->words[2].unknown) return TEST_UNKNOWN;
    const char *options = list->words[1].text + (*list->words[1].text == ':');
    const shell_word *word = of->option < of->n ? &of->words[of->option] : NULL;
    if (!word || word->unknown || word->text[0] != '-' || !word->text[1]) return TEST_FALSE;
    const bool ends = strcmp(word->text, "--") == 0;
    if (ends) of->option++;
    const char *index = arena_printf(self->a, "%d", of->option + 1);
    if (ends) {
        set(self->script, "OPTIND", &(shell_word){index, NULL, self->line});
        return TEST_FALSE;
    }
    const char letter = word->text[1 + of->letter], *found = strchr(options, letter);
    shell_word name = {found ? arena_strndup(self->a, &letter, 1) : "?", NULL, self->line};
    shell_word value = {"", NULL, self->line};
    const char *rest = word->text + 2 + of->letter;
    of->letter++;
    if (found && found[1] == ':') {
        if (*rest)
            value.text = rest;
        else if (++of->option < of->n)
            value = of->words[of->option];
        rest = "";
    }
    if (!*rest) {
        of->option++;
        of->letter = 0;
    }
    index = arena_printf(self->a, "%d", of->option + 1);
    set(self->script, arena_strdup(self->a, list->words[2].text), &name);
    set(self->script, "OPTARG", &value);
    set(self->script, "OPTIND", &(shell_word){index, NULL, self->line});
    return TEST_TRUE;
}
