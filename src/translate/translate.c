// Reads the files and words of each kind, translates every key, and prints the config and the report.
#include "translate/translate.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "config/config.h"
#include "translate/hydra.h"
#include "translate/scripts.h"
#include "translate/command_words.h"

// Returns whether a line of the report is about a name.
static bool was_said(const translation *self, const char *name) {
    for (int i = 0; i < self->n_lines; i++)
        if (strcmp(self->lines[i].name, name) == 0) return true;
    return false;
}

// Sets "name=value" of a table; false: the configuration gives this key.
static drv_status add_default(translation *self, const framework *of, const char *word) {
    const char *equal = strchr(word, '='),
               *name = arena_strndup(self->a, word, (size_t)(equal - word));
    const foreign_key *row = foreign_find(self->kinds, name);
    DRV_ASSERT(row, "no row for the default \"%s\"", word);
    const bool said = row->rule == FOREIGN_fact ? fact_has_value(self, row->argument)
                      : row->ours               ? translation_get(self, row->ours) != NULL
                                                : was_said(self, name);
    if (said) return DRV_OK;
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

// --- Hydra: NxD Training and NeMo
// Handles an override whose value only a shell knows: some are known from the launcher, some do not
// matter.
static void unknown_override(translation *self, const shell_word *word, const char *key,
        const char *where) {
    const bool counts =
            strcmp(key, "trainer.devices") == 0 || strcmp(key, "trainer.num_nodes") == 0;
    const bool elsewhere =
            counts && (self->opts->ranks || (self->kinds & FOREIGN_NXDT)); // --ranks, the YAML
    const foreign_key *row = foreign_find(self->kinds, key);
    const bool free_of_it = elsewhere || (row && row->rule == FOREIGN_none) ||
                            strcmp(key, "exp_manager.explicit_log_dir") == 0;
    report_printf(self, free_of_it ? NO_EFFECT : REFUSED, word_value(self, key, where, ""),
            "is not known: %s%s", word->unknown,
            free_of_it ? ""
            : counts   ? "; give --ranks N"
                       : "; give --var NAME=VALUE");
}

// The configuration that NeMo ships is built in; any other file must exist.
static void report_missing(translation *self, const shell_command *command, const char *name,
        const char *path) {
    static const char own[] = "megatron_llama_config";
    const value *v = word_value(self, "--config-name", command_place(self->a, command), name);
    const bool is_own = strncmp(name, own, strlen(own)) == 0;
    if (is_own) defaults_of_nemo(self);
    report_printf(self, DIFFERS, v, "%s is not here; what it says besides the overrides is %s",
            path, is_own ? "taken from neuronx-nemo-megatron 2.21" : "not known");
}

// Reads the overrides among the program's words; --config-path and --config-name name the file that
// they change.
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
        const char *path = path_join(self->a, folder,
                str_ends(name, ".yaml") ? name : arena_printf(self->a, "%s.yaml", name));
        if (folder[0] != '/') path = path_join(self->a, path_parent(self->a, command->file), path);
        if (file_exists(path))
            DRV_TRY(hydra_read(self->a, &self->left, path, root));
        else if (self->kinds & FOREIGN_NXDT)
            return drv_fail(DRV_E_USAGE, "%s:%d: --config-name is \"%s\", but there is no %s",
                    command->file, command->line, name, path);
        else
            report_missing(self, command, name, path);
    } else if (self->kinds & FOREIGN_NXDT) {
        return drv_fail(DRV_E_USAGE,
                "%s:%d: the config that is trained is not known; give --var CONF_FILE=NAME",
                command->file, command->line);
    }
    for (int i = index + 1; i < command->n; i++) {
        const shell_word *word = &command->words[i];
        const char *equal = strchr(word->text, '=');
        if (word->text[0] == '-') continue;
        const char *where = arena_printf(self->a, "%s:%d", command->file, word->line);
        if (!word->unknown || !equal) {
            DRV_TRY(hydra_override(self->a, &self->left, root, word->text, where));
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
    drv_status status = script_set_variables(self, &script);
    bool found = false;
    for (int i = 0; status == DRV_OK && i < opts->n_files; i++)
        if (str_ends(opts->files[i], ".sh"))
            status = script_read(&reader, opts->files[i], &script);
        else if (found)
            status = drv_fail(DRV_E_USAGE, "--from %s: \"%s\" is a second YAML, expected one",
                    opts->kind, opts->files[i]);
        else if (status = hydra_read(self->a, &self->left, opts->files[i], &root), true)
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
            script_translate_variables(self, &script, !found) == 0 && !found)
        status = drv_fail(DRV_E_USAGE,
                "%s: no command that trains, expected ... megatron_gpt_pretraining.py KEY=VALUE..., or variables of llama_7b.sh",
                opts->files[0]);
    for (int i = 0; status == DRV_OK && i < opts->n_words; i++)
        status = hydra_override(self->a, &self->left, &root, opts->words[i], "command line");
    const shell_variable *iterations = shell_find(&script, "TRAIN_ITERS");
    if (status == DRV_OK && found && iterations && !iterations->file &&
            (self->kinds & FOREIGN_NXDT)) // the default of train.sh
        status = hydra_override(self->a, &self->left, &root,
                arena_printf(self->a, "trainer.max_steps=%s", iterations->value.text),
                "--var TRAIN_ITERS");
    shell_clear(&script);
    DRV_TRY(status);
    DRV_TRY(hydra_interpolate(self->a, &self->left, &root));
    translate_tree(self, &root);
    return DRV_OK;
}

// Reads Axolotl's options after its YAML file: --key=value or --key value.
static drv_status override_yaml(translation *self, value *root) {
    const translate_opts *opts = self->opts;
    for (int i = 0; i < opts->n_words; i++) {
        const char *word = opts->words[i], *equal = strchr(word, '=');
        const shell_word flag = {word, NULL, 0};
        const bool next = !equal && i + 1 < opts->n_words &&
                          !is_flag(&(shell_word){opts->words[i + 1], NULL, 0});
        if (!str_starts(word, "--") || !is_flag(&flag))
            return drv_fail(DRV_E_USAGE, "\"%s\" is given after --, expected --KEY=VALUE", word);
        const char *name = flag_name(self->a, word + 2, strcspn(word + 2, "="));
        const char *text = equal ? equal + 1 : next ? opts->words[++i] : "true";
        DRV_TRY(hydra_override(self->a, &self->left, root,
                arena_printf(self->a, "%s=%s", name, text), "command line"));
    }
    return DRV_OK;
}

static drv_status read_yaml(translation *self) {
    value root;
    if (self->opts->n_files > 1)
        return drv_fail(DRV_E_USAGE, "--from %s: \"%s\" is a second file, expected one",
                self->opts->kind, self->opts->files[1]);
    DRV_TRY(hydra_read(self->a, &self->left, self->opts->files[0], &root));
    DRV_TRY(override_yaml(self, &root));
    translate_tree(self, &root);
    return DRV_OK;
}

// --- the whole translation
typedef struct kind {
    const char *name;
    unsigned kinds;
    drv_status (*read)(translation *self);
} kind;

static drv_status find_kind(const char *name, const kind **out) {
    static const kind kinds[] = {{"nxdt", FOREIGN_NXDT, read_hydra},
            {"nemo-megatron", FOREIGN_NEMO, read_hydra}, {"args", FOREIGN_ARGS, command_line_read},
            {"axolotl", FOREIGN_AXOLOTL, read_yaml}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, name) == 0) {
            *out = &kinds[i];
            return DRV_OK;
        }
    return drv_fail(DRV_E_USAGE, "--from is \"%s\", expected nxdt, nemo-megatron, args or axolotl",
            name);
}

// Refuses a configuration without a key that a run needs and no table of defaults has.
static void check_said(translation *self) {
    static const char *const keys[] = {"optimizer.lr", "training.global_batch_size",
            "data.sequence_length"};
    static const value silent = DEFAULT_VALUE("sequence length", "drover");
    const bool strict = !(self->kinds & FOREIGN_ARGS) || program_is_nxd(self);
    for (size_t i = 0; i < sizeof keys / sizeof *keys && self->n_frameworks > 0; i++) {
        if (translation_get(self, keys[i])) continue;
        if (!strict && i == 2)
            report_add(self, DIFFERS, &silent,
                    "is not given; data.sequence_length is 1024, or the model's context if that is shorter");
        else
            report_unsaid(self, keys[i]);
    }
}

static drv_status run(translation *self, const kind *k) {
    DRV_TRY(config_check_sets(self->a, self->opts->sets, self->opts->n_sets));
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
            report_add(self, NO_EFFECT, self->facts[i].value,
                    self->facts[i].value->kind == VALUE_NULL ? "null" : "another key decides it");
    return DRV_OK;
}

// Adds to a message how many keys are refused, which may be why something else is missing.
static drv_status add_refused(const translation *self, drv_status status) {
    int n = 0;
    for (int i = 0; i < self->n_lines; i++)
        n += self->lines[i].outcome == REFUSED;
    if (status != DRV_E_USAGE || n == 0) return status;
    const char *message = arena_strdup(self->a, drv_message());
    return drv_fail(status, "%s; %d key%s refused, listed above", message, n,
            n > 1 ? "s are" : " is");
}

drv_status translate(arena *a, const translate_opts *opts, str *config, str *report) {
    const kind *k = NULL;
    DRV_TRY(find_kind(opts->kind, &k));
    if (opts->n_files == 0 && (opts->n_words == 0 || k->read != command_line_read))
        return drv_fail(DRV_E_USAGE, "--from %s: expected a file%s", opts->kind,
                k->read == command_line_read ? ", or a command line after --" : "");
    translation self = {.a = a,
            .opts = opts,
            .kinds = k->kinds,
            .program = "",
            .left = budget_begin()};
    drv_status status = add_refused(&self, run(&self, k));
    translation_report(&self, report);
    if (status == DRV_OK) status = translation_judge(&self);
    if (status == DRV_OK) translation_print(&self, config);
    free(self.lines);
    free(self.settings);
    free(self.facts);
    return status;
}
