// Derives the learning rate: warm-up, decay and final value.
#include <math.h>
#include <string.h>

#include "translate/translation.h"

typedef struct known_schedule {
    const char *theirs, *ours, *warmup;
} known_schedule;

static const known_schedule *find_schedule(const translation *self, const value *v) {
    static const known_schedule nemo[] = {{"CosineAnnealing", "cosine", "nemo"},
            {"LinearAnnealingWithWarmUp", "linear", "transformers"},
            {"WarmupPolicy", "constant", "nemo"}};
    static const known_schedule others[] = {{"linear", "linear", "transformers"},
            {"cosine", "cosine", "transformers"}, {"cosine_with_min_lr", "cosine", "transformers"},
            {"constant", "constant", "transformers"},
            {"constant_with_warmup", "constant", "transformers"}};
    static const known_schedule nxd_cosine = {"cosine", "cosine",
            "nemo"}; // examples/training/llama/lr.py
    for (size_t i = 0; i < sizeof nemo / sizeof *nemo; i++)
        if (says(v, nemo[i].theirs)) return &nemo[i];
    const bool nxd = str_starts(self->program, "run_llama") || str_starts(self->program, "tp_");
    if (nxd && says(v, "cosine")) return &nxd_cosine;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (says(v, others[i].theirs)) return &others[i];
    return NULL;
}

// {"min_lr": 1e-5} or {"min_lr_rate": 0.1}; anything else would change the rates.
static drv_status derive_min_lr(translation *self) {
    const value *kwargs = fact_take(self, "schedule_kwargs"),
                *ratio = fact_take(self, "min_lr_ratio");
    double share;
    value map;
    const char *lr = translation_get(self, "optimizer.lr");
    double peak = 0;
    if (lr && !str_to_f64(lr, &peak)) peak = 0;
    if (kwargs && kwargs->kind == VALUE_TEXT) {
        DRV_TRY(yaml_read_value(self->a, kwargs->path, kwargs->where, kwargs->text, &map));
        map.where = kwargs->where;
        kwargs = ARENA_NEW(self->a, value);
        *(value *)(uintptr_t)kwargs = map;
    }
    for (int i = 0; kwargs && i < kwargs->n; i++) {
        const value *v = &kwargs->items[i];
        if (v->name && strcmp(v->name, "min_lr") == 0)
            translation_set(self, "schedule.min_lr", value_yaml(self->a, v, false), kwargs, NULL);
        else if (v->name && strcmp(v->name, "min_lr_rate") == 0 && v->kind == VALUE_TEXT &&
                 str_to_f64(v->text, &share))
            translation_set(self, "schedule.min_lr", arena_strdup(self->a, str_real(share * peak)),
                    kwargs, "a share of the peak");
        else
            report_printf(self, CHANGES, kwargs, "has %s, which drover's schedules have not",
                    v->name ? v->name : "a list");
    }
    if (ratio && ratio->kind == VALUE_TEXT && str_to_f64(ratio->text, &share))
        translation_set(self, "schedule.min_lr", arena_strdup(self->a, str_real(share * peak)),
                ratio, "a share of the peak");
    return DRV_OK;
}

// The last constant_steps of a run have min_lr; NeMo's warm-up is then Megatron's, lr (s - 1) / w
// (nemo/core/optim/lr_scheduler.py of nemo_toolkit 2.1.0, CosineAnnealing).
static drv_status derive_constant_steps(translation *self, const known_schedule *known) {
    const value *tail;
    const int64_t steps = self->planned,
                  warmup = translation_number(self, "schedule.warmup_steps", 0);
    double constant = 0;
    DRV_TRY(fact_number(self, "constant_steps", &constant, &tail));
    if (tail && constant == 0) report_add(self, NO_EFFECT, tail, "the decay ends with the run");
    if (!tail || constant == 0) return DRV_OK;
    if (!known || strcmp(known->ours, "cosine") != 0 || strcmp(known->warmup, "nemo") != 0) {
        report_add(self, CHANGES, tail, "is of NeMo's cosine; the decay ends with the run");
        return DRV_OK;
    }
    const double decay = (double)(steps - warmup) - constant;
    if (!is_whole(constant) || constant < 0 || decay < 1)
        return refuse_value(self, tail,
                "expected steps that leave some for the decay: %lld in all, %lld of warm-up",
                (long long)steps, (long long)warmup);
    translation_set(self, "schedule.decay_steps", number_yaml(self->a, decay), tail,
            "the steps that the warm-up and the constant steps leave");
    if (!(self->kinds & FOREIGN_NEMO)) // since 2.20 neuronx-nemo-megatron has its usual warm-up
        translation_set(self, "schedule.warmup_like", "transformers", tail, "as it is with them");
    return DRV_OK;
}

// --- the warm-up
// Returns the steps of a fraction of the run; Axolotl makes a warm-up of one step two
// (core/builders/base.py).
static double warmup_of_share(const translation *self, double share) {
    const double steps = share * (double)self->planned;
    if (self->kinds & FOREIGN_AXOLOTL) return floor(steps) == 1 ? 2 : floor(steps);
    return ceil(steps); // transformers: get_warmup_steps
}

// Axolotl's default warm-up: 3 % of the steps, at most 100.
static void default_warmup(translation *self) {
    static const value silent = DEFAULT_VALUE("warmup_steps", "Axolotl 0.19.0");
    if (translation_given(self, "schedule.warmup_steps") ||
            translation_given(self, "schedule.warmup_ratio"))
        return;
    if (self->planned < 1) {
        report_add(self, REFUSED, &silent,
                "is 3 % of the steps; give --set schedule.warmup_steps=N");
        return;
    }
    translation_set(self, "schedule.warmup_steps",
            number_yaml(self->a, fmin(warmup_of_share(self, 0.03), 100)), &silent,
            "3 % of the steps, at most 100");
}

static drv_status set_share(translation *self, const value *v, double share) {
    if (share < 0 || share > 1) return refuse_value(self, v, "expected a share, from 0 to 1");
    if (self->planned > 0)
        translation_set(self, "schedule.warmup_steps",
                number_yaml(self->a, warmup_of_share(self, share)), v,
                arena_printf(self->a, "of %lld steps", (long long)self->planned));
    else
        translation_set(self, "schedule.warmup_ratio", value_yaml(self->a, v, false), v, NULL);
    return DRV_OK;
}

static drv_status derive_warmup(translation *self, bool none) {
    const value *steps, *ratio;
    double given = 0, share = 0;
    DRV_TRY(fact_number(self, "warmup_steps", &given, &steps));
    DRV_TRY(fact_number(self, "warmup_ratio", &share, &ratio));
    const bool axolotl = self->kinds & FOREIGN_AXOLOTL;
    // In Axolotl a given number of steps wins, even 0; elsewhere only one above 0 does.
    const bool by_share = ratio && !(steps && (axolotl || given > 0));
    if (none) {
        if (steps) report_add(self, NO_EFFECT, steps, "a constant rate has no warm-up there");
        if (ratio) report_add(self, NO_EFFECT, ratio, "a constant rate has no warm-up there");
        return DRV_OK;
    }
    if (by_share && steps) report_add(self, NO_EFFECT, steps, "the share of the warm-up is given");
    if (ratio && !by_share)
        report_add(self, NO_EFFECT, ratio, "the steps of the warm-up are given");
    if (by_share) return set_share(self, ratio, share);
    if (steps && given > 0 && given < 1)
        return set_share(self, steps, given); // since transformers 5
    if (steps && (given < 0 || !is_whole(given)))
        return refuse_value(self, steps, "expected a number of steps");
    if (steps)
        translation_set(self, "schedule.warmup_steps",
                number_yaml(self->a, axolotl && given == 1 ? 2 : given), steps, NULL);
    else if (axolotl)
        default_warmup(self);
    return DRV_OK;
}

// --- the rate
// Without a scheduler the rate is constant: NxD Training makes none if `sched` or its name is
// missing (lightning_modules/model/base.py).
static void no_scheduler(translation *self, const value *from) {
    static const value silent = DEFAULT_VALUE("model.optim.sched.name", "NxD Training 2.26");
    const value *v = from ? from : &silent;
    translation_set(self, "schedule.type", "constant", v, "there is no scheduler");
    translation_set(self, "schedule.warmup_steps", "0", v, "there is no scheduler");
}

// The decay ends with the planned steps, even if epochs end the run earlier.
static drv_status derive_end(translation *self) {
    const value *end;
    const int64_t warmup = translation_number(self, "schedule.warmup_steps", 0);
    double last = 0;
    DRV_TRY(fact_number(self, "schedule_steps", &last, &end));
    if (end && (last <= 0 || (int64_t)last == self->planned))
        report_add(self, NO_EFFECT, end, "the schedule ends with the run");
    else if (end && (self->kinds & FOREIGN_NXDT))
        report_add(self, NO_EFFECT, end, "NxD Training takes trainer.max_steps whatever it says");
    else if (end)
        report_printf(self, CHANGES, end, "is %g; the schedule ends with the run, at step %lld",
                last, (long long)self->planned);
    if (self->planned > translation_number(self, "training.steps", 0) &&
            !translation_get(self, "schedule.decay_steps") && self->planned > warmup) {
        static const value planned = {.kind = VALUE_TEXT,
                .path = "trainer.max_steps",
                .where = "the schedule's"};
        translation_set(self, "schedule.decay_steps",
                number_yaml(self->a, (double)(self->planned - warmup)), &planned,
                "the rate decays as if the run went on to there");
    }
    return DRV_OK;
}

drv_status derive_schedule(translation *self) {
    const value *name = fact_take(self, "schedule");
    const known_schedule *known = name ? find_schedule(self, name) : NULL;
    const bool nxdt = self->kinds & FOREIGN_NXDT;
    const bool none = (nxdt && !name) || (name && says(name, "constant"));
    if (known) {
        translation_set(self, "schedule.type", known->ours, name, NULL);
        translation_set(self, "schedule.warmup_like", known->warmup, name, NULL);
        if (none) translation_set(self, "schedule.warmup_steps", "0", name, NULL);
        if (strcmp(known->warmup, "nemo") == 0 && !fact_has_value(self, "warmup_steps"))
            translation_set(self, "schedule.warmup_steps", "0", name,
                    "it has none unless one is given");
    } else if (name) {
        report_printf(self, CHANGES, name, "is %s; the rate would follow schedule.type's cosine",
                value_shown(self->a, name));
    } else if (nxdt) {
        no_scheduler(self, NULL);
    }
    DRV_TRY(derive_warmup(self, none));
    DRV_TRY(derive_constant_steps(self, known));
    DRV_TRY(derive_end(self));
    return derive_min_lr(self);
}
