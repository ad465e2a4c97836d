// Preference pairs: loss, rewards and every gradient against what TRL's DPOTrainer gave
// (tools/golden_dpo.py), whether pairs share a row or not, and responses a prompt or not, and of
// pairs that are cut; sums of tokens, exact; the forms of records; what is kept of the reference.
#include "harness.h"

#include <math.h>
#include <stdlib.h>

#include "ir/pair_loss.h"
#include "ir/pair_word.h"
#include "source/safetensors.h"
#include "data/set/dataset_writer.h"
#include "data/set/reference_file.h"
#include "data/set/rows.h"
#include "data/sft/pair_record.h"
#include "data/sft/sft.h"

enum { MAX_PAIRS = 5, PARTS = 3, SEQ = 96, PROMPT = 0 };

typedef struct golden {
    arena *a;
    const char *folder;
    st_file file;
    int n_pairs;
    int32_t *tokens; // of prompt, chosen and rejected response, pair by pair
    int32_t length[MAX_PAIRS][PARTS];
    const double *reference; // of the chosen and the rejected response, pair by pair
} golden;

static double *golden_values(golden *from, const char *name, int64_t *n) {
    const st_tensor *t = st_find(&from->file, name);
    if (!t) fail_msg("no \"%s\" in the golden file", name);
    double *out = ARENA_ARRAY(from->a, double, t->elements);
    float *values = ARENA_ARRAY(from->a, float, t->elements);
    if (t->type == ST_F64) OK(st_read_raw(&from->file, t, 0, t->bytes, out));
    if (t->type != ST_F64) OK(st_read_f32(&from->file, t, 0, t->elements, values));
    for (int64_t i = 0; i < t->elements && t->type != ST_F64; i++)
        out[i] = (double)values[i];
    if (n) *n = t->elements;
    return out;
}

// The pairs whose values are named so: "", or "cut.", those that are too long for a row.
static golden golden_open(const char *which) {
    golden out = {.a = arena_new("golden")};
    int64_t n;
    OK(st_open(out.a, golden_path(out.a, "dpo.safetensors"), &out.file));
    out.folder = golden_path(out.a, "tied");
    const double *lengths = golden_values(&out, arena_printf(out.a, "%slengths", which), &n);
    out.n_pairs = (int)(n / PARTS);
    if (out.n_pairs > MAX_PAIRS) fail_msg("%d pairs, expected at most %d", out.n_pairs, MAX_PAIRS);
    for (int i = 0; i < out.n_pairs * PARTS; i++)
        out.length[i / PARTS][i % PARTS] = (int32_t)lengths[i];
    const double *tokens = golden_values(&out, arena_printf(out.a, "%stokens", which), &n);
    out.tokens = ARENA_ARRAY(out.a, int32_t, n);
    for (int64_t i = 0; i < n; i++)
        out.tokens[i] = (int32_t)tokens[i];
    out.reference = golden_values(&out, arena_printf(out.a, "%sreference", which), NULL);
    return out;
}

static void golden_close(golden *from) {
    st_close(&from->file);
    arena_free(from->a);
}

static const int32_t *tokens_of(const golden *from, int pair) {
    const int32_t *tokens = from->tokens;
    for (int i = 0; i < pair * PARTS; i++)
        tokens += from->length[i / PARTS][i % PARTS];
    return tokens;
}

// --- rows
typedef struct row {
    int32_t tokens[SEQ], position[SEQ], labels[SEQ], pair[SEQ], reference[2 * SEQ], hidden[2 * SEQ];
    int at;
} row; // of SEQ tokens, or of fewer, where it is read from a data set

static void row_begin(row *r) {
    *r = (row){0};
    for (int i = 0; i < SEQ; i++) {
        r->position[i] = i; // what is not filled is a document that predicts nothing
        r->labels[i] = -1;
        r->pair[i] = PAIR_NONE;
    }
}

// How pairs lie in rows: each in one of its own, or all in one, whose prompts are there twice; or
// once, but for their last tokens, which predict the first ones of both responses.
typedef enum form { APART, TOGETHER, SHARED, N_FORMS } form;

// The prompt and one response, of which the last token is only predicted. A rejected response that
// shares the prompt follows the chosen one, which it does not see.
static void put_response(golden *from, int pair, int side, int number, bool shares, row *r) {
    const int32_t *length = from->length[pair], *tokens = tokens_of(from, pair);
    const int32_t *response = tokens + length[PROMPT] + (side ? length[1] : 0);
    const int n = length[PROMPT] + length[1 + side];
    const double *reference = from->reference + 2 * pair + side;
    const int32_t begin = r->at, fork = begin - length[1];
    for (int i = shares && side ? length[PROMPT] - 1 : 0; i + 1 < n; i++, r->at++) {
        const int next = i + 1 - length[PROMPT];
        r->tokens[r->at] = i < length[PROMPT] ? tokens[i] : response[i - length[PROMPT]];
        r->position[r->at] = i;
        if (shares && side) r->hidden[2 * r->at] = fork;
        if (shares && side) r->hidden[2 * r->at + 1] = begin;
        if (next < 0) continue;
        r->labels[r->at] = response[next];
        r->pair[r->at] = pair_word(number, side, next == 0);
        if (next == 0) memcpy(r->reference + 2 * r->at, reference, sizeof *reference);
    }
}

static void write_row(test_run *run, const row *r) {
    backend *b = run->p.held.b;
    const int64_t words = run->c.sequence_length * (int64_t)sizeof(int32_t);
    OK(backend_write(b, "tokens", 0, words, r->tokens));
    OK(backend_write(b, "position", 0, words, r->position));
    OK(backend_write(b, "labels", 0, words, r->labels));
    OK(backend_write(b, "pair", 0, words, r->pair));
    OK(backend_write(b, "reference", 0, 2 * words, r->reference));
    OK(backend_write(b, "hidden", 0, 2 * words, r->hidden));
}

static void expect_close(const char *what, const double *got, const double *want, int64_t n) {
    const double error = relative_error(got, want, n);
    if (!(error <= 1e-5)) fail_msg("%s: relative error %.3g, bound 1e-5", what, error);
}

static void check_gradient(golden *from, test_run *run, const char *which, const param *w) {
    const int64_t cols = w->n_dims == 2 ? w->dim[1] : 1;
    for (int i = 0; i < w->n_parts; i++) {
        const param_part *part = &w->part[i];
        const int64_t n = part->rows * cols;
        const bool both_uses = w == run->p.held.params.head && w == run->p.held.params.embedding;
        double *got = ARENA_ARRAY(from->a, double, n);
        float *values = ARENA_ARRAY(from->a, float, n);
        for (int use = 0; use <= both_uses; use++) {
            const char *name = arena_printf(from->a, "grad.%s%s", w->name, use ? ".second" : "");
            OK(backend_read(run->p.held.b, name, 4 * part->row * cols, 4 * n, values));
            for (int64_t k = 0; k < n; k++)
                got[k] += (double)values[k];
        }
        const char *theirs = arena_printf(from->a, "%s.grad.%s", which, part->hf_name);
        expect_close(theirs, got, golden_values(from, theirs, NULL), n);
    }
}

// log p of both responses at the heads of chosen ones, in the order of pairs.
static void read_log_probs(test_run *run, const row *r, double *out) {
    const int64_t n = run->c.sequence_length;
    double all[2 * SEQ];
    OK(backend_read(run->p.held.b, "log_probs", 0, 2 * n * (int64_t)sizeof *all, all));
    for (int64_t i = 0; i < n; i++) {
        if (!pair_is_head(r->pair[i]) || pair_is_rejected(r->pair[i])) continue;
        memcpy(out + 2 * pair_of_word(r->pair[i]), all + 2 * i, 2 * sizeof *out);
    }
}

static test_run *open_run(golden *from, const char *which, int64_t row_tokens) {
    const double *smoothing =
                         golden_values(from, arena_printf(from->a, "%s.smoothing", which), NULL),
                 *beta = golden_values(from, "beta", NULL);
    const char *sets[] = {arena_printf(from->a, "model.from=%s", from->folder),
            "model.weights=load",
            arena_printf(from->a, "data.sequence_length=%lld", (long long)row_tokens),
            "training.global_batch_size=1", "training.precision=fp32", "training.objective=dpo",
            arena_printf(from->a, "dpo.beta=%.17g", *beta),
            arena_printf(from->a, "dpo.label_smoothing=%.17g", *smoothing)};
    test_run *run = test_run_open(sets, sizeof sets / sizeof *sets);
    OK(state_load_weights(&run->p.held, from->folder));
    return run;
}

typedef struct sums { // over rows
    double loss, log_probs[2 * MAX_PAIRS], rewards[3];
} sums;

// A row whose first pair is `first`; gradients are added up.
static void take_row(golden *from, test_run *run, const row *r, int64_t first, sums *sum) {
    double figures[3];
    write_row(run, r);
    sum->loss += test_run_step(run, 1.0 / from->n_pairs) / from->n_pairs;
    read_log_probs(run, r, sum->log_probs + 2 * first);
    OK(backend_read(run->p.held.b, "figures", 0, sizeof figures, figures));
    for (int k = 0; k < 3; k++)
        sum->rewards[k] += figures[k] / from->n_pairs;
}

static void check_values(golden *from, test_run *run, const char *which, const sums *sum) {
    const char *loss = arena_printf(from->a, "%s.loss", which),
               *rewards = arena_printf(from->a, "%s.rewards", which),
               *log_probs = arena_printf(from->a, "%s.log_probs", which);
    expect_close(loss, &sum->loss, golden_values(from, loss, NULL), 1);
    expect_close(rewards, sum->rewards, golden_values(from, rewards, NULL), 3);
    expect_close(log_probs, sum->log_probs, golden_values(from, log_probs, NULL),
            2 * (int64_t)from->n_pairs);
    for (int i = 0; i < run->p.held.params.n; i++)
        check_gradient(from, run, which, &run->p.held.params.p[i]);
    test_run_close(run);
}

static void check_loss(golden *from, const char *which, form how) {
    test_run *run = open_run(from, which, SEQ);
    const int in_row = how == APART ? 1 : from->n_pairs;
    sums sum = {.loss = 0};
    for (int first = 0; first < from->n_pairs; first += in_row) {
        row r;
        row_begin(&r);
        for (int pair = first; pair < first + in_row; pair++)
            for (int side = 0; side < 2; side++)
                put_response(from, pair, side, pair - first, how == SHARED, &r);
        for (int i = r.at; i < SEQ; i++)
            r.position[i] = i - r.at;
        take_row(from, run, &r, first, &sum);
    }
    check_values(from, run, which, &sum);
}

TEST(loss_and_gradients_are_those_of_trl) {
    golden from = golden_open("");
    for (form how = APART; how < N_FORMS; how++)
        check_loss(&from, "plain", how);
    check_loss(&from, "smooth", SHARED);
    golden_close(&from);
}

// --- pairs that do not fit a row
static const char *write_set(golden *from, int64_t n_vocab) {
    const char *prefix = path_join(from->a, temporary_dir(from->a), "pairs");
    dataset_writer *writer;
    dataset *set;
    OK(dataset_writer_open(from->a, prefix, n_vocab, 0, 0, true, &writer));
    for (int i = 0; i < 2 * from->n_pairs; i++) {
        const int32_t *length = from->length[i / 2], *tokens = tokens_of(from, i / 2),
                      prompt = length[PROMPT], response = length[1 + i % 2];
        char roles[SEQ];
        memset(roles, ROLE_OTHER, (size_t)prompt);
        memset(roles + prompt, ROLE_LAST_ANSWER, (size_t)response);
        OK(dataset_writer_add(writer, tokens, prompt));
        OK(dataset_writer_add(writer, tokens + prompt + (i % 2 ? length[1] : 0), response));
        OK(dataset_writer_add_roles(writer, roles, prompt + response));
        OK(dataset_writer_end_document(writer));
    }
    OK(dataset_writer_finish(writer));
    OK(dataset_open(from->a, prefix, &set));
    OK(dataset_about_write(set, &(dataset_about){.known = true,
                                        .eod = -1,
                                        .largest_id = -1,
                                        .roles_hash = set->roles_hash,
                                        .pairs = from->n_pairs}));
    dataset_close(set);
    return prefix;
}

// TRL cuts each response off at a max_length that leaves of both what a row has.
TEST(pairs_that_are_cut_are_those_of_trl) {
    golden from = golden_open("cut.");
    const int64_t row_tokens = (int64_t)*golden_values(&from, "cut.row", NULL);
    test_run *run = open_run(&from, "cut", row_tokens);
    const int64_t n_vocab = run->c.model.vocab_size;
    const row_source_spec source = {write_set(&from, n_vocab), 1};
    const rows_opts opts = {.sources = &source,
            .n_sources = 1,
            .row_tokens = row_tokens,
            .n_vocab = n_vocab,
            .packing = PACKING_PAIRS,
            .loss = LOSS_LAST};
    rows *all;
    sums sum = {.loss = 0};
    OK(rows_open(from.a, &opts, &all));
    rows_set_references(all, from.reference);
    assert_int_equal(rows_per_epoch(all), from.n_pairs);
    for (int i = 0; i < from.n_pairs; i++) {
        row r;
        int64_t number[SEQ / 2], counted = 0, pairs = 0;
        OK(rows_next(all, &(row_out){.tokens = r.tokens,
                                  .position = r.position,
                                  .labels = r.labels,
                                  .pair = r.pair,
                                  .reference = r.reference,
                                  .hidden = r.hidden,
                                  .number = number,
                                  .counted = &counted,
                                  .pairs = &pairs}));
        assert_int_equal(pairs, 1);
        take_row(&from, run, &r, number[0], &sum);
    }
    rows_close(all);
    check_values(&from, run, "cut", &sum);
    golden_close(&from);
}

// Where the exponential of the margin overflows a double, or vanishes beside one.
TEST(losses_of_large_margins_are_finite) {
    assert_true(pair_loss(1e4, 0) == 0 && pair_pull(1e4, 0) == 0);
    assert_true(pair_loss(-1e4, 0) == 1e4 && pair_pull(-1e4, 0) == 1);
    assert_true(fabs(pair_loss(0, 0.25) - log(2)) < 1e-15 && pair_pull(0, 0.25) == 0.25);
}

// --- sums over tokens
enum { MOST_LOSSES = 24 };
__extension__ typedef unsigned __int128 wide;

// Computes the log-probabilities of a pair whose chosen response has these losses, and whose
// rejected one has them from the last to the first.
static void log_probs_of(int n_losses, const double *losses, double out[2]) {
    arena *a = arena_new("losses");
    int32_t pair[2 * MOST_LOSSES], reference[4 * MOST_LOSSES] = {0};
    example one = {.g = graph_new(a, "preference")};
    backend *cpu;
    executable *program;
    for (int i = 0; i < 2 * n_losses; i++)
        pair[i] = pair_word(0, i >= n_losses, i % n_losses == 0);
    const example_input inputs[] = {IN_LOSSES("token_loss", 2 * n_losses),
            IN_INTEGERS("pair", 2 * n_losses, pair),
            IN_INTEGERS("reference", 4 * n_losses, reference)};
    tensor *in[3];
    for (int i = 0; i < 3; i++)
        in[i] = example_add(&one, &inputs[i]);
    node *pairs = graph_add(one.g, OP_preference, 3, in, &(op_attrs){.preference.beta = 0.5});
    graph_output(one.g, pairs->out[2], "log_probs");
    OK(graph_verify(one.g, STAGE_BUILT));
    OK(backend_open_host(a, &cpu));
    OK(backend_compile(a, cpu, one.g, NULL, &program));
    OK(backend_prepare(cpu));
    example_fill(cpu, &one);
    for (int i = 0; i < n_losses; i++) {
        element_write(cpu, in[0], i, losses[i]);
        element_write(cpu, in[0], 2 * n_losses - 1 - i, losses[i]);
    }
    OK(backend_run(cpu, program));
    OK(backend_read(cpu, "log_probs", 0, 2 * (int64_t)sizeof *out, out));
    backend_close(cpu);
    arena_free(a);
}

// Whole numbers, whose sum 128 bits hold, from each of them on, forwards and backwards.
static void expect_exact_sum(int n_losses, const double *losses) {
    wide sum = 0;
    for (int i = 0; i < n_losses; i++)
        sum += (wide)losses[i];
    for (int first = 0; first < n_losses; first++) {
        double turned[MOST_LOSSES], got[2];
        for (int i = 0; i < n_losses; i++)
            turned[i] = losses[(first + i) % n_losses];
        log_probs_of(n_losses, turned, got);
        for (int side = 0; side < 2; side++)
            if (got[side] != -(double)sum)
                fail_msg("%d losses from %d on, %s: %.17g, expected %.17g", n_losses, first,
                        side ? "backwards" : "forwards", got[side], -(double)sum);
    }
}

// A chain of doubles loses what a token adds to 1e16, or does not, as the order has it.
TEST(sums_of_a_response_are_exact_in_any_order) {
    double losses[MOST_LOSSES];
    expect_exact_sum(3, (const double[]){1e16, 1, 1});
    for (int i = 0; i < MOST_LOSSES; i++) // numbers of 53 bits at one of 60 places
        losses[i] = ldexp(floor(fabs(noise(5, (uint64_t)i)) * 0x1p53),
                (int)(60 * fabs(noise(6, (uint64_t)i))));
    expect_exact_sum(MOST_LOSSES, losses);
}

// --- records
static void refuse(const char *line, bool texts, const char *why) {
    pair_record r;
    assert_int_equal(pair_record_read(line, strlen(line), texts, &r), DRV_E_DATA);
    if (!strstr(drv_message(), why)) fail_msg("%s: %s, expected %s", line, drv_message(), why);
}

TEST(records_without_a_pair_are_refused) {
    refuse("{\"prompt\": \"a\", \"chosen\": \"b\"}", false, "no \"rejected\"");
    refuse("{\"prompt\": \"a\", \"rejected\": \"b\"}", false, "no \"chosen\"");
    refuse("{\"prompt\": \"a\", \"chosen\": null, \"rejected\": \"b\"}", false, "no \"chosen\"");
    refuse("{\"prompt\": \"a\", \"chosen\": \"\", \"rejected\": \"b\"}", false,
            "\"chosen\" is empty");
    refuse("{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": []}", false,
            "\"rejected\" is empty");
    refuse("{\"prompt\": \"a\", \"chosen\": 1, \"rejected\": \"b\"}", false,
            "neither a text nor messages");
    refuse("{\"chosen\": \"a b\", \"rejected\": \"a c\"}", false, "no prompt");
    refuse("{\"chosen\": [{\"role\": \"user\", \"content\": \"a\"}], \"rejected\": [{\"role\": \"user\", \"content\": \"b\"}]}",
            false, "no first message alike");
    refuse("{\"chosen\": [{\"role\": \"user\", \"content\": \"a\"}], \"rejected\": [{\"role\": \"user\", \"content\": \"a\"}]}",
            false, "the same conversation");
    refuse("{\"prompt\": \"q\", \"chosen\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\": "
           "\"a\"}], \"rejected\": \"b\"}",
            false, "\"chosen\" begins with messages of the prompt");
    refuse("{\"chosen\": \"b\", \"rejected\": \"c\"}", true, "no prompt");
    refuse("{\"chosen\": \"a\", \"rejected\": \"a b\"}", true,
            "\"chosen\" is empty after the prompt");
    refuse("{\"prompt\": \"a\", \"chosen\": \"[{'role': 'assistant'}]\", \"rejected\": \"[{'role': 'a'}]\"}",
            false, "\"chosen\" is a list of messages as Python prints it, expected JSON");
    refuse("[1]", false, "no JSON object");
    refuse("{", false, "not valid JSON");
}

static const char *content(const json_t *messages, size_t i) {
    const char *text = json_string_value(json_object_get(json_array_get(messages, i), "content"));
    return text ? text : "";
}

TEST(prompts_stand_apart_or_within) {
    static const char *const lines[] = {
            "{\"system\": \"s\", \"prompt\": \"q\", \"chosen\": \"a\", \"rejected\": \"b\"}",
            "{\"system\": \"s\", \"question\": \"q\", \"chosen\": {\"from\": \"gpt\", \"value\": \"a\"}, \"rejected\": "
            "{\"role\": \"assistant\", \"content\": \"b\"}}",
            "{\"prompt\": \"not said twice\", \"chosen\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\", "
            "\"content\": \"q\"}, {\"role\": \"assistant\", \"content\": \"a\"}], \"rejected\": [{\"role\": \"system\", "
            "\"content\": \"s\"}, {\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\": \"b\"}]}",
            "{\"system\": \"s\", \"conversations\": [{\"from\": \"human\", \"value\": \"q\"}], \"chosen\": [{\"role\": "
            "\"assistant\", \"content\": \"a\"}], \"rejected\": [{\"role\": \"assistant\", \"content\": \"b\"}]}",
            // JSON in texts, as in columns of CSV
            "{\"prompt\": \"[{\\\"role\\\": \\\"system\\\", \\\"content\\\": \\\"s\\\"}, {\\\"role\\\": \\\"user\\\", "
            "\\\"content\\\": \\\"q\\\"}]\", \"chosen\": \"[{\\\"role\\\": \\\"assistant\\\", \\\"content\\\": "
            "\\\"a\\\"}]\", \"rejected\": \" {\\\"from\\\": \\\"gpt\\\", \\\"value\\\": \\\"b\\\"}\"}",
            "{\"system\": \"s\", \"conversations\": \"[{\\\"from\\\": \\\"human\\\", \\\"value\\\": \\\"q\\\"}]\", "
            "\"chosen\": \"a\", \"rejected\": \"b\"}"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        pair_record r;
        OK(pair_record_read(lines[i], strlen(lines[i]), false, &r));
        assert_int_equal(json_array_size(r.prompt), 2);
        assert_string_equal(content(r.prompt, 0), "s");
        assert_string_equal(content(r.prompt, 1), "q");
        assert_string_equal(content(r.chosen, 0), "a");
        assert_string_equal(content(r.rejected, 0), "b");
        pair_record_free(&r);
    }
    const char json_answer[] = "{\"prompt\": \"q\", \"chosen\": \"[{\\\"role\\\": \\\"user\\\", "
                               "\\\"content\\\": \\\"a\\\"}]\", \"rejected\": \"[1]\"}";
    pair_record r;
    OK(pair_record_read(json_answer, sizeof json_answer - 1, false,
            &r)); // a text: the other is one
    assert_string_equal(content(r.chosen, 0), "[{\"role\": \"user\", \"content\": \"a\"}]");
    pair_record_free(&r);
    const char texts[] = "{\"chosen\": \"Human: q Bot: a\", \"rejected\": \"Human: q Bot: b\"}";
    OK(pair_record_read(texts, sizeof texts - 1, true, &r));
    assert_string_equal(json_string_value(r.prompt_text), "Human: q Bot:");
    assert_string_equal(json_string_value(r.chosen_text), " a");
    assert_string_equal(json_string_value(r.rejected_text), " b");
    pair_record_free(&r);
}

// Checks records against what TRL makes of them (tools/golden_pairs.py), but for those whose prompt
// TRL would have twice.
TEST(prompts_are_those_of_trl) {
    static const char *const members[] = {"prompt", "chosen", "rejected"};
    char *text;
    size_t n;
    OK(file_read(a, golden_path(a, "pairs.jsonl"), &text, &n));
    for (char *rest = text, *line; (line = strsep(&rest, "\n")) && *line;) {
        pair_record r;
        json_t *case_of = json_loads(line, 0, NULL);
        char *made = json_dumps(json_object_get(case_of, "record"), 0);
        if (json_object_get(case_of, "twice")) {
            refuse(made, false, "begins with messages of the prompt, which would be there twice");
        } else {
            OK(pair_record_read(made, strlen(made), false, &r));
            const json_t *const got[] = {r.prompt, r.chosen, r.rejected};
            for (int i = 0; i < 3; i++)
                if (!json_equal(got[i], json_object_get(case_of, members[i])))
                    fail_msg("%s: %s", line, json_dumps(got[i], 0));
            pair_record_free(&r);
        }
        free(made);
        json_decref(case_of);
    }
}

// --- the reference's log-probabilities
TEST(a_file_of_references_is_whole_or_refused) {
    const char *key = "{\"model\":\"0123\"}",
               *path = reference_file_path(a, path_join(a, temporary_dir(a), "pairs"), key);
    const double values[] = {-1.5, -2.25, (double)NAN, (double)NAN};
    double got[4];
    char *text;
    size_t n;
    OK(reference_file_write(path, key, 2, values));
    OK(reference_file_read(path, key, 2, got));
    assert_memory_equal(got, values, sizeof got);
    assert_int_equal(reference_file_read(path, "{\"model\":\"4567\"}", 2, got), DRV_E_DATA);
    assert_non_null(strstr(drv_message(), "expected {\"model\":\"4567\"}"));
    assert_int_equal(reference_file_read(path, key, 3, got), DRV_E_DATA);
    OK(file_read(a, path, &text, &n));
    for (size_t i = 0; i < n; i += 3) { // any bit, and any length
        text[i] ^= 4;
        assert_int_equal(reference_file_parse(path, text, n, key, 2, got), DRV_E_DATA);
        text[i] ^= 4;
        assert_int_equal(reference_file_parse(path, text, i, key, 2, got), DRV_E_DATA);
    }
}

int main(void) {
    par_set_threads(2);
    return tests_run();
}
