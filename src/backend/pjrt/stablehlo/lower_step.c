// Prints a whole training step as one program: the micro-batches in order, with gradients carried
// from one to the next, then the update. The gradients begin at zero and are used up, so they are
// not state: the compiler places them, and frees them when the update has read them. Legend:
// micro_batch, rest: the two graphs; carried: gradients, then sums of outputs.
#include "backend/pjrt/stablehlo/lower.h"

#include <string.h>

#include "ir/op.h"
#include "ir/program_inputs.h"

typedef struct step_lowering {
    arena *a;
    const step_parts *parts;
    lowered *out;
    lowering micro_batch, rest;
    state_use micro_batch_use, rest_use;
    hlo_value *in, *made; // arguments, results
    name_map arguments;   // name -> its lowered_state
    hlo_value *carried;
    const tensor **carries; // by carried value: its accumulator or output in `micro_batch`
    int n_carried;
} step_lowering;

// Returns whether micro-batches have slices of an input; INPUT_DLOSS is one number for all.
static bool is_sliced(const tensor *t) {
    return t->cls == TENSOR_INPUT && t->dt != DT_F64;
}

static void add_argument(step_lowering *s, const lowering *l, const lowered_state *state) {
    lowered *out = s->out;
    if (name_map_get(&s->arguments, state->name)) return; // both graphs have it
    s->in[out->n_in] = hlo_new(&s->micro_batch.h, lower_type(l, state->host), state->shape.n_dims,
            state->shape.dim);
    out->in[out->n_in] = *state;
    name_map_set(&s->arguments, state->name, &out->in[out->n_in++]);
}

static int argument_of(const step_lowering *s, const char *name) {
    const lowered_state *state = name_map_get(&s->arguments, name);
    DRV_ASSERT(state, "the step has no \"%s\"", name);
    return (int)(state - s->out->in);
}

static const char *sliced_name(const step_lowering *s, const tensor *t) {
    return arena_printf(s->a, INPUT_STEP_NAME, t->name);
}

static lowered_state sliced_state(const step_lowering *s, const tensor *t) {
    lowered_state state = lower_state(&s->micro_batch, t, -1);
    state.name = sliced_name(s, t);
    memmove(state.shape.dim + 1, state.shape.dim, sizeof *state.shape.dim * (size_t)t->n_dims);
    state.shape.dim[0] = s->parts->n_micro_batches;
    state.shape.n_dims++;
    return state;
}

static bool is_hyper(const tensor *t) {
    return strcmp(t->name, program_inputs[INPUT_HYPER].name) == 0;
}

static void add_arguments(step_lowering *self) {
    const graph *micro_batch = self->parts->micro_batch, *rest = self->parts->rest;
    for (int i = 0; i < micro_batch->n_tensors; i++) {
        const tensor *t = micro_batch->tensors[i];
        if (t->def || t->cls == TENSOR_TEMP || t->cls == TENSOR_GRAD ||
                !self->micro_batch_use.read[i])
            continue;
        const lowered_state state =
                is_sliced(t) ? sliced_state(self, t) : lower_state(&self->micro_batch, t, -1);
        add_argument(self, &self->micro_batch, &state);
    }
    for (int i = 0; i < rest->n_tensors; i++) {
        const tensor *t = rest->tensors[i];
        if (t->def || t->cls == TENSOR_TEMP || t->cls == TENSOR_GRAD || !self->rest_use.read[i])
            continue;
        lowered_state state = lower_state(&self->rest, t, -1);
        if (is_hyper(t)) {
            state.name = sliced_name(self, t);
            state.shape.dim[0] *= 2;
        }
        add_argument(self, &self->rest, &state);
    }
    const lowered_state norm = lower_state(&self->rest, graph_find(rest, "grad_norm2"), -1);
    add_argument(self, &self->rest, &norm); // from the step before
}

// Adds the results: state that the update writes, in place, then the outputs of both graphs.
static void add_results(step_lowering *s) {
    const graph *micro_batch = s->parts->micro_batch, *rest = s->parts->rest;
    lowered *out = s->out;
    for (int i = 0; i < rest->n_tensors; i++) {
        const tensor *t = rest->tensors[i];
        if (t->def || t->cls == TENSOR_GRAD || !s->rest_use.last[i]) continue;
        out->out[out->n_out++] = lower_state(&s->rest, t, argument_of(s, t->name));
    }
    for (int i = 0; i < rest->n_tensors; i++)
        if (rest->tensors[i]->cls == TENSOR_OUTPUT)
            out->out[out->n_out++] = lower_state(&s->rest, rest->tensors[i], -1);
    for (int i = 0; i < micro_batch->n_tensors; i++)
        if (micro_batch->tensors[i]->cls == TENSOR_OUTPUT)
            out->out[out->n_out++] = lower_state(&s->micro_batch, micro_batch->tensors[i], -1);
}

// --- the micro-batches
static void find_carried(step_lowering *s) {
    const graph *micro_batch = s->parts->micro_batch;
    s->carried = ARENA_ARRAY(s->a, hlo_value, micro_batch->n_tensors);
    s->carries = ARENA_ARRAY(s->a, const tensor *, micro_batch->n_tensors);
    for (int i = 0; i < micro_batch->n_tensors; i++) {
        const tensor *t = micro_batch->tensors[i];
        const bool output = t->cls == TENSOR_OUTPUT;
        DRV_ASSERT(output || t->cls == TENSOR_GRAD || t->cls == TENSOR_TEMP ||
                           !s->micro_batch_use.last[i],
                "a micro-batch writes \"%s\"", t->name);
        if (!output && (t->def || t->cls != TENSOR_GRAD)) continue;
        const hlo_value like = lower_like(&s->micro_batch, t);
        s->carries[s->n_carried] = t;
        s->carried[s->n_carried++] = hlo_fill(&s->micro_batch.h, 0, &like);
    }
}

static void set_micro_batch_values(step_lowering *s, hlo_text *h, hlo_index iteration) {
    const graph *g = s->parts->micro_batch;
    for (int i = 0; i < g->n_tensors; i++) {
        const tensor *t = g->tensors[i];
        if (t->def || t->cls == TENSOR_TEMP || t->cls == TENSOR_GRAD || !s->micro_batch_use.read[i])
            continue;
        hlo_value v = s->in[argument_of(s, is_sliced(t) ? sliced_name(s, t) : t->name)];
        if (is_sliced(t)) v = hlo_reshape(h, hlo_take(h, v, 0, iteration, 1), t->n_dims, t->dim);
        s->micro_batch.values[i] = v;
    }
}

static void run_micro_batch(hlo_text *h, void *ctx, hlo_index iteration, hlo_value *carried) {
    step_lowering *s = ctx;
    hlo_value *values = s->micro_batch.values;
    set_micro_batch_values(s, h, iteration);
    for (int i = 0; i < s->n_carried; i++)
        if (s->carries[i]->cls == TENSOR_GRAD) values[s->carries[i]->id] = carried[i];
    lower_nodes(&s->micro_batch, s->out, 0, s->micro_batch.g->n_nodes);
    for (int i = 0; i < s->n_carried; i++) {
        const tensor *t = s->carries[i], *last = s->micro_batch_use.last[t->id];
        if (t->cls == TENSOR_OUTPUT)
            carried[i] = hlo_binary(h, "add", carried[i], values[t->id]);
        else if (last)
            carried[i] = values[last->id];
    }
}

// --- the update
// Chooses the hyperparameters by whether the step before was skipped.
static hlo_value choose_hyper(step_lowering *s, hlo_text *h) {
    const hlo_value both = s->in[argument_of(s, input_name_of(INPUT_HYPER, INPUT_OF_STEP).text)],
                    norm2 = s->in[argument_of(s, "grad_norm2")];
    const int64_t n = both.dim[0] / 2;
    const hlo_value first = hlo_slice(h, both, 0, 0, n), second = hlo_slice(h, both, 0, n, n);
    const hlo_value finite = hlo_compare(h, "LT", norm2, hlo_fill(h, __builtin_inf(), &norm2));
    hlo_value like = first;
    like.type = HLO_BOOL;
    return hlo_select(h, hlo_spread(h, hlo_reshape(h, finite, 0, NULL), &like), first, second);
}

static hlo_value gradient_of(step_lowering *s, hlo_text *h, const tensor *t) {
    for (int i = 0; i < s->n_carried; i++)
        if (strcmp(s->carries[i]->name, t->name) == 0) return s->carried[i];
    const hlo_value like = lower_like(&s->rest, t);
    return hlo_fill(h, 0, &like);
}

static void run_rest(step_lowering *s) {
    const graph *g = s->parts->rest;
    lowering *l = &s->rest;
    for (int i = 0; i < g->n_tensors; i++) {
        const tensor *t = g->tensors[i];
        if (t->def || t->cls == TENSOR_TEMP || !s->rest_use.read[i]) continue;
        l->values[i] = t->cls == TENSOR_GRAD ? gradient_of(s, &l->h, t)
                       : is_hyper(t)         ? choose_hyper(s, &l->h)
                                             : s->in[argument_of(s, t->name)];
    }
    lower_nodes(l, s->out, 0, l->g->n_nodes);
}

static void collect_results(step_lowering *s) {
    const graph *rest = s->parts->rest;
    int n = 0;
    for (int i = 0; i < rest->n_tensors; i++) {
        const tensor *t = rest->tensors[i], *last = s->rest_use.last[i];
        if (!t->def && t->cls != TENSOR_GRAD && last) s->made[n++] = s->rest.values[last->id];
    }
    for (int i = 0; i < rest->n_tensors; i++)
        if (rest->tensors[i]->cls == TENSOR_OUTPUT) s->made[n++] = s->rest.values[i];
    for (int i = 0; i < s->n_carried; i++)
        if (s->carries[i]->cls == TENSOR_OUTPUT) s->made[n++] = s->carried[i];
    DRV_ASSERT(n == s->out->n_out, "%d results of %d", n, s->out->n_out);
}

static void lower_parts(step_lowering *s) {
    add_arguments(s);
    add_results(s);
    lower_head(&s->micro_batch, s->out);
    find_carried(s);
    if (s->parts->n_micro_batches == 1)
        run_micro_batch(&s->micro_batch.h, s, hlo_at(0), s->carried);
    else
        hlo_loop(&s->micro_batch.h, s->parts->n_micro_batches, s->carried, s->n_carried,
                run_micro_batch, s);
    s->rest.h = s->micro_batch.h;
    run_rest(s);
    collect_results(s);
    lower_results(&s->rest, s->made, s->out->n_out);
    s->out->text = s->rest.h.s;
}

drv_status lower_step(arena *a, const step_parts *parts, const lower_options *options,
        lowered *out) {
    const int n = parts->micro_batch->n_tensors + parts->rest->n_tensors + 1;
    step_lowering s = {.a = a, .parts = parts, .out = out, .arguments.a = a};
    *out = (lowered){.name = parts->name,
            .in = ARENA_ARRAY(a, lowered_state, n),
            .out = ARENA_ARRAY(a, lowered_state, n),
            .lines = ARENA_ARRAY(a, lowered_line,
                    parts->micro_batch->n_nodes + parts->rest->n_nodes)};
    DRV_TRY(lower_open(a, parts->micro_batch, options, &s.micro_batch));
    DRV_TRY(lower_open(a, parts->rest, options, &s.rest));
    s.micro_batch_use = lower_state_use(a, parts->micro_batch, 0, parts->micro_batch->n_nodes);
    s.rest_use = lower_state_use(a, parts->rest, 0, parts->rest->n_nodes);
    s.in = ARENA_ARRAY(a, hlo_value, n);
    s.made = ARENA_ARRAY(a, hlo_value, n);
    lower_parts(&s);
    return DRV_OK;
}
