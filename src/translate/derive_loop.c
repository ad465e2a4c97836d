// Derives when a run saves, evaluates and logs.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "translate/translation.h"

// Reads DD:HH:MM:SS, H:MM:SS, a number of seconds, or {days: 1, hours: 2} as minutes; false: it is
// none of these.
static bool minutes_of(const value *time, double *out) {
    static const char *const names[] = {"days", "hours", "minutes", "seconds"};
    static const double factors[] = {24 * 60, 60, 1, 1.0 / 60};
    double number;
    *out = 0;
    if (time->kind == VALUE_MAP) {
        for (int i = 0; i < time->n; i++) {
            const int k = str_index(time->items[i].name, names, 4);
            if (k < 0 || time->items[i].kind != VALUE_TEXT ||
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
        return refuse_value(self, time, "expected seconds, or DD:HH:MM:SS");
    if (minutes == 0)
        report_add(self, NO_EFFECT, time, "it is off");
    else
        translation_set(self, key, arena_printf(self->a, "%.10g", minutes), time, "in minutes");
    return DRV_OK;
}

typedef struct interval { // between saves or evaluations
    const char *every;    // the key of its steps
    const char *strategy; // the key that says "no", "steps" or "epoch"
    const char *of_epoch; // the key that says how many there are in an epoch
    const char *key;
} interval;

static const interval saves = {"save_every", "save_strategy", "saves_per_epoch",
        "checkpoint.every"};
static const interval evals = {"eval_every", "eval_strategy", "evals_per_epoch",
        "training.eval_every"};

// Derives every so many epochs; only the data tell how many steps an epoch has.
static drv_status set_by_epochs(translation *self, const interval *of, const value *v, double n) {
    double one, all;
    DRV_TRY(epoch_steps(self, n, &one, &all));
    if (one > 0)
        translation_set(self, of->key, number_yaml(self->a, fmax(1, floor(one * n))), v,
                arena_printf(self->a, "an epoch has %g steps", one));
    else if (!translation_given(self, of->key))
        report_printf(self, CHANGES, v,
                "is in epochs, and their steps depend on the data: give --data PREFIX, or --set %s=N",
                of->key);
    else
        report_printf(self, NO_EFFECT, v, "--set gives %s", of->key);
    return DRV_OK;
}

// Derives every so many steps. A number below 1 is a fraction of the run. To Lightning it is a
// fraction of an epoch, and so is every number with a decimal point.
static drv_status derive_steps_of(translation *self, const interval *of) {
    double x = 0;
    const value *v;
    DRV_TRY(fact_number(self, of->every, &x, &v));
    if (!v) return DRV_OK;
    const bool real = strpbrk(v->text, ".eE") != NULL;
    if (is_lightning(self) && real && x > 0 && x <= 1) return set_by_epochs(self, of, v, x);
    if (is_lightning(self) && real)
        return refuse_value(self, v,
                "expected a number of steps, or a share of an epoch up to 1.0");
    const int64_t steps = translation_number(self, "training.steps", 0);
    if (x > 0 && x < 1 && steps < 1)
        return refuse_value(self, v, "a share of the steps; give --set training.steps=N");
    if (x > 0 && x < 1) x = ceil(x * (double)steps);
    if (x < 0 || !is_whole(x)) return refuse_value(self, v, "expected a number of steps");
    translation_set(self, of->key, number_yaml(self->a, x), v, NULL);
    return DRV_OK;
}

// Axolotl's saves_per_epoch becomes a fraction of the run (schemas/validation.py).
static drv_status derive_per_epoch(translation *self, const interval *of, double n_epochs) {
    double n = 0;
    const value *v;
    DRV_TRY(fact_number(self, of->of_epoch, &n, &v));
    if (!v) return DRV_OK;
    const int64_t steps = translation_number(self, "training.steps", 0);
    if (!(n > 0) || steps < 1 || !(n_epochs > 0))
        report_printf(self, CHANGES, v, "is %s; give --set %s=N", value_shown(self->a, v), of->key);
    else
        translation_set(self, of->key, number_yaml(self->a, ceil((double)steps / (n * n_epochs))),
                v, "a share of the run");
    return DRV_OK;
}

static drv_status derive_interval(translation *self, const interval *of, double n_epochs) {
    const value *strategy = fact_take(self, of->strategy);
    const bool axolotl = self->kinds & FOREIGN_AXOLOTL;
    const bool by_steps =
            axolotl && (fact_has_value(self, of->every) || fact_has_value(self, of->of_epoch));
    if (by_steps || !strategy || says(strategy, "steps")) {
        if (strategy) report_add(self, NO_EFFECT, strategy, "the interval is given in steps");
        DRV_TRY(derive_steps_of(self, of));
        return derive_per_epoch(self, of, n_epochs);
    }
    fact_drop(self, of->every, "the interval is not given in steps");
    if (says(strategy, "no") || says(strategy, "false"))
        translation_set(self, of->key, "0", strategy, NULL);
    else if (says(strategy, "epoch"))
        return set_by_epochs(self, of, strategy, 1);
    else
        report_printf(self, CHANGES, strategy, "is %s, expected no, steps or epoch",
                value_shown(self->a, strategy));
    return DRV_OK;
}

// --- saves
// Lightning's save_top_k keeps none, all, or so many; Axolotl's save_total_limit is 4 by default.
static drv_status derive_keep(translation *self, bool *none) {
    const value *top = fact_take(self, "save_top_k"), *limit = fact_last(self, "keep");
    *none = top && says(top, "0");
    if (*none)
        translation_set(self, "checkpoint.every", "0", top,
                "none is saved there; the last step is saved all the same");
    else if (top)
        translation_set(self, "checkpoint.keep",
                says(top, "-1") ? "0" : value_yaml(self->a, top, false), top,
                says(top, "-1") ? "0 is all" : NULL);
    if (!limit) return DRV_OK;
    const bool four = limit->kind == VALUE_NULL || says(limit, "0") || says(limit, "false");
    translation_set(self, "checkpoint.keep",
            four                ? "4"
            : says(limit, "-1") ? "0"
                                : value_yaml(self->a, limit, false),
            limit,
            four                ? "Axolotl keeps four unless it is above 0"
            : says(limit, "-1") ? "0 is all"
                                : NULL);
    return DRV_OK;
}

static drv_status derive_saves(translation *self, double n_epochs) {
    const value *checkpoints = fact_take(self, "checkpoints");
    const value *epochs;
    bool none;
    double each = 0;
    DRV_TRY(derive_keep(self, &none));
    DRV_TRY(fact_number(self, "save_epochs", &each, &epochs));
    if (checkpoints && !says_true(checkpoints)) {
        translation_set(self, "checkpoint.every", "0", checkpoints,
                "the last step is saved all the same");
        none = true;
    } else if (checkpoints) {
        report_add(self, NO_EFFECT, checkpoints, "a run always saves");
    }
    if (none) {
        fact_drop(self, "save_every", "it is switched off");
        fact_drop(self, "save_seconds", "it is switched off");
        return DRV_OK;
    }
    DRV_TRY(derive_minutes(self, "save_seconds", "checkpoint.every_minutes"));
    DRV_TRY(derive_interval(self, &saves, n_epochs));
    if (epochs && each > 0) DRV_TRY(set_by_epochs(self, &saves, epochs, each));
    const char *minutes = translation_get(self, "checkpoint.every_minutes");
    const value *time = fact_last(self, "save_seconds");
    if (is_lightning(self) && time && minutes && !translation_get(self, "checkpoint.every"))
        translation_set(self, "checkpoint.every", "0", time, "only after so much time");
    return DRV_OK;
}

// --- evaluations
static drv_status derive_evals(translation *self, double n_epochs) {
    const value *batches;
    double limit = 0;
    DRV_TRY(fact_number(self, "eval_batches", &limit, &batches));
    if (batches && limit <= 0) {
        fact_drop(self, "eval_every", "it is switched off");
        translation_set(self, "training.eval_every", "0", batches, NULL);
        return DRV_OK;
    }
    if (batches && is_whole(limit) && strchr(batches->text, '.') == NULL)
        translation_set(self, "training.eval_batches", number_yaml(self->a, limit), batches, NULL);
    else if (batches)
        report_add(self, NO_EFFECT, batches,
                "training.eval_batches says how many batches an evaluation has");
    const value *strategy = fact_take(self, "eval_strategy");
    const bool silent =
            !fact_has_value(self, "eval_every") && !fact_has_value(self, "evals_per_epoch");
    if (silent && strategy && says(strategy, "steps") && fact_has_value(self, "log_every")) {
        const interval as_log = {"log_every", "eval_strategy", "evals_per_epoch", evals.key};
        return derive_steps_of(self, &as_log); // transformers: eval_steps are logging_steps
    }
    if (silent && !strategy && (self->kinds & FOREIGN_AXOLOTL)) {
        static const value none = DEFAULT_VALUE("eval_strategy", "Axolotl 0.19.0");
        translation_set(self, evals.key, "0", &none, NULL);
    }
    return derive_interval(self, &evals, n_epochs);
}

// Axolotl logs 200 times in a run, but at least every 10 steps.
static drv_status derive_log(translation *self) {
    static const interval log = {"log_every", "log_strategy", "logs_per_epoch",
            "training.log_every"};
    static const value silent = DEFAULT_VALUE("logging_steps", "Axolotl 0.19.0");
    if ((self->kinds & FOREIGN_AXOLOTL) && !fact_has_value(self, "log_every"))
        translation_set(self, log.key,
                self->planned > 0 ? number_yaml(self->a,
                                            fmax(1, fmin(10, floor(0.005 * (double)self->planned))))
                                  : "500",
                &silent, NULL);
    return derive_steps_of(self, &log);
}

drv_status derive_loop(translation *self) {
    double n_epochs = 1;
    const value *epochs;
    DRV_TRY(fact_number(self, "epochs", &n_epochs, &epochs));
    DRV_TRY(derive_minutes(self, "max_time", "training.max_minutes"));
    DRV_TRY(derive_log(self));
    DRV_TRY(derive_saves(self, n_epochs));
    return derive_evals(self, n_epochs);
}
