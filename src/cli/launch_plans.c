// Answers of a planner for drover launch node: from the config, its data and the search for layouts.
#include "cli/launch_plans.h"

#include <stdlib.h>

#include "base/memory_limit.h"
#include "base/str.h"
#include "search/elastic_layouts.h"
#include "train/run_inputs.h"
#include "watch/rank_table.h"

typedef struct planning {
    elastic_job job;
    bool has_device;
} planning;

static drv_status choose(void *ctx, arena *a, int n_nodes, int min_nodes, world_layout *out) {
    planning *p = ctx;
    elastic_layout found;
    if (!p->has_device) DRV_TRY(elastic_device(a, p->job.ranks, &p->job.device));
    p->has_device = p->job.on_host = true;
    DRV_TRY(elastic_choose(a, &p->job, n_nodes, min_nodes, &found));
    *out = (world_layout){.n_nodes = found.n_nodes,
            .sets = found.sets,
            .n_sets = found.n_sets,
            .same_bits = found.same_bits,
            .words = found.words};
    return DRV_OK;
}

// --- the rows of a step
static drv_status name_rows(const run_config *cfg, rows *r, int64_t step, str *out) {
    enum { MOST = 16 };
    const int64_t all = cfg->global_batch_size, n = all < MOST ? all : MOST;
    int32_t *row = mem_alloc(sizeof *row * 3 * (size_t)cfg->sequence_length);
    int64_t counted = 0;
    drv_status status = DRV_OK;
    rows_skip(r, (step - 1) * all);
    for (int64_t i = 0; i < n && status == DRV_OK; i++) {
        status = rows_next(r, row, row + cfg->sequence_length, row + 2 * cfg->sequence_length,
                &counted);
        if (status == DRV_OK) str_printf(out, "%s%s", i ? ", " : "", rows_last(r));
    }
    if (n < all) str_puts(out, ", ...");
    free(row);
    return status;
}

static const char *rows_of_step(void *ctx, arena *a, int64_t step) {
    const planning *p = ctx;
    run_config cfg = *p->job.cfg;
    rows *train = NULL, *valid = NULL;
    str names = {0};
    const char *text = NULL;
    config_one_rank(&cfg);
    drv_status status = run_inputs_open(a, &cfg, false, &train, &valid);
    if (status == DRV_OK) status = name_rows(&cfg, train, step, &names);
    if (status == DRV_OK) text = arena_printf(a, "rows of step %lld: %s", (long long)step, names.p);
    if (train) rows_close(train);
    if (valid) rows_close(valid);
    str_free(&names);
    return text;
}

// --- memory
// Over all ranks, as the table of ranks last had it: what one was planned to hold, and what it held.
static const char *memory_of(void *ctx, arena *a, const world_layout *layout, int n_ranks) {
    const planning *p = ctx;
    const memory_limit limit = memory_limit_read("");
    int64_t planned = 0, most = 0;
    rank_table table = {0};
    if (rank_table_read(a, p->job.cfg->run_dir, &table) != DRV_OK) table.n = 0;
    for (int i = 0; i < table.n; i++) {
        if (table.rows[i].planned > planned) planned = table.rows[i].planned;
        if (table.rows[i].resident > most) most = table.rows[i].resident;
    }
    return arena_printf(a,
            "memory of a rank (%d on %d node%s): planned %s, seen at most %s, of %s here; expected more ranks, or what drover plan says to fit",
            n_ranks, layout->n_nodes, str_plural(layout->n_nodes),
            planned ? str_bytes((double)planned) : "unknown",
            most ? str_bytes((double)most) : "unknown", str_bytes((double)limit.machine));
}

const launch_planner *launch_planner_new(arena *a, const run_config *cfg, int n_nodes, int ranks) {
    planning *p = ARENA_NEW(a, planning);
    launch_planner *out = ARENA_NEW(a, launch_planner);
    *p = (planning){.job = {.cfg = cfg, .n_nodes = n_nodes, .ranks = ranks}};
    *out = (launch_planner){p, choose, rows_of_step, memory_of};
    return out;
}
