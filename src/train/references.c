// Opens the reference's log-probabilities: rank 0 reads them, or all ranks compute them.
#include "train/references.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/clock.h"
#include "base/log.h"
#include "data/set/reference_file.h"
#include "programs/evaluate.h"

// Returns the type to which a base is rounded when it is loaded, which makes it another model; "":
// it is not rounded. Blocks of a GGUF file are hashed as they are.
static const char *rounding_of_base(const run_config *cfg) {
    const bool rounded = cfg->base_dtype != BASE_AUTO && cfg->base_dtype != BASE_GGUF;
    return rounded ? base_dtype_name(cfg->base_dtype) : "";
}

drv_status references_model(run *r, const char **out) {
    state_hashes hashes;
    uint64_t hash;
    if (r->opened.base_hashes) {
        char *hashed = json_dumps(r->opened.base_hashes, JSON_COMPACT | JSON_SORT_KEYS);
        const char *text = arena_printf(r->rank.a, "%s%s", hashed, rounding_of_base(r->rank.cfg));
        hash = XXH3_64bits(text, strlen(text));
        free(hashed);
    } else {
        arena *a = arena_new("hash of the reference");
        const drv_status status = hashes_begin(a, &r->opened.programs.held, 0, &hashes);
        hash = status == DRV_OK ? hashes.before.all : 0;
        arena_free(a);
        DRV_TRY(status);
    }
    *out = arena_printf(r->rank.a, "%016llx", (unsigned long long)hash);
    return DRV_OK;
}

// Lists the rows to train on, and those of evaluations if there are any; returns how many.
static int rows_of_run(const run *r, rows *out[2]) {
    out[0] = r->opened.train_rows;
    out[1] = r->opened.valid_rows;
    return r->opened.valid_rows ? 2 : 1;
}

// Reads the references of `of` from files. *found is the same on all ranks.
static drv_status read_rows(run *r, rows *of, const char *model, bool say, bool *found) {
    double *values = ARENA_ARRAY(r->rank.a, double, 2 * rows_n_pairs(of));
    comm_group *all_ranks = comm_all_ranks(r->rank.comm);
    const char *type = precision_name(r->rank.cfg->precision);
    int64_t there = r->rank.leads && references_load(of, model, type, say, values) == DRV_OK;
    DRV_TRY(comm_broadcast(all_ranks, 0, &there, sizeof there));
    *found = there;
    if (!there) return DRV_OK;
    DRV_TRY(comm_broadcast(all_ranks, 0, values, 2 * rows_n_pairs(of) * (int64_t)sizeof *values));
    rows_set_references(of, values);
    return DRV_OK;
}

drv_status references_read(run *r, const char *model, bool *found) {
    rows *of[2];
    const int n = rows_of_run(r, of);
    *found = true;
    for (int i = 0; i < n && *found; i++)
        DRV_TRY(read_rows(r, of[i], model, true, found));
    return DRV_OK;
}

drv_status references_compute(run *r, const char *model, bool say) {
    rows *of[2];
    const int n = rows_of_run(r, of);
    for (int i = 0; i < n; i++) {
        bool found; // an earlier run stored them, or the loop did for the same rows
        DRV_TRY(read_rows(r, of[i], model, say, &found));
        if (found) continue;
        double *values = ARENA_ARRAY(r->rank.a, double, 2 * rows_n_pairs(of[i]));
        const double begin_s = clock_s();
        rows_begin(of[i], false);
        DRV_TRY(evaluate_pairs(&r->opened.programs, of[i], r->rank.comm, values));
        rows_begin(of[i], i == 0); // the first rows are those of training
        rows_set_references(of[i], values);
        progress_end();
        if (!r->rank.leads) continue;
        log_info("reference: log-probabilities of %s pairs computed in %s",
                i == 0 ? "training" : "validation", str_duration(clock_s() - begin_s));
        references_keep(of[i], model, precision_name(r->rank.cfg->precision), values);
    }
    return DRV_OK;
}
