// Derives ranks, batches and steps from several foreign keys together.
#include <math.h>
#include <string.h>

#include "translate/translation.h"

static int64_t model_ranks(const translation *self) {
    return translation_number(self, "parallel.tensor", 1) *
           translation_number(self, "parallel.pipeline", 1) *
           translation_number(self, "parallel.context", 1);
}

// Reads a number of processes or nodes; --ranks decides what a launcher leaves open, such as "auto"
// and "1:4".
static drv_status count_of(translation *self, const char *name, const value **from, double *out) {
    *from = fact_take(self, name);
    *out = 0;
    if (!*from || self->opts->ranks) return DRV_OK;
    const bool is_number = (*from)->kind == VALUE_TEXT && str_to_f64((*from)->text, out);
    if (is_number && is_whole(*out) && *out >= 1) return DRV_OK;
    return refuse_value(self, *from, "expected a number of %s; or give --ranks N",
            strcmp(name, "nodes") == 0 ? "nodes" : "processes");
}

// Finds the ranks: the launcher's total, or processes per node times nodes. A launcher that only
// gives nodes starts one process on each.
static drv_status derive_ranks(translation *self) {
    const value *all, *of_node, *of_nodes;
    double total, devices, nodes;
    DRV_TRY(count_of(self, "ranks", &all, &total));
    DRV_TRY(count_of(self, "devices", &of_node, &devices));
    DRV_TRY(count_of(self, "nodes", &of_nodes, &nodes));
    fact_set(self, "virtual_stages", "parallel.virtual_stages", false);
    const bool args = strcmp(self->opts->kind, "args") == 0;
    if (args && of_nodes && !of_node) devices = 1;
    self->ranks = self->opts->ranks;
    if (!self->ranks) self->ranks = (int64_t)(all ? total : devices * (of_nodes ? nodes : 1));
    if (!self->ranks && args) self->ranks = 1;
    const value *given = all ? all : of_node ? of_node : args ? of_nodes : NULL;
    if (all && of_node) report_add(self, NO_EFFECT, of_node, "the number of ranks is given");
    if (of_nodes && given != of_nodes)
        report_printf(self, TRANSLATED, of_nodes, "%lld ranks in all", (long long)self->ranks);
    const int64_t others = model_ranks(self);
    if (self->opts->ranks && (others < 1 || self->ranks % others != 0))
        return drv_fail(DRV_E_USAGE,
                "--ranks is %lld, expected a multiple of tensor x pipeline x context = %lld",
                (long long)self->ranks, (long long)others);
    if (!given || !self->ranks) return DRV_OK;
    if (others < 1 || self->ranks % others != 0)
        return drv_fail(DRV_E_USAGE,
                "%s: \"%s\" makes %lld ranks, expected a multiple of tensor x pipeline x context = %lld; or give --ranks N",
                given->where, given->path, (long long)self->ranks, (long long)others);
    translation_set(self, "parallel.data", number_yaml(self->a, (double)(self->ranks / others)),
            given,
            arena_printf(self->a, "%lld ranks / %lld that share a model", (long long)self->ranks,
                    (long long)others));
    return DRV_OK;
}

static drv_status derive_batch(translation *self) {
    double micro = 1, accumulation = 1, rows = 0, n_cut = 0;
    const value *of_micro, *times, *device, *cut;
    DRV_TRY(fact_number(self, "micro", &micro, &of_micro));
    DRV_TRY(fact_number(self, "accumulation", &accumulation, &times));
    DRV_TRY(fact_number(self, "rows_of_device", &rows, &device));
    DRV_TRY(fact_number(self, "micro_batches", &n_cut, &cut));
    if (cut && of_micro) { // rows of a data rank, and the number of parts that they are cut into
        if (!is_whole(n_cut) || n_cut < 1 || fmod(micro, n_cut) != 0)
            return refuse_value(self, cut,
                    "expected a number that divides the rows of a data rank");
        report_add(self, TRANSLATED, cut, "micro-batches of a step");
        micro /= n_cut;
        accumulation *= n_cut;
    } else if (cut) {
        report_add(self, NO_EFFECT, cut, "the micro-batch is given");
    }
    if (of_micro && (!is_whole(micro) || micro < 1))
        return refuse_value(self, of_micro, "expected rows, 1 or more");
    if (times && (!is_whole(accumulation) || accumulation < 1))
        return refuse_value(self, times, "expected micro-batches, 1 or more");
    if (device && !times && fmod(rows, micro) != 0)
        return refuse_value(self, device, "expected a multiple of micro_batch_size");
    if (device && !times) accumulation = rows / micro;
    if (of_micro)
        translation_set(self, "training.micro_batch_size", number_yaml(self->a, micro), of_micro,
                NULL);
    const value *from = times ? times : device ? device : of_micro;
    if (!from) return DRV_OK;
    const char *whole_batch = translation_get(self, "training.global_batch_size");
    if (whole_batch) {
        if (times) report_add(self, NO_EFFECT, times, "the global batch is given");
        return DRV_OK;
    }
    if (!self->ranks)
        return drv_fail(DRV_E_USAGE,
                "%s: \"%s\" is the batch of each rank, and the number of ranks is not known; give --ranks N",
                from->where, from->path);
    const int64_t others = model_ranks(self), data = self->ranks / (others > 0 ? others : 1);
    if (data < 1)
        return drv_fail(DRV_E_USAGE,
                "%s: \"%s\" is a share of the batch of each data rank, and %lld ranks are fewer than tensor x pipeline x "
                "context = %lld; give --ranks N",
                from->where, from->path, (long long)self->ranks, (long long)others);
    translation_set(self, "training.global_batch_size",
            number_yaml(self->a, micro * accumulation * (double)data), from,
            arena_printf(self->a, "%g rows x %g micro-batches x %lld data ranks", micro,
                    accumulation, (long long)data));
    return DRV_OK;
}

// If no file gives the data ranks, --ranks alone decides.
static void derive_data_ranks(translation *self) {
    static const value ranks = {.kind = VALUE_TEXT, .path = "--ranks", .where = "command line"};
    const int64_t others = model_ranks(self);
    if (translation_get(self, "parallel.data") || !self->opts->ranks || others < 1 ||
            !translation_get(self, "training.global_batch_size") || self->ranks % others != 0)
        return;
    translation_set(self, "parallel.data", number_yaml(self->a, (double)(self->ranks / others)),
            &ranks, NULL);
}

// --- steps
// Returns the steps of an epoch of so many rows, as drover packs them; `batch`: rows of all ranks
// in a step.
static double steps_of_rows(const translation *self, double rows, double batch, double n_epochs,
        double *all) {
    const double micro = (double)translation_number(self, "training.micro_batch_size", 1),
                 data = (double)self->ranks / (double)model_ranks(self);
    double one;
    if (is_lightning(self) || program_is_nxd(self)) { // DataLoader(drop_last=True)
        one = floor(rows / batch);
        *all = floor(one * n_epochs);
    } else if ((self->kinds & FOREIGN_AXOLOTL) &&
               fact_is_true(self, "sample_packing")) { // utils/trainer.py
        one = fmax(1, floor(ceil(rows / micro) * micro / batch));
        *all = floor(one * n_epochs);
    } else if (self->kinds & FOREIGN_AXOLOTL) {
        one = ceil(rows / batch);
        *all = ceil(rows * n_epochs / batch);
    } else { // transformers' trainer.py, set_initial_training_values
        const double beside = micro * fmax(1, data),
                     loaded = self->drops_last ? floor(rows / beside) : ceil(rows / beside);
        one = fmax(1, ceil(loaded / fmax(1, floor(batch / beside))));
        *all = ceil(one * n_epochs);
    }
    return one;
}

// Counts the rows of the data set with the keys that decide about rows. *rows 0: there is no data
// set. Megatron and NxD Training drop an incomplete last row.
static drv_status count_rows(translation *self, int64_t *rows) {
    static const char *const keys[] = {"data.train", "data.sequence_length", "data.pack",
            "data.too_long", "data.split", "training.objective"};
    const char *sets[sizeof keys / sizeof *keys + 3];
    const char *row = translation_get(self, "data.sequence_length");
    int n = 0;
    *rows = 0;
    if (!self->opts->data || !self->opts->count_data) return DRV_OK;
    sets[n++] = "model.preset=tiny";
    if (row) sets[n++] = arena_printf(self->a, "model.max_position_embeddings=%s", row);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *said = translation_get(self, keys[i]);
        if (said) sets[n++] = arena_printf(self->a, "%s=%s", keys[i], said);
    }
    data_counts counts;
    DRV_TRY(self->opts->count_data(sets, n, &counts));
    *rows = counts.rows;
    const char *pack = translation_get(self, "data.pack");
    const int64_t length = translation_number(self, "data.sequence_length", 0);
    if (is_lightning(self) && length > 0 && pack && strcmp(pack, "stream") == 0 &&
            !translation_get(self, "data.split"))
        *rows = (counts.tokens - 1) / length;
    return DRV_OK;
}

drv_status epoch_steps(translation *self, double n_epochs, double *one, double *all) {
    const int64_t batch = translation_number(self, "training.global_batch_size", 0);
    int64_t rows;
    *one = *all = 0;
    if (batch < 1) return DRV_OK;
    DRV_TRY(count_rows(self, &rows));
    if (rows > 0) *one = steps_of_rows(self, (double)rows, (double)batch, n_epochs, all);
    return DRV_OK;
}

// Derives the steps of so many epochs.
static drv_status steps_of_epochs(translation *self, const value *epochs, double n, double *out) {
    double one;
    if (!self->opts->data)
        return refuse_value(self, epochs,
                "and how many steps that is depends on the data; give --data PREFIX, or --set "
                "training.steps=N or training.epochs=N");
    if (translation_number(self, "data.sequence_length", 0) < 1 ||
            translation_number(self, "training.global_batch_size", 0) < 1)
        return refuse_value(self, epochs,
                "which needs data.sequence_length and training.global_batch_size; give them by --set");
    DRV_TRY(epoch_steps(self, n, &one, out));
    if (*out < 1) return refuse_value(self, epochs, "and --data has not enough rows for one batch");
    return DRV_OK;
}

// With both max_epochs and max_steps of Lightning, whichever comes first ends the run.
static drv_status first_of(translation *self, const value *of_steps, double steps,
        const value *of_epochs, double epochs) {
    double all;
    if (!self->opts->data)
        return refuse_value(self, of_epochs,
                "beside \"%s\", and the first that comes ends the run: give --data PREFIX, or --set "
                "training.steps=N",
                of_steps->path);
    DRV_TRY(steps_of_epochs(self, of_epochs, epochs, &all));
    self->planned = (int64_t)steps;
    const bool by_epochs = all < steps;
    const value *first = by_epochs ? of_epochs : of_steps,
                *other = by_epochs ? of_steps : of_epochs;
    translation_set(self, "training.steps", number_yaml(self->a, fmin(steps, all)), first,
            arena_printf(self->a, "before \"%s\"", other->path));
    report_printf(self, NO_EFFECT, other, "\"%s\" ends the run before it", first->path);
    return DRV_OK;
}

// Returns our key by which --set gives the length of the run; NULL: it does not.
static const char *given_length(const translation *self) {
    if (translation_given(self, "training.steps")) return "training.steps";
    return translation_given(self, "training.epochs") ? "training.epochs" : NULL;
}

static drv_status derive_length(translation *self) {
    double steps = 0, epochs = 0, all;
    const value *of_steps, *of_epochs;
    const char *given = given_length(self);
    DRV_TRY(fact_number(self, "steps", &steps, &of_steps));
    DRV_TRY(fact_number(self, "epochs", &epochs, &of_epochs));
    if (given) {
        const value *const both[] = {of_steps, of_epochs};
        for (int i = 0; i < 2; i++)
            if (both[i]) report_printf(self, NO_EFFECT, both[i], "--set gives %s", given);
        return DRV_OK;
    }
    if (of_steps && steps >= 0 && !is_whole(steps))
        return refuse_value(self, of_steps, "expected a number of steps");
    if (of_epochs && is_lightning(self) && epochs == 0)
        return refuse_value(self, of_epochs, "expected 1 or more, or -1");
    if (steps > 0 && epochs > 0 && is_lightning(self))
        return first_of(self, of_steps, steps, of_epochs, epochs);
    if (of_steps && steps <= 0) report_add(self, NO_EFFECT, of_steps, "no limit");
    if (steps > 0) {
        translation_set(self, "training.steps", number_yaml(self->a, steps), of_steps, NULL);
        if (of_epochs) report_add(self, NO_EFFECT, of_epochs, "the steps are given");
    } else if (epochs > 0) {
        DRV_TRY(steps_of_epochs(self, of_epochs, epochs, &all));
        const bool drops = is_lightning(self) || program_is_nxd(self) || self->drops_last;
        translation_set(self, "training.steps", number_yaml(self->a, all), of_epochs,
                arena_printf(self->a, "of %s%s", self->opts->data,
                        drops ? "" : "; the last batch of an epoch may be short there"));
    } else if (of_steps || of_epochs || self->n_frameworks > 0) {
        if (!of_steps && !of_epochs) {
            report_unsaid(self, "training.steps");
            return DRV_OK;
        }
        return refuse_value(self, of_steps ? of_steps : of_epochs,
                "expected how long to train: give --set training.steps=N");
    }
    return DRV_OK;
}

static drv_status derive_steps(translation *self) {
    double stop = 0;
    const value *of_stop;
    DRV_TRY(derive_length(self));
    DRV_TRY(fact_number(self, "stop_at", &stop, &of_stop));
    if (!self->planned) self->planned = translation_number(self, "training.steps", 0);
    if (!of_stop) return DRV_OK;
    if (!is_whole(stop)) return refuse_value(self, of_stop, "expected a number of steps");
    if (stop > 0 && (int64_t)stop < translation_number(self, "training.steps", 0))
        translation_set(self, "training.stop_at_step", number_yaml(self->a, stop), of_stop,
                "it is of one start, counted from step 0; raise it for the next");
    else
        report_add(self, NO_EFFECT, of_stop, "all steps are trained");
    return DRV_OK;
}

drv_status derive_run(translation *self) {
    const value *b1 = fact_take(self, "beta1"), *b2 = fact_take(self, "beta2");
    if (b1 && b2)
        translation_set(self, "optimizer.betas",
                arena_printf(self->a, "[%s, %s]", value_yaml(self->a, b1, false),
                        value_yaml(self->a, b2, false)),
                is_default(b2) ? b1 : b2, NULL);
    const value *drops = fact_take(self, "drop_last");
    if (drops) {
        self->drops_last = says_true(drops);
        report_add(self, NO_EFFECT, drops,
                "batches are always whole; it only affects their number in an epoch");
    }
    DRV_TRY(derive_ranks(self));
    DRV_TRY(derive_batch(self));
    derive_data_ranks(self);
    DRV_TRY(derive_steps(self));
    DRV_TRY(derive_schedule(self));
    return derive_loop(self);
}
