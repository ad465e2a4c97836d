// Converts the settings that both formats have, and lists what a conversion loses.
#include "gguf/llama_generation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

static const struct {
    const char *gguf, *hf;
    bool whole, draws; // draws: has an effect only if tokens are sampled
} samplings[] = {{"general.sampling.temp", "temperature", false, true},
        {"general.sampling.top_k", "top_k", true, true},
        {"general.sampling.top_p", "top_p", false, true},
        {"general.sampling.min_p", "min_p", false, true},
        {"general.sampling.penalty_repeat", "repetition_penalty", false, false}};
enum { N_SAMPLINGS = sizeof samplings / sizeof *samplings };

// --- out of a file
static void say_unknown(const gguf_file *f) {
    for (int i = 0; i < f->n_values; i++) {
        bool known = !str_starts(f->values[i].key, "general.sampling.");
        for (int k = 0; k < N_SAMPLINGS; k++)
            known |= strcmp(f->values[i].key, samplings[k].gguf) == 0;
        if (!known)
            log_info("%s: %s has no place in generation_config.json and is left out", f->path,
                    f->values[i].key);
    }
}

static drv_status read_sampling(const gguf_file *f, int i, bool draws, json_t *o) {
    int64_t whole = 0;
    double x = 0;
    if (!gguf_find(f, samplings[i].gguf)) return DRV_OK;
    DRV_TRY(samplings[i].whole ? gguf_get_i64(f, samplings[i].gguf, &whole)
                               : gguf_get_f64(f, samplings[i].gguf, &x));
    if (samplings[i].draws && !draws) return DRV_OK;
    json_object_set_new(o, samplings[i].hf,
            samplings[i].whole ? json_integer(whole) : json_real(x));
    if (samplings[i].draws) json_object_set_new(o, "do_sample", json_true());
    return DRV_OK;
}

drv_status llama_generation_json(const gguf_file *f, const llama_meta *m, json_t **out) {
    double temperature = 1;
    DRV_TRY(gguf_get_f64(f, samplings[0].gguf, &temperature));
    json_t *o = json_pack("{s:o, s:o, s:o}", "bos_token_id", llama_id_json(m->bos), "eos_token_id",
            llama_eos_json(m), "pad_token_id", llama_id_json(m->pad));
    drv_status status = DRV_OK;
    if (!(temperature > 0)) json_object_set_new(o, "do_sample", json_false());
    for (int i = 0; i < N_SAMPLINGS && status == DRV_OK; i++)
        status = read_sampling(f, i, temperature > 0, o);
    say_unknown(f);
    if (status == DRV_OK)
        *out = o;
    else
        json_decref(o);
    return status;
}

// --- into a file
static bool put_sampling(const json_t *x, int i, gguf_builder *out) {
    const double value = json_number_value(x);
    if (!json_is_number(x) || (samplings[i].whole && !(fabs(value) <= INT32_MAX))) return false;
    if (samplings[i].whole)
        gguf_put_i32(out, samplings[i].gguf, (int32_t)value);
    else
        gguf_put_f32(out, samplings[i].gguf, (float)value);
    return true;
}

void llama_generation_put(const json_t *generation, gguf_builder *out) {
    const json_t *draws = json_object_get(generation, "do_sample");
    bool said = false;
    for (int i = 0; i < N_SAMPLINGS; i++) {
        if (samplings[i].draws && !json_is_true(draws)) continue;
        said |= put_sampling(json_object_get(generation, samplings[i].hf), i, out) &&
                samplings[i].draws;
    }
    if (json_is_boolean(draws) && !said)
        gguf_put_f32(out, samplings[0].gguf, json_is_true(draws) ? 1.0F : 0.0F);
}

// --- there and back
// Returns whether a list, or a single value, has `value`. Numbers are compared as fp32.
static bool holds(const json_t *list, const json_t *value) {
    if (json_is_number(list) && json_is_number(value))
        return (float)json_number_value(list) == (float)json_number_value(value);
    for (size_t i = 0; i < json_array_size(list); i++)
        if (holds(json_array_get(list, i), value)) return true;
    return json_equal(list, value);
}

static bool holds_all(const json_t *list, const json_t *values) {
    if (!json_is_array(values)) return holds(list, values);
    for (size_t i = 0; i < json_array_size(values); i++)
        if (!holds(list, json_array_get(values, i))) return false;
    return true;
}

// Returns whether a value is kept: a list may change its order, and false may be left out.
static bool is_kept(const json_t *before, const json_t *after) {
    if (json_is_null(before)) return true;
    if (!after || json_is_null(after)) return json_is_false(before);
    return holds_all(after, before) && holds_all(before, after);
}

// Returns whether a key does not affect how tokens are chosen.
static bool is_default(const char *key, const json_t *v) {
    return key[0] == '_' || strcmp(key, "transformers_version") == 0 ||
           (strcmp(key, "use_cache") == 0 && json_is_true(v));
}

static void print_value(const json_t *v, str *out) {
    char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
    str_printf(out, " %.60s", text);
    free(text);
}

const char *llama_config_lost(arena *a, const json_t *before, const json_t *after) {
    str list = {0};
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)before, key, v) {
        const json_t *now = json_object_get(after, key);
        if (is_default(key, v) || is_kept(v, now)) continue;
        str_printf(&list, "%s%.60s", list.n ? ", " : "", key);
        print_value(v, &list);
        if (!now || json_is_null(now)) continue;
        str_puts(&list, " becomes");
        print_value(now, &list);
    }
    const char *text = list.n ? arena_strdup(a, list.p) : NULL;
    str_free(&list);
    return text;
}
