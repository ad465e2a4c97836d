// Answers of a planner for drover launch node: from the config, its data and the search for layouts.
#include "cli/launch_jobs.h"

#include "base/memory_limit.h"
#include "base/str.h"
#include "search/elastic_layouts.h"
#include "train/step_rows.h"
#include "watch/files/rank_table.h"

typedef struct planning {
    elastic_job job;
    bool has_device;
} planning;

static drv_status choose(void *ctx, arena *a, int n_nodes, int min_nodes, attempt_layout *out) {
    planning *p = ctx;
    elastic_layout found;
    if (!p->has_device) DRV_TRY(elastic_device(p->job.cfg, p->job.ranks, &p->job.device));
    p->has_device = p->job.on_host = true;
    DRV_TRY(elastic_choose(a, &p->job, n_nodes, min_nodes, &found));
    *out = (attempt_layout){.n_nodes = found.n_nodes,
            .sets = found.sets,
            .n_sets = found.n_sets,
            .same_bits = found.same_bits,
            .words = found.words};
    return DRV_OK;
}

static const char *rows_of_step(void *ctx, arena *a, int64_t step) {
    const planning *p = ctx;
    return step_rows_names(a, p->job.cfg, step);
}

// Over all ranks, as the table of ranks last had it: what one was planned to hold, and what it held.
static const char *memory_of(void *ctx, arena *a, const attempt_layout *layout, int n_ranks) {
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
