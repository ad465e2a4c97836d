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

const char *key_default(const key *k) {
    if (!k->initial) return k->initial_note;
    return *k->initial ? k->initial : "\"\"";
}

void config_print(const run_config *cfg, bool with_help, str *out) {
    arena *a = arena_new("config_print");
    const char *last = "";
    for (int i = 0; i < key_count(); i++) {
        int depth;
        const key k = key_of_index(a, i);
        const char *name = key_open_sections(last, k.path, out, &depth);
        const size_t start = out->n;
        str_printf(out, "%*s%s: ", 2 * depth, "", name);
        k.type->print(&k, cfg, out);
        const int width = (int)(out->n - start);
        if (with_help)
            str_printf(out, "%*s# %s (default: %s)", width < HELP_COLUMN ? HELP_COLUMN - width : 1,
                    "", k.help, key_default(&k));
        str_puts(out, "\n");
        last = k.path;
    }
    arena_free(a);
}

const char *config_key_text(arena *a, const run_config *cfg, int i, const char **path) {
    if (i >= key_count()) return NULL;
    const key k = key_of_index(a, i);
    *path = k.path;
    return key_text(a, &k, cfg);
}

// The default as the key's type prints it: "3.0e-4" and 0.0003 are the same.
static bool is_default(arena *a, const key *k, const run_config *cfg) {
    run_config other = *cfg;
    value v;
    return yaml_read_value(a, k->path, "default", key_default(k), &v) == DRV_OK &&
           k->type->parse(a, k, &v, &other) == DRV_OK &&
           strcmp(key_text(a, k, cfg), key_text(a, k, &other)) == 0;
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
static bool is_untouched(arena *a, const key *k, const run_config *cfg,
        const run_config *untouched) {
    // Those that a run has by its tokenizer and its own name.
    if (STR_ONE_OF(k->path, "model.bos_token_id", "model.eos_token_id", "model.pad_token_id",
                "run_dir"))
        return true;
    const char *now = key_text(a, k, cfg);
    return untouched ? strcmp(now, key_text(a, k, untouched)) == 0
                     : STR_ONE_OF(now, "null", "\"\"", "[]");
}

void config_print_changed(const run_config *cfg, str *out) {
    arena *a = arena_new("changed keys");
    run_config *loaded = ARENA_NEW(a, run_config);
    const run_config *untouched = load_untouched(a, cfg, loaded) ? loaded : NULL;
    for (int i = 0; i < key_count(); i++) {
        const key k = key_of_index(a, i);
        if (k.initial ? is_default(a, &k, cfg) : is_untouched(a, &k, cfg, untouched)) continue;
        str_printf(out, "%s: %s (default: %s)\n", k.path, key_text(a, &k, cfg), key_default(&k));
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
            "A run is one YAML file. All keys except those of the model and the data have defaults. An "
            "unknown key, a wrong\nvalue or a conflict is refused with the file and the line. `--set "
            "KEY=VALUE` overrides a key; of several values\nthe last one counts. `drover config FILE` prints "
            "all keys with their values. The keys of the model are the fields\nof Hugging Face's config.json; "
            "with a preset or `model.from` they change its shape.\n"
            "\n"
            "| key | value | default | meaning |\n"
            "|---|---|---|---|\n");
    for (int i = 0; i < key_count(); i++) {
        const key k = key_of_index(a, i);
        const char *quote = k.initial ? "`" : "";
        str_printf(out, "| `%s` | ", k.path);
        if (k.expected)
            str_puts(out, k.expected);
        else
            k.type->expected(&k, out);
        str_printf(out, "%s | %s%s%s | %s |\n",
                k.optional && k.type != &type_reals && !k.choices ? ", or null" : "", quote,
                key_default(&k), quote, k.help);
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
            "In a config of drover, a key of Hugging Face's Trainer, Megatron-LM, NeMo, NxD Training or torchtitan is refused, and\n"
            "the message names drover's key (the first table). `drover config --from` translates whole files by the other tables.\n"
            "\"Derived together with other keys\": several keys of the trainer determine the value. \"Refused until accepted\": the\n"
            "key would change the result, and the translation fails unless `--accept NAME` names it.\n"
            "\n");
    foreign_keys_print(out);
    arena_free(a);
}
