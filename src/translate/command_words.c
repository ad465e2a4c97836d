// Reads the flags and variables of a command, and finds the program among its words.
#include "translate/command_words.h"

#include <string.h>

#include "base/file.h"
#include "base/status_line.h"

const value *word_value(translation *self, const char *name, const char *where, const char *text) {
    value *v = ARENA_NEW(self->a, value);
    *v = (value){.kind = VALUE_TEXT, .path = name, .name = name, .where = where, .text = text};
    if (strcmp(text, "None") == 0 || strcmp(text, "null") == 0) v->kind = VALUE_NULL;
    return v;
}

static bool is_program(const char *word) {
    return str_ends(word, ".py") || strcmp(path_name(word), "trl") == 0;
}

const char *flag_name(arena *a, const char *word, size_t n) {
    char *name = arena_strndup(a, word, n);
    for (char *p = name; *p; p++)
        if (*p == '-') *p = '_';
    return name;
}

bool is_flag(const shell_word *word) {
    const char *p = word->text;
    if (word->unknown && p[0] == '-' && p[1] != '-') return false; // the rest of "$(...)-x"
    return p[0] == '-' && p[1] && (p[1] == '-' || !strchr("0123456789.", p[1]));
}

static bool is_fact(const foreign_key *row, const char *name) {
    return row && row->rule == FOREIGN_fact && strcmp(row->argument, name) == 0;
}

bool counts_ranks(const foreign_key *row) {
    return is_fact(row, "ranks") || is_fact(row, "devices") || is_fact(row, "nodes");
}

// Returns why the value of a flag does not matter, since the caller gives it; NULL: it matters.
static const char *said_by_caller(const translation *self, const foreign_key *row) {
    const bool counts = counts_ranks(row);
    const bool has_model =
            translation_given(self, "model.from") || translation_given(self, "model.preset");
    if (counts && self->opts->ranks) return "--ranks gives them";
    if (has_model && (is_fact(row, "from") || is_fact(row, "model_config")))
        return "--set gives the model";
    if (!row || !row->ours || !translation_given(self, row->ours)) return NULL;
    return arena_printf(self->a, "--set gives %s", row->ours);
}

// A flag whose value is not known leaves a message for the place that needs it.
void word_translate(translation *self, const char *name, const shell_command *from,
        const shell_word *word, const char *text) {
    const char *where =
            from->file ? arena_printf(self->a, "%s:%d", from->file, word->line) : "command line";
    const value *v = word_value(self, name, where, text);
    const foreign_key *row = foreign_find(self->kinds, name);
    const bool is_used = row && row->rule != FOREIGN_none;
    const char *settled = word->unknown ? said_by_caller(self, row) : NULL;
    if (strcmp(name, "config") == 0 && program_is_trl(self) && !word->unknown)
        report_add(self, TRANSLATED, v, "its keys, as options before those of the command line");
    else if (settled)
        report_add(self, NO_EFFECT, v, settled);
    else if (is_used && !text_is_utf8(text))
        report_add(self, REFUSED, v, "is not text in UTF-8");
    else if (word->unknown && is_used)
        report_printf(self, REFUSED, v, "is not known: %s; give %s--var NAME=VALUE", word->unknown,
                counts_ranks(row) ? "--ranks N, or " : "");
    else
        translate_key(self, v);
}

// mpirun and srun read -n8 as -n 8.
static const char *digits_behind(const translation *self, const char *word) {
    if (!(self->kinds & (FOREIGN_MPIRUN | FOREIGN_SRUN)) || word[1] == '-') return NULL;
    return word[2] && strspn(word + 2, "0123456789") == strlen(word + 2) ? word + 2 : NULL;
}

// Joins several words, with a blank between them.
static shell_word joined(arena *a, const shell_word *words, int n) {
    shell_word all = words[0];
    str text = {0};
    for (int i = 0; i < n; i++) {
        str_printf(&text, "%s%s", i ? " " : "", words[i].text);
        if (!all.unknown) all.unknown = words[i].unknown;
    }
    all.text = str_keep(a, &text);
    return all;
}

// Refuses a word after the program that is neither an option nor a value.
static void report_stray(translation *self, const shell_command *command, const shell_word *word) {
    const value *v = word_value(self, word->text, command_place(self->a, command), "");
    report_add(self, REFUSED, v, "is neither an option nor an option's value");
}

// Returns whether a switch says no to another one: transformers' HfArgumentParser makes
// --no_packing beside --packing.
static bool is_negation(const translation *self, const char *name) {
    return str_starts(name, "no_") && !foreign_find(self->kinds, name) &&
           foreign_find(self->kinds, name + strlen("no_"));
}

// Translates flags from words[first] to words[end]: --name value, --name=value, --switch. Several
// values make a list, except for a launcher.
drv_status flags_translate(translation *self, const shell_command *command, int first, int end) {
    const bool lists = !(self->kinds & FOREIGN_LAUNCHERS);
    for (int i = first; i < end; i++) {
        const shell_word *word = &command->words[i];
        if (!is_flag(word)) {
            if (lists) report_stray(self, command, word);
            continue;
        }
        const char *name = word->text + strspn(word->text, "-"), *equal = strchr(name, '=');
        shell_word said = {"true", word->unknown, word->line};
        const char *digits = digits_behind(self, word->text);
        const char *plain = flag_name(self->a, name,
                equal    ? (size_t)(equal - name)
                : digits ? 1
                         : strlen(name));
        if (equal || digits) {
            said = (shell_word){equal ? equal + 1 : digits, word->unknown, word->line};
        } else if (i + 1 < end && !is_flag(&command->words[i + 1])) {
            const int first_value = ++i;
            while (lists && i + 1 < end && !is_flag(&command->words[i + 1]) &&
                    !is_program(command->words[i + 1].text))
                i++;
            said = joined(self->a, &command->words[first_value], i - first_value + 1);
        } else if (is_negation(self, plain)) {
            plain += strlen("no_");
            said.text = "false";
        }
        word_translate(self, plain, command, &said, said.text);
    }
    return DRV_OK;
}

// Returns whether a command names a program without running it.
static bool only_names(const char *verb) {
    return STR_ONE_OF(path_name(verb), "echo", "printf", "cat", "cp", "mv", "rm", "ls", "chmod",
            "sed", "grep", "tar", "git", "curl", "wget", "ln", "touch");
}

int program_at(const shell_command *c, bool scripts) {
    if (c->n > 0 && only_names(c->words[0].text)) return -1;
    for (int i = 0; i < c->n; i++)
        if (is_program(c->words[i].text)) return i;
    for (int i = 0; scripts && i + 1 < c->n; i++)
        if (str_ends(c->words[i].text, ".sh") && c->words[i + 1].text[0] == '-') return i;
    return -1;
}
