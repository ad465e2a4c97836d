// Ranks, batches, steps, schedule and the loop's intervals: what several foreign keys say together.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "translate/translation.h"

static bool is_whole(double x) {
    return x == floor(x) && fabs(x) < 9e15;
}

static const char *whole(arena *a, double x) {
    return arena_printf(a, "%lld", (long long)x);
}

static drv_status refuse(const translation *self, const value *v, const char *what) {
    return drv_fail(DRV_E_USAGE, "%s: \"%s\" is %s, %s", v->where, v->path, value_shown(self->a, v),
            what);
}

static int64_t model_ranks(const translation *self) {
    return translation_number(self, "parallel.tensor", 1) *
           translation_number(self, "parallel.pipeline", 1) *
           translation_number(self, "parallel.context", 1);
}

// Ranks: processes of a node times nodes, where nobody says otherwise.
static drv_status derive_ranks(translation *self) {
    double devices = 0, nodes = 1;
    bool has_devices, has_nodes;
    const value *given = fact_take(self, "devices"), *of_nodes = fact_take(self, "nodes");
    DRV_TRY(fact_number(self, "devices", &devices, &has_devices));
    DRV_TRY(fact_number(self, "nodes", &nodes, &has_nodes));
    const value *virtual_stages = fact_take(self, "virtual_stages");
    if (virtual_stages)
        translation_set(self, "parallel.virtual_stages", value_yaml(self->a, virtual_stages, false),
                virtual_stages, NULL);
    self->ranks = self->opts->ranks;
    if (has_devices && (!is_whole(devices) || devices < 1))
        return refuse(self, given, "expected a number of processes");
    if (has_nodes && (!is_whole(nodes) || nodes < 1))
        return refuse(self, of_nodes, "expected a number of nodes");
    if (!self->ranks && has_devices) self->ranks = (int64_t)(devices * nodes);
    if (!self->ranks && strcmp(self->opts->kind, "args") == 0) self->ranks = 1;
    if (has_nodes)
        report_add(self, TRANSLATED, of_nodes,
                arena_printf(self->a, "%lld ranks in all", (long long)self->ranks));
    if (!given || !self->ranks) return DRV_OK;
    const int64_t others = model_ranks(self);
    if (others < 1 || self->ranks % others != 0)
        return drv_fail(DRV_E_USAGE,
                "%s: \"%s\" makes %lld ranks, expected a multiple of tensor x pipeline x context = %lld; or give --ranks N",
                given->where, given->path, (long long)self->ranks, (long long)others);
    translation_set(self, "parallel.data", whole(self->a, (double)(self->ranks / others)), given,
            arena_printf(self->a, "%lld ranks / %lld that share a model", (long long)self->ranks,
                    (long long)others));
    return DRV_OK;
}

static drv_status derive_batch(translation *self) {
    double micro = 1, accumulation = 1, rows = 0, n_cut = 0;
    bool has_micro, accumulates, has_rows, is_cut;
    const value *of_micro = fact_take(self, "micro"), *times = fact_take(self, "accumulation");
    DRV_TRY(fact_number(self, "micro", &micro, &has_micro));
    DRV_TRY(fact_number(self, "accumulation", &accumulation, &accumulates));
    const value *device = fact_take(self, "rows_of_device"),
                *cut = fact_take(self, "micro_batches");
    DRV_TRY(fact_number(self, "rows_of_device", &rows, &has_rows));
    DRV_TRY(fact_number(self, "micro_batches", &n_cut, &is_cut));
    if (is_cut && has_micro) { // rows of a data rank, and how many parts they make
        if (!is_whole(n_cut) || n_cut < 1 || fmod(micro, n_cut) != 0)
            return refuse(self, cut, "expected a number that divides the rows of a data rank");
        report_add(self, TRANSLATED, cut, "micro-batches of a step");
        micro /= n_cut;
        accumulation *= n_cut;
    } else if (is_cut) {
        report_add(self, NO_EFFECT, cut, "the micro-batch is given");
    }
    if (has_micro && (!is_whole(micro) || micro < 1))
        return refuse(self, of_micro, "expected rows, 1 or more");
    if (accumulates && (!is_whole(accumulation) || accumulation < 1))
        return refuse(self, times, "expected micro-batches, 1 or more");
    if (has_rows && !accumulates && fmod(rows, micro) != 0)
        return refuse(self, device, "expected a multiple of micro_batch_size");
    if (has_rows && !accumulates) accumulation = rows / micro;
    if (has_micro)
        translation_set(self, "training.micro_batch_size", whole(self->a, micro), of_micro, NULL);
    const value *from = times ? times : device ? device : of_micro;
    if (!from) return DRV_OK;
    const char *whole_batch = translation_get(self, "training.global_batch_size");
    if (whole_batch) {
        if (times) report_add(self, NO_EFFECT, times, "the global batch is given");
        return DRV_OK;
    }
    if (!self->ranks)
        return drv_fail(DRV_E_USAGE,
                "%s: \"%s\" is a share of the batch of each rank, and how many there are is not said; give --ranks N",
                from->where, from->path);
    const int64_t others = model_ranks(self), data = self->ranks / (others > 0 ? others : 1);
    if (data < 1)
        return drv_fail(DRV_E_USAGE,
                "%s: \"%s\" is a share of the batch of each data rank, and %lld ranks are fewer than tensor x pipeline x "
                "context = %lld; give --ranks N",
                from->where, from->path, (long long)self->ranks, (long long)others);
    translation_set(self, "training.global_batch_size",
            whole(self->a, micro * accumulation * (double)data), from,
            arena_printf(self->a, "%g rows x %g micro-batches x %lld data ranks", micro,
                    accumulation, (long long)data));
    return DRV_OK;
}

// --ranks alone says how many data ranks there are, where no file does.
static void derive_data_ranks(translation *self) {
    static const value ranks = {.kind = VALUE_TEXT, .path = "--ranks", .where = "command line"};
    const int64_t others = model_ranks(self);
    if (translation_get(self, "parallel.data") || !self->opts->ranks || others < 1 ||
            !translation_get(self, "training.global_batch_size") || self->ranks % others != 0)
        return;
    translation_set(self, "parallel.data", whole(self->a, (double)(self->ranks / others)), &ranks,
            NULL);
}

// Steps of so many epochs: whole batches, as DataLoader(drop_last=True) has them.
static drv_status steps_of_epochs(translation *self, const value *epochs, double n) {
    const int64_t row = translation_number(self, "data.sequence_length", 0);
    const int64_t batch = translation_number(self, "training.global_batch_size", 0);
    if (!self->opts->data)
        return refuse(self, epochs,
                "and how many steps that is depends on the data; give --data PREFIX, or --set training.steps=N");
    if (row < 1 || batch < 1)
        return refuse(self, epochs,
                "which needs data.sequence_length and training.global_batch_size; give them by --set");
    const double per_epoch = floor((double)((self->opts->data_tokens - 1) / row) / (double)batch);
    const double steps = floor(per_epoch * n);
    if (steps < 1) return refuse(self, epochs, "and --data has not enough rows for one batch");
    translation_set(self, "training.steps", whole(self->a, steps), epochs,
            arena_printf(self->a, "%g steps of an epoch of %s", per_epoch, self->opts->data));
    return DRV_OK;
}

static drv_status derive_steps(translation *self) {
    double steps = 0, epochs = 0, stop = 0;
    bool has_steps, has_epochs, stops;
    const value *of_steps = fact_take(self, "steps"), *of_epochs = fact_take(self, "epochs"),
                *of_stop = fact_take(self, "stop_at");
    DRV_TRY(fact_number(self, "steps", &steps, &has_steps));
    DRV_TRY(fact_number(self, "epochs", &epochs, &has_epochs));
    DRV_TRY(fact_number(self, "stop_at", &stop, &stops));
    if (has_steps && steps >= 0 && !is_whole(steps))
        return refuse(self, of_steps, "expected a number of steps");
    if (steps > 0) {
        translation_set(self, "training.steps", whole(self->a, steps), of_steps, NULL);
        if (has_epochs) report_add(self, NO_EFFECT, of_epochs, "the steps are given");
    } else if (translation_given(self, "training.steps")) {
        if (has_epochs) report_add(self, NO_EFFECT, of_epochs, "--set gives training.steps");
    } else if (has_epochs && epochs > 0) {
        DRV_TRY(steps_of_epochs(self, of_epochs, epochs));
    } else if (has_steps || has_epochs) {
        return refuse(self, has_steps ? of_steps : of_epochs,
                "expected how long to train: give --set training.steps=N");
    }
    if (has_steps && steps <= 0) report_add(self, NO_EFFECT, of_steps, "no limit");
    if (!stops) return DRV_OK;
    if (!is_whole(stop)) return refuse(self, of_stop, "expected a number of steps");
    if (stop > 0 && (int64_t)stop < translation_number(self, "training.steps", 0))
        translation_set(self, "training.stop_at_step", whole(self->a, stop), of_stop,
                "it is of one start, counted from step 0; raise it for the next");
    else
        report_add(self, NO_EFFECT, of_stop, "all steps are trained");
    return DRV_OK;
}

// --- schedule
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
        DRV_TRY_CTX(yaml_read_value(self->a, kwargs->path, kwargs->where, kwargs->text, &map), "%s",
                kwargs->where);
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
            report_add(self, CHANGES, kwargs,
                    arena_printf(self->a, "has %s, which drover's schedules have not",
                            v->name ? v->name : "a list"));
    }
    if (ratio && ratio->kind == VALUE_TEXT && str_to_f64(ratio->text, &share))
        translation_set(self, "schedule.min_lr", arena_strdup(self->a, str_real(share * peak)),
                ratio, "a share of the peak");
    return DRV_OK;
}

// The last constant_steps of a run have min_lr, and NeMo's warm-up is then Megatron's: lr (s - 1) /
// w (nemo/core/optim/lr_scheduler.py, CosineAnnealing).
static drv_status derive_constant_steps(translation *self, const known_schedule *known) {
    const value *tail = fact_take(self, "constant_steps");
    const int64_t steps = translation_number(self, "training.steps", 0),
                  warmup = translation_number(self, "schedule.warmup_steps", 0);
    double constant = 0;
    bool said;
    DRV_TRY(fact_number(self, "constant_steps", &constant, &said));
    if (said && constant == 0) report_add(self, NO_EFFECT, tail, "the decay ends with the run");
    if (!said || constant == 0) return DRV_OK;
    if (!known || strcmp(known->ours, "cosine") != 0 || strcmp(known->warmup, "nemo") != 0) {
        report_add(self, CHANGES, tail, "is of NeMo's cosine; the decay ends with the run");
        return DRV_OK;
    }
    const double decay = (double)(steps - warmup) - constant;
    if (!is_whole(constant) || constant < 0 || decay < 1)
        return refuse(self, tail,
                arena_printf(self->a,
                        "expected steps that leave some for the decay: %lld in all, %lld of warm-up",
                        (long long)steps, (long long)warmup));
    translation_set(self, "schedule.decay_steps", whole(self->a, decay), tail,
            "what the warm-up and the constant steps leave");
    translation_set(self, "schedule.warmup_like", "transformers", tail, "as it is beside them");
    return DRV_OK;
}

static drv_status derive_schedule(translation *self) {
    const value *name = fact_take(self, "schedule"), *end = fact_take(self, "schedule_steps");
    const value *ratio = fact_take(self, "warmup_ratio");
    const known_schedule *known = name ? find_schedule(self, name) : NULL;
    const int64_t steps = translation_number(self, "training.steps", 0);
    double share = 0, last = 0;
    bool said;
    if (known) {
        translation_set(self, "schedule.type", known->ours, name, NULL);
        translation_set(self, "schedule.warmup_like", known->warmup, name, NULL);
        if (says(name, "constant")) translation_set(self, "schedule.warmup_steps", "0", name, NULL);
    } else if (name) {
        report_add(self, CHANGES, name,
                arena_printf(self->a, "is %s; the rate would follow schedule.type's cosine",
                        value_shown(self->a, name)));
    }
    DRV_TRY(fact_number(self, "warmup_ratio", &share, &said));
    if (said && translation_number(self, "schedule.warmup_steps", 0) > 0)
        report_add(self, NO_EFFECT, ratio, "the steps of the warm-up are given");
    else if (said)
        translation_set(self, "schedule.warmup_steps", whole(self->a, ceil(share * (double)steps)),
                ratio, arena_printf(self->a, "of %lld steps", (long long)steps));
    DRV_TRY(fact_number(self, "schedule_steps", &last, &said));
    if (said && (last <= 0 || (int64_t)last == steps))
        report_add(self, NO_EFFECT, end, "the schedule ends with the run");
    else if (said)
        report_add(self, CHANGES, end,
                arena_printf(self->a, "is %g; the schedule ends with the run, at step %lld", last,
                        (long long)steps));
    DRV_TRY(derive_constant_steps(self, known));
    return derive_min_lr(self);
}

// --- intervals
// DD:HH:MM:SS, H:MM:SS, a number of seconds, or {days: 1, hours: 2} as minutes; false: it is none.
static bool minutes_of(const value *time, double *out) {
    static const char *const names[] = {"days", "hours", "minutes", "seconds"};
    static const double factors[] = {24 * 60, 60, 1, 1.0 / 60};
    double number;
    *out = 0;
    if (time->kind == VALUE_MAP) {
        for (int i = 0; i < time->n; i++) {
            int k = 0;
            while (k < 4 && strcmp(time->items[i].name, names[k]) != 0)
                k++;
            if (k == 4 || time->items[i].kind != VALUE_TEXT ||
                    !str_to_f64(time->items[i].text, &number))
                return false;
            *out += number * factors[k];
        }
        return true;
    }
    if (time->kind != VALUE_TEXT) return false;
    int parts = 1;
    for (const char *p = time->text; *p; p++)
        parts += *p == ':';
    const char *p = time->text;
    for (int k = 4 - parts; k >= 0 && k < 4; k++) {
        char *end;
        number = strtod(p, &end);
        if (end == p || *end != (k < 3 ? ':' : 0)) return false;
        *out += number * factors[k];
        p = end + 1;
    }
    return parts <= 4;
}

static drv_status derive_minutes(translation *self, const char *name, const char *key) {
    const value *time = fact_take(self, name);
    double minutes;
    if (!time) return DRV_OK;
    if (!minutes_of(time, &minutes) || !(minutes >= 0 && minutes < 1e9))
        return refuse(self, time, "expected seconds, or DD:HH:MM:SS");
    if (minutes == 0)
        report_add(self, NO_EFFECT, time, "it is off");
    else
        translation_set(self, key, arena_printf(self->a, "%.10g", minutes), time, "in minutes");
    return DRV_OK;
}

// Every so many steps; a number below 1 is a share of the run.
static drv_status derive_interval(translation *self, const char *name, const char *key, bool off) {
    double x = 0;
    bool said;
    const value *v = fact_take(self, name);
    DRV_TRY(fact_number(self, name, &x, &said));
    if (!said) return DRV_OK;
    if (off) {
        report_add(self, NO_EFFECT, v, "it is switched off");
        return DRV_OK;
    }
    if (x > 0 && x < 1) x = ceil(x * (double)translation_number(self, "training.steps", 0));
    if (x < 0 || !is_whole(x)) return refuse(self, v, "expected a number of steps");
    translation_set(self, key, whole(self->a, x), v, NULL);
    return DRV_OK;
}

// no, steps or epoch: whether it is off.
static bool derive_strategy(translation *self, const char *name, const char *key) {
    const value *v = fact_take(self, name);
    if (!v) return false;
    if (says(v, "no") || says(v, "false")) {
        translation_set(self, key, "0", v, NULL);
        return true;
    }
    report_add(self, NO_EFFECT, v, arena_printf(self->a, "it is by steps: %s", key));
    return false;
}

static drv_status derive_intervals(translation *self) {
    static const char *const of_epochs[] = {"saves_per_epoch", "evals_per_epoch"};
    const value *checkpoints = fact_take(self, "checkpoints"),
                *batches = fact_take(self, "eval_batches");
    bool saves_off = derive_strategy(self, "save_strategy", "checkpoint.every");
    bool evals_off = derive_strategy(self, "eval_strategy", "training.eval_every");
    double limit = 0;
    bool said;
    if (checkpoints && !says_true(checkpoints)) {
        translation_set(self, "checkpoint.every", "0", checkpoints,
                "the last step is saved all the same");
        saves_off = true;
    } else if (checkpoints) {
        report_add(self, NO_EFFECT, checkpoints, "a run always saves");
    }
    DRV_TRY(fact_number(self, "eval_batches", &limit, &said));
    if (said && limit <= 0) {
        translation_set(self, "training.eval_every", "0", batches, NULL);
        evals_off = true;
    } else if (said && is_whole(limit) && strchr(batches->text, '.') == NULL) {
        translation_set(self, "training.eval_batches", whole(self->a, limit), batches, NULL);
    } else if (said) {
        report_add(self, NO_EFFECT, batches,
                "training.eval_batches says how many batches an evaluation has");
    }
    for (size_t i = 0; i < sizeof of_epochs / sizeof *of_epochs; i++) {
        const value *v = fact_take(self, of_epochs[i]);
        if (v)
            report_add(self, NO_EFFECT, v, "it is by steps: checkpoint.every, training.eval_every");
    }
    DRV_TRY(derive_minutes(self, "save_seconds", "checkpoint.every_minutes"));
    DRV_TRY(derive_minutes(self, "max_time", "training.max_minutes"));
    DRV_TRY(derive_interval(self, "log_every", "training.log_every", false));
    DRV_TRY(derive_interval(self, "save_every", "checkpoint.every", saves_off));
    return derive_interval(self, "eval_every", "training.eval_every", evals_off);
}

drv_status derive_run(translation *self) {
    const value *b1 = fact_take(self, "beta1"), *b2 = fact_take(self, "beta2");
    if (b1 && b2)
        translation_set(self, "optimizer.betas",
                arena_printf(self->a, "[%s, %s]", value_yaml(self->a, b1, false),
                        value_yaml(self->a, b2, false)),
                b2, NULL);
    DRV_TRY(derive_ranks(self));
    DRV_TRY(derive_batch(self));
    derive_data_ranks(self);
    DRV_TRY(derive_steps(self));
    DRV_TRY(derive_schedule(self));
    return derive_intervals(self);
}
