// Translates command lines of programs that train, alone or in a script.
#include <string.h>

#include "base/file.h"
#include "translate/hydra.h"
#include "translate/scripts.h"
#include "translate/command_words.h"

static drv_status read_options(translation *self, const shell_command *c, int index) {
    const value here = {.kind = VALUE_TEXT,
            .path = self->program,
            .where = command_place(self->a, c)};
    report_add(self, DIFFERS, &here,
            "is not here, or not named by its path: read as data-on-eks has it (2024-11)");
    return flags_translate(self, c, index + 1, c->n);
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
        if (strcmp(path_name(word), launchers[i].name) == 0) return &launchers[i];
    return NULL;
}

// The launcher next to the program sets the number of processes; by default only torchrun starts one.
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
    const drv_status status = flags_translate(self, command, begin, index);
    self->kinds = kinds;
    DRV_TRY(status);
    bool counts = by->kind == FOREIGN_TORCHRUN || self->opts->ranks;
    for (int i = n_facts; i < self->n_facts; i++)
        counts |= by->kind == FOREIGN_SRUN || strcmp(self->facts[i].name, "ranks") == 0 ||
                  strcmp(self->facts[i].name, "devices") == 0;
    if (counts) return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "%s: the number of processes that %s starts is not known; give --ranks N",
            command_place(self->a, command), by->name);
}

// TRL also takes its options from the YAML behind --config; those of the command line, which are
// translated later, replace them (trl/scripts/utils.py, TrlParser).
static drv_status read_config(translation *self, const shell_command *c, int index) {
    const char *path = NULL;
    for (int i = index + 1; i < c->n; i++) {
        const shell_word *word = &c->words[i];
        const bool apart = strcmp(word->text, "--config") == 0 && i + 1 < c->n;
        if (!apart && !str_starts(word->text, "--config=")) continue;
        if (apart) word++;
        if (word->unknown) return DRV_OK; // translated, and refused, as other options are
        path = apart ? word->text : word->text + strlen("--config=");
    }
    value root;
    if (!path) return DRV_OK;
    DRV_TRY(hydra_read(self->a, &self->left, path, &root));
    for (int i = 0; i < root.n; i++)
        if (strcmp(root.items[i].path, "env") == 0)
            report_add(self, NO_EFFECT, &root.items[i], "variables of the environment");
        else
            translate_key(self, &root.items[i]);
    return DRV_OK;
}

static drv_status read_command(translation *self, const shell_command *c,
        const shell_script *script) {
    const int index = program_at(c, true);
    self->program = path_name(c->words[index].text);
    if (strcmp(self->program, "trl") == 0 && index + 1 < c->n && !is_flag(&c->words[index + 1]))
        self->program = arena_printf(self->a, "trl %s", c->words[index + 1].text);
    script_translate_variables(self, script, false);
    if (str_ends(self->program, ".sh") && !str_starts(self->program, "run_llama3"))
        return drv_fail(DRV_E_USAGE,
                "%s: \"%s\" is a script with options of its own, expected run_llama3.1_8b.sh, or the command in it",
                command_place(self->a, c), self->program);
    if (str_ends(self->program, ".sh")) {
        self->kinds = FOREIGN_OPTIONS;
        return read_options(self, c, index);
    }
    DRV_TRY(read_launcher(self, c, index));
    if (program_is_trl(self)) DRV_TRY(read_config(self, c, index));
    DRV_TRY(flags_translate(self, c, index + 1 + str_starts(self->program, "trl "), c->n));
    return defaults_of_program(self, c, index);
}

#define PROGRAMS                                                                                   \
    "expected a program that ends in .py with a trainer's options, or run_llama3.1_8b.sh"

// Returns whether a command starts a training, judged by its name or by an option that trainers
// have. Scripts also run programs that prepare data or convert checkpoints.
static bool trains(const translation *self, const shell_command *c) {
    const int index = program_at(c, true);
    if (index < 0) return false;
    const char *program = path_name(c->words[index].text);
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

// Returns the index of the word that names a script by its path; the words behind it are its
// arguments. -1: there is none.
static int script_at(const shell_command *line, bool is_there) {
    for (int i = 0; i < line->n && !is_flag(&line->words[i]); i++) {
        const char *word = line->words[i].text;
        if (str_ends(word, ".py")) return -1;
        if (str_ends(word, ".sh") && file_exists(word) == is_there) return i;
    }
    return -1;
}

// Refuses a file of options, which is no script, by the trainer to which its lines belong.
static drv_status refuse_options(translation *self, const char *path) {
    static const char trl[] =
            "drover config --from args -- trl sft --config FILE translates the keys that TRL has, too, and names the rest",
                      names[] = "docs/keys.md lists the names of its options here",
                      axolotl[] = "--from axolotl translates it",
                      nxdt[] = "--from nxdt translates it";
    static const struct {
        const char *begin, *trainer, *way;
    } lines[] = {{"finetuning_type:", "LLaMA-Factory", trl}, {"stage:", "LLaMA-Factory", trl},
            {"[training]", "torchtitan", names}, {"[job]", "torchtitan", names},
            {"base_model:", "Axolotl", axolotl}, {"distributed_strategy:", "NxD Training", nxdt}};
    char *text;
    size_t n_bytes;
    DRV_TRY(budget_read(&self->left, self->a, path, &text, &n_bytes));
    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
            if (str_starts(line, lines[i].begin))
                return drv_fail(DRV_E_USAGE,
                        "%s: \"%s\" is a key of %s, not a command; %s (docs/translate.md)", path,
                        lines[i].begin, lines[i].trainer, lines[i].way);
    if (!str_ends(path, ".yaml") && !str_ends(path, ".yml") && !str_ends(path, ".toml"))
        return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "%s: expected a script or, after --, a command; %s (docs/translate.md)", path, trl);
}

// Reads the files. Words after -- that name no program are the arguments of the last file, which
// must use them.
static drv_status read_files(translation *self, const shell_command *line, shell_script *script) {
    const translate_opts *opts = self->opts;
    script_reader reader = {self, 0};
    const bool arguments = opts->n_files > 0 && line->n > 0 && program_at(line, true) < 0 &&
                           script_at(line, true) < 0;
    for (int i = 0; i < opts->n_files; i++) {
        const bool last = i + 1 == opts->n_files;
        DRV_TRY(refuse_options(self, opts->files[i]));
        if (arguments && last) shell_set_arguments(script, line->words, line->n);
        DRV_TRY(script_read(&reader, opts->files[i], script));
    }
    if (arguments && !script->arguments.used)
        return drv_fail(DRV_E_USAGE,
                "%s: \"%s\" is given after --, but the script uses no arguments, expected a command that trains, or nothing",
                opts->files[opts->n_files - 1], line->words[0].text);
    script->arguments.known = false;
    const int index = script_at(line, true);
    if (index < 0) return DRV_OK;
    shell_set_arguments(script, line->words + index + 1, line->n - index - 1);
    return script_read(&reader, line->words[index].text, script);
}

// Finds the command that trains: that of the words, or the last one in the scripts.
static drv_status choose_command(translation *self, const shell_command *line,
        const shell_script *script, const shell_command **out) {
    const bool by_words = line->n > 0 && script_at(line, true) < 0 && trains(self, line);
    const shell_command *by_script = NULL;
    for (int i = script->n_commands - 1; !by_script && i >= 0; i--)
        if (trains(self, &script->commands[i])) by_script = &script->commands[i];
    if (by_words && by_script)
        return drv_fail(DRV_E_USAGE,
                "%s starts a training, and so does \"%s\" after --; expected one of them",
                command_place(self->a, by_script), line->words[program_at(line, true)].text);
    *out = by_words ? line : by_script;
    return DRV_OK;
}

// Returns what users of a trainer can do whose options are those of a file; "": it is none of these.
static const char *other_way(const shell_command *line) {
    static const char *const trainers[] = {"llamafactory", "torchtitan", "litgpt", "train_gpt2"};
    for (int i = 0; i < line->n; i++) {
        if (strstr(line->words[i].text, "axolotl"))
            return "; drover config --from axolotl FILE translates its YAML";
        for (size_t k = 0; k < sizeof trainers / sizeof *trainers; k++)
            if (strstr(line->words[i].text, trainers[k]))
                return "; docs/keys.md lists the names of its options here";
    }
    return "";
}

static drv_status read_line(translation *self, const shell_command *line, shell_script *script) {
    const shell_command *command = NULL;
    DRV_TRY(read_files(self, line, script));
    DRV_TRY(choose_command(self, line, script, &command));
    if (command) return read_command(self, command, script);
    const bool words = line->n > 0 && (self->opts->n_files == 0 || program_at(line, true) >= 0);
    const int missing = script_at(line, false);
    if (words && missing >= 0)
        return drv_fail(DRV_E_USAGE, "script \"%s\" does not exist; expected its path",
                line->words[missing].text);
    if (words)
        return drv_fail(DRV_E_USAGE, "\"%s\": no command that trains, " PROGRAMS "%s",
                line->words[0].text, other_way(line));
    if (self->opts->n_files > 0 && script_translate_variables(self, script, true) > 0)
        return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "%s: no command that trains, " PROGRAMS ", or variables of generate-jobspec.sh",
            self->opts->n_files ? self->opts->files[0] : "command line");
}

drv_status command_line_read(translation *self) {
    const translate_opts *opts = self->opts;
    shell_script script = {0};
    shell_word *words = ARENA_ARRAY(self->a, shell_word, opts->n_words + 1);
    for (int i = 0; i < opts->n_words; i++)
        words[i].text = opts->words[i];
    drv_status status = script_set_variables(self, &script);
    const int begin = script_take_environment(self, &script, words, opts->n_words);
    const shell_command line = {NULL, 0, words + begin, opts->n_words - begin};
    if (status == DRV_OK) status = read_line(self, &line, &script);
    shell_clear(&script);
    return status;
}
