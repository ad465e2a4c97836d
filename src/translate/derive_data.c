// Derives data sets, rows and the tokenizer from several foreign keys together.
#include <string.h>

#include "base/file.h"
#include "config/config.h"
#include "config/key.h"
#include "translate/translation.h"

// Returns the prefix that drover data build gives to the data set of a file or folder: its path
// without the extension.
static const char *prefix_of(arena *a, const char *path) {
    static const char *const endings[] = {".jsonl", ".json", ".arrow", ".parquet"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (str_ends(path, endings[i]))
            return arena_strndup(a, path, strlen(path) - strlen(endings[i]));
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    return arena_strndup(a, path, n);
}

static bool learns_from_pairs(const translation *self) {
    const char *objective = translation_get(self, "training.objective");
    return objective && strcmp(objective, "dpo") == 0;
}

static void set_source(translation *self, const char *ours, const value *v, const char *path,
        bool sft) {
    const char *form = learns_from_pairs(self) ? " --preference" : sft ? " --sft" : "";
    const char *prefix = prefix_of(self->a, path);
    const value text = {.kind = VALUE_TEXT, .text = prefix};
    translation_set(self, ours, value_yaml(self->a, &text, true), v,
            arena_printf(self->a,
                    "build it first: drover data build%s --input %s --out %s --tokenizer DIR", form,
                    path_for_shell(self->a, path), path_for_shell(self->a, prefix)));
}

// Reads Megatron's [weight, prefix, ...], [prefix, ...] or "prefix"; NULL: it is none of these.
static const char *blend_yaml(arena *a, const value *v) {
    const char *list = "[";
    double weight;
    if (v->kind == VALUE_TEXT) return value_yaml(a, v, true);
    if (v->kind != VALUE_LIST || v->n == 0) return NULL;
    const bool weighted = v->items[0].kind == VALUE_TEXT && str_to_f64(v->items[0].text, &weight);
    if (weighted && v->n % 2 != 0) return NULL;
    for (int i = 0; i < v->n; i += 1 + weighted) {
        const value *prefix = &v->items[i + weighted];
        const bool number =
                weighted && v->items[i].kind == VALUE_TEXT && str_to_f64(v->items[i].text, &weight);
        if (prefix->kind != VALUE_TEXT || (weighted && (!number || !(weight > 0)))) return NULL;
        list = arena_printf(a, "%s%s{prefix: %s, weight: %s}", list, i ? ", " : "",
                value_yaml(a, prefix, true), weighted ? str_real(weight) : "1.0");
    }
    return arena_printf(a, "%s]", list);
}

static void derive_blend(translation *self, const value *blend) {
    const char *train = NULL, *valid = NULL;
    for (int i = 0; blend->kind == VALUE_MAP && i < blend->n; i++) {
        const value *part = &blend->items[i];
        if (strcmp(part->name, "train") == 0) train = blend_yaml(self->a, part);
        if (strcmp(part->name, "validation") == 0) valid = blend_yaml(self->a, part);
    }
    if (blend->kind != VALUE_MAP) train = blend_yaml(self->a, blend);
    if (!train) {
        report_add(self, REFUSED, blend, "expected a prefix, or a list of weights and prefixes");
        return;
    }
    translation_set(self, "data.train", train, blend,
            "Megatron's .bin and .idx are read as they lie");
    if (valid) translation_set(self, "data.valid", valid, blend, NULL);
    translation_set(self, "data.pack", "stream", blend, "attention crosses documents there");
}

static void derive_split(translation *self) {
    const value *split = fact_take(self, "split"), *share = fact_take(self, "val_share");
    double x;
    if (split && translation_get(self, "data.valid"))
        report_add(self, NO_EFFECT, split, "data.valid is given");
    else if (split && split->kind == VALUE_LIST)
        translation_set(self, "data.split", value_yaml(self->a, split, false), split, NULL);
    else if (split && split->kind == VALUE_TEXT &&
             strspn(split->text, "0123456789., ") == strlen(split->text))
        translation_set(self, "data.split", arena_printf(self->a, "[%s]", split->text), split,
                NULL);
    else if (split)
        report_add(self, REFUSED, split, "expected three numbers, as 980,10,10");
    if (share && share->kind == VALUE_TEXT && str_to_f64(share->text, &x) && x > 0 && x < 1)
        translation_set(self, "data.split",
                arena_printf(self->a, "[%s, %s, 0]", str_real(1 - x), str_real(x)), share,
                "of the documents in their order");
    else if (share)
        report_add(self, x == 0 ? NO_EFFECT : CHANGES, share,
                x == 0 ? "it is off"
                       : "is a number of records; give data.split or data.valid by --set");
}

// --- Axolotl's list of {path, type}
static const value *entry_field(const value *entry, const char *name) {
    for (int k = 0; entry->kind == VALUE_MAP && k < entry->n; k++)
        if (strcmp(entry->items[k].name, name) == 0) return &entry->items[k];
    return NULL;
}

// Returns the file or folder of an entry: its path, or its data_files if the path only names a
// format. NULL: there is none, or there are several.
static const char *entry_path(const value *entry) {
    static const char *const formats[] = {"json", "csv", "parquet", "arrow", "text", NULL};
    const value *path = entry_field(entry, "path"), *files = entry_field(entry, "data_files");
    if (entry->kind == VALUE_TEXT) return entry->text;
    bool is_format = false;
    for (const char *const *format = formats; path && *format; format++)
        is_format |= says(path, *format);
    if (files && files->kind == VALUE_LIST && files->n == 1) files = &files->items[0];
    if (files) return is_format && files->kind == VALUE_TEXT ? files->text : NULL;
    return path && path->kind == VALUE_TEXT && !is_format ? path->text : NULL;
}

// Reports what else an entry has: the part of the set that is taken, for which we have no key, and
// how text is made from it, which happens when the set is built.
static void report_entry(translation *self, const value *entry, bool by_data) {
    for (int k = 0; entry->kind == VALUE_MAP && k < entry->n; k++) {
        const value *v = &entry->items[k];
        const bool is_part = STR_ONE_OF(v->name, "split", "shards", "shards_idx",
                           "preprocess_shards", "name", "revision"),
                   is_known = STR_ONE_OF(v->name, "path", "data_files", "type", "ds_type");
        const bool whole = v->kind == VALUE_NULL || says(v, "train") || says(v, "main") ||
                           (says(v, "1") && strcmp(v->name, "shards") == 0);
        if (is_part && whole)
            report_add(self, NO_EFFECT, v, "a set has no other part");
        else if (is_part && by_data)
            report_add(self, NO_EFFECT, v, "--data gives the set: it holds what it was built of");
        else if (is_part)
            report_add(self, CHANGES, v,
                    "takes a part of the set; build it of those records alone, and give it by --data");
        else if (!is_known)
            report_add(self, NO_EFFECT, v,
                    "text is made when the set is built: drover data build --sft --template");
    }
}

// Returns whether an entry is plain text, without roles.
static bool is_completion(const value *entry) {
    const value *type = entry_field(entry, "type");
    return type && (says(type, "completion") || says(type, "pretrain"));
}

static void derive_entries(translation *self, const value *v, const char *ours, bool pretraining) {
    const bool list = v->kind == VALUE_LIST && v->n > 0;
    const value *first = list ? &v->items[0] : v;
    const bool by_data = strcmp(ours, "data.train") == 0 && self->opts->data;
    const bool several = list && v->n > 1;
    const char *path = several ? NULL : entry_path(first);
    for (int i = 0; list && i < v->n; i++)
        report_entry(self, &v->items[i], by_data);
    if (!list) report_entry(self, v, by_data);
    if (translation_given(self, ours) || by_data)
        report_printf(self, NO_EFFECT, v, "%s is given", ours);
    else if (!path)
        report_printf(self, CHANGES, v,
                "are several sets, or one without a path; give %s by --set or --data", ours);
    else
        set_source(self, ours, v, path, !pretraining && !is_completion(first));
}

// Decides which tokens are trained on: the answers of conversations, all of plain text.
static void derive_datasets(translation *self) {
    const value *sets = fact_take(self, "datasets"),
                *texts = fact_take(self, "pretraining_dataset"),
                *tests = fact_take(self, "test_datasets");
    const value *inputs = fact_take(self, "train_on_inputs");
    bool plain = texts != NULL, mixed = false;
    if (sets) derive_entries(self, sets, "data.train", false);
    if (texts) derive_entries(self, texts, "data.train", true);
    if (tests) derive_entries(self, tests, "data.valid", false);
    if (texts) translation_set(self, "data.pack", "stream", texts, NULL);
    for (int i = 0; sets && sets->kind == VALUE_LIST && i < sets->n; i++) {
        mixed |= i > 0 && plain != is_completion(&sets->items[i]);
        plain |= is_completion(&sets->items[i]);
    }
    if (!inputs) return;
    if (mixed)
        report_add(self, CHANGES, inputs,
                "has conversations, and another set plain text; data.loss holds for all sets");
    else if (plain)
        translation_set(self, "data.loss", "all", inputs, "the set is plain text");
    else if (!is_default(inputs))
        translation_set(self, "data.loss", says_true(inputs) ? "all" : "responses", inputs, NULL);
    else
        report_add(self, NO_EFFECT, inputs, "data.loss is auto: answers, where the set has them");
}

// Derives how rows are filled: with whole examples if the set has conversations.
static void derive_packing(translation *self, bool sft) {
    const value *packing = fact_take(self, "packing"), *of_sft = fact_take(self, "sft_packing"),
                *both = fact_take(self, "sample_packing");
    const value *answers = fact_take(self, "answers_only"),
                *strategy = fact_take(self, "packing_strategy");
    const value *v = of_sft ? of_sft : packing;
    const bool wrapped = strategy && says(strategy, "wrapped");
    if (strategy)
        report_add(self, NO_EFFECT, strategy, "packing decides whether examples share rows");
    if (both) v = both;
    if (both && is_default(both) && fact_is_said(self, "pretraining_dataset")) return;
    if (of_sft && packing) report_add(self, NO_EFFECT, packing, "sft.packing decides it");
    if (v && says_true(v))
        translation_set(self, "data.pack",
                sft || both || (program_is_trl(self) && !wrapped) ? "examples" : "stream", v,
                sft ? "and each example sees itself alone; NxD Training's packing loses which tokens are answers"
                    : NULL);
    else if (v)
        report_add(self, CHANGES, v,
                "is off, so that each example has a row of its own; here a row holds as many as fit");
    if (sft && v) translation_set(self, "data.loss", "responses", v, NULL);
    if (answers)
        translation_set(self, "data.loss", says_true(answers) ? "responses" : "all", answers, NULL);
}

// Returns the longest row that the model takes; 0: the model is not known yet.
static int64_t context_of(translation *self) {
    const char **sets = ARENA_ARRAY(self->a, const char *, self->opts->n_sets + n_model_keys);
    run_config cfg;
    int n = 0;
    for (int i = 0; i < self->opts->n_sets; i++)
        if (str_starts(self->opts->sets[i], "model.")) sets[n++] = self->opts->sets[i];
    for (int i = 0; i < n_model_keys; i++) {
        const char *ours = arena_printf(self->a, "model.%s", model_keys[i].path);
        const char *said = translation_given(self, ours) ? NULL : translation_get(self, ours);
        if (said) sets[n++] = arena_printf(self->a, "%s=%s", ours, said);
    }
    return n && config_load(self->a, NULL, sets, n, &cfg) == DRV_OK
                   ? cfg.model.max_position_embeddings
                   : 0;
}

static drv_status derive_rows(translation *self, bool sft) {
    const value *row = fact_take(self, "row_length"), *model = fact_take(self, "sequence_length");
    const value *v = row ? row : model;
    const int64_t context = v && is_default(v) ? context_of(self) : 0;
    double length;
    if (context && v->kind == VALUE_TEXT && str_to_f64(v->text, &length) &&
            length > (double)context) {
        translation_set(self, "data.sequence_length", number_yaml(self->a, (double)context), v,
                arena_printf(self->a, "of %s, as long as the model's context", v->text));
    } else if (v) {
        translation_set(self, "data.sequence_length", value_yaml(self->a, v, false), v, NULL);
    }
    if (row && model)
        report_printf(self, NO_EFFECT, model, "%s gives the length of rows%s", row->path,
                says(model, row->kind == VALUE_TEXT ? row->text : "")
                        ? ""
                        : "; NxD Training itself refuses two lengths");
    derive_packing(self, sft);
    return DRV_OK;
}

// --data is the data set, whatever the foreign config names.
static void derive_train(translation *self, const value *train, const value *blend, bool sft) {
    static const value by_data = {.kind = VALUE_TEXT, .path = "--data", .where = "command line"};
    const value text = {.kind = VALUE_TEXT, .text = self->opts->data};
    const value *from = train ? train : blend ? blend : &by_data;
    if (self->opts->data) {
        translation_set(self, "data.train", value_yaml(self->a, &text, true), from, "by --data");
        if (train && blend) report_add(self, NO_EFFECT, blend, "--data gives the set");
        if (blend)
            translation_set(self, "data.pack", "stream", blend,
                    "attention crosses documents there");
    } else if (train && train->kind == VALUE_TEXT) {
        set_source(self, "data.train", train, train->text, sft);
    } else if (train) {
        report_add(self, REFUSED, train, "expected a path");
    }
    if (blend && !self->opts->data) derive_blend(self, blend);
    if (train && !sft && (self->kinds & FOREIGN_NXDT))
        translation_set(self, "data.pack", "stream", train, "attention crosses documents there");
}

// Derives DPO; drover has no other training on preference pairs.
static void derive_objective(translation *self) {
    const value *beta = fact_take(self, "dpo_beta"), *rl = fact_take(self, "rl");
    if (rl && !says(rl, "dpo")) {
        if (says(rl, "null") || says(rl, "false"))
            report_add(self, NO_EFFECT, rl, "it is off");
        else
            report_printf(self, REFUSED, rl,
                    "is %s, which is not supported; expected dpo: there is no other training on preferences or rewards",
                    value_shown(self->a, rl));
        return;
    }
    const value *v = beta ? beta : rl;
    if (!v) return;
    translation_set(self, "training.objective", "dpo", v, NULL);
    if (beta) translation_set(self, "dpo.beta", value_yaml(self->a, beta, false), beta, NULL);
    report_add(self, CHANGES, v,
            "goes with DPO, whose batch counts pairs, each in a row of its own; here training.global_batch_size counts "
            "rows, which hold as many pairs as fit");
}

drv_status derive_data(translation *self) {
    const value *train = fact_take(self, "train"), *valid = fact_take(self, "valid"),
                *blend = fact_take(self, "blend");
    derive_objective(self);
    const bool sft = learns_from_pairs(self) || fact_is_said(self, "sft_packing");
    derive_train(self, train, blend, sft || fact_is_said(self, "answers_only"));
    if (valid && valid->kind == VALUE_TEXT && (sft || !(self->kinds & FOREIGN_NXDT)))
        set_source(self, "data.valid", valid, valid->text, sft);
    else if (valid)
        report_add(self, NO_EFFECT, valid,
                "NxD Training does not evaluate in a pre-training; give data.valid by --set");
    derive_datasets(self);
    derive_split(self);
    fact_set(self, "tokenizer", "tokenizer", true);
    fact_set(self, "run_dir", "run_dir", true);
    return derive_rows(self, sft);
}
