// Resumes a run where it stopped; refuses if something would be lost or would differ silently.
#include "train/resume.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "ckpt/adapter.h"
#include "ckpt/ckpt.h"
#include "config/old_keys.h"

// --- which checkpoint
static int64_t saved_step(const char *run_dir) {
    arena *a = arena_new("saved.json");
    const char *path = path_join(a, run_dir, "saved.json");
    json_t *o = NULL;
    int64_t step = -1;
    if (file_exists(path) && json_read_file(path, &o) == DRV_OK) {
        const json_t *value = json_object_get(o, "step");
        if (json_is_integer(value)) step = json_integer_value(value);
    }
    json_decref(o);
    arena_free(a);
    return step;
}

void resume_note_saved(const char *run_dir, int64_t step, drv_status (*is_ours)(void *ctx),
        void *ctx) {
    arena *a = arena_new("saved.json");
    const char *path = path_join(a, run_dir, "saved.json");
    char text[64];
    const int n = snprintf(text, sizeof text, "{\n  \"step\": %lld\n}\n", (long long)step);
    drv_status status = file_write_aside(path, text, (size_t)n);
    if (status == DRV_OK) status = is_ours(ctx);
    if (status == DRV_OK) status = file_put_in_place(path);
    if (status != DRV_OK) log_warn("%s", drv_message());
    arena_free(a);
}

static const char how_to_start[] =
        "restore a checkpoint, or start again at step 0 with `drover train CONFIG --fresh`, which moves what is there to RUN_DIR/before-N";

drv_status resume_choose(arena *a, const ckpt_ranks *ranks, const char *run_dir, int64_t below,
        const char **folder) {
    const char *dir = path_join(a, run_dir, "checkpoints");
    const int64_t saved = saved_step(run_dir);
    DRV_TRY(ckpt_agree(ranks, ckpt_rank(ranks) == 0 ? ckpt_clean(dir) : DRV_OK));
    drv_status status = ckpt_newest(a, ranks, dir, below, folder);
    if (status != DRV_OK) {
        const char *why = arena_strdup(a, drv_message());
        return drv_fail(status, "%s; %s", why, how_to_start);
    }
    if (!*folder && below < INT64_MAX) return DRV_OK;
    if (!*folder && saved >= 0)
        return drv_fail(DRV_E_DATA,
                "\"%s\" was saved up to step %lld (saved.json), but %s holds no checkpoint; %s",
                run_dir, (long long)saved, dir, how_to_start);
    if (*folder && saved > ckpt_step_of(*folder))
        log_warn("\"%s\" was saved up to step %lld (saved.json); the newest checkpoint that can be used is step %lld",
                run_dir, (long long)saved, (long long)ckpt_step_of(*folder));
    return DRV_OK;
}

// --- the model
// Returns whether a field may change: it affects only fresh weights, or is a limit or an id.
static bool may_change(const char *field) {
    return STR_ONE_OF(field, "initializer_range", "max_position_embeddings", "bos_token_id",
            "eos_token_id", "pad_token_id", "torch_dtype", "dtype");
}

static char *value_text(arena *a, const json_t *value) {
    if (!value) return arena_strdup(a, "absent");
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9));
    char *copy = arena_strdup(a, text ? text : "?");
    free(text);
    return copy;
}

static drv_status compare_models(arena *a, const char *path, const json_t *saved,
        const json_t *mine, bool say) {
    const json_t *both[2] = {saved, mine};
    for (int k = 0; k < 2; k++) {
        const char *field;
        json_t *ignored;
        json_object_foreach((json_t *)(uintptr_t)both[k], field, ignored) {
            const json_t *x = json_object_get(saved, field), *y = json_object_get(mine, field);
            if (x && y && json_equal((json_t *)(uintptr_t)x, (json_t *)(uintptr_t)y)) continue;
            if (x && k == 1) continue; // compared in the first round
            const char *was = value_text(a, x), *is = value_text(a, y);
            if (!may_change(field))
                return drv_fail(DRV_E_USAGE,
                        "%s: %s is %s, but the config's model has %s: a run keeps its model; give another run_dir or --fresh (model.from takes weights over)",
                        path, field, was, is);
            if (say) log_info("model.%s: %s -> %s", field, was, is);
        }
    }
    return DRV_OK;
}

// A LoRA run cannot resume from a checkpoint of a whole model, nor the other way round.
static drv_status check_kind(arena *a, const char *folder, bool lora) {
    const bool is_adapter = adapter_is_folder(a, folder);
    if (is_adapter == lora) return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "\"%s\" is a checkpoint of %s, but the config %s: give another run_dir or --fresh",
            folder, is_adapter ? "a LoRA run" : "a whole model",
            lora ? "has LoRA (lora.rank)" : "has no LoRA (lora.rank 0)");
}

drv_status resume_check_model(const char *folder, const model_config *m, bool lora, bool say) {
    arena *a = arena_new("compare models");
    const char *path = path_join(a, folder, lora ? "base_config.json" : "config.json");
    model_config read;
    drv_status status = check_kind(a, folder, lora);
    if (status == DRV_OK) status = model_config_read(path, &read);
    if (status == DRV_OK) {
        json_t *saved = model_config_json(&read), *mine = model_config_json(m);
        status = compare_models(a, path, saved, mine, say);
        json_decref(saved);
        json_decref(mine);
    }
    arena_free(a);
    return status;
}

// --- what has changed
static const char *consequence(const char *key) {
    static const struct {
        const char *prefix, *text;
    } list[] = {
            {"training.seed", "; rows come in another order from here on"},
            {"data.sequence_length", "; rows are cut again and come in another order from here on"},
            {"data.train", "; rows come from other data or in other shares from here on"},
            {"data.split", "; rows come from other documents from here on"},
            {"data.pack", "; attention and positions differ from here on"},
            {"data.loss", "; other tokens are learned from here on"},
            {"data.too_long", "; rows come in another order from here on"},
            {"tokenizer", "; new checkpoints get the new one"},
            {"parallel.partial_sum_rows",
                    "; gradients are added from other partial sums, so the last bits differ from here on"},
            {"parallel.",
                    "; gradients are added in another tree, so the last bits differ from here on"},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (str_starts(key, list[i].prefix)) return list[i].text;
    return "";
}

// A file may hold anything, so a value need not be a string.
static const char *recorded(const json_t *value) {
    return !value ? "none" : json_is_string(value) ? json_string_value(value) : "not a string";
}

// Earlier versions had other names for some keys, and their partial sums were micro-batches.
static const json_t *value_before(const json_t *before, const char *key) {
    const json_t *value = json_object_get(before, key);
    if (!value && config_key_before(key)) value = json_object_get(before, config_key_before(key));
    if (value || strcmp(key, "parallel.partial_sum_rows") != 0) return value;
    return json_object_get(before, "training.micro_batch_size");
}

// Compares values as they are printed; versions print numbers in several ways ("9.0e+01" and "90").
static bool same_value(const json_t *x, const json_t *y) {
    const char *p = json_string_value(x), *q = json_string_value(y);
    if (!p || !q) return json_equal(x, y);
    while (*p && *q) {
        char *p_end, *q_end;
        if (strtod(p, &p_end) != strtod(q, &q_end)) return false;
        if (p_end == p && q_end == q && *p++ != *q++) return false;
        if (p_end > p) p = p_end;
        if (q_end > q) q = q_end;
    }
    return *p == *q;
}

static void log_config(const json_t *before, const json_t *now) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)now, key, value) {
        const json_t *old = value_before(before, key);
        const bool data = str_starts(key, "data.");
        if (old ? same_value(old, value) : !data) continue;
        log_info("changed since the last part: %s: %s -> %s%s", key, recorded(old), recorded(value),
                consequence(key));
    }
    json_object_foreach((json_t *)(uintptr_t)before, key,
            value) if (str_starts(key, "data.") && !json_object_get(now, key))
            log_info("changed since the last part: %s: %s -> none%s", key, recorded(value),
                    consequence(key));
}

// Logs data sets that have other tokens now under the same prefix.
static void log_sources(arena *a, const json_t *before, const json_t *now) {
    static const char *const fields[] = {"tokens", "documents", "idx_xxh3", "tokenizer_xxh3",
            "split_by", "roles_xxh3"};
    for (size_t i = 0; i < json_array_size(now) && i < json_array_size(before); i++) {
        const json_t *old = json_array_get(before, i), *new = json_array_get(now, i);
        for (size_t k = 0; k < sizeof fields / sizeof *fields; k++) {
            json_t *x = json_object_get(old, fields[k]), *y = json_object_get(new, fields[k]);
            if (!x || !y || json_equal(x, y)) continue;
            log_info("changed since the last part: data set %s: %s %s -> %s; rows come in another order or from other data from here on",
                    value_text(a, json_object_get(new, "prefix")), fields[k], value_text(a, x),
                    value_text(a, y));
            break;
        }
    }
}

void resume_log_changes(const json_t *before, const json_t *now) {
    arena *a = arena_new("changes");
    const json_t *config = json_object_get(before, "config");
    const json_t *old = json_object_get(before, "arithmetic");
    const json_t *new = json_object_get(now, "arithmetic");
    if (config) {
        log_config(config, json_object_get(now, "config"));
    } else { // an earlier version, which recorded only these
        static const char *const fields[] = {"seed", "sequence_length"};
        for (int i = 0; i < 2; i++) {
            const json_t *x = json_object_get(before, fields[i]),
                         *y = json_object_get(now, fields[i]);
            if (x && !json_equal((json_t *)(uintptr_t)x, (json_t *)(uintptr_t)y))
                log_info("changed since the last part: %s: %s -> %s; rows come in another order from here on",
                        fields[i], value_text(a, x), value_text(a, y));
        }
    }
    log_sources(a, json_object_get(json_object_get(before, "data"), "sources"),
            json_object_get(json_object_get(now, "data"), "sources"));
    if (old && !json_equal((json_t *)(uintptr_t)old, (json_t *)(uintptr_t) new))
        log_info("changed since the last part: arithmetic: %s -> %s; the last bits differ",
                value_text(a, old), value_text(a, new));
    arena_free(a);
}

drv_status resume_check_optimizer(const char *folder, const json_t *before, const run_config *cfg) {
    const json_t *config = json_object_get(before, "config"),
                 *type = json_object_get(config, "optimizer.type");
    const char *was = type ? recorded(type)
                           : optimizer_name(OPTIMIZER_ADAMW), // earlier versions had no other
            *is = optimizer_name(cfg->optimizer);
    if (strcmp(was, is) == 0) return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "\"%s\" is of a run with optimizer.type %s, but the config has %s: a run keeps its "
            "optimizer; give another run_dir or --fresh (model.from takes weights over)",
            folder, was, is);
}

// --- files of earlier parts
static bool belongs_to_run(const char *name) {
    return str_starts(name, "config.until-") ||
           STR_ONE_OF(name, "checkpoints", "metrics.jsonl", "hashes.jsonl", "tensorboard",
                   "log.txt", "saved.json", "config.yaml", "ranks");
}

static drv_status move_file(const char *from, const char *to) {
    if (rename(from, to) == 0) return DRV_OK;
    return drv_fail(DRV_E_IO, "could not move \"%s\" to \"%s\": %s", from, to, strerror(errno));
}

drv_status resume_move_aside(const char *run_dir) {
    arena *a = arena_new("move aside");
    char **names = NULL, *aside = NULL;
    int n = 0;
    drv_status status = dir_list(a, run_dir, &names, &n);
    for (int i = 0; i < n && status == DRV_OK; i++) {
        if (!belongs_to_run(names[i])) continue;
        if (!aside) {
            for (int k = 1; !aside || access(aside, F_OK) == 0; k++)
                aside = arena_printf(a, "%s/before-%d", run_dir, k);
            log_info("moving the files of earlier runs in \"%s\" to \"%s\"", run_dir, aside);
            status = dir_make(aside);
        }
        if (status == DRV_OK)
            status = move_file(path_join(a, run_dir, names[i]), path_join(a, aside, names[i]));
    }
    if (status == DRV_OK && aside) status = file_sync_dir(run_dir);
    arena_free(a);
    return status;
}

drv_status resume_write_config(const run_config *cfg, int64_t step) {
    arena *a = arena_new("config.yaml");
    const char *path = path_join(a, cfg->run_dir, "config.yaml");
    str yaml = {0};
    char *old;
    size_t n;
    drv_status status = DRV_OK;
    config_print(cfg, false, &yaml);
    if (step > 0 && file_exists(path)) {
        status = file_read(a, path, &old, &n);
        if (status == DRV_OK && (n != yaml.n || memcmp(old, yaml.p, n) != 0)) {
            const char *stem =
                    arena_printf(a, "%s/config.until-%06lld", cfg->run_dir, (long long)step);
            status = move_file(path, path_unused(a, stem, ".yaml"));
        }
    }
    if (status == DRV_OK) status = file_write_atomic(path, yaml.p, yaml.n);
    str_free(&yaml);
    arena_free(a);
    return status;
}
