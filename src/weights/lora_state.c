// Chooses, reads and describes the adapter of a run.
#include "weights/lora_state.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "ckpt/adapter.h"
#include "weights/base_blocks.h"
#include "weights/lora_base.h"
#include "weights/state.h"

// --- which branches
static drv_status refuse_key(const run_config *cfg, const char *key, const char *mine,
        const char *theirs) {
    return config_refuse(cfg, key,
            "is %s, but the adapter \"%s\" has %s; leave it out to continue with the adapter", mine,
            cfg->lora.adapter, theirs);
}

static const char *module_of_weight(arena *a, const char *weight) {
    return arena_strndup(a, weight, strlen(weight) - strlen(".weight"));
}

// Lists the branches of the projections; lora_load_eval adds a branch of the output weight.
static void set_of_adapter(arena *a, const adapter *ad, const model_config *model, lora_set *out) {
    *out = lora_set_new(a, ad->n);
    for (int i = 0; i < ad->n; i++) {
        const lora_branch branch = {module_of_weight(a, ad->modules[i].weight), ad->modules[i].rank,
                ad->modules[i].scale};
        if (lora_is_projection(branch.module, model)) lora_set_add(out, &branch);
    }
}

// Checks that the targets in the config are the projections of the adapter.
static drv_status check_targets(arena *a, const run_config *cfg, const adapter *ad) {
    lora_set mine, theirs;
    DRV_TRY_CTX(lora_of_config(a, &cfg->lora, &cfg->model, &mine), "%s", config_where(cfg, "lora"));
    set_of_adapter(a, ad, &cfg->model, &theirs);
    for (int i = 0; i < mine.n; i++)
        if (!lora_find(&theirs, mine.branches[i].module))
            return refuse_key(cfg, "lora.target_modules",
                    arena_printf(a, "with %s", mine.branches[i].module), "no branch there");
    if (mine.n == theirs.n) return DRV_OK;
    return refuse_key(cfg, "lora.target_modules", arena_printf(a, "%d projections", mine.n),
            arena_printf(a, "%d", theirs.n));
}

static drv_status adopt_adapter(arena *a, run_config *cfg, const adapter *ad) {
    const adapter_config *read = &ad->config;
    lora_config *lora = &cfg->lora;
    if (lora->rank > 0 && lora->rank != read->rank)
        return refuse_key(cfg, "lora.rank", arena_printf(a, "%lld", (long long)lora->rank),
                arena_printf(a, "%lld", (long long)read->rank));
    if (lora->alpha > 0 && lora->alpha != read->alpha)
        return refuse_key(cfg, "lora.alpha", arena_printf(a, "%g", lora->alpha),
                arena_printf(a, "%g", read->alpha));
    if (lora->use_rslora && !read->rslora)
        return refuse_key(cfg, "lora.use_rslora", "true", "false");
    if (lora->dropout != read->dropout)
        log_info("lora.dropout is %g; the adapter was trained with %g", lora->dropout,
                read->dropout);
    lora->rank = read->rank;
    lora->alpha = read->alpha;
    lora->use_rslora = read->rslora;
    if (lora->n_target_modules > 0) return check_targets(a, cfg, ad);
    const int n = read->target_pattern ? 1 : read->n_targets;
    lora->target_modules = ARENA_ARRAY(a, const char *, n);
    for (int i = 0; i < n; i++)
        lora->target_modules[i] = read->target_pattern ? read->target_pattern : read->targets[i];
    lora->n_target_modules = n;
    return DRV_OK;
}

drv_status lora_resolve(arena *a, run_config *cfg) {
    adapter *ad = ARENA_NEW(a, adapter);
    if (!*cfg->lora.adapter) return DRV_OK;
    DRV_TRY_CTX(adapter_open(a, cfg->lora.adapter, ad), "%s: lora.adapter",
            config_where(cfg, "lora.adapter"));
    drv_status status = adopt_adapter(a, cfg, ad);
    adapter_close(ad);
    return status;
}

drv_status lora_of_run(arena *a, const run_config *cfg, lora_set *out) {
    adapter ad;
    if (!*cfg->lora.adapter) {
        DRV_TRY_CTX(lora_of_config(a, &cfg->lora, &cfg->model, out), "%s",
                config_where(cfg, "lora"));
        return DRV_OK;
    }
    DRV_TRY(adapter_open(a, cfg->lora.adapter, &ad));
    set_of_adapter(a, &ad, &cfg->model, out);
    adapter_close(&ad);
    return DRV_OK;
}

// --- values
// Checks that rank and scale are those of the run, since the tensors mean other weights otherwise.
static drv_status check_branches(arena *a, const held_model *model, const adapter *ad) {
    lora_set mine;
    DRV_TRY(lora_of_run(a, model->config, &mine));
    for (int i = 0; i < ad->n; i++) {
        const adapter_module *theirs = &ad->modules[i];
        const lora_branch *branch = lora_find(&mine, module_of_weight(a, theirs->weight));
        if (branch && branch->rank == theirs->rank && branch->scale == theirs->scale) continue;
        if (!branch &&
                !lora_is_projection(module_of_weight(a, theirs->weight), &model->config->model))
            continue;
        return drv_fail(DRV_E_USAGE,
                "%s: \"%s\" has a branch of rank %lld and scale %g, but the config says %s: a run keeps its branches",
                ad->path, theirs->weight, (long long)theirs->rank, theirs->scale,
                branch ? arena_printf(a, "rank %lld and scale %g", (long long)branch->rank,
                                 branch->scale)
                       : "none");
    }
    return DRV_OK;
}

static drv_status load_opened(arena *a, held_model *model, const adapter *ad,
        const ckpt_sink *sink) {
    int n;
    const ckpt_tensor *list = state_adapter(a, model, true, &n);
    DRV_TRY(check_branches(a, model, ad));
    return ckpt_fill_alone(&ad->tensors, list, n, sink);
}

static const adapter_module *head_module(const adapter *ad) {
    return adapter_find(ad, "lm_head.weight");
}

drv_status lora_load(held_model *model, const char *folder, bool exact) {
    arena *a = arena_new("adapter");
    adapter ad;
    ckpt_sink sink = state_weight_sink(model);
    sink.exact = exact;
    drv_status status = adapter_open(a, folder, &ad);
    if (status == DRV_OK && head_module(&ad))
        status = drv_fail(DRV_E_USAGE,
                "%s: it has a branch of lm_head, which drover does not train; expected branches of the layers' projections",
                folder);
    if (status == DRV_OK) status = load_opened(a, model, &ad, &sink);
    adapter_close(&ad);
    arena_free(a);
    return status;
}

// --- loading base and adapter for evaluation
typedef struct merging { // a sink in front of another: passes on W + scale B A for the output weight
    const ckpt_sink *next;
    const adapter_module *head; // NULL: none
    float *a, *b;
} merging;

static drv_status merge_head(void *ctx, const ckpt_tensor *t, const ckpt_piece *piece,
        int64_t first, int64_t n, const float *values) {
    const merging *m = ctx;
    if (!m->head || strcmp(t->entry.name, m->head->weight) != 0)
        return m->next->write(m->next->ctx, t, piece, first, n, values);
    const int64_t cols = t->entry.dim[1], rank = m->head->rank;
    float *sum = mem_alloc(sizeof *sum * (size_t)n);
    memcpy(sum, values, sizeof *sum * (size_t)n);
    for (int64_t row = 0; row < n / cols; row++)
        for (int64_t r = 0; r < rank; r++) {
            const double factor = m->head->scale * (double)m->b[(first / cols + row) * rank + r];
            for (int64_t j = 0; j < cols; j++)
                sum[row * cols + j] += (float)(factor * (double)m->a[r * cols + j]);
        }
    drv_status status = m->next->write(m->next->ctx, t, piece, first, n, sum);
    free(sum);
    return status;
}

static drv_status read_head(arena *a, const adapter *ad, merging *m) {
    const adapter_module *head = m->head;
    if (!head) return DRV_OK;
    m->a = ARENA_ARRAY(a, float, head->a->rows * head->a->cols);
    m->b = ARENA_ARRAY(a, float, head->b->rows * head->b->cols);
    DRV_TRY(source_read_f32(&ad->tensors, head->a, 0, head->a->rows, m->a));
    return source_read_f32(&ad->tensors, head->b, 0, head->b->rows, m->b);
}

static drv_status check_shapes(arena *a, const held_model *model, const adapter *ad,
        const char *base) {
    model_source source;
    int n;
    const ckpt_tensor *list = state_model(a, model, true, &n);
    drv_status status = model_source_open(a, base, &source);
    if (status == DRV_OK) adapter_warn_of_base(ad, base);
    if (status == DRV_OK) status = adapter_check_base(ad, &source, list, n);
    model_source_close(&source);
    return status;
}

static drv_status load_both(arena *a, held_model *model, const char *base, const adapter *ad) {
    const ckpt_sink compute = state_compute_sink(model);
    merging m = {.next = &compute, .head = head_module(ad)};
    const ckpt_sink sink = {.write = merge_head, .ctx = &m};
    json_t *hashes;
    if (m.head && model->config->base_dtype == BASE_GGUF)
        return drv_fail(DRV_E_USAGE,
                "%s: the adapter changes the output weight, which stays as it is with --precision blocks; expected bf16 or fp32",
                ad->path);
    DRV_TRY(check_shapes(a, model, ad, base));
    DRV_TRY(read_head(a, ad, &m));
    DRV_TRY(lora_load_hashed(model, base, &sink, &hashes));
    drv_status status = adapter_check_hashes(ad->path, base, hashes, NULL);
    json_decref(hashes);
    if (status == DRV_OK) status = base_blocks_load(model, base);
    return status == DRV_OK ? load_opened(a, model, ad, &compute) : status;
}

drv_status lora_load_eval(held_model *model, const char *base, const char *folder) {
    arena *a = arena_new("adapter");
    adapter ad;
    drv_status status = adapter_open(a, folder, &ad);
    if (status == DRV_OK) status = load_both(a, model, base, &ad);
    adapter_close(&ad);
    arena_free(a);
    return status;
}

// --- the texts of a checkpoint
// Lists target_modules as PEFT reads them: a name if all layers have it, else paths.
static void list_targets(arena *a, const lora_set *set, const model_config *model,
        adapter_config *out) {
    out->targets = ARENA_ARRAY(a, const char *, set->n + 1);
    for (int i = 0; i < set->n; i++) {
        const char *name = strrchr(set->branches[i].module, '.') + 1;
        int same = 0;
        for (int k = 0; k < set->n; k++)
            same += strcmp(strrchr(set->branches[k].module, '.') + 1, name) == 0;
        if (same < model->num_hidden_layers) name = set->branches[i].module;
        if (str_index(name, out->targets, out->n_targets) < 0)
            out->targets[out->n_targets++] = name;
    }
}

drv_status lora_describe(arena *a, const run_config *cfg, const json_t *hashes,
        const char **adapter_text, const char **base) {
    adapter *ad = ARENA_NEW(a, adapter);
    lora_set set;
    char *folder = realpath(cfg->from, NULL);
    DRV_TRY(lora_of_run(a, cfg, &set));
    if (*cfg->lora.adapter) DRV_TRY(adapter_open(a, cfg->lora.adapter, ad)); // exceptions by module
    adapter_config c = ad->config;
    adapter_close(ad);
    c.rank = cfg->lora.rank;
    c.alpha = cfg->lora.alpha;
    c.rslora = cfg->lora.use_rslora;
    c.dropout = cfg->lora.dropout;
    c.base = arena_strdup(a, folder ? folder : cfg->from);
    c.target_pattern = NULL;
    c.n_targets = 0;
    list_targets(a, &set, &cfg->model, &c);
    free(folder);
    *adapter_text = json_print_in(a, adapter_config_json(&c), JSON_INDENT(2));
    json_t *about =
            json_pack("{s:s, s:O}", "folder", c.base, "tensors", (json_t *)(uintptr_t)hashes);
    *base = json_print_in(a, about, JSON_INDENT(2));
    return DRV_OK;
}
