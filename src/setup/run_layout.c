// Computes from a config what each rank does in a step.
#include "setup/run_layout.h"

mesh run_mesh(const run_config *cfg) {
    return (mesh){.size = {(int)cfg->pipeline_parallel, (int)cfg->data_ranks,
                          (int)cfg->context_parallel, (int)cfg->tensor_parallel},
            .groups = cfg->zero_groups > 1 ? (int)cfg->zero_groups : 0};
}

// Returns the number of ranks that sum gradients and shard the optimizer state.
static int update_ranks(const run_config *cfg) {
    return (int)(cfg->data_ranks * cfg->context_parallel);
}

// Returns how data ranks shard the sums of gradients from ZeRO-2 on. If the back end does not order
// its sums, reduction blocks of a row need no sums of their own.
static gradient_shards shards_of(const run_config *cfg, const run_layout *l, bool overlapped) {
    if (l->zero < 2) return (gradient_shards){0};
    const int ranks = update_ranks(cfg) / mesh_groups(&l->mesh),
              data_ranks = (int)cfg->data_ranks / mesh_groups(&l->mesh);
    return (gradient_shards){.ranks = ranks,
            .groups = l->mesh.groups,
            .data_ranks = config_backend(cfg)->orders_sums ? data_ranks : ranks,
            .row_blocks = l->zigzag.blocks_here,
            .micro_batches = l->all_micro_batches / mesh_groups(&l->mesh),
            .in_accum_group = l->in_accum_group,
            .async = overlapped};
}

// Returns how gradients are summed during the last micro-batch; not at all if accumulation groups
// or reduction blocks of a row are added later, since the sums are not complete then.
static gradient_sums sums_of(const run_config *cfg, const run_layout *l) {
    if (l->zero >= 2 || l->accum_groups_here > 1 || l->zigzag.blocks_here > 1)
        return (gradient_sums){0};
    return (gradient_sums){.ranks = update_ranks(cfg),
            .data_ranks = (int)cfg->data_ranks,
            .micro_batches = (int)l->micro_batches,
            .whole = l->zero == 0};
}

static weight_shards weights_of(const run_config *cfg, const run_layout *l, bool overlapped) {
    return (weight_shards){.ranks = update_ranks(cfg) / mesh_groups(&l->mesh),
            .groups = l->mesh.groups,
            .data_ranks = (int)l->every_micro,
            .early = cfg->overlap,
            .async = overlapped};
}

run_layout run_layout_of(const run_config *cfg) {
    const bool shares = update_ranks(cfg) > 1;
    const int64_t all = cfg->global_batch_size / cfg->micro_batch_size;
    run_layout l = {.mesh = run_mesh(cfg),
            .zigzag = {(int)cfg->context_parallel,
                    (int)(cfg->n_context_blocks / cfg->context_parallel), cfg->sequence_length},
            .row_tokens = cfg->sequence_length / cfg->context_parallel,
            .partial_sums = (int)(cfg->micro_batch_size / config_partial_sum_rows(cfg)),
            .all_micro_batches = all,
            .micro_batches = all / cfg->data_ranks,
            .in_accum_group = all / cfg->n_accum_groups,
            .zero = shares ? (int)cfg->zero : 0};
    const int place = mesh_place(&l.mesh, (int)cfg->rank, AXIS_DATA);
    const bool overlapped = shares && cfg->overlap && config_backend(cfg)->sends_async;
    l.accum_groups_here = l.zero >= 2 ? 1 : cfg->n_accum_groups / cfg->data_ranks;
    l.every_micro = l.zero >= 2 ? cfg->data_ranks / mesh_groups(&l.mesh) : 1;
    l.first_micro = place / l.every_micro * l.every_micro * l.micro_batches + place % l.every_micro;
    l.gathers_async = overlapped && l.zero > 0;
    l.shards = shards_of(cfg, &l, overlapped);
    if (l.zero == 3) l.weights = weights_of(cfg, &l, overlapped);
    if (overlapped) l.sums = sums_of(cfg, &l);
    return l;
}

// Refuses a config whose sums of gradients cannot be sharded (docs/adr/0021).
drv_status run_layout_check(const run_config *cfg) {
    const int zero = run_layout_of(cfg).zero;
    if (zero < 2) return DRV_OK;
    if (!config_backend(cfg)->orders_sums && cfg->n_accum_groups > cfg->zero_groups)
        return config_refuse(cfg, "parallel.accumulation_groups",
                "is %lld, but with parallel.zero %d backend %s adds up in one accumulation group%s; expected auto or %lld",
                (long long)cfg->n_accum_groups, zero, cfg->backend,
                cfg->zero_groups > 1 ? " for each of parallel.zero_group" : "",
                (long long)cfg->zero_groups);
    if (cfg->grad_dtype == PRECISION_BF16)
        return config_refuse(cfg, "parallel.zero",
                "is %d, which keeps sums of gradients in fp32, but training.grad_dtype is bf16; expected zero 0 or 1, or "
                "grad_dtype fp32",
                zero);
    return DRV_OK;
}

// Devices all run one program, so the vocabulary must divide evenly; by default there is one
// reduction block for each rank.
drv_status run_layout_model(const run_config *cfg, model_layout *out) {
    const bool one_program = config_backend(cfg)->has_devices;
    const mesh ranks = run_mesh(cfg);
    const int n_tensor = ranks.size[AXIS_TENSOR],
              blocks = one_program && !cfg->tensor_blocks ? n_tensor : (int)cfg->tensor_blocks;
    DRV_TRY(layout_on(&cfg->model, &ranks, (int)cfg->rank,
            &(layout_opts){cfg->sequence_parallel, blocks}, out));
    if (!one_program || out->vocab_part * n_tensor == cfg->model.vocab_size) return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "%d tensor ranks with %d reduction blocks divide the vocabulary of %lld unevenly, expected equal "
            "parts: devices run one program",
            n_tensor, out->all_blocks, (long long)cfg->model.vocab_size);
}
