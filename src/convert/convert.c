// Export and merge copy a model tensor by tensor, with or without the change of an adapter, and
// then prove the result.
#include "convert/convert.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/parallel.h"
#include "base/task.h"

// --- adapters
typedef struct merging {
    const adapter *adapter;
    const adapter_module *module; // whose A is in memory
    float *a;                     // [r, in], of that module
} merging;

static bool has_module(void *ctx, const source_tensor *t) {
    const merging *m = ctx;
    return adapter_find(m->adapter, t->name) != NULL;
}

static drv_status load_a(merging *m, const adapter_module *module) {
    if (m->module == module) return DRV_OK;
    const source_tensor *t = module->a;
    m->module = NULL;
    m->a = mem_realloc(m->a, sizeof *m->a * (size_t)(t->rows * t->cols));
    DRV_TRY(source_read_f32(&m->adapter->tensors, t, 0, t->rows, m->a));
    m->module = module;
    return DRV_OK;
}

typedef struct product {
    const float *a, *b;    // [r, in], [n, r]
    float *values, *delta; // [n, in]; one row for each thread
    int64_t rank, cols;
    float scale;
} product;

// Computes a row of W + scale B A. The sum over r is in order, so its bits are the same everywhere.
static void merge_row(void *ctx, int64_t row) {
    const product *p = ctx;
    float *delta = p->delta + par_thread() * p->cols, *out = p->values + row * p->cols;
    memset(delta, 0, sizeof *delta * (size_t)p->cols);
    for (int64_t k = 0; k < p->rank; k++) {
        const float b = p->b[row * p->rank + k], *a = p->a + k * p->cols;
        for (int64_t i = 0; i < p->cols; i++)
            delta[i] += b * a[i];
    }
    for (int64_t i = 0; i < p->cols; i++)
        out[i] += p->scale * delta[i];
}

static drv_status merge_rows(void *ctx, const source_tensor *t, int64_t row, int64_t n,
        float *values) {
    merging *m = ctx;
    const adapter_module *module = adapter_find(m->adapter, t->name);
    DRV_TRY(load_a(m, module));
    float *b = mem_alloc(sizeof *b * (size_t)(n * module->rank)),
          *delta = mem_alloc(sizeof *delta * (size_t)(t->cols * par_threads()));
    product p = {.a = m->a,
            .b = b,
            .values = values,
            .delta = delta,
            .rank = module->rank,
            .cols = t->cols,
            .scale = (float)module->scale};
    drv_status status = source_read_f32(&m->adapter->tensors, module->b, row, n, b);
    if (status == DRV_OK) par_for(n, merge_row, &p);
    free(b);
    free(delta);
    return status;
}

// --- the proof
typedef struct proving {
    arena *a;
    const model *from;
    const char *from_name;
    bool bits_suffice; // equal hashes of weights are enough; a replay is not needed
    convert_result *result;
} proving;

typedef struct hashing {
    const model *model;
    char *hex;
} hashing;

static drv_status hash_one(void *ctx) {
    const hashing *h = ctx;
    return model_hash(h->model, h->hex);
}

// Hashes both models at the same time, so that the disk and the cores are both busy.
static drv_status hash_both(const model *from, const model *made, comparison *c) {
    hashing source = {from, c->hash_a};
    task other = {0};
    task_start(&other, hash_one, &source);
    drv_saved ours;
    drv_save(model_hash(made, c->hash_b), &ours);
    DRV_TRY(task_wait(&other));
    return drv_restore(&ours);
}

// Compares the hashes of all weights, and replays both models only if they differ.
static drv_status compare_bits(arena *a, const model *from, const model *made, comparison *c) {
    if (!compare_configs(a, from, made, c)) return DRV_OK;
    DRV_TRY(hash_both(from, made, c));
    if (strcmp(c->hash_a, c->hash_b) == 0) return DRV_OK;
    return compare_models(a, from, made, true, c);
}

static drv_status prove_result(void *ctx, out_folder *o, bool *good) {
    proving *p = ctx;
    model made;
    comparison *c = &p->result->comparison;
    DRV_TRY(model_open(p->a, o->tmp, &made));
    drv_status status = p->bits_suffice ? compare_bits(p->a, p->from, &made, c)
                                        : compare_models(p->a, p->from, &made, true, c);
    model_close(&made);
    DRV_TRY(status);
    p->result->compared = true;
    *good = !c->problem;
    return out_folder_put_json(o, "verify.json", comparison_json(c, p->from_name, o->path),
            JSON_INDENT(2) | JSON_REAL_PRECISION(9));
}

static drv_status check_proof(const convert_result *result, const char *out) {
    if (!result->written.unproved) return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "%s; the result is kept as \"%s\" with its verify.json, not as \"%s\"",
            result->comparison.problem, result->written.unproved, out);
}

// Checks that the state has for each weight the moments of AdamW or the momentum of Muon, in its
// shape, and besides these only masters and numbers for each row.
static drv_status check_optimizer(arena *a, const model *from, const model_source *state) {
    static const char *const kinds[] = {CKPT_EXP_AVG, CKPT_EXP_AVG_SQ, CKPT_MOMENTUM, CKPT_MASTER,
            CKPT_ROW_SQUARES};
    enum { N_KINDS = sizeof kinds / sizeof *kinds, N_OF_ADAMW = 2, ROW_SQUARES = N_KINDS - 1 };
    ckpt_tensor *list = ARENA_ARRAY(a, ckpt_tensor, N_KINDS * from->n_tensors + 1);
    int n = 0;
    for (int i = 0; i < from->n_tensors; i++) {
        const char *name = from->tensors[i].entry.name;
        const bool by_muon =
                model_source_find(state, arena_printf(a, "%s%s", CKPT_MOMENTUM, name)) != NULL;
        for (int k = 0; k < N_KINDS; k++) {
            list[n] = from->tensors[i];
            list[n].entry.name = arena_printf(a, "%s%s", kinds[k], name);
            if (k == ROW_SQUARES) list[n].entry.n_dims = 1;
            if (k < N_OF_ADAMW ? !by_muon : !!model_source_find(state, list[n].entry.name)) n++;
        }
    }
    return ckpt_check(state, list, n);
}

drv_status convert_import(arena *a, const model *from, const st_entry *list, int n, const char *out,
        const model_write_opts *opts, bool verify, convert_result *result) {
    model_write_opts all = *opts;
    proving prove = {.a = a,
            .from = from,
            .from_name = from->path,
            .bits_suffice = true,
            .result = result};
    *result = (convert_result){0};
    if (verify) all.proof = (model_proof){prove_result, &prove};
    if (opts->optimizer) DRV_TRY(check_optimizer(a, from, opts->optimizer));
    DRV_TRY(model_write(a, &from->source, list, n, out, &all, &result->written));
    return check_proof(result, out);
}

// --- the copy
// Copies the figures of trainer.json that a model card shows (push/model_card.c), and nothing that
// names a file. NULL: the source is not a checkpoint of a run.
static char *training_figures(arena *a, const char *folder) {
    static const char *const keys[] = {"step", "tokens", "loss", "val_loss", "global_batch_size",
            "sequence_length", "arithmetic"},
                             *const settings[] = {"training.objective", "optimizer.type",
                                     "optimizer.lr"};
    const char *path = path_join(a, folder, "trainer.json");
    json_t *all = NULL, *figures = json_object(), *config = json_object();
    if (file_exists(path) && json_read_file(path, &all) != DRV_OK)
        log_warn("the figures of its training are left out: %s", drv_message());
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        json_object_set(figures, keys[i], json_object_get(all, keys[i]));
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        json_object_set(config, settings[i],
                json_object_get(json_object_get(all, "config"), settings[i]));
    if (json_object_size(config)) json_object_set(figures, "config", config);
    json_decref(config);
    json_decref(all);
    if (json_object_size(figures)) return json_print_in(a, figures, JSON_INDENT(2));
    json_decref(figures);
    return NULL;
}

// Lists the files that go with the weights.
static drv_status choose_carried(arena *a, const model *from, const char *folder,
        model_write_opts *opts) {
    ckpt_carried *own;
    const char *figures = opts->dcp ? NULL : training_figures(a, folder);
    DRV_TRY(model_source_files(a, &from->source, &own, &opts->n_files));
    ckpt_carried *list = ARENA_ARRAY(a, ckpt_carried, opts->n_files + 1);
    for (int i = 0; i < opts->n_files; i++)
        list[i] = own[i];
    if (figures)
        list[opts->n_files++] = (ckpt_carried){"trainer.json", figures, strlen(figures), folder};
    opts->files = list;
    return DRV_OK;
}

static drv_status copy(arena *a, const model *from, const char *name, const char *out,
        const model_write_opts *opts, bool verify, convert_result *result) {
    proving prove = {.a = a, .from = from, .from_name = name, .result = result};
    model_write_opts all = *opts;
    if (verify) all.proof = (model_proof){prove_result, &prove};
    DRV_TRY(model_write(a, &from->source, model_entries(a, from), from->n_tensors, out, &all,
            &result->written));
    return check_proof(result, out);
}

drv_status convert_export(arena *a, const char *path, const char *out, const model_write_opts *opts,
        bool verify, convert_result *result) {
    model m;
    *result = (convert_result){0};
    DRV_TRY(model_write_check(path, out, opts->force));
    // Weights are rounded once: from the fp32 masters, if the checkpoint has them.
    const drv_status opened =
            (opts->has_type ? model_source_open_masters : model_source_open)(a, path, &m.source);
    DRV_TRY(model_of_source(opened, a, path, &m));
    json_t *config = model_config_json(&m.config);
    model_write_opts with_files = *opts;
    with_files.dcp_config = config;
    drv_status status = choose_carried(a, &m, path, &with_files);
    if (status == DRV_OK) status = copy(a, &m, path, out, &with_files, verify, result);
    json_decref(config);
    model_close(&m);
    return status;
}

// --- merging
// Takes tokenizer and template from the adapter if it has a tokenizer: training may change them.
static drv_status choose_files(arena *a, merged_model *merged) {
    static const char generation_name[] = "generation_config.json";
    const model *base = &merged->base;
    const adapter *ad = &merged->adapter;
    ckpt_carried *own, *list = ARENA_ARRAY(a, ckpt_carried, 2 * n_ckpt_carried_names);
    int n_own;
    DRV_TRY(model_source_files(a, &base->source, &own, &n_own));
    merged->files = list;
    if (!file_exists(path_join(a, ad->path, "tokenizer.json"))) {
        merged->files = own;
        merged->n_files = n_own;
        return DRV_OK;
    }
    ckpt_carried *theirs;
    DRV_TRY(model_source_files(a, &ad->tensors, &theirs, &merged->n_files));
    const ckpt_carried *generation = carried_find(own, n_own, generation_name);
    if (merged->n_files) memcpy(list, theirs, sizeof *list * (size_t)merged->n_files);
    if (generation && !carried_find(theirs, merged->n_files, generation_name))
        list[merged->n_files++] = *generation;
    return DRV_OK;
}

static drv_status join_adapter(arena *a, merged_model *m) {
    m->merging = ARENA_NEW(a, merging);
    *m->merging = (merging){.adapter = &m->adapter};
    m->base.adapter = &m->adapter;
    m->change = (model_change){has_module, merge_rows, m->merging};
    m->name = arena_printf(a, "%s + %s", m->base.path, m->adapter.path);
    adapter_warn_of_base(&m->adapter, m->base.source.path);
    DRV_TRY(adapter_check_base(&m->adapter, &m->base.source, m->base.tensors, m->base.n_tensors));
    DRV_TRY(adapter_check_hashes(m->adapter.path, m->base.path, NULL, &m->base.source));
    return choose_files(a, m);
}

drv_status merged_open(arena *a, const char *base, const char *adapter_path, merged_model *out) {
    *out = (merged_model){0};
    DRV_TRY(adapter_open(a, adapter_path, &out->adapter));
    drv_status status = model_open(a, base, &out->base);
    if (status == DRV_OK) {
        status = join_adapter(a, out);
        if (status != DRV_OK) model_close(&out->base);
    }
    if (status != DRV_OK) adapter_close(&out->adapter);
    return status;
}

void merged_close(merged_model *m) {
    free(m->merging->a);
    model_close(&m->base);
    adapter_close(&m->adapter);
}

drv_status convert_merge(arena *a, const char *base, const char *adapter_path, const char *out,
        const model_write_opts *opts, bool verify, convert_result *result) {
    merged_model m;
    model_write_opts all = *opts;
    *result = (convert_result){0};
    DRV_TRY(model_write_check(adapter_path, out, opts->force));
    DRV_TRY(model_write_check(base, out, opts->force));
    DRV_TRY(merged_open(a, base, adapter_path, &m));
    all.change = m.change;
    all.files = m.files;
    all.n_files = m.n_files;
    const drv_status status = copy(a, &m.base, m.name, out, &all, verify, result);
    merged_close(&m);
    return status;
}
