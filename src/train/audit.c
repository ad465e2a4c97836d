// Compares a replay with the run's record, step by step, and names what differs.
#include "train/audit_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "programs/gradient_ops.h"

static const char *const kind_names[] = {"equal", "batch", "weight", "loss", "gradient",
        "gradient norm", "update", "parameter norm"};

const char *audit_kind_name(audit_kind kind) {
    return kind_names[kind];
}

// --- the record
static uint64_t hash_in(const json_t *object, const char *name) {
    const char *text = json_string_value(json_object_get(object, name));
    return text ? strtoull(text, NULL, 16) : 0;
}

// On rank 0: moves to the line of this step. at_step is false if the step was not recorded.
static void seek(audit *self, int64_t step) {
    json_int_t recorded = -1;
    while (self->line &&
            (recorded = json_integer_value(json_object_get(self->line, "step"))) < step) {
        json_decref(self->line);
        self->line = json_lines_next(&self->lines);
    }
    self->at_step = self->line && recorded == step;
}

// --- comparing
typedef struct difference {
    audit_kind kind;
    const tensor_hashes *of; // the list of the tensor; NULL: the difference is not in a tensor
    int index, n;            // index of the first tensor that differs; number of those that differ
    uint64_t recorded, replayed;
} difference;

static void compare_number(const audit *self, const char *key, uint64_t mine, audit_kind kind,
        difference *found) {
    const json_t *value = json_object_get(self->line, key);
    const uint64_t recorded = hash_in(self->line, key);
    if (found->kind != AUDIT_EQUAL || !value || recorded == mine) return;
    *found = (difference){.kind = kind, .recorded = recorded, .replayed = mine};
}

static void compare_real(const audit *self, const char *key, double mine, audit_kind kind,
        difference *found) {
    char text[40];
    const char *recorded = json_string_value(json_object_get(self->line, key));
    snprintf(text, sizeof text, "%a", mine);
    if (found->kind != AUDIT_EQUAL || !recorded || strcmp(recorded, text) == 0) return;
    *found = (difference){.kind = kind};
}

// Tensors are listed in the order of the forward pass; gradients are computed in the reverse order.
static void compare_tensors(const audit *self, const char *key, const tensor_hashes *mine,
        audit_kind kind, difference *found) {
    const json_t *recorded = json_object_get(self->line, key);
    if (found->kind != AUDIT_EQUAL || !recorded) return;
    for (int i = 0; i < mine->n; i++) {
        const int index = kind == AUDIT_GRADIENT ? mine->n - 1 - i : i;
        const uint64_t was = hash_in(recorded, mine->list[index].entry.name);
        if (was == mine->of[index]) continue;
        if (found->n == 0)
            *found = (difference){.kind = kind,
                    .of = mine,
                    .index = index,
                    .recorded = was,
                    .replayed = mine->of[index]};
        found->n++;
    }
}

// --- the message
static const char *op_name(audit_kind kind, const char *gradient_ops) {
    switch (kind) {
    case AUDIT_BATCH:
        return "data";
    case AUDIT_WEIGHT:
        return "memory";
    case AUDIT_LOSS:
        return "forward";
    case AUDIT_GRADIENT:
        return gradient_ops;
    case AUDIT_UPDATE:
        return "update";
    default:
        return "squares";
    }
}

static const char *meaning_of(arena *a, const audit_result *x) {
    const long long before = x->equal_to;
    switch (x->kind) {
    case AUDIT_BATCH:
        return "the run trained on other tokens than its data set and seed give on this machine";
    case AUDIT_WEIGHT:
        return arena_printf(a,
                "the step used another value than the replay has after step %lld: memory, or a step that "
                "was not recorded",
                before);
    case AUDIT_LOSS:
        return "weights and batch are equal, but the forward pass differs";
    case AUDIT_GRADIENT:
        return x->n_tensors > 1 ? "the loss is equal; several gradients differ, this one first"
                                : "the loss is equal, and no other gradient differs";
    case AUDIT_UPDATE:
        return "the gradient is equal, but the update or the state of the optimizer (moments, masters) differs";
    default:
        return "the tensors are equal, but their sum of squares differs";
    }
}

// Gets the names of the ops that compute the gradient of a parameter from the first rank that has
// it: a rank of a pipeline has only the graphs of its own stage.
static drv_status share_gradient_ops(run *r, const char *parameter, const char **out) {
    enum { BYTES = 256 };
    char mine[BYTES] = "", *all = ARENA_ARRAY(r->rank.a, char, BYTES *comm_size(r->rank.comm));
    str ops = {0};
    programs_gradient_ops(&r->opened.programs, parameter, &ops);
    if (ops.n) snprintf(mine, sizeof mine, "%s", ops.p);
    str_free(&ops);
    DRV_TRY(comm_all_gather(comm_all_ranks(r->rank.comm), mine, sizeof mine, NULL, all));
    for (int rank = comm_size(r->rank.comm) - 1; rank >= 0; rank--)
        if (all[rank * BYTES]) *out = all + rank * BYTES;
    return DRV_OK;
}

static drv_status say(run *r, const audit_result *x) {
    arena *a = r->audit->a;
    const char *where = x->element < 0
                                ? ""
                                : arena_printf(a, "; one bit explains it: bit %d of element %lld",
                                          x->bit, (long long)x->element),
               *which = x->tensor ? arena_printf(a, " of %s", x->tensor) : "",
               *hashes = !x->recorded && !x->replayed
                                 ? ""
                                 : arena_printf(a, "; recorded %016llx, replayed %016llx",
                                           (unsigned long long)x->recorded,
                                           (unsigned long long)x->replayed);
    return drv_fail(DRV_E_DATA, "step %lld differs: %s%s (%s): %s%s%s", (long long)x->step,
            audit_kind_name(x->kind), which, x->op, meaning_of(a, x), where, hashes);
}

// The difference that rank 0 found, sent to all ranks: those that hold parts of the tensor search
// them for the flipped bit.
typedef struct shared_find {
    int32_t kind, index, alone;
    uint64_t difference;
} shared_find;

static drv_status end_at(run *r, const step_metrics *at_step, const difference *found,
        const tensor_hashes *lists[]) {
    audit_result *result = r->audit->result;
    shared_find all = {(int32_t)found->kind, found->of ? found->index : -1, found->n == 1,
            found->recorded - found->replayed};
    DRV_TRY(comm_broadcast(comm_all_ranks(r->rank.comm), 0, &all, sizeof all));
    if (all.kind == AUDIT_EQUAL) return DRV_OK;
    const tensor_hashes *of = lists[all.kind];
    result->kind = (audit_kind)all.kind;
    result->step = at_step->step;
    result->element = -1;
    if (of && all.alone)
        DRV_TRY(hashes_find_bit(&r->opened.programs.held, &of->list[all.index], all.difference,
                &result->element, &result->bit));
    const char *gradient_ops = NULL;
    if (result->kind == AUDIT_GRADIENT)
        DRV_TRY(share_gradient_ops(r, of->list[all.index].entry.name, &gradient_ops));
    drv_status status = DRV_OK;
    if (r->rank.leads) {
        result->equal_to = r->audit->equal_to;
        result->n_tensors = found->n;
        result->tensor = of ? arena_strdup(r->audit->a, of->list[all.index].entry.name) : NULL;
        result->recorded = found->recorded;
        result->replayed = found->replayed;
        result->op = op_name(result->kind, gradient_ops);
        status = say(r, result);
    }
    return ranks_together(&r->rank, status);
}

// --- for the loop
const char *audit_checkpoint(const run *r) {
    return r->audit->result->checkpoint;
}

static drv_status check_arithmetic(const run *r) {
    audit *self = r->audit;
    const char *mine = json_string_value(json_object_get(r->opened.about, "arithmetic")), *recorded;
    if (!r->rank.leads) return DRV_OK;
    seek(self, self->result->first);
    if (!self->line) DRV_TRY(json_lines_status(&self->lines));
    if (!self->line)
        return drv_fail(DRV_E_USAGE, "%s ends before step %lld", self->path,
                (long long)self->result->first);
    recorded = json_string_value(json_object_get(self->line, "arithmetic"));
    self->result->arithmetic = arena_strdup(self->a, mine);
    if (!recorded || strcmp(recorded, mine) == 0) return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "\"%s\" was trained with \"%s\", but this machine computes with \"%s\": the last bits differ even without "
            "a fault; audit it on the same kind of processor, or train with training.arithmetic: portable",
            self->run_dir, recorded, mine);
}

drv_status audit_open(run *r) {
    r->audit->equal_to = r->progress.state.step;
    r->audit->result->leads = r->rank.leads;
    r->audit->result->ranks = comm_size(r->rank.comm);
    if (r->rank.leads) DRV_TRY(json_lines_open(r->audit->path, true, &r->audit->lines));
    if (r->rank.leads) r->audit->line = json_lines_next(&r->audit->lines);
    return check_arithmetic(r);
}

drv_status audit_begin_step(run *r, const step_metrics *m) {
    difference found = {0};
    const tensor_hashes *lists[N_AUDIT_KINDS] = {[AUDIT_WEIGHT] = &m->hashes.before};
    if (r->rank.leads) {
        seek(r->audit, m->step);
        if (r->audit->at_step && m->step >= r->audit->result->first) {
            compare_number(r->audit, "batch", m->hashes.batch, AUDIT_BATCH, &found);
            compare_tensors(r->audit, "before", &m->hashes.before, AUDIT_WEIGHT, &found);
        }
    }
    return end_at(r, m, &found, lists);
}

drv_status audit_end_step(run *r, const step_metrics *m) {
    difference found = {0};
    const tensor_hashes *lists[N_AUDIT_KINDS] =
            {[AUDIT_GRADIENT] = &m->hashes.gradients, [AUDIT_UPDATE] = &m->hashes.weights};
    audit *self = r->audit;
    if (!m->hashed) return DRV_OK;
    if (r->rank.leads && self->at_step && m->step >= self->result->first) {
        compare_real(self, "loss", m->loss, AUDIT_LOSS, &found);
        compare_tensors(self, "gradients", &m->hashes.gradients, AUDIT_GRADIENT, &found);
        compare_real(self, "grad_norm", m->grad_norm, AUDIT_NORM, &found);
        compare_tensors(self, "weights", &m->hashes.weights, AUDIT_UPDATE, &found);
        compare_real(self, "param_norm", m->param_norm, AUDIT_PARAM_NORM, &found);
        if (found.kind == AUDIT_EQUAL) {
            self->result->compared++;
            self->equal_to = m->step;
        }
    }
    return end_at(r, m, &found, lists);
}
