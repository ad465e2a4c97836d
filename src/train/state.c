#include "train/state.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

// All parts of all parameters; `source` is where their values are.
static ckpt_tensor *list(arena *a, const programs *p, const char *hf_prefix,
        const char *source_prefix, ckpt_tensor *t, int *n) {
    for (int i = 0; i < p->params.n; i++) {
        const param *w = &p->params.p[i];
        const int64_t cols = w->n_dims == 2 ? w->dim[1] : 1;
        const char *source = source_prefix ? arena_printf(a, "%s%s", source_prefix, w->name)
                                           : programs_master(a, p, w);
        for (int k = 0; k < w->n_parts; k++) {
            const param_part *part = &w->part[k];
            t[(*n)++] = (ckpt_tensor){{arena_printf(a, "%s%s", hf_prefix, part->hf_name), w->n_dims,
                                              {part->rows, w->n_dims == 2 ? cols : 0}},
                    source, part->row * cols * 4};
        }
    }
    return t;
}

static int64_t most_parts(const programs *p) {
    return 3 * (int64_t)p->params.n;
}

ckpt_tensor *state_model(arena *a, const programs *p, int *n) {
    *n = 0;
    return list(a, p, "", NULL, ARENA_ARRAY(a, ckpt_tensor, most_parts(p)), n);
}

ckpt_tensor *state_optimizer(arena *a, const programs *p, int *n) {
    ckpt_tensor *t = ARENA_ARRAY(a, ckpt_tensor, 2 * most_parts(p));
    *n = 0;
    list(a, p, "exp_avg.", "adam_m.", t, n);
    return list(a, p, "exp_avg_sq.", "adam_v.", t, n);
}

static drv_status put_weight(void *ctx, const ckpt_tensor *t, int64_t first, int64_t n,
        const float *values) {
    programs *p = ctx;
    const param *w = param_of_part(&p->params, t->entry.name);
    for (int rank = 0; rank < p->b->n_local_ranks; rank++)
        DRV_TRY(programs_write_weight(p, rank, w, t->offset / 4 + first, n, values));
    return DRV_OK;
}

static drv_status put_compute(void *ctx, const ckpt_tensor *t, int64_t first, int64_t n,
        const float *values) {
    programs *p = ctx;
    const param *w = param_of_part(&p->params, t->entry.name);
    const bool bf16 = param_dtype(w, p->dt) == DT_BF16;
    const int64_t at = t->offset / 4 + first;
    uint16_t *rounded = mem_alloc(sizeof *rounded * (size_t)n);
    for (int64_t i = 0; i < n && bf16; i++)
        rounded[i] = f32_to_bf16(values[i]);
    drv_status s = bf16 ? backend_write(p->b, 0, w->name, 2 * at, 2 * n, rounded)
                        : backend_write(p->b, 0, w->name, 4 * at, 4 * n, values);
    free(rounded);
    return s;
}

static drv_status put_moment(void *ctx, const ckpt_tensor *t, int64_t first, int64_t n,
        const float *values) {
    programs *p = ctx;
    for (int rank = 0; rank < p->b->n_local_ranks; rank++)
        DRV_TRY(backend_write(p->b, rank, t->source, t->offset + 4 * first, 4 * n, values));
    return DRV_OK;
}

static drv_status load_weights(programs *p, const char *folder, const ckpt_sink *sink) {
    arena *a = arena_new("load weights");
    int n;
    ckpt_tensor *t = state_model(a, p, &n);
    drv_status s = ckpt_fill(folder, "model", t, n, sink);
    arena_free(a);
    return s;
}

drv_status state_load_weights(programs *p, const char *folder) {
    return load_weights(p, folder, &(ckpt_sink){put_weight, p, false});
}

drv_status state_load_eval_weights(programs *p, const char *folder) {
    return load_weights(p, folder, &(ckpt_sink){put_compute, p, false});
}

static drv_status read_numbers(const run_config *c, const char *path, run_state *out) {
    json_t *o;
    DRV_TRY(json_read_file(path, &o));
    int64_t seed = c->seed, seq = c->sequence_length;
    drv_status s = json_get_i64(path, o, "step", &out->step);
    if (s == DRV_OK) s = json_get_i64(path, o, "updates", &out->updates);
    if (s == DRV_OK) s = json_get_i64(path, o, "rows_taken", &out->rows_taken);
    if (s == DRV_OK) s = json_get_i64(path, o, "tokens", &out->tokens);
    if (s == DRV_OK) s = json_get_i64(path, o, "bad_steps", &out->bad_steps);
    if (s == DRV_OK) s = json_get_i64(path, o, "seed", &seed);
    if (s == DRV_OK) s = json_get_i64(path, o, "sequence_length", &seq);
    json_decref(o);
    DRV_TRY(s);
    if (out->step < 0 || out->updates < 0 || out->rows_taken < 0)
        return drv_fail(DRV_E_DATA, "%s: a counter is negative", path);
    if (seed != c->seed || seq != c->sequence_length)
        log_warn("%s: seed or sequence_length differ from the config's; rows will come in another "
                 "order",
                path);
    return DRV_OK;
}

drv_status state_load(programs *p, const char *folder, run_state *out) {
    arena *a = arena_new("load state");
    int n;
    ckpt_tensor *t = state_optimizer(a, p, &n);
    *out = (run_state){0};
    drv_status s = load_weights(p, folder, &(ckpt_sink){put_weight, p, true});
    if (s == DRV_OK) s = ckpt_fill(folder, "optimizer", t, n, &(ckpt_sink){put_moment, p, true});
    if (s == DRV_OK) s = read_numbers(p->c, path_join(a, folder, "trainer.json"), out);
    arena_free(a);
    return s;
}

char *state_json(const run_config *c, const run_state *s) {
    json_t *o = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "step", (json_int_t)s->step,
            "updates", (json_int_t)s->updates, "rows_taken", (json_int_t)s->rows_taken, "tokens",
            (json_int_t)s->tokens, "bad_steps", (json_int_t)s->bad_steps, "seed",
            (json_int_t)c->seed, "sequence_length", (json_int_t)c->sequence_length);
    char *text = json_dumps(o, JSON_INDENT(2));
    json_decref(o);
    return text;
}
