// Reads the files and words of each kind, translates every key, and prints what came of it.
#include "translate/translate.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/status_line.h"
#include "config/config.h"
#include "translate/hydra.h"
#include "translate/shell.h"
#include "translate/translation.h"

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// Returns whether a line of the report is about a name.
static bool was_said(const translation *self, const char *name) {
    for (int i = 0; i < self->n_lines; i++)
        if (strcmp(self->lines[i].name, name) == 0) return true;
    return false;
}

static const value *leaf(translation *self, const char *name, const char *where, const char *text) {
    value *v = ARENA_NEW(self->a, value);
    *v = (value){.kind = VALUE_TEXT, .path = name, .name = name, .where = where, .text = text};
    if (strcmp(text, "None") == 0 || strcmp(text, "null") == 0) v->kind = VALUE_NULL;
    return v;
}

// "name=value"; false: its row's key, or its fact, is said.
static drv_status add_default(translation *self, const framework *of, const char *word) {
    const char *equal = strchr(word, '='),
               *name = arena_strndup(self->a, word, (size_t)(equal - word));
    const foreign_key *row = foreign_find(self->kinds, name);
    DRV_ASSERT(row, "no row for the default \"%s\"", word);
    const bool is_a_fact = row->rule == FOREIGN_fact;
    if (is_a_fact ? fact_is_said(self, row->argument)
                  : was_said(self, name) || (row->ours && translation_get(self, row->ours)))
        return DRV_OK;
    value *v = ARENA_NEW(self->a, value);
    DRV_TRY(yaml_read_value(self->a, name, arena_printf(self->a, "default of %s", of->name),
            equal + 1, v));
    translate_key(self, v);
    return DRV_OK;
}

static drv_status add_defaults(translation *self) {
    defaults_of_kind(self);
    for (int i = 0; i < self->n_frameworks; i++) {
        const framework *of = self->frameworks[i];
        for (const char *const *word = of->words; word && *word; word++)
            DRV_TRY(add_default(self, of, *word));
        for (const char *const *word = of->keys; word && *word; word++) {
            const char *equal = strchr(*word, '='),
                       *key = arena_strndup(self->a, *word, (size_t)(equal - *word));
            const value from = {.kind = VALUE_TEXT,
                    .path = "(fixed)",
                    .where = arena_printf(self->a, "default of %s", of->name),
                    .text = equal + 1};
            if (!translation_get(self, key)) translation_set(self, key, equal + 1, &from, NULL);
        }
    }
    return DRV_OK;
}

// --- command lines
static bool is_program(const char *word) {
    return str_ends(word, ".py") || strcmp(base_name(word), "trl") == 0;
}

// "--a-b" as "a_b", which is how Python's argparse calls it.
static const char *flag_name(arena *a, const char *word, size_t n) {
    char *name = arena_strndup(a, word, n);
    for (char *p = name; *p; p++)
        if (*p == '-') *p = '_';
    return name;
}

static bool is_flag(const shell_word *word) {
    const char *p = word->text;
    if (word->unknown && p[0] == '-' && p[1] != '-') return false; // the end of "$(...)-x"
    return p[0] == '-' && p[1] && (p[1] == '-' || !strchr("0123456789.", p[1]));
}

static bool is_fact(const foreign_key *row, const char *name) {
    return row && row->rule == FOREIGN_fact && strcmp(row->argument, name) == 0;
}

static bool counts_ranks(const foreign_key *row) {
    return is_fact(row, "ranks") || is_fact(row, "devices") || is_fact(row, "nodes");
}

// Says why it does not matter what a flag's value is: the caller has said it; NULL: it does.
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

// A row that is said and not known leaves a message for where it would be used.
static void add_word(translation *self, const char *name, const shell_command *from,
        const shell_word *word, const char *text) {
    const char *where =
            from->file ? arena_printf(self->a, "%s:%d", from->file, word->line) : "command line";
    const value *v = leaf(self, name, where, text);
    const foreign_key *row = foreign_find(self->kinds, name);
    const bool is_used = row && row->rule != FOREIGN_none;
    const char *settled = word->unknown ? said_by_caller(self, row) : NULL;
    if (settled)
        report_add(self, NO_EFFECT, v, settled);
    else if (is_used && !text_is_utf8(text))
        report_add(self, REFUSED, v, "is not text in UTF-8");
    else if (word->unknown && is_used)
        report_add(self, REFUSED, v,
                arena_printf(self->a, "is not known: %s; give %s--var NAME=VALUE", word->unknown,
                        counts_ranks(row) ? "--ranks N, or " : ""));
    else
        translate_key(self, v);
}

// -n8 is -n 8 to mpirun and srun.
static const char *digits_behind(const translation *self, const char *word) {
    if (!(self->kinds & (FOREIGN_MPIRUN | FOREIGN_SRUN)) || word[1] == '-') return NULL;
    return word[2] && strspn(word + 2, "0123456789") == strlen(word + 2) ? word + 2 : NULL;
}

// Flags from words[first] to words[end]: --name value, --name=value, --switch; several values make
// a list of words, but for a launcher.
static drv_status read_flags(translation *self, const shell_command *command, int first, int end) {
    const bool lists = !(self->kinds & FOREIGN_LAUNCHERS);
    for (int i = first; i < end; i++) {
        const shell_word *word = &command->words[i];
        if (!is_flag(word)) continue; // trl's sft, a file beside the flags
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
            said = command->words[++i];
            while (lists && i + 1 < end && !is_flag(&command->words[i + 1]) &&
                    !is_program(command->words[i + 1].text)) {
                said.text = arena_printf(self->a, "%s %s", said.text, command->words[++i].text);
                if (!said.unknown) said.unknown = command->words[i].unknown;
            }
        }
        add_word(self, plain, command, &said, said.text);
    }
    return DRV_OK;
}

// A command that names a program and does not run it.
static bool only_names(const char *verb) {
    static const char *const verbs[] = {"echo", "printf", "cat", "cp", "mv", "rm", "ls", "chmod",
            "sed", "grep", "tar", "git", "curl", "wget", "ln", "touch", NULL};
    for (const char *const *word = verbs; *word; word++)
        if (strcmp(base_name(verb), *word) == 0) return true;
    return false;
}

// The word of the command that names the program; -1: it starts none. `scripts`: a shell script
// with options counts as one.
static int program_at(const shell_command *c, bool scripts) {
    if (c->n > 0 && only_names(c->words[0].text)) return -1;
    for (int i = 0; i < c->n; i++)
        if (is_program(c->words[i].text)) return i;
    for (int i = 0; scripts && i + 1 < c->n; i++)
        if (str_ends(c->words[i].text, ".sh") && c->words[i + 1].text[0] == '-') return i;
    return -1;
}

// Variables that no script sets: where the user's files are, and that this is a training, not the
// run before it that only compiles.
static const char *const ambient[] = {"HOME", "COMPILE", "NEURON_EXTRACT_GRAPHS_ONLY"};

static bool is_ambient(const translation *self, const char *name) {
    const size_t n = strlen(name);
    for (int i = 0; i < self->opts->n_variables; i++)
        if (strncmp(self->opts->variables[i], name, n) == 0 && self->opts->variables[i][n] == '=')
            return false;
    for (size_t i = 0; i < sizeof ambient / sizeof *ambient; i++)
        if (strcmp(ambient[i], name) == 0) return true;
    return false;
}

// Adds the variables of a script; returns how many of them are known, or would be if they had a
// value.
static int add_variables(translation *self, const shell_script *script, bool all) {
    const unsigned kinds = self->kinds;
    int n_known = 0;
    self->kinds = FOREIGN_SCRIPT;
    for (int i = 0; i < script->n_variables; i++) {
        const shell_variable *v = &script->variables[i];
        const bool environment = str_starts(v->name, "XLA_");
        if ((!all && !environment) || is_ambient(self, v->name)) continue;
        const bool loops = v->value.unknown && !foreign_find(FOREIGN_SCRIPT, v->name);
        if (loops || v->unset || (!v->file && !foreign_find(FOREIGN_SCRIPT, v->name))) continue;
        const shell_command from = {v->file && *v->file ? v->file : NULL, v->value.line, NULL, 0};
        n_known += foreign_find(FOREIGN_SCRIPT, v->name) != NULL;
        add_word(self, v->name, &from, &v->value, v->value.text);
    }
    self->kinds = kinds;
    return n_known;
}

static drv_status read_options(translation *self, const shell_command *c, int index) {
    const value devices = {.kind = VALUE_TEXT,
            .path = "NEURON_NUM_DEVICES",
            .where = self->program,
            .text = "32"};
    MEM_GROW(self->facts, self->n_facts, self->cap_facts);
    value *kept = ARENA_NEW(self->a, value);
    *kept = devices;
    self->facts[self->n_facts++] = (fact){"devices", kept, false};
    return read_flags(self, c, index + 1, c->n);
}

// --- launchers
typedef struct launcher {
    const char *name;
    unsigned kind;
} launcher;

static const launcher *launcher_of(const char *word) {
    static const launcher launchers[] = {{"torchrun", FOREIGN_TORCHRUN},
            {"torch.distributed.run", FOREIGN_TORCHRUN},
            {"torch.distributed.launch", FOREIGN_TORCHRUN}, {"accelerate", FOREIGN_ACCELERATE},
            {"accelerate-launch", FOREIGN_ACCELERATE},
            {"accelerate.commands.launch", FOREIGN_ACCELERATE}, {"deepspeed", FOREIGN_DEEPSPEED},
            {"mpirun", FOREIGN_MPIRUN}, {"mpiexec", FOREIGN_MPIRUN},
            {"mpiexec.hydra", FOREIGN_MPIRUN}, {"srun", FOREIGN_SRUN}};
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
        if (strcmp(base_name(word), launchers[i].name) == 0) return &launchers[i];
    return NULL;
}

// The launcher next to the program says how many processes there are; only torchrun starts one
// where nothing is said.
static drv_status read_launcher(translation *self, const shell_command *command, int index) {
    const unsigned kinds = self->kinds;
    const launcher *by = NULL;
    const int n_facts = self->n_facts;
    int begin = 0;
    for (int i = index - 1; i >= 0 && !by; i--) {
        by = launcher_of(command->words[i].text);
        begin = i + 1;
    }
    if (!by) return DRV_OK;
    self->kinds = by->kind;
    const drv_status status = read_flags(self, command, begin, index);
    self->kinds = kinds;
    DRV_TRY(status);
    bool counts = by->kind == FOREIGN_TORCHRUN || self->opts->ranks;
    for (int i = n_facts; i < self->n_facts; i++)
        counts |= by->kind == FOREIGN_SRUN || strcmp(self->facts[i].name, "ranks") == 0 ||
                  strcmp(self->facts[i].name, "devices") == 0;
    if (counts) return DRV_OK;
    return drv_fail(DRV_E_USAGE, "%s: %s does not say how many processes it starts; give --ranks N",
            command_place(self->a, command), by->name);
}

static drv_status read_command(translation *self, const shell_command *c,
        const shell_script *script) {
    const int index = program_at(c, true);
    self->program = base_name(c->words[index].text);
    if (strcmp(self->program, "trl") == 0 && index + 1 < c->n && !is_flag(&c->words[index + 1]))
        self->program = arena_printf(self->a, "trl %s", c->words[index + 1].text);
    add_variables(self, script, false);
    if (str_ends(self->program, ".sh") && !str_starts(self->program, "run_llama3"))
        return drv_fail(DRV_E_USAGE,
                "%s: \"%s\" is a script of its own options, expected run_llama3.1_8b.sh, or the command in it",
                command_place(self->a, c), self->program);
    if (str_ends(self->program, ".sh")) {
        self->kinds = FOREIGN_OPTIONS;
        return read_options(self, c, index);
    }
    DRV_TRY(read_launcher(self, c, index));
    DRV_TRY(read_flags(self, c, index + 1, c->n));
    return defaults_of_program(self, c, index);
}

// --- scripts
typedef struct script_reader {
    translation *self;
    int depth; // of scripts that start each other
} script_reader;

static drv_status follow_command(void *arg, shell_script *script, const shell_command *command);

static drv_status read_script(script_reader *reader, const char *path, shell_script *script) {
    char *text;
    size_t n_bytes;
    if (reader->depth > 8)
        return drv_fail(DRV_E_USAGE, "%s: scripts that call each other more than 8 deep", path);
    DRV_TRY(file_read(reader->self->a, path, &text, &n_bytes));
    script->on_command = follow_command;
    script->on_command_arg = reader;
    reader->depth++;
    const drv_status status = shell_read(reader->self->a, path, text, n_bytes, script);
    reader->depth--;
    return status;
}

// A script that is sourced or started is read where that stands, from the folder of the first one;
// of other commands is said that they are not run.
static drv_status follow_command(void *arg, shell_script *script, const shell_command *command) {
    script_reader *reader = arg;
    translation *self = reader->self;
    const char *verb = command->words[0].text, *path = command->file;
    const bool sources = command->n > 1 && (strcmp(verb, "source") == 0 || strcmp(verb, ".") == 0);
    const bool by_shell = command->n == 2 && (strcmp(verb, "bash") == 0 || strcmp(verb, "sh") == 0);
    const char *other = command->words[sources || by_shell ? 1 : 0].text;
    if (program_at(command, true) >= 0) return DRV_OK;
    const char *slash = strrchr(path, '/');
    const char *beside = path_join(self->a,
            slash ? arena_strndup(self->a, path, (size_t)(slash - path)) : ".", base_name(other));
    const value v = *leaf(self, verb, arena_printf(self->a, "%s:%d", path, command->line), "");
    const bool calls = str_ends(other, ".sh") && (sources || by_shell || command->n == 1) &&
                       strcmp(base_name(other), base_name(path)) != 0;
    if (calls && file_exists(beside)) {
        report_add(self, NO_EFFECT, &v, arena_printf(self->a, "%s is read", beside));
        return read_script(reader, beside, script);
    }
    static const char *const tests[] = {":", "[", "[[", "test", "echo", "set", NULL};
    for (const char *const *word = tests; *word; word++)
        if (strcmp(verb, *word) == 0) return DRV_OK;
    report_add(self, NO_EFFECT, &v,
            calls ? "that script is not here and was not read" : "a command, which is not run");
    return DRV_OK;
}

static drv_status set_variables(translation *self, shell_script *script) {
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

// --- Hydra: NxD Training and NeMo
// An override whose value only a shell knows. Some the launcher says again, some nobody needs.
static void unknown_override(translation *self, const shell_word *word, const char *key,
        const char *where) {
    const bool counts =
            strcmp(key, "trainer.devices") == 0 || strcmp(key, "trainer.num_nodes") == 0;
    const bool elsewhere =
            counts && (self->opts->ranks || (self->kinds & FOREIGN_NXDT)); // --ranks, the YAML
    const foreign_key *row = foreign_find(self->kinds, key);
    const bool free_of_it = elsewhere || (row && row->rule == FOREIGN_none) ||
                            strcmp(key, "exp_manager.explicit_log_dir") == 0;
    report_add(self, free_of_it ? NO_EFFECT : REFUSED, leaf(self, key, where, ""),
            arena_printf(self->a, "is not known: %s%s", word->unknown,
                    free_of_it ? ""
                    : counts   ? "; give --ranks N"
                               : "; give --var NAME=VALUE"));
}

// Overrides of the program's words; --config-path and --config-name give the file below them.
static drv_status read_overrides(translation *self, const shell_command *command, int index,
        value *root) {
    const char *folder = "conf", *name = NULL;
    for (int i = index + 1; i < command->n; i++) {
        const char *text = command->words[i].text;
        if (str_starts(text, "--config-path=")) folder = text + strlen("--config-path=");
        if (str_starts(text, "--config-name=") && !command->words[i].unknown)
            name = text + strlen("--config-name=");
    }
    *root = (value){.kind = VALUE_MAP, .path = "", .where = command->file};
    if (name && command->file) {
        const char *slash = strrchr(command->file, '/');
        const char *path = path_join(self->a, folder,
                str_ends(name, ".yaml") ? name : arena_printf(self->a, "%s.yaml", name));
        if (folder[0] != '/')
            path = path_join(self->a,
                    slash ? arena_strndup(self->a, command->file, (size_t)(slash - command->file))
                          : ".",
                    path);
        if (file_exists(path))
            DRV_TRY(hydra_read(self->a, path, root));
        else if (self->kinds & FOREIGN_NXDT)
            return drv_fail(DRV_E_USAGE, "%s:%d: --config-name is \"%s\", but there is no %s",
                    command->file, command->line, name, path);
        else
            report_add(self, NO_EFFECT,
                    leaf(self, "--config-name",
                            arena_printf(self->a, "%s:%d", command->file, command->line), name),
                    arena_printf(self->a,
                            "%s is not here; what it says beside the overrides is not known",
                            path));
    } else if (self->kinds & FOREIGN_NXDT) {
        return drv_fail(DRV_E_USAGE,
                "%s:%d: which config is trained is not said; give --var CONF_FILE=NAME",
                command->file, command->line);
    }
    for (int i = index + 1; i < command->n; i++) {
        const shell_word *word = &command->words[i];
        const char *equal = strchr(word->text, '=');
        if (word->text[0] == '-') continue;
        const char *where = arena_printf(self->a, "%s:%d", command->file, word->line);
        if (!word->unknown || !equal) {
            DRV_TRY(hydra_override(self->a, root, word->text, where));
            continue;
        }
        const char *key = arena_strndup(self->a, word->text, (size_t)(equal - word->text));
        unknown_override(self, word, key, where);
    }
    return DRV_OK;
}

static drv_status read_hydra(translation *self) {
    const translate_opts *opts = self->opts;
    shell_script script = {0};
    script_reader reader = {self, 0};
    value root = {.kind = VALUE_MAP, .path = "", .where = "command line"};
    drv_status status = set_variables(self, &script);
    bool found = false;
    for (int i = 0; status == DRV_OK && i < opts->n_files; i++)
        if (str_ends(opts->files[i], ".sh"))
            status = read_script(&reader, opts->files[i], &script);
        else if (status = hydra_read(self->a, opts->files[i], &root), true)
            found = true;
    for (int i = 0; status == DRV_OK && i < script.n_commands; i++) {
        const int index = program_at(&script.commands[i], false);
        if (index < 0) continue;
        status = read_overrides(self, &script.commands[i], index, &root);
        found = true;
    }
    if (status == DRV_OK && !found && (self->kinds & FOREIGN_NXDT))
        status = drv_fail(DRV_E_USAGE,
                "%s: no command that trains, expected ... training_orchestrator.py --config-name=NAME",
                opts->files[0]);
    if (status == DRV_OK && (!found || (self->kinds & FOREIGN_NEMO)) &&
            add_variables(self, &script, !found) == 0 && !found)
        status = drv_fail(DRV_E_USAGE,
                "%s: no command that trains, expected ... megatron_gpt_pretraining.py KEY=VALUE..., or variables of llama_7b.sh",
                opts->files[0]);
    for (int i = 0; status == DRV_OK && i < opts->n_words; i++)
        status = hydra_override(self->a, &root, opts->words[i], "command line");
    const shell_variable *iterations = shell_find(&script, "TRAIN_ITERS");
    if (status == DRV_OK && found && iterations && !iterations->file &&
            (self->kinds & FOREIGN_NXDT)) // as train.sh has it
        status = hydra_override(self->a, &root,
                arena_printf(self->a, "trainer.max_steps=%s", iterations->value.text),
                "--var TRAIN_ITERS");
    shell_clear(&script);
    DRV_TRY(status);
    DRV_TRY(hydra_interpolate(self->a, &root));
    translate_tree(self, &root);
    return DRV_OK;
}

static drv_status read_yaml(translation *self) {
    value root;
    DRV_TRY(hydra_read(self->a, self->opts->files[0], &root));
    translate_tree(self, &root);
    return DRV_OK;
}

#define PROGRAMS                                                                                   \
    "expected a program that ends in .py with a trainer's options, or run_llama3.1_8b.sh"

// Returns whether a command starts a training: by its name, or by an option that a trainer has.
// Scripts also run programs that prepare data or convert checkpoints.
static bool trains(const translation *self, const shell_command *c) {
    const int index = program_at(c, true);
    if (index < 0) return false;
    const char *program = base_name(c->words[index].text);
    if (str_ends(program, ".sh") || str_starts(program, "run_llama") ||
            str_starts(program, "ray_train") || str_starts(program, "tp_"))
        return true;
    for (int i = index + 1; i < c->n; i++) {
        if (!is_flag(&c->words[i])) continue;
        const char *name = c->words[i].text + strspn(c->words[i].text, "-");
        if (foreign_find(self->kinds, flag_name(self->a, name, strcspn(name, "=")))) return true;
    }
    return false;
}

static drv_status read_args(translation *self) {
    const translate_opts *opts = self->opts;
    shell_script script = {0};
    script_reader reader = {self, 0};
    drv_status status = set_variables(self, &script);
    for (int i = 0; status == DRV_OK && i < opts->n_files; i++)
        status = read_script(&reader, opts->files[i], &script);
    shell_word *words = ARENA_ARRAY(self->a, shell_word, opts->n_words + 1);
    for (int i = 0; i < opts->n_words; i++)
        words[i].text = opts->words[i];
    const shell_command line = {NULL, 0, words, opts->n_words};
    const shell_command *command = opts->n_words && trains(self, &line) ? &line : NULL;
    for (int i = script.n_commands - 1; !command && i >= 0; i--)
        if (trains(self, &script.commands[i])) command = &script.commands[i];
    if (status == DRV_OK && command)
        status = read_command(self, command, &script);
    else if (status == DRV_OK && opts->n_words)
        status = drv_fail(DRV_E_USAGE, "\"%s\": no command that trains, " PROGRAMS, opts->words[0]);
    else if (status == DRV_OK && add_variables(self, &script, true) == 0)
        status = drv_fail(DRV_E_USAGE,
                "%s: no command that trains, " PROGRAMS ", or variables of generate-jobspec.sh",
                opts->files[0]);
    shell_clear(&script);
    return status;
}

// --- all of it
typedef struct kind {
    const char *name;
    unsigned kinds;
    drv_status (*read)(translation *self);
} kind;

static drv_status find_kind(const char *name, const kind **out) {
    static const kind kinds[] = {{"nxdt", FOREIGN_NXDT, read_hydra},
            {"nemo-megatron", FOREIGN_NEMO, read_hydra}, {"args", FOREIGN_ARGS, read_args},
            {"axolotl", FOREIGN_AXOLOTL, read_yaml}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, name) == 0) {
            *out = &kinds[i];
            return DRV_OK;
        }
    return drv_fail(DRV_E_USAGE, "--from is \"%s\", expected nxdt, nemo-megatron, args or axolotl",
            name);
}

// Refuses a configuration that leaves out what a run needs and no table of defaults has.
static void check_said(translation *self) {
    static const char *const keys[] = {"optimizer.lr", "training.global_batch_size",
            "data.sequence_length"};
    static const value silent = {.kind = VALUE_TEXT,
            .path = "sequence length",
            .where = "default of drover"};
    const bool strict = !(self->kinds & FOREIGN_ARGS) || program_is_nxd(self);
    for (size_t i = 0; i < sizeof keys / sizeof *keys && self->n_frameworks > 0; i++) {
        if (translation_get(self, keys[i])) continue;
        if (!strict && i == 2)
            report_add(self, DIFFERS, &silent,
                    "is not said; data.sequence_length is 1024, or the model's context if that is shorter");
        else
            report_unsaid(self, keys[i]);
    }
}

static drv_status run(translation *self, const kind *k) {
    DRV_TRY(k->read(self));
    DRV_TRY(add_defaults(self));
    DRV_TRY(derive_model(self));
    DRV_TRY(derive_data(self));
    DRV_TRY(derive_run(self));
    check_said(self);
    if (translation_get(self, "model.hidden_size") && !translation_get(self, "model.vocab_size") &&
            !translation_given(self, "model.from") && !translation_given(self, "model.preset"))
        return drv_fail(DRV_E_USAGE,
                "--from %s: the vocabulary is the tokenizer's there; give its size by --set model.vocab_size=N",
                self->opts->kind);
    for (int i = 0; i < self->n_facts; i++)
        if (!self->facts[i].used)
            report_add(self, NO_EFFECT, self->facts[i].v,
                    self->facts[i].v->kind == VALUE_NULL ? "null" : "another key says it");
    return DRV_OK;
}

drv_status translate(arena *a, const translate_opts *opts, str *config, str *report) {
    const kind *k = NULL;
    DRV_TRY(find_kind(opts->kind, &k));
    if (opts->n_files == 0 && (opts->n_words == 0 || k->read != read_args))
        return drv_fail(DRV_E_USAGE, "--from %s: expected a file%s", opts->kind,
                k->read == read_args ? ", or a command line after --" : "");
    translation self = {.a = a, .opts = opts, .kinds = k->kinds, .program = ""};
    drv_status status = run(&self, k);
    translation_report(&self, report);
    if (status == DRV_OK) status = translation_judge(&self);
    if (status == DRV_OK) translation_print(&self, config);
    free(self.lines);
    free(self.settings);
    free(self.facts);
    return status;
}
