// Reading of scripts with those that they call, and what their variables say.
#include "translate/scripts.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "translate/command_words.h"

// Variables that no script sets: where the user's files are, and that this is a training, not the
// run before it that only compiles.
static const char *const ambient[] = {"HOME", "COMPILE", "NEURON_EXTRACT_GRAPHS_ONLY"};

static bool is_ambient(const translation *self, const char *name) {
    const size_t n = strlen(name);
    for (int i = 0; i < self->opts->n_variables; i++)
        if (strncmp(self->opts->variables[i], name, n) == 0 && self->opts->variables[i][n] == '=')
            return false;
    return str_index(name, ambient, sizeof ambient / sizeof *ambient) >= 0;
}

int script_translate_variables(translation *self, const shell_script *script, bool all) {
    const unsigned kinds = self->kinds;
    int n_known = 0;
    self->kinds = FOREIGN_SCRIPT;
    for (int i = 0; i < script->n_variables; i++) {
        const shell_variable *v = &script->variables[i];
        const foreign_key *row = foreign_find(FOREIGN_SCRIPT, v->name);
        const bool outside = !v->file || !*v->file;
        const bool environment =
                str_starts(v->name, "XLA_") || (outside && row && counts_ranks(row));
        if ((!all && !environment) || is_ambient(self, v->name)) continue;
        const bool loops = v->value.unknown && !row;
        if (loops || v->unset || (outside && !row)) continue;
        const shell_command from = {outside ? NULL : v->file, v->value.line, NULL, 0};
        n_known += row && row->rule != FOREIGN_none;
        word_translate(self, v->name, &from, &v->value, v->value.text);
    }
    self->kinds = kinds;
    return n_known;
}

int script_take_environment(translation *self, shell_script *script, const shell_word *words,
        int n_words) {
    int begin = n_words > 0 && strcmp(path_name(words[0].text), "env") == 0;
    for (; begin < n_words; begin++) {
        const char *word = words[begin].text, *equal = strchr(word, '=');
        const size_t n =
                strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");
        if (!equal || n == 0 || word + n != equal) break;
        const char *name = arena_strndup(self->a, word, n);
        const foreign_key *row = foreign_find(FOREIGN_SCRIPT, name);
        shell_export(script, name, equal + 1);
        if (!row || row->rule == FOREIGN_none)
            report_add(self, NO_EFFECT, word_value(self, name, "command line", equal + 1),
                    row ? row->remark : "a variable of the environment");
    }
    return begin;
}

static drv_status follow_command(void *arg, shell_script *script, const shell_command *command);

drv_status script_read(script_reader *reader, const char *path, shell_script *script) {
    char *text;
    size_t n_bytes;
    if (reader->depth > 8)
        return drv_fail(DRV_E_USAGE, "%s: scripts that call each other more than 8 deep", path);
    script->left = &reader->self->left;
    DRV_TRY(budget_read(script->left, reader->self->a, path, &text, &n_bytes));
    script->on_command = follow_command;
    script->on_command_arg = reader;
    reader->depth++;
    const drv_status status = shell_read(reader->self->a, path, text, n_bytes, script);
    reader->depth--;
    return status;
}

// Reads a script that is sourced or started, in place, from the folder of the calling script;
// reports that other commands are not run.
static drv_status follow_command(void *arg, shell_script *script, const shell_command *command) {
    script_reader *reader = arg;
    translation *self = reader->self;
    const char *verb = command->words[0].text, *path = command->file;
    const bool sources = command->n > 1 && (strcmp(verb, "source") == 0 || strcmp(verb, ".") == 0);
    const bool by_shell = command->n > 1 && (strcmp(verb, "bash") == 0 || strcmp(verb, "sh") == 0);
    const int at = sources || by_shell;
    const char *other = command->words[at].text;
    if (program_at(command, false) >= 0) return DRV_OK;
    const char *beside = path_join(self->a, path_parent(self->a, path), path_name(other));
    const value *named =
            word_value(self, verb, arena_printf(self->a, "%s:%d", path, command->line), "");
    const bool calls = str_ends(other, ".sh") && strcmp(path_name(other), path_name(path)) != 0;
    if (calls && file_exists(beside)) {
        const shell_arguments outer = script->arguments;
        report_printf(self, NO_EFFECT, named, "%s is read", beside);
        if (command->n > at + 1 || (outer.known && !sources))
            shell_set_arguments(script, command->words + at + 1, command->n - at - 1);
        const drv_status status = script_read(reader, beside, script);
        const bool used = outer.used || (sources && script->arguments.used);
        script->arguments = outer;
        script->arguments.used = used;
        return status;
    }
    if (program_at(command, true) >= 0) return DRV_OK;
    if (STR_ONE_OF(verb, ":", "[", "[[", "test", "echo", "set")) return DRV_OK;
    report_add(self, NO_EFFECT, named,
            calls ? "that script is not here and was not read" : "a command, which is not run");
    return DRV_OK;
}

drv_status script_set_variables(translation *self, shell_script *script) {
    const char *home = getenv(ambient[0]);
    if (home && *home) shell_set(script, ambient[0], home);
    shell_set(script, ambient[1], "0");
    shell_set(script, ambient[2], "0");
    for (int i = 0; i < self->opts->n_variables; i++) {
        const char *word = self->opts->variables[i], *equal = strchr(word, '=');
        if (!equal || equal == word)
            return drv_fail(DRV_E_USAGE, "--var \"%s\": expected NAME=VALUE", word);
        shell_set(script, arena_strndup(self->a, word, (size_t)(equal - word)), equal + 1);
    }
    return DRV_OK;
}
