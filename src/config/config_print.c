// The configuration as text: YAML with every key, which reads back to the same, and the reference
// of all keys as Markdown.
#include <stdio.h>
#include <string.h>

#include "config/config.h"
#include "config/foreign_key.h"
#include "config/key.h"

enum { HELP_COLUMN = 40 };

const char *key_open_sections(const char *last, const char *path, str *out, int *depth) {
    const char *name = path, *dot;
    bool same = true;
    for (*depth = 0; (dot = strchr(name, '.')); (*depth)++, name = dot + 1) {
        const size_t n = (size_t)(dot + 1 - path);
        same = same && strncmp(last, path, n) == 0;
        if (!same) str_printf(out, "%*s%.*s:\n", 2 * *depth, "", (int)(dot - name), name);
    }
    return name;
}

static const char *default_of(const key *k) {
    if (!k->initial) return k->initial_note;
    return *k->initial ? k->initial : "\"\"";
}

void config_print(const run_config *cfg, bool with_help, str *out) {
    arena *a = arena_new("config_print");
    const char *last = "";
    for (int i = 0; i < key_count(); i++) {
        const key_table *table;
        const char *path;
        int depth;
        const key *k = key_of_index(a, i, &table, &path);
        const char *name = key_open_sections(last, path, out, &depth);
        const size_t start = out->n;
        str_printf(out, "%*s%s: ", 2 * depth, "", name);
        k->type->print(k, (const char *)cfg + table->offset, out);
        const int width = (int)(out->n - start);
        if (with_help)
            str_printf(out, "%*s# %s (default: %s)", width < HELP_COLUMN ? HELP_COLUMN - width : 1,
                    "", k->help, default_of(k));
        str_puts(out, "\n");
        last = path;
    }
    arena_free(a);
}

const char *config_key_text(arena *a, const run_config *cfg, int i, const char **path) {
    if (i >= key_count()) return NULL;
    const key_table *table;
    const key *k = key_of_index(a, i, &table, path);
    str out = {0};
    k->type->print(k, (const char *)cfg + table->offset, &out);
    return str_keep(a, &out);
}

// The default as the key's type prints it: "3.0e-4" and 0.0003 are the same.
static bool is_default(arena *a, const key *k, const key_table *table, const run_config *cfg) {
    run_config other = *cfg;
    str now = {0}, then = {0};
    value v;
    const char *text = *k->initial ? k->initial : "\"\"";
    bool same = yaml_read_value(a, k->path, "default", text, &v) == DRV_OK &&
                k->type->parse(a, k, &v, (char *)&other + table->offset) == DRV_OK;
    if (same) {
        k->type->print(k, (const char *)cfg + table->offset, &now);
        k->type->print(k, (const char *)&other + table->offset, &then);
        same = strcmp(now.p, then.p) == 0;
    }
    str_free(&now);
    str_free(&then);
    return same;
}

// Loads the config that has only this model's preset or folder; false: single keys describe it.
static bool load_untouched(arena *a, const run_config *cfg, run_config *out) {
    const bool from = *cfg->from != 0;
    if (!from && !*cfg->preset) return false;
    str quoted = {0};
    yaml_quote(from ? cfg->from : cfg->preset, &quoted);
    const char *set = arena_printf(a, "model.%s=%s", from ? "from" : "preset", quoted.p);
    str_free(&quoted);
    return config_load(a, NULL, &set, 1, out) == DRV_OK;
}

// Compares a key whose default depends on other keys with that default (untouched NULL: none).
static bool is_untouched(const char *path, const key *k, const key_table *table,
        const run_config *cfg, const run_config *untouched) {
    // Those that a run has by its tokenizer and its own name.
    if (STR_ONE_OF(path, "model.bos_token_id", "model.eos_token_id", "model.pad_token_id",
                "run_dir"))
        return true;
    str now = {0}, then = {0};
    k->type->print(k, (const char *)cfg + table->offset, &now);
    if (untouched) k->type->print(k, (const char *)untouched + table->offset, &then);
    const bool absent = str_is(&now, "null") || str_is(&now, "\"\"") || str_is(&now, "[]");
    const bool same = untouched ? strcmp(now.p, then.p) == 0 : absent;
    str_free(&now);
    str_free(&then);
    return same;
}

void config_print_changed(const run_config *cfg, str *out) {
    arena *a = arena_new("changed keys");
    run_config *loaded = ARENA_NEW(a, run_config);
    const run_config *untouched = load_untouched(a, cfg, loaded) ? loaded : NULL;
    for (int i = 0; i < key_count(); i++) {
        const key_table *table;
        const char *path;
        const key *k = key_of_index(a, i, &table, &path);
        if (k->initial ? is_default(a, k, table, cfg)
                       : is_untouched(path, k, table, cfg, untouched))
            continue;
        str_printf(out, "%s: ", path);
        k->type->print(k, (const char *)cfg + table->offset, out);
        str_printf(out, " (default: %s)\n", default_of(k));
    }
    arena_free(a);
}

static bool is_of_host(const char *path) {
    return STR_ONE_OF(path, "model.from", "tokenizer", "data.train", "data.valid", "lora.adapter",
            "pjrt.plugin", "run_dir", "training.status_dir", "training.threads", "training.http",
            "training.http_metrics_token_file");
}

void config_print_shared(const run_config *cfg, str *out) {
    arena *a = arena_new("shared keys");
    const char *path, *text;
    for (int i = 0; (text = config_key_text(a, cfg, i, &path)); i++)
        if (!is_of_host(path)) str_printf(out, "%s: %s\n", path, text);
    arena_free(a);
}

void config_print_reference(str *out) {
    arena *a = arena_new("reference of keys");
    str_puts(out,
            "<!-- made by `drover config --reference`; do not edit -->\n"
            "# All keys of a configuration\n"
            "\n"
            "A run is one YAML file. Every key but the model and the data has a default; an unknown key, a "
            "wrong value or a\nconflict is refused with the file and the line. `--set KEY=VALUE` overrides "
            "a key, the last one counts, and\n`drover config FILE` prints all of them with their values. "
            "The model's keys are the fields of Hugging Face's\nconfig.json; with a preset or `model.from` "
            "they change its shape.\n"
            "\n"
            "| key | value | default | meaning |\n"
            "|---|---|---|---|\n");
    for (int i = 0; i < key_count(); i++) {
        const key_table *table;
        const char *path;
        const key *k = key_of_index(a, i, &table, &path);
        str value_text = {0};
        if (k->expected)
            str_puts(&value_text, k->expected);
        else
            k->type->expected(k, &value_text);
        str_printf(out, "| `%s` | %s%s | %s%s%s | %s |\n", path, value_text.p,
                k->optional && k->type != &type_reals && !k->choices ? ", or null" : "",
                k->initial ? "`" : "", default_of(k), k->initial ? "`" : "", k->help);
        str_free(&value_text);
    }
    str_puts(out, "\n"
                  "Built-in shapes (`model.preset`):");
    for (int i = 0; i < n_model_presets; i++)
        str_printf(out, "%s `%s`", i ? "," : "", model_preset_name(i));
    str_puts(out,
            ".\n"
            "\n"
            "## Keys of other trainers\n"
            "\n"
            "A key of Hugging Face's Trainer, Megatron-LM, NeMo, NxD Training or torchtitan is refused, in any section, with its name\nin drover. `drover config --from` translates whole files by the tables below the first.\n"
            "\n");
    foreign_keys_print(out);
    arena_free(a);
}
