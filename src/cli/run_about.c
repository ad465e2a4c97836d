// Finds the plan of a watched run and its keys, and samples its newest checkpoint.
#include "cli/run_about.h"

#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "infer/generate.h"
#include "infer/resolve.h"
#include "search/run_plan.h"
#include "search/stage_plans.h"
#include "watch/files/rank_table.h"

enum { MAX_CONFIG = 1 << 20, SAMPLE_TOKENS = 100 };

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

// --- drover report
report_facts report_facts_find(arena *a, const char *run_dir) {
    report_facts facts = {0};
    run_config cfg;
    str text = {0};
    if (!run_about_config(a, run_dir, &cfg)) {
        if (file_exists(path_join(a, run_dir, "config.yaml")))
            log_warn("the report lacks the configuration and the plan: %s", drv_message());
        return facts;
    }
    config_print_changed(&cfg, &text);
    facts.config = str_keep(a, &text);
    run_plan made;
    if (run_plan_make(a, &cfg, &made) != DRV_OK) return facts;
    facts.rank_bytes = (double)run_plan_needs(&made);
    facts.sent_bytes = made.sent;
    if (made.is_pipeline) facts.bubble = made.stages.result.bubble;
    return facts;
}

// --- samples
static drv_status write_samples(generator *gen, arena *a, const char **texts, int64_t n) {
    id_list ids = {0};
    const int32_t bos = tokenizer_role(generator_tokenizer(gen), ROLE_BOS);
    int64_t tokens = generator_context(gen) - 1;
    if (tokens > SAMPLE_TOKENS) tokens = SAMPLE_TOKENS;
    id_list_add(&ids, bos >= 0 ? bos : 0);
    drv_status status = generator_load(gen, tokens + 1);
    for (int64_t i = 0; i < n && status == DRV_OK; i++) {
        const generate_opts opts = {.max_tokens = tokens,
                .sampling = {.temperature = 0.8, .top_p = 0.95, .repetition_penalty = 1},
                .index = i};
        generate_result made = {0};
        prompt_cost cost;
        status = generator_prompt(gen, ids.p, ids.n, &cost);
        if (status == DRV_OK) status = generate(gen, &opts, &made);
        texts[i] = arena_strndup(a, made.text.n ? made.text.p : "", made.text.n);
        generate_result_free(&made);
    }
    id_list_free(&ids);
    return status;
}

void report_facts_sample(arena *a, const char *run_dir, int64_t n, report_facts *facts) {
    const char **texts = ARENA_ARRAY(a, const char *, n);
    generator *gen = NULL;
    model_ref model;
    drv_status status = model_resolve(a, run_dir, NULL, &model);
    if (status == DRV_OK) {
        const generator_opts opts = {.folder = model.folder, .adapter = model.adapter};
        status = generator_open(a, &opts, &gen);
        if (status == DRV_OK) status = write_samples(gen, a, texts, n);
    }
    generator_close(gen);
    if (status != DRV_OK) {
        facts->no_samples = arena_strdup(a, drv_message());
        return;
    }
    facts->samples = texts;
    facts->n_samples = (int)n;
}
