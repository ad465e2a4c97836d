// From a YAML file and overrides to one checked struct: collect which key was said by whom, refuse
// what is not a key, then apply defaults and values in the order of the tables.
#include "config/config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "config/config_internal.h"
#include "config/key.h"
#include "config/old_keys.h"
#include "tok/model_file.h"

// The values that were given to keys, by index (key_find).
struct given_keys {
    const value **value; // NULL: nothing
    int *source;         // which source said it: 0 the file, then one for each --set
    int n;
};

typedef struct loader {
    arena *a;
    struct given_keys *given;
    int source;
    unknown_keys unknown;
} loader;

// --- which keys were given
static drv_status give(loader *l, int index, const value *v) {
    struct given_keys *given = l->given;
    if (given->value[index] && given->source[index] == l->source) // "a: {b: 1}" and "a.b: 2"
        return drv_fail(DRV_E_USAGE, "%s: key \"%s\" is given twice, first at %s", v->where,
                v->path, given->value[index]->where);
    given->value[index] = v;
    given->source[index] = l->source;
    return DRV_OK;
}

static bool is_below(const char *path, const char *section) {
    const size_t n = strlen(section);
    return strncmp(path, section, n) == 0 && path[n] == '.';
}

const char *config_first_below(arena *a, const char *section) {
    for (int i = 0; i < key_count(); i++) {
        const char *path = key_of_index(a, i).path;
        if (is_below(path, section)) return path;
    }
    return NULL;
}

static drv_status give_null(loader *l, const value *v) {
    for (int i = 0; i < key_count(); i++)
        if (is_below(key_of_index(l->a, i).path, v->path)) DRV_TRY(give(l, i, v));
    return DRV_OK;
}

static drv_status collect(loader *l, const value *v) {
    const int index = key_find(config_key_now(v->path));
    if (index >= 0) return give(l, index, v);
    const bool is_section = !*v->path || config_first_below(l->a, v->path);
    if (is_section && v->kind == VALUE_NULL) return give_null(l, v); // "rope_scaling: null"
    if (!is_section || v->kind != VALUE_MAP) {
        unknown_keys_add(&l->unknown, v);
        return DRV_OK;
    }
    for (int i = 0; i < v->n; i++)
        DRV_TRY(collect(l, &v->items[i]));
    return DRV_OK;
}

// The latest source that gives `path` or a key below it counts, and in it the last such key.
const char *config_where(const run_config *cfg, const char *path) {
    const struct given_keys *given = cfg->given;
    const char *where = cfg->file ? cfg->file : "configuration";
    const size_t n = strlen(path);
    arena *a = arena_new("config_where");
    int source = -1;
    for (int i = 0; given && i < given->n; i++) {
        const char *name = key_of_index(a, i).path;
        if (!given->value[i] || given->source[i] < source) continue;
        if (strncmp(name, path, n) != 0 || (name[n] != 0 && name[n] != '.')) continue;
        where = given->value[i]->where;
        source = given->source[i];
    }
    arena_free(a);
    return where;
}

drv_status config_refuse(const run_config *cfg, const char *path, const char *fmt, ...) {
    char *text;
    va_list ap;
    va_start(ap, fmt);
    DRV_MEMORY(vasprintf(&text, fmt, ap) >= 0, "a message");
    va_end(ap);
    const drv_status refused =
            drv_fail(DRV_E_USAGE, "%s: key \"%s\" %s", config_where(cfg, path), path, text);
    free(text);
    return refused;
}

const value *config_given(const run_config *cfg, const char *path) {
    const int i = key_find(path);
    DRV_ASSERT(i >= 0, "no key \"%s\"", path);
    return cfg->given ? cfg->given->value[i] : NULL;
}

bool config_gives(const run_config *cfg, const char *path) {
    const value *v = config_given(cfg, path);
    return v && v->kind != VALUE_NULL;
}

stage_schedule config_pipeline_schedule(const run_config *cfg) {
    if (cfg->pipeline_schedule != SCHEDULE_AUTO) return cfg->pipeline_schedule;
    return cfg->virtual_stages > 1 ? SCHEDULE_INTERLEAVED : SCHEDULE_1F1B;
}

bool config_has_masters(const run_config *cfg) {
    if (cfg->master_dtype != MASTER_AUTO) return cfg->master_dtype == MASTER_F32;
    return cfg->state_dtype == PRECISION_F32;
}

save_dtype config_save_dtype(const run_config *cfg) {
    if (cfg->save_dtype != SAVE_AUTO) return cfg->save_dtype;
    return cfg->precision != PRECISION_F32 ? SAVE_BF16 : SAVE_F32;
}

bool config_loads_weights(const run_config *cfg) {
    return cfg->weights != WEIGHTS_RANDOM;
}

// --- applying them
static drv_status apply_default(arena *a, const key *k, run_config *cfg) {
    value v;
    if (!k->initial) return DRV_OK;
    DRV_TRY(yaml_read_value(a, k->path, "default", key_default(k), &v));
    return k->type->parse(a, k, &v, cfg);
}

// Keys with indices from `begin` to `end`, as they were given.
static drv_status apply_given(arena *a, int begin, int end, run_config *cfg) {
    for (int i = begin; i < end; i++) {
        const key k = key_of_index(a, i);
        const value *v = cfg->given->value[i];
        if (v) DRV_TRY(k.type->parse(a, &k, v, cfg));
    }
    return DRV_OK;
}

// "runs/" and the name of the file without folder and ending.
static const char *default_run_dir(arena *a, const run_config *cfg) {
    const char *base = path_name(cfg->file ? cfg->file : "run.yaml");
    const char *dot = strrchr(base, '.');
    const int n = dot && dot > base ? (int)(dot - base) : (int)strlen(base);
    return arena_printf(a, "runs/%.*s", n, base);
}

static drv_status apply(arena *a, run_config *cfg) {
    const int first_field = key_find("model.vocab_size"); // the fields build on the keys before
    for (int i = 0; i < key_count(); i++) {
        const key k = key_of_index(a, i);
        DRV_TRY(apply_default(a, &k, cfg));
    }
    DRV_TRY(apply_given(a, 0, first_field, cfg));
    DRV_TRY(config_base_model(a, cfg));
    DRV_TRY(apply_given(a, first_field, key_count(), cfg));
    const char *folder = *cfg->from ? path_folder(a, cfg->from) : NULL;
    if (!*cfg->tokenizer && folder && tokenizer_file_of(a, folder)) cfg->tokenizer = folder;
    config_choose_ids(a, cfg);
    if (cfg->sequence_length == 0) {
        const int64_t context = cfg->model.max_position_embeddings;
        cfg->sequence_length = context < 1024 ? context : 1024;
    }
    if (!*cfg->run_dir) cfg->run_dir = default_run_dir(a, cfg);
    return config_check(a, cfg);
}

// Refuses a folder, which is probably a run directory and holds the run's config.
static drv_status refuse_folder(arena *a, const char *path) {
    const char *kept = path_join(a, path, "config.yaml");
    return drv_fail(DRV_E_USAGE, "\"%s\" is a folder, expected a config, a file in YAML%s%s", path,
            file_exists(kept) ? "; this run's is " : "", file_exists(kept) ? kept : "");
}

static drv_status read_sources(loader *l, const char *path, const char *const *sets, int n_sets) {
    for (int i = path ? -1 : 0; i < n_sets; i++) {
        value *v = ARENA_NEW(l->a, value);
        if (i < 0) {
            char *text;
            size_t n;
            const bool is_stdin = strcmp(path, "-") == 0;
            if (file_is_dir(path)) return refuse_folder(l->a, path);
            DRV_TRY(file_read_input(l->a, path, &text, &n));
            DRV_TRY(yaml_read(l->a, is_stdin ? "standard input" : path, text, n, v));
        } else {
            DRV_TRY(yaml_read_set(l->a, sets[i], v));
        }
        l->source = i + 1;
        DRV_TRY(collect(l, v));
    }
    return DRV_OK;
}

static loader new_loader(arena *a) {
    struct given_keys *given = ARENA_NEW(a, struct given_keys);
    given->n = key_count();
    given->value = ARENA_ARRAY(a, const value *, given->n);
    given->source = ARENA_ARRAY(a, int, given->n);
    return (loader){.a = a, .given = given};
}

// Applies the collected values and checks the result.
static drv_status finish(loader *l, drv_status status, const char *file, run_config *out) {
    run_config cfg = {.file = file,
            .preset = "",
            .from = "",
            .tokenizer = "",
            .run_dir = "",
            .lora = {.adapter = ""},
            .given = l->given};
    if (status == DRV_OK) status = unknown_keys_refuse(l->a, &l->unknown);
    free(l->unknown.list);
    DRV_TRY(status);
    DRV_TRY(apply(l->a, &cfg));
    *out = cfg;
    return DRV_OK;
}

drv_status config_load(arena *a, const char *path, const char *const *sets, int n_sets,
        run_config *out) {
    loader l = new_loader(a);
    const drv_status status = read_sources(&l, path, sets, n_sets);
    return finish(&l, status, path && strcmp(path, "-") == 0 ? NULL : path, out);
}

drv_status config_check_sets(arena *a, const char *const *sets, int n_sets) {
    loader l = new_loader(a);
    drv_status status = read_sources(&l, NULL, sets, n_sets);
    if (status == DRV_OK) status = unknown_keys_refuse(a, &l.unknown);
    free(l.unknown.list);
    for (int i = 0; i < n_sets && status == DRV_OK; i++)
        if (key_find(arena_strndup(a, sets[i], strcspn(sets[i], "="))) < 0)
            status = drv_fail(DRV_E_USAGE,
                    "--set %s: expected one of the keys that drover config prints", sets[i]);
    return status;
}

drv_status config_load_text(arena *a, const char *name, const char *text, size_t n_bytes,
        run_config *out) {
    loader l = new_loader(a);
    value *v = ARENA_NEW(a, value);
    drv_status status = yaml_read(a, name, text, n_bytes, v);
    if (status == DRV_OK) status = collect(&l, v);
    return finish(&l, status, name, out);
}
