// Makes the options of rows from the keys data.*.
#include "setup/config_rows.h"

#include <string.h>

drv_status config_open_rows(arena *a, const run_config *cfg, bool train, int64_t stride,
        rows **out) {
    static const rows_packing packings[] = {[PACK_AUTO] = PACKING_AUTO,
            [PACK_DOCUMENTS] = PACKING_DOCUMENTS,
            [PACK_STREAM] = PACKING_STREAM,
            [PACK_EXAMPLES] = PACKING_EXAMPLES};
    static const rows_loss losses[] = {[COUNT_AUTO] = LOSS_AUTO,
            [COUNT_RESPONSES] = LOSS_RESPONSES,
            [COUNT_LAST] = LOSS_LAST,
            [COUNT_ALL] = LOSS_ALL};
    const double total = cfg->split[0] + cfg->split[1] + cfg->split[2];
    const bool split = total > 0 && cfg->n_valid == 0, pairs = cfg->objective == OBJECTIVE_DPO;
    const data_source *list = train || split ? cfg->train : cfg->valid;
    rows_opts o = {.n_sources = train || split ? cfg->n_train : cfg->n_valid,
            .row_tokens = cfg->sequence_length,
            .n_vocab = cfg->model.vocab_size,
            .seed = (uint64_t)cfg->seed,
            .shuffle = train,
            .packing = pairs ? PACKING_PAIRS : packings[cfg->pack],
            .loss = pairs ? LOSS_LAST : losses[cfg->loss],
            .drop_long = cfg->too_long == LONG_DROP,
            .stride = stride,
            .part = train ? PART_TRAIN : PART_VALID};
    if (split) memcpy(o.split, cfg->split, sizeof o.split);
    row_source_spec *sources = ARENA_ARRAY(a, row_source_spec, o.n_sources + 1);
    for (int i = 0; i < o.n_sources; i++)
        sources[i] = (row_source_spec){list[i].prefix, list[i].weight};
    o.sources = sources;
    return rows_open(a, &o, out);
}
