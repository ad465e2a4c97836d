// Reads the config of a watched run.
#include "cli/run_about.h"

#include "base/file.h"
#include "base/str.h"
#include "search/stage_plans.h"
#include "watch/files/rank_table.h"

enum { MAX_CONFIG = 1 << 20 };

bool run_about_config(arena *a, const char *run_dir, run_config *out) {
    rank_table table;
    const char *path = path_join(a, run_dir, "config.yaml");
    const int ranks = rank_table_read(a, run_dir, &table) == DRV_OK ? table.n : 1;
    char *text;
    size_t n;
    return file_read_small(a, path, MAX_CONFIG, &text, &n) == DRV_OK &&
           config_load(a, path, NULL, 0, out) == DRV_OK && config_set_ranks(out, ranks) == DRV_OK;
}

static const char *axis(arena *a, const char *name, int64_t n) {
    return n > 1 ? arena_printf(a, ", %s %lld", name, (long long)n) : "";
}

const char *run_about(arena *a, const char *run_dir, double *bubble) {
    run_config cfg;
    stage_plans stages;
    *bubble = 0;
    if (!run_about_config(a, run_dir, &cfg)) return "";
    if (cfg.pipeline_parallel > 1 && stage_plans_make(a, false, &cfg, &stages) == DRV_OK)
        *bubble = stages.result.bubble;
    return arena_printf(a, "%s parameters, %s%s%s%s%s",
            str_si((double)model_parameters(&cfg.model)), precision_name(cfg.precision),
            axis(a, "tensor", cfg.tensor_parallel), axis(a, "pipeline", cfg.pipeline_parallel),
            axis(a, "context", cfg.context_parallel), axis(a, "data", cfg.data_ranks));
}
