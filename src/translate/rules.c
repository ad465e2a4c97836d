// Translates single foreign keys, by a function for each rule of the list.
#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "config/key.h"
#include "translate/translation.h"

// --- values
bool says(const value *v, const char *text) {
    if (v->kind == VALUE_NULL) return strcmp(text, "null") == 0;
    return v->kind == VALUE_TEXT && strcasecmp(v->text, text) == 0;
}

bool says_true(const value *v) {
    return says(v, "true") || says(v, "yes") || says(v, "1") || says(v, "auto");
}

bool is_lightning(const translation *self) {
    return self->kinds & (FOREIGN_NXDT | FOREIGN_NEMO);
}

bool is_whole(double x) {
    return x == floor(x) && fabs(x) < 9e15;
}

const char *number_yaml(arena *a, double x) {
    return arena_printf(a, "%lld", (long long)x);
}

drv_status refuse_value(const translation *self, const value *v, const char *what, ...) {
    char text[512];
    va_list list;
    va_start(list, what);
    vsnprintf(text, sizeof text, what, list);
    va_end(list);
    return drv_fail(DRV_E_USAGE, "%s: \"%s\" is %s, %s", v->where, v->path, value_shown(self->a, v),
            text);
}

static bool is_off(const value *v) {
    return v->kind == VALUE_NULL || says(v, "false") || says(v, "no") || says(v, "0") ||
           says(v, "none") || says(v, "") || (v->kind != VALUE_TEXT && v->n == 0);
}

static bool is_plain(const char *text) {
    for (const char *p = text; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("+-._", *p)) return false;
    return *text && !strchr("-.", *text);
}

const char *value_yaml(arena *a, const value *v, bool text) {
    str out = {0};
    if (v->kind == VALUE_LIST) {
        for (int i = 0; i < v->n; i++)
            str_printf(&out, "%s%s", i ? ", " : "[", value_yaml(a, &v->items[i], text));
        str_puts(&out, v->n ? "]" : "[]");
    } else if (v->kind == VALUE_NULL) {
        str_puts(&out, "null");
    } else if (v->kind == VALUE_TEXT && !text && (says(v, "true") || says(v, "false"))) {
        str_puts(&out, says(v, "true") ? "true" : "false");
    } else if (v->kind == VALUE_TEXT && !text &&
               (is_plain(v->text) || (v->text[0] == '-' && is_plain(v->text + 1)))) {
        str_puts(&out, v->text);
    } else {
        yaml_quote(v->kind == VALUE_TEXT ? v->text : "", &out);
    }
    return str_keep(a, &out);
}

// --- the lists
static fact *find_fact(const translation *self, const char *name) {
    for (int i = self->n_facts - 1; i >= 0; i--)
        if (strcmp(self->facts[i].name, name) == 0) return &self->facts[i];
    return NULL;
}

static const value *fact_look(const translation *self, const char *name) {
    const fact *found = find_fact(self, name);
    return found ? found->value : NULL;
}

bool fact_is_true(const translation *self, const char *name) {
    const value *v = fact_look(self, name);
    return v && says_true(v);
}

bool fact_is_said(const translation *self, const char *name) {
    return fact_look(self, name) != NULL;
}

bool fact_has_value(const translation *self, const char *name) {
    for (int i = 0; i < self->n_facts; i++)
        if (strcmp(self->facts[i].name, name) == 0 && self->facts[i].value->kind != VALUE_NULL)
            return true;
    return false;
}

bool is_default(const value *v) {
    return v->where && str_starts(v->where, DEFAULT_OF);
}

void report_add(translation *self, outcome what, const value *v, const char *text) {
    if (what == CHANGES && is_default(v)) what = DIFFERS;
    MEM_GROW(self->lines, self->n_lines, self->cap_lines);
    self->lines[self->n_lines++] = (report_line){what, v->path, v->where, text};
}

void report_printf(translation *self, outcome what, const value *v, const char *format, ...) {
    char *text;
    va_list list;
    va_start(list, format);
    DRV_MEMORY(vasprintf(&text, format, list) >= 0, "a line of the report");
    va_end(list);
    report_add(self, what, v, arena_strdup(self->a, text));
    free(text);
}

void report_unsaid(translation *self, const char *ours) {
    const char *where = arena_printf(self->a, "--from %s", self->opts->kind);
    const value v = {.kind = VALUE_TEXT, .path = ours, .where = where};
    report_printf(self, REFUSED, &v, "is not given, and has no default there; give --set %s=N",
            ours);
}

const char *translation_given(const translation *self, const char *path) {
    const size_t n = strlen(path);
    for (int i = self->opts->n_sets - 1; i >= 0; i--)
        if (strncmp(self->opts->sets[i], path, n) == 0 && self->opts->sets[i][n] == '=')
            return self->opts->sets[i] + n + 1;
    return NULL;
}

setting *translation_setting(const translation *self, const char *path) {
    for (int i = 0; i < self->n_settings; i++)
        if (strcmp(self->settings[i].key, path) == 0) return &self->settings[i];
    return NULL;
}

const char *translation_get(const translation *self, const char *path) {
    const char *given = translation_given(self, path);
    const setting *found = given ? NULL : translation_setting(self, path);
    return found ? found->value : given;
}

int64_t translation_number(const translation *self, const char *path, int64_t otherwise) {
    const char *text = translation_get(self, path);
    double x;
    return text && str_to_f64(text, &x) && x >= 0 && x < 9e15 ? (int64_t)x : otherwise;
}

// Returns the origin of a key, "nxdt: trainer.max_steps, line 12"; the file is named unless it is
// the first one.
static const char *origin_of(const translation *self, const value *from) {
    const char *where = from->where ? from->where : "", *colon = strrchr(where, ':');
    const char *first = self->opts->n_files ? self->opts->files[0] : "";
    if (colon && strlen(first) == (size_t)(colon - where) &&
            strncmp(where, first, strlen(first)) == 0)
        where = arena_printf(self->a, "line %s", colon + 1);
    return arena_printf(self->a, "%s: %s, %s", self->opts->kind, from->path, where);
}

// Returns whether model.from decides a key.
static bool is_shape(const char *path) {
    return STR_ONE_OF(path, "model.num_hidden_layers", "model.hidden_size",
            "model.intermediate_size", "model.num_attention_heads", "model.num_key_value_heads");
}

void translation_set(translation *self, const char *path, const char *yaml, const value *from,
        const char *remark) {
    DRV_ASSERT(key_find(path) >= 0, "no key \"%s\"", path);
    const char *by = translation_given(self, path)                             ? path
                     : is_shape(path) && translation_given(self, "model.from") ? "model.from"
                                                                               : NULL;
    if (by) {
        report_printf(self, NO_EFFECT, from, "--set gives %s", by);
        return;
    }
    report_printf(self, TRANSLATED, from, "%s: %s%s%s", path, yaml, remark ? "; " : "",
            remark ? remark : "");
    setting *changed = translation_setting(self, path);
    if (!changed) {
        MEM_GROW(self->settings, self->n_settings, self->cap_settings);
        changed = &self->settings[self->n_settings++];
    }
    *changed = (setting){path, yaml, origin_of(self, from)};
}

const value *fact_last(translation *self, const char *name) {
    fact *found = find_fact(self, name);
    if (!found) return NULL;
    found->used = true;
    return found->value;
}

const value *fact_take(translation *self, const char *name) {
    const value *v = fact_last(self, name);
    if (!v || v->kind != VALUE_NULL) return v;
    report_add(self, NO_EFFECT, v, "null");
    return NULL;
}

drv_status fact_number(translation *self, const char *name, double *out, const value **from) {
    const value *v = *from = fact_take(self, name);
    if (!v || (v->kind == VALUE_TEXT && str_to_f64(v->text, out))) return DRV_OK;
    return refuse_value(self, v, "expected a number");
}

void fact_set(translation *self, const char *name, const char *ours, bool text) {
    const value *v = fact_take(self, name);
    if (v) translation_set(self, ours, value_yaml(self->a, v, text), v, NULL);
}

void fact_drop(translation *self, const char *name, const char *why) {
    const value *v = fact_take(self, name);
    if (v) report_add(self, NO_EFFECT, v, why);
}

// --- the rules
static bool is_text_key(const char *path) {
    arena *a = arena_new("key of a translation");
    const key_type *type = key_of_index(a, key_find(path)).type;
    arena_free(a);
    return type == &type_text || type == &type_texts || type == &type_sources;
}

static void rule_hint(translation *self, const foreign_key *row, const value *v) {
    report_add(self, REFUSED, v, row->remark);
}

static void rule_same(translation *self, const foreign_key *row, const value *v) {
    if (v->kind == VALUE_NULL)
        report_add(self, NO_EFFECT, v, "null");
    else
        translation_set(self, row->ours, value_yaml(self->a, v, is_text_key(row->ours)), v,
                row->remark);
}

static void rule_count(translation *self, const foreign_key *row, const value *v) {
    if (says(v, "-1") || v->kind == VALUE_NULL)
        translation_set(self, row->ours, "0", v, "0 is all");
    else
        rule_same(self, row, v);
}

// Returns the value after "theirs=" in the words of a mapping; NULL: there is none.
static const char *mapped(arena *a, const char *map, const value *v) {
    for (char *rest = arena_strdup(a, map), *word; (word = strsep(&rest, " "));) {
        char *equal = strchr(word, '=');
        *equal = 0;
        if (says(v, word)) return equal + 1;
    }
    return NULL;
}

static void rule_map(translation *self, const foreign_key *row, const value *v) {
    const char *ours = mapped(self->a, row->argument, v);
    if (ours)
        translation_set(self, row->ours, ours, v, row->remark);
    else if (v->kind == VALUE_NULL)
        report_add(self, NO_EFFECT, v, "null");
    else
        report_printf(self, REFUSED, v, "is %s, expected one of %s", value_shown(self->a, v),
                row->argument);
}

static void rule_none(translation *self, const foreign_key *row, const value *v) {
    report_add(self, NO_EFFECT, v, row->remark);
}

static bool is_word_of(arena *a, const char *words, const value *v) {
    double x, y;
    for (char *rest = arena_strdup(a, words), *word; (word = strsep(&rest, " "));) {
        if (says(v, word)) return true;
        if (v->kind == VALUE_TEXT && str_to_f64(v->text, &x) && str_to_f64(word, &y) && x == y)
            return true;
    }
    return false;
}

static const char *shown(const translation *self, const value *v, const char *why) {
    return arena_printf(self->a, "is %s; %s",
            v->kind == VALUE_LIST ? value_yaml(self->a, v, false) : value_shown(self->a, v), why);
}

static void rule_only(translation *self, const foreign_key *row, const value *v) {
    const bool well = v->kind == VALUE_NULL || is_word_of(self->a, row->argument, v);
    report_add(self, well ? NO_EFFECT : CHANGES, v,
            well ? row->remark : shown(self, v, row->remark));
}

static void rule_changes(translation *self, const foreign_key *row, const value *v) {
    if (is_off(v))
        report_add(self, NO_EFFECT, v, "it is off");
    else
        report_add(self, CHANGES, v, shown(self, v, row->remark));
}

static void rule_never(translation *self, const foreign_key *row, const value *v) {
    report_add(self, is_off(v) ? NO_EFFECT : REFUSED, v, is_off(v) ? "it is off" : row->remark);
}

// Returns whether a fact is true or false and nothing else.
static bool is_switch(const char *name) {
    return STR_ONE_OF(name, "amp_O2", "answers_only", "checkpoints", "decay_norms", "drop_last",
            "fp32_grad_acc", "master_weights", "masters", "packing", "sample_packing",
            "sft_packing", "target_linear", "train_on_inputs", "xla_downcast_bf16", "xla_use_bf16",
            "zero_masters");
}

static void rule_fact(translation *self, const foreign_key *row, const value *v) {
    if (is_switch(row->argument) && !says_true(v) && !is_off(v)) {
        report_printf(self, REFUSED, v, "is %s, expected true or false", value_shown(self->a, v));
        return;
    }
    MEM_GROW(self->facts, self->n_facts, self->cap_facts);
    self->facts[self->n_facts++] = (fact){row->argument, v, false};
}

typedef void rule(translation *self, const foreign_key *row, const value *v);
static rule *const rules[] = {
#define RULE(name) [FOREIGN_##name] = rule_##name,
        FOREIGN_RULES(RULE)
#undef RULE
};

// Returns what is said of an unknown key: the name of ours, if it is another trainer's, or the
// nearest known one.
static const char *not_in_list(const translation *self, const char *name) {
    enum { MOST_LINES = 500 }; // reports longer than this have no suggestions, which take time
    const bool helps = self->n_lines < MOST_LINES;
    const char *hint = helps ? foreign_hint(self->a, name, false) : NULL,
               *near = helps && !hint ? foreign_nearest(self->a, self->kinds, name) : NULL;
    if (near) hint = arena_printf(self->a, "did you mean \"%s\"?", near);
    return arena_printf(self->a, "is not a key of %s that drover knows%s%s", self->opts->kind,
            hint ? "; " : "", hint ? hint : "");
}

void translate_key(translation *self, const value *v) {
    const foreign_key *row = foreign_find(self->kinds, v->path);
    if (row)
        rules[row->rule](self, row, v);
    else
        report_add(self, REFUSED, v, not_in_list(self, v->path));
}

void translate_tree(translation *self, const value *root) {
    for (int i = 0; i < root->n; i++) {
        const value *v = &root->items[i];
        const foreign_key *row = foreign_find(self->kinds, v->path);
        if (v->kind == VALUE_MAP && v->n > 0 && (!row || row->rule == FOREIGN_never))
            translate_tree(self, v);
        else
            translate_key(self, v);
    }
}
