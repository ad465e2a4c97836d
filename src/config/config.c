#include "config/config.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "config/yaml.h"

typedef enum key_type { KEY_INT, KEY_REAL, KEY_TEXT, KEY_CHOICE, KEY_BOOL } key_type;

typedef struct key {
    const char *path;
    key_type type;
    size_t offset;
    const char *initial; // default, as one would write it; NULL: must be given or computed
    double min, max;
    const char *choices; // words separated by spaces; the index is stored
    const char *help;
} key;

#define AT(field) offsetof(run_config, field)
#define BIG       9e15

static const key keys[] = {
        {"model.preset", KEY_TEXT, AT(preset), "", 0, 0, NULL, "a built-in shape, e.g. llama-135m"},
        {"model.from", KEY_TEXT, AT(from), "", 0, 0, NULL,
                "a Hugging Face folder: shape, weights and tokenizer"},
        {"model.weights", KEY_CHOICE, AT(weights), "random", 0, 0, "random load",
                "load: those of model.from, the default where that is given; random: fresh ones"},
        {"model.vocab_size", KEY_INT, AT(model.vocab_size), NULL, 1, 1 << 24, NULL,
                "the fields of config.json change the shape"},
        {"model.hidden_size", KEY_INT, AT(model.hidden_size), NULL, 1, 1 << 20, NULL,
                "width of the residual stream"},
        {"model.intermediate_size", KEY_INT, AT(model.intermediate_size), NULL, 1, 1 << 22, NULL,
                "width of the feed-forward layer"},
        {"model.num_hidden_layers", KEY_INT, AT(model.num_hidden_layers), NULL, 1, 4096, NULL,
                "layers"},
        {"model.num_attention_heads", KEY_INT, AT(model.num_attention_heads), NULL, 1, 4096, NULL,
                "query heads"},
        {"model.num_key_value_heads", KEY_INT, AT(model.num_key_value_heads), NULL, 1, 4096, NULL,
                "key and value heads (GQA)"},
        {"model.head_dim", KEY_INT, AT(model.head_dim), NULL, 2, 1024, NULL, "width of a head"},
        {"model.max_position_embeddings", KEY_INT, AT(model.max_position_embeddings), NULL, 1,
                1 << 30, NULL, "longest context"},
        {"model.rms_norm_eps", KEY_REAL, AT(model.rms_norm_eps), NULL, 0, 1, NULL,
                "added to the mean square"},
        {"model.rope_theta", KEY_REAL, AT(model.rope_theta), NULL, 1, 1e12, NULL,
                "base of the rotary frequencies"},
        {"model.initializer_range", KEY_REAL, AT(model.initializer_range), NULL, 1e-9, 10, NULL,
                "standard deviation of fresh weights"},
        {"model.tie_word_embeddings", KEY_BOOL, AT(model.tie_word_embeddings), NULL, 0, 1, NULL,
                "output weight = embedding"},
        {"tokenizer", KEY_TEXT, AT(tokenizer), "", 0, 0, NULL,
                "folder with tokenizer.json, carried into checkpoints; default model.from if it has "
                "one"},
        {"data.train", KEY_TEXT, 0, NULL, 0, 0, NULL,
                "PREFIX of .bin/.idx, or a list of {prefix, weight}"},
        {"data.valid", KEY_TEXT, 0, NULL, 0, 0, NULL, "likewise, for evaluation"},
        {"data.split", KEY_REAL, AT(split), NULL, 0, 1e9, NULL,
                "documents of train for train, valid, test, e.g. [969, 30, 1]"},
        {"data.sequence_length", KEY_INT, AT(sequence_length), NULL, 1, 1 << 24, NULL,
                "tokens a row; default 1024, or the context if that is shorter"},
        {"data.pack", KEY_CHOICE, AT(pack), "documents", 0, 0, "documents stream",
                "documents: attention stays inside a document; stream: GPT-style"},
        {"training.steps", KEY_INT, AT(steps), "1000", 0, BIG, NULL, "optimizer steps"},
        {"training.global_batch_size", KEY_INT, AT(global_batch_size), "8", 1, 1 << 24, NULL,
                "rows a step, over all ranks"},
        {"training.micro_batch_size", KEY_INT, AT(micro_batch_size), "1", 1, 1 << 20, NULL,
                "rows a forward/backward pass"},
        {"training.seed", KEY_INT, AT(seed), "1234", 0, BIG, NULL, "of weights and data order"},
        {"training.precision", KEY_CHOICE, AT(precision), "bf16", 0, 0, "bf16 fp32",
                "bf16: fp32 master weights, gradients and loss"},
        {"training.recompute", KEY_CHOICE, AT(recompute), "none", 0, 0, "none selective full",
                "trade time for activation memory"},
        {"training.eval_every", KEY_INT, AT(eval_every), "100", 0, BIG, NULL,
                "steps between evaluations; 0: none"},
        {"training.eval_batches", KEY_INT, AT(eval_batches), "0", 0, BIG, NULL,
                "batches of global_batch_size rows per evaluation; 0: at least 100,000 tokens, or "
                "all there are"},
        {"training.log_every", KEY_INT, AT(log_every), "1", 1, BIG, NULL,
                "steps between log lines"},
        {"training.threads", KEY_INT, AT(threads), "0", 0, 4096, NULL,
                "0: all cores; results do not depend on it"},
        {"training.max_bad_steps", KEY_INT, AT(max_bad_steps), "5", 1, BIG, NULL,
                "stop after so many steps in a row with a NaN or infinite gradient"},
        {"optimizer.lr", KEY_REAL, AT(lr), "3e-4", 0, 1e3, NULL, "peak learning rate"},
        {"optimizer.betas", KEY_REAL, AT(betas), NULL, 0, 0.9999999, NULL, "AdamW moments"},
        {"optimizer.eps", KEY_REAL, AT(eps), "1e-8", 0, 1, NULL, "AdamW epsilon"},
        {"optimizer.weight_decay", KEY_REAL, AT(weight_decay), "0.1", 0, 1e3, NULL,
                "decoupled; norms have none"},
        {"optimizer.clip_grad_norm", KEY_REAL, AT(clip_grad_norm), "1.0", 0, 1e9, NULL,
                "global norm; 0: no clipping"},
        {"schedule.type", KEY_CHOICE, AT(schedule), "cosine", 0, 0, "cosine linear wsd constant",
                "after the warm-up"},
        {"schedule.warmup_steps", KEY_INT, AT(warmup_steps), "100", 0, BIG, NULL, "linear from 0"},
        {"schedule.decay_steps", KEY_INT, AT(decay_steps), "0", 0, BIG, NULL,
                "wsd: length of the final decay; 0: a tenth of the steps"},
        {"schedule.min_lr", KEY_REAL, AT(min_lr), "0", 0, 1e3, NULL, "learning rate at the end"},
        {"parallel.tensor", KEY_INT, AT(tensor_parallel), "1", 1, 1, NULL,
                "ranks; one process so far"},
        {"parallel.pipeline", KEY_INT, AT(pipeline_parallel), "1", 1, 1, NULL, "likewise"},
        {"parallel.context", KEY_INT, AT(context_parallel), "1", 1, 1, NULL, "likewise"},
        {"parallel.data", KEY_INT, AT(data_parallel), "1", 1, 1 << 20, NULL,
                "ranks that share the global batch (more than 1: drover plan only, so far)"},
        {"parallel.sequence", KEY_BOOL, AT(sequence_parallel), "true", 0, 1, NULL,
                "split norms over tensor ranks; without effect on one"},
        {"parallel.zero", KEY_INT, AT(zero), "1", 0, 1, NULL,
                "ZeRO stage of the optimizer; without effect on one data rank"},
        {"checkpoint.every", KEY_INT, AT(checkpoint_every), "100", 0, BIG, NULL,
                "steps between checkpoints; 0: only at the end"},
        {"checkpoint.keep", KEY_INT, AT(checkpoint_keep), "3", 0, BIG, NULL,
                "newest so many are kept; 0: all"},
        {"backend", KEY_TEXT, AT(backend), "cpu", 0, 0, NULL, "cpu"},
        {"run_dir", KEY_TEXT, AT(run_dir), "", 0, 0, NULL,
                "logs, metrics and checkpoints; default runs/ and the config's name"},
};
enum { N_KEYS = sizeof keys / sizeof *keys };

static void *field(run_config *c, const key *k) {
    return (char *)c + k->offset;
}

static drv_status bad_value(const yaml_entry *e, const char *expected) {
    return drv_fail(DRV_E_USAGE, "%s: key \"%s\" is \"%.80s\", expected %s", e->where, e->path,
            e->value, expected);
}

static drv_status set_choice(const key *k, const yaml_entry *e, int *out) {
    int index = 0;
    for (const char *p = k->choices; *p; index++) {
        size_t n = strcspn(p, " ");
        if (strlen(e->value) == n && strncmp(p, e->value, n) == 0) {
            *out = index;
            return DRV_OK;
        }
        p += n + (p[n] == ' ');
    }
    char expected[128];
    snprintf(expected, sizeof expected, "one of: %s", k->choices);
    return bad_value(e, expected);
}

static drv_status set_number(const key *k, const yaml_entry *e, double *real, int64_t *whole) {
    char expected[128];
    bool integer = k->type == KEY_INT;
    snprintf(expected, sizeof expected, "%s from %.10g to %.10g",
            integer ? "a whole number" : "a number", k->min, k->max);
    double x;
    int64_t i = 0;
    if (integer ? !str_to_i64(e->value, &i) : !str_to_f64(e->value, &x))
        return bad_value(e, expected);
    if (integer) x = (double)i;
    if (x < k->min || x > k->max) return bad_value(e, expected);
    if (integer)
        *whole = i;
    else
        *real = x;
    return DRV_OK;
}

static drv_status set_key(run_config *c, const key *k, const yaml_entry *e) {
    switch (k->type) {
    case KEY_INT:
        return set_number(k, e, NULL, field(c, k));
    case KEY_REAL:
        return set_number(k, e, field(c, k), NULL);
    case KEY_CHOICE:
        return set_choice(k, e, field(c, k));
    case KEY_TEXT:
        *(const char **)field(c, k) = e->value;
        return DRV_OK;
    case KEY_BOOL:
        if (strcmp(e->value, "true") != 0 && strcmp(e->value, "false") != 0)
            return bad_value(e, "true or false");
        *(bool *)field(c, k) = e->value[0] == 't';
        return DRV_OK;
    }
    return DRV_OK;
}

static const key *find_key(const char *path) {
    for (int i = 0; i < N_KEYS; i++)
        if (strcmp(keys[i].path, path) == 0) return &keys[i];
    return NULL;
}

static drv_status unknown_key(const yaml_entry *e) {
    const char *names[N_KEYS];
    for (int i = 0; i < N_KEYS; i++)
        names[i] = keys[i].path;
    const char *near = str_nearest(e->path, names, N_KEYS);
    // A right word in the wrong place: compare the last parts too.
    const char *last = strrchr(e->path, '.');
    for (int i = 0; i < N_KEYS && !near; i++) {
        const char *tail = strrchr(names[i], '.');
        if (strcmp(tail ? tail + 1 : names[i], last ? last + 1 : e->path) == 0) near = names[i];
    }
    return drv_fail(DRV_E_USAGE, "%s: unknown key \"%s\" with value \"%.40s\"%s%s%s", e->where,
            e->path, e->value,
            near ? "; did you mean \"" : ", expected one of those that drover config prints",
            near ? near : "", near ? "\"?" : "");
}

// data.train and data.valid: a prefix, or list entries "[i].prefix" and "[i].weight".
static drv_status set_source(data_source *list, int *n, const char *rest, const yaml_entry *e) {
    static const key weight = {"weight", KEY_REAL, 0, NULL, 0, 1e12, NULL, NULL};
    if (!*rest) {
        list[0] = (data_source){e->value, 1, e->where};
        *n = 1;
        return DRV_OK;
    }
    char *end;
    long i = strtol(rest + 1, &end, 10);
    if (i < 0 || i >= MAX_BLEND)
        return drv_fail(DRV_E_USAGE, "%s: at most %d data sets can be blended", e->where,
                MAX_BLEND);
    if (i >= *n) {
        *n = (int)i + 1;
        list[i] = (data_source){NULL, 1, e->where};
    }
    if (strcmp(end, "].prefix") == 0 || strcmp(end, "]") == 0)
        list[i].prefix = e->value;
    else if (strcmp(end, "].weight") == 0)
        return set_number(&weight, e, &list[i].weight, NULL);
    else
        return unknown_key(e);
    return DRV_OK;
}

static drv_status set_entry(run_config *c, const yaml_entry *e) {
    int i, end = 0;
    if (str_starts(e->path, "data.train") && strchr("[", e->path[10]))
        return set_source(c->train, &c->n_train, e->path + 10, e);
    if (str_starts(e->path, "data.valid") && strchr("[", e->path[10]))
        return set_source(c->valid, &c->n_valid, e->path + 10, e);
    if (sscanf(e->path, "optimizer.betas[%d]%n", &i, &end) == 1 && !e->path[end] && i >= 0 && i < 2)
        return set_number(find_key("optimizer.betas"), e, &c->betas[i], NULL);
    if (sscanf(e->path, "data.split[%d]%n", &i, &end) == 1 && !e->path[end] && i >= 0 && i < 3)
        return set_number(find_key("data.split"), e, &c->split[i], NULL);
    if (strcmp(e->path, "optimizer.betas") == 0) return bad_value(e, "a list of two numbers");
    if (strcmp(e->path, "data.split") == 0) return bad_value(e, "a list of three numbers");
    if (strcmp(e->path, "parallel.data") == 0 && strcmp(e->value, "auto") == 0) return DRV_OK;
    const key *k = find_key(e->path);
    return k ? set_key(c, k, e) : unknown_key(e);
}

static const char *place(const yaml_list *l, const run_config *c, const char *path) {
    for (int i = l->n - 1; i >= 0; i--)
        if (str_starts(l->entries[i].path, path)) return l->entries[i].where;
    return c->file ? c->file : "configuration";
}

static drv_status load_model(arena *a, const yaml_list *l, run_config *c) {
    for (int i = 0; i < l->n; i++) { // these three first: they set the defaults of the others
        const yaml_entry *e = &l->entries[i];
        if (strcmp(e->path, "model.preset") == 0) c->preset = e->value;
        if (strcmp(e->path, "model.from") == 0) c->from = e->value;
    }
    if (*c->preset && *c->from)
        return drv_fail(DRV_E_USAGE, "%s: model.preset and model.from exclude each other",
                place(l, c, "model.preset"));
    if (*c->preset && !model_preset(c->preset, &c->model)) {
        const char *near = str_nearest(c->preset, model_preset_names, n_model_presets);
        str all = {0};
        for (int i = 0; i < n_model_presets; i++)
            str_printf(&all, " %s", model_preset_names[i]);
        drv_status s = drv_fail(DRV_E_USAGE,
                "%s: key \"model.preset\" is \"%s\", expected one of:%s%s%s%s",
                place(l, c, "model.preset"), c->preset, all.p, near ? "; did you mean \"" : "",
                near ? near : "", near ? "\"?" : "");
        str_free(&all);
        return s;
    }
    if (*c->from) {
        DRV_TRY_CTX(model_config_read(c->from, &c->model), "%s: model.from",
                place(l, c, "model.from"));
        c->weights = WEIGHTS_LOAD;
        if (file_exists(path_join(a, c->from, "tokenizer.json"))) c->tokenizer = c->from;
        return DRV_OK;
    }
    if (!*c->preset)
        c->model = (model_config){.rms_norm_eps = 1e-5,
                .rope_theta = 1e4,
                .initializer_range = 0.02,
                .max_position_embeddings = 8192,
                .bos_token_id = -1,
                .pad_token_id = -1};
    return DRV_OK;
}

static drv_status check_batch(const yaml_list *l, const run_config *c) {
    if (c->global_batch_size % (c->micro_batch_size * c->data_parallel) != 0)
        return drv_fail(DRV_E_USAGE,
                "%s: key \"training.global_batch_size\" is %lld, expected a multiple of "
                "micro_batch_size %lld x data-parallel ranks %lld",
                place(l, c, "training.global_batch_size"), (long long)c->global_batch_size,
                (long long)c->micro_batch_size, (long long)c->data_parallel);
    if (c->micro_batch_size * c->sequence_length > (1 << 30))
        return drv_fail(DRV_E_USAGE,
                "%s: micro_batch_size x sequence_length is more than 2^30 tokens",
                place(l, c, "training.micro_batch_size"));
    return DRV_OK;
}

static drv_status check(const yaml_list *l, run_config *c) {
    model_config *m = &c->model;
    if (m->num_key_value_heads == 0) m->num_key_value_heads = m->num_attention_heads;
    if (m->head_dim == 0 && m->num_attention_heads > 0) {
        if (m->hidden_size % m->num_attention_heads)
            return drv_fail(DRV_E_USAGE,
                    "%s: num_attention_heads is %lld, which does not divide hidden_size %lld; give "
                    "model.head_dim",
                    place(l, c, "model.num_attention_heads"), (long long)m->num_attention_heads,
                    (long long)m->hidden_size);
        m->head_dim = m->hidden_size / m->num_attention_heads;
    }
    if (m->vocab_size == 0)
        return drv_fail(DRV_E_USAGE,
                "%s: no model; give model.preset, model.from or config.json's "
                "own fields under model",
                place(l, c, "model"));
    DRV_TRY(model_config_check(place(l, c, "model."), m));
    DRV_TRY(check_batch(l, c));
    if (c->sequence_length > m->max_position_embeddings)
        return drv_fail(DRV_E_USAGE,
                "%s: key \"data.sequence_length\" is %lld, expected at most "
                "model.max_position_embeddings %lld",
                place(l, c, "data.sequence_length"), (long long)c->sequence_length,
                (long long)m->max_position_embeddings);
    if (c->weights == WEIGHTS_LOAD && !*c->from)
        return drv_fail(DRV_E_USAGE,
                "%s: key \"model.weights\" is load, which needs model.from, a folder with weights",
                place(l, c, "model.weights"));
    if (strcmp(c->backend, "cpu") != 0)
        return drv_fail(DRV_E_USAGE, "%s: key \"backend\" is \"%s\", expected cpu",
                place(l, c, "backend"), c->backend);
    for (int i = 0; i < c->n_train; i++)
        if (!c->train[i].prefix)
            return drv_fail(DRV_E_USAGE, "%s: data.train[%d] has no prefix",
                    place(l, c, "data.train"), i);
    for (int i = 0; i < c->n_valid; i++)
        if (!c->valid[i].prefix)
            return drv_fail(DRV_E_USAGE, "%s: data.valid[%d] has no prefix",
                    place(l, c, "data.valid"), i);
    if (c->min_lr > c->lr)
        return drv_fail(DRV_E_USAGE,
                "%s: key \"schedule.min_lr\" is %g, expected at most optimizer.lr %g",
                place(l, c, "schedule.min_lr"), c->min_lr, c->lr);
    return DRV_OK;
}

static drv_status apply(arena *a, const yaml_list *l, run_config *c) {
    for (int i = 0; i < N_KEYS; i++) {
        const key *k = &keys[i];
        yaml_entry e = {k->path, k->initial, "default"};
        if (k->initial) DRV_TRY(set_key(c, k, &e));
    }
    c->betas[0] = 0.9;
    c->betas[1] = 0.95;
    DRV_TRY(load_model(a, l, c));
    const int64_t context = c->model.max_position_embeddings;
    c->sequence_length = context < 1024 ? context : 1024;
    for (int i = 0; i < l->n; i++)
        DRV_TRY(set_entry(c, &l->entries[i]));
    if (!*c->run_dir) {
        const char *base = c->file ? c->file : "run.yaml", *slash = strrchr(base, '/');
        if (slash) base = slash + 1;
        c->run_dir = arena_printf(a, "runs/%.*s", (int)strcspn(base, "."), base);
    }
    // The ids of model.from's config.json belong to its own tokenizer.
    if (*c->tokenizer && strcmp(c->tokenizer, c->from) != 0) {
        c->model.bos_token_id = c->model.pad_token_id = -1;
        c->model.n_eos = 0;
    }
    return check(l, c);
}

drv_status config_load(arena *a, const char *path, const char *const *sets, int n_sets,
        run_config *out) {
    *out = (run_config){.file = path,
            .train = ARENA_ARRAY(a, data_source, MAX_BLEND),
            .valid = ARENA_ARRAY(a, data_source, MAX_BLEND)};
    yaml_list *l = ARENA_NEW(a, yaml_list);
    drv_status s = DRV_OK;
    out->entries = l;
    if (path) {
        char *text;
        size_t n;
        s = file_read(a, path, &text, &n);
        if (s == DRV_OK) s = yaml_flatten(a, path, text, n, l);
    }
    for (int i = 0; s == DRV_OK && i < n_sets; i++)
        s = yaml_flatten_set(a, sets[i], l);
    if (s == DRV_OK) s = apply(a, l, out);
    const yaml_entry *entries = l->entries;
    l->entries = ARENA_ARRAY(a, yaml_entry, l->n);
    if (l->n) memcpy(l->entries, entries, sizeof *entries * (size_t)l->n);
    free((void *)(uintptr_t)entries);
    return s;
}

drv_status config_from_sets(arena *a, const char *const *sets, int n_sets, run_config *out) {
    return config_load(a, NULL, sets, n_sets, out);
}

const char *config_where(const run_config *cfg, const char *path) {
    static const yaml_list none;
    return place(cfg->entries ? cfg->entries : &none, cfg, path);
}

bool config_loads_weights(const run_config *cfg) {
    return cfg->weights == WEIGHTS_LOAD;
}

const char *precision_name(precision p) {
    return p == PRECISION_BF16 ? "bf16" : "fp32";
}

const char *recompute_name(recompute_mode r) {
    static const char *const names[] = {"none", "selective", "full"};
    return names[r];
}

const char *schedule_name(schedule_type t) {
    static const char *const names[] = {"cosine", "linear", "wsd", "constant"};
    return names[t];
}

static void print_sources(const char *name, const data_source *list, int n, str *out) {
    if (n == 1) {
        str_printf(out, "  %s: \"%s\"", name, list[0].prefix);
    } else {
        str_printf(out, "  %s: [", name);
        for (int i = 0; i < n; i++)
            str_printf(out, "%s{prefix: \"%s\", weight: %s}", i ? ", " : "", list[i].prefix,
                    str_real(list[i].weight));
        str_puts(out, "]");
    }
}

static void print_value(const run_config *c, const key *k, str *out) {
    const void *p = (const char *)c + k->offset;
    switch (k->type) {
    case KEY_INT:
        str_printf(out, "%lld", (long long)*(const int64_t *)p);
        break;
    case KEY_REAL:
        str_puts(out, str_real(*(const double *)p));
        break;
    case KEY_BOOL:
        str_puts(out, *(const bool *)p ? "true" : "false");
        break;
    case KEY_TEXT:
        str_printf(out, "\"%s\"", *(const char *const *)p);
        break;
    case KEY_CHOICE: {
        const char *w = k->choices;
        for (int i = *(const int *)p; i > 0; i--)
            w = strchr(w, ' ') + 1;
        str_printf(out, "%.*s", (int)strcspn(w, " "), w);
    }
    }
}

void config_print(const run_config *c, bool with_help, str *out) {
    char section[64] = "";
    for (int i = 0; i < N_KEYS; i++) {
        const key *k = &keys[i];
        const char *dot = strchr(k->path, '.'), *name = dot ? dot + 1 : k->path;
        if (strcmp(k->path, "model.preset") == 0 && !*c->preset) continue;
        if (strcmp(k->path, "model.from") == 0 && !*c->from) continue;
        if (strcmp(name, "split") == 0 && c->split[0] + c->split[1] + c->split[2] <= 0) continue;
        if (strcmp(name, "train") == 0 && c->n_train == 0) continue;
        if (strcmp(name, "valid") == 0 && c->n_valid == 0) continue;
        int n = dot ? (int)(dot - k->path) : 0;
        if (dot && (strncmp(section, k->path, (size_t)n) != 0 || section[n])) {
            snprintf(section, sizeof section, "%.*s", n, k->path);
            str_printf(out, "%s:\n", section);
        }
        size_t start = out->n;
        if (strcmp(name, "train") == 0)
            print_sources(name, c->train, c->n_train, out);
        else if (strcmp(name, "valid") == 0)
            print_sources(name, c->valid, c->n_valid, out);
        else if (strcmp(name, "betas") == 0)
            str_printf(out, "  betas: [%s, %s]", str_real(c->betas[0]), str_real(c->betas[1]));
        else if (strcmp(name, "split") == 0)
            str_printf(out, "  split: [%s, %s, %s]", str_real(c->split[0]), str_real(c->split[1]),
                    str_real(c->split[2]));
        else {
            str_printf(out, "%s%s: ", dot ? "  " : "", name);
            print_value(c, k, out);
        }
        if (with_help)
            str_printf(out, "%*s# %s", (int)(out->n - start < 44 ? 44 - (out->n - start) : 1), "",
                    k->help);
        str_puts(out, "\n");
    }
}
