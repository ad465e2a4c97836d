// Runs in parts that differ in weights, data sets, lengths of rows and batches: each data set goes
// on with the row after the last one that was seen of it. The truth is the order of a set read
// alone, from its first row on.
#include "harness.h"

#include <math.h>

#include "base/log.h"
#include "data/set/dataset_writer.h"
#include "read_row.h"
#include "train/run_inputs.h"
#include "train/set_counters.h"
#include "train/step_rows.h"
#include "train/trainer_json.h"

enum { VOCAB = 60000, N_SETS = 3, MAX_WIDTH = 16, N_PARTS_OF_RUN = 6 };
static const int widths[] = {8, 12, MAX_WIDTH};
static const char *prefixes[N_SETS];

// Documents of `size` tokens, as many as fill `n`.
static const char *write_set(arena *a, const char *name, int n, int size) {
    const char *prefix = path_join(a, temporary_dir(a), name);
    dataset_writer *w;
    OK(dataset_writer_open(a, prefix, VOCAB, 0, 0, false, &w));
    for (int32_t i = 0; i < n; i++) {
        OK(dataset_writer_add(w, &i, 1));
        if (i % size == size - 1 || i + 1 == n) OK(dataset_writer_end_document(w));
    }
    OK(dataset_writer_finish(w));
    return prefix;
}

static rows *open_rows(arena *a, const row_source_spec *s, int n, int width) {
    const rows_opts o = {.sources = s,
            .n_sources = n,
            .row_tokens = width,
            .n_vocab = VOCAB,
            .seed = 7,
            .shuffle = true,
            .packing = PACKING_DOCUMENTS};
    rows *r;
    OK(rows_open(a, &o, &r));
    return r;
}

static const char *next_row(rows *r) {
    int32_t tokens[MAX_WIDTH], position[MAX_WIDTH], labels[MAX_WIDTH];
    int64_t counted = 0;
    OK(read_row(r, tokens, position, labels, &counted));
    return rows_last(r);
}

static int set_of(const char *row) {
    for (int i = 0; i < N_SETS; i++)
        if (str_starts(row, prefixes[i])) return i;
    fail_msg("%s", row);
    return -1;
}

// Where each set is expected to stand: rows of a length, and the set read alone up to there.
typedef struct expected {
    int64_t taken, n; // n: rows of an epoch; 0: never read
    rows *alone;
} expected;

// The next part reads the set in rows of this width.
static void expect_width(arena *a, expected *e, int set, int width) {
    const row_source_spec spec = {prefixes[set], 1};
    if (e->alone) rows_close(e->alone);
    e->alone = open_rows(a, &spec, 1, width);
    const int64_t n = rows_per_epoch(e->alone);
    if (e->n) e->taken = e->taken / e->n * n + e->taken % e->n * n / e->n;
    e->n = n;
    for (int64_t i = 0; i < e->taken; i++)
        next_row(e->alone);
}

typedef struct part {
    double weight[N_SETS]; // 0: left out, or in the list without rows
    bool listed[N_SETS];
    int width, n_rows;
} part;

// A part differs from the one before in some of its keys.
static part change_part(part p, uint64_t seed) {
    const rng_key key = {.seed = 1, .purpose = RNG_TEST};
    const uint64_t r = rng_u64(&key, seed);
    if (r & 1) p.width = widths[(r >> 8) % 3];
    for (int i = 0; i < N_SETS && (r & 2); i++) {
        p.weight[i] = (double)((r >> (16 + 4 * i)) % 5) / 4;
        p.listed[i] = p.weight[i] > 0 || (r >> (40 + i) & 1);
    }
    if (!(p.weight[0] + p.weight[1] + p.weight[2] > 0)) p.weight[0] = 1, p.listed[0] = true;
    p.n_rows = 1 + (int)((r >> 48) % 60);
    return p;
}

static rows *open_part(arena *a, const part *p) {
    row_source_spec *specs = ARENA_ARRAY(a, row_source_spec, N_SETS);
    int n = 0;
    for (int i = 0; i < N_SETS; i++)
        if (p->listed[i]) specs[n++] = (row_source_spec){prefixes[i], p->weight[i]};
    return open_rows(a, specs, n, p->width);
}

// The checkpoint of a part as text and back.
static json_t *checkpoint(const rows *r, const json_t *kept) {
    row_count counts[N_SETS];
    rows_counts(r, counts);
    json_t *o = json_pack("{s:o}", "sets", set_counters_json(r, counts, kept)), *back;
    char *text = json_print(o, 0);
    OK(json_read_bytes("trainer.json", text, strlen(text), &back));
    OK(set_counters_check("trainer.json", back));
    free(text);
    json_decref(o);
    return back;
}

static void check_shares(const part *p, const int64_t *seen, uint64_t seed) {
    double sum = 0;
    for (int i = 0; i < N_SETS; i++)
        sum += p->weight[i];
    for (int i = 0; i < N_SETS; i++)
        if (fabs((double)seen[i] - p->weight[i] / sum * p->n_rows) > 1)
            fail_msg("run %llu: set %d has %lld of %d rows, weight %g", (unsigned long long)seed, i,
                    (long long)seen[i], p->n_rows, p->weight[i] / sum);
}

static void one_run(uint64_t seed) {
    arena *a = arena_new("run in parts");
    part now = {{0.5, 0.5, 0}, {true, true, false}, widths[0], 40};
    expected of[N_SETS] = {0};
    json_t *before = NULL, *kept = NULL;
    int64_t taken = 0;
    for (int k = 0; k < N_PARTS_OF_RUN; k++) {
        int64_t seen[N_SETS] = {0};
        rows *stream = open_part(a, &now);
        if (before) kept = set_counters_resume(stream, before, taken);
        for (int i = 0; i < N_SETS; i++)
            if (now.weight[i] > 0) expect_width(a, &of[i], i, now.width);
        for (int i = 0; i < now.n_rows; i++, taken++) {
            const char *row = next_row(stream);
            const int set = set_of(row);
            const char *next = next_row(of[set].alone);
            if (strcmp(row, next) != 0)
                fail_msg("run %llu, part %d, row %d: %s, expected %s", (unsigned long long)seed, k,
                        i, row, next);
            of[set].taken++;
            seen[set]++;
        }
        check_shares(&now, seen, seed);
        json_decref(before);
        before = checkpoint(stream, kept);
        json_decref(kept);
        kept = NULL;
        rows_close(stream);
        now = change_part(now, seed * N_PARTS_OF_RUN + (uint64_t)k);
    }
    json_decref(before);
    for (int i = 0; i < N_SETS; i++)
        if (of[i].alone) rows_close(of[i].alone);
    arena_free(a);
}

static void each_set_goes_on(void **state) {
    for (uint64_t seed = 0; seed < 300; seed++)
        one_run(seed);
}

// Stopped anywhere, with nothing changed: the rows of a run that went through.
static void nothing_changed(void **state) {
    for (int stop = 1; stop < 60; stop += 7) {
        arena *a = arena_new("parts");
        const part p = {{0.3, 0.6, 0.1}, {true, true, true}, widths[0], 0};
        rows *whole = open_part(a, &p), *first = open_part(a, &p), *rest = open_part(a, &p);
        for (int i = 0; i < stop; i++)
            assert_string_equal(next_row(first), next_row(whole));
        json_t *before = checkpoint(first, NULL);
        json_decref(set_counters_resume(rest, before, stop));
        assert_int_equal(rows_taken(rest), stop);
        for (int i = 0; i < 60; i++)
            assert_string_equal(next_row(rest), next_row(whole));
        json_decref(before);
        rows_close(whole);
        rows_close(first);
        rows_close(rest);
        arena_free(a);
    }
}

// A checkpoint of an earlier version says how many rows were taken, and with which weights.
static void of_an_earlier_version(void **state) {
    for (int changed = 0; changed < 2; changed++) {
        arena *a = arena_new("parts");
        const part even = {{0.5, 0.25, 0}, {true, true, false}, widths[0], 0},
                   other = {{0.1, 0.9, 0}, {true, true, false}, widths[0], 0};
        expected of[N_SETS] = {0};
        for (int i = 0; i < 2; i++)
            expect_width(a, &of[i], i, widths[0]);
        rows *first = open_part(a, &even), *rest = open_part(a, changed ? &other : &even);
        for (int i = 0; i < 31; i++)
            next_row(of[set_of(next_row(first))].alone);
        json_t *before = json_pack("{s:o}", "data", rows_fingerprint(first));
        json_decref(set_counters_resume(rest, before, 31));
        for (int i = 0; i < 40; i++) {
            const char *row = next_row(rest);
            assert_string_equal(row, next_row(of[set_of(row)].alone));
        }
        json_decref(before);
        rows_close(first);
        rows_close(rest);
        for (int i = 0; i < 2; i++)
            rows_close(of[i].alone);
        arena_free(a);
    }
}

// The same tokens in another place are the same set; others in the same place count by what was seen.
static void moved_and_grown(void **state) {
    arena *a = arena_new("parts");
    const row_source_spec set = {write_set(a, "here", 400, 10), 1},
                          moved = {write_set(a, "there", 400, 10), 1},
                          grown = {write_set(a, "here", 900, 10), 1};
    rows *stream = open_rows(a, &set, 1, 8);
    for (int i = 0; i < 60; i++)
        next_row(stream);
    json_t *before = checkpoint(stream, NULL);
    rows_close(stream);
    const struct {
        row_source_spec spec;
        int width;
        int64_t taken;
    } cases[] = {{moved, 8, 60}, {moved, 16, 30}, {grown, 8, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stream = open_rows(a, &cases[i].spec, 1, cases[i].width);
        json_decref(set_counters_resume(stream, before, 60));
        assert_int_equal(set_counters_taken(stream), cases[i].taken);
        rows_close(stream);
    }
    json_object_set_new(json_array_get(json_object_get(before, "sets"), 0), "prefix",
            json_string(grown.prefix));
    stream = open_rows(a, &grown, 1, 16);
    json_decref(set_counters_resume(stream, before, 60));
    assert_int_equal(set_counters_taken(stream), 30);
    rows_close(stream);
    json_decref(before);
    arena_free(a);
}

// A checkpoint of another run.
static const char *begun_elsewhere(arena *a) {
    static const char counters[] = "{\"step\": 5, \"updates\": 5, \"rows_taken\": 40}";
    const char *dir = temporary_dir(a);
    char *bytes;
    size_t n;
    OK(file_read(a, golden_path(a, "foreign/midrun/own/optimizer.safetensors"), &bytes, &n));
    OK(file_write_atomic(path_join(a, dir, "optimizer.safetensors"), bytes, n));
    OK(file_write_atomic(path_join(a, dir, "trainer.json"), counters, strlen(counters)));
    return dir;
}

// Three steps of eight rows, then steps of four: the rows of step 5 begin after 28, as those of step
// 8 of a run whose steps had four rows from the first on. Checkpoints of later steps say nothing.
static void rows_of_a_step_after_another_batch(void **state) {
    arena *a = *state;
    run_config cfg, other;
    rows *train = NULL, *valid = NULL;
    const char *dir = temporary_dir(a), *new_dir = temporary_dir(a),
               *path = path_join(a, dir, "run.yaml");
    const char *text = arena_printf(a,
            "model: {preset: tiny, vocab_size: %d}\ndata: {train: %s, split: [100, 0, 0], sequence_length: 8}\n"
            "training: {steps: 20, global_batch_size: 4}\nrun_dir: %s\n",
            VOCAB, prefixes[0], dir);
    OK(file_write_atomic(path, text, strlen(text)));
    OK(config_load(a, path, NULL, 0, &cfg));
    config_one_rank(&cfg);
    OK(run_inputs_open(a, &cfg, false, &train, &valid));
    rows_skip(train, 24);
    for (int step = 3; step <= 5; step += 2) {
        row_count counts[1];
        run_state at = run_state_new();
        rows_counts(train, counts);
        at.step = at.updates = at.part_step = step;
        at.rows_taken = at.part_rows = rows_taken(train);
        json_t *about = trainer_about(&cfg, train, "plain");
        json_object_set_new(about, "sets", set_counters_json(train, counts, NULL));
        char *json = trainer_json_text(&at, about);
        const char *folder = arena_printf(a, "%s/checkpoints/step-%06d", dir, step);
        OK(dir_make(folder));
        OK(file_write_atomic(path_join(a, folder, "trainer.json"), json, strlen(json)));
        free(json);
        json_decref(about);
        rows_skip(train, 4);
    }
    other = cfg;
    other.run_dir = new_dir;
    const char *resumed = step_rows_names(a, &cfg, 5), *whole = step_rows_names(a, &other, 8);
    assert_non_null(resumed);
    assert_string_equal(strchr(resumed, ':'), strchr(whole, ':'));
    assert_string_equal(strchr(step_rows_names(a, &cfg, 3), ':'),
            strchr(step_rows_names(a, &other, 3), ':')); // before any checkpoint
    run_config elsewhere = other;
    elsewhere.from = begun_elsewhere(a); // at step 5, after 40 rows
    elsewhere.weights = WEIGHTS_RESUME;
    assert_string_equal(strchr(step_rows_names(a, &elsewhere, 6), ':'),
            strchr(step_rows_names(a, &other, 11), ':'));
    rows_close(train);
    if (valid) rows_close(valid);
}

static void nothing_is_believed(void **state) {
    static const struct {
        const char *text, *says;
    } cases[] = {{"{}", "\"sets\" is not an array"}, {"[1]", "\"sets\"[0] is not an object"},
            {"[{}]", "\"sets\"[0] has 0 rows"},
            {"[{\"idx_xxh3\": 1}]", "key \"idx_xxh3\" is 1, expected a string"},
            {"[{\"idx_xxh3\": \"0\", \"row_tokens\": 0, \"rows\": 1, \"taken\": 0, \"blended\": 0}]",
                    "0 tokens"},
            {"[{\"idx_xxh3\": \"0\", \"row_tokens\": 8, \"rows\": 0, \"taken\": 0, \"blended\": 0}]",
                    "has 0 rows"},
            {"[{\"idx_xxh3\": \"0\", \"row_tokens\": 8, \"rows\": 1, \"taken\": -1, \"blended\": 0}]",
                    "taken -1"},
            {"[{\"idx_xxh3\": \"0\", \"row_tokens\": 8, \"rows\": 1, \"taken\": 3, \"blended\": 4}]",
                    "blended 4"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *sets, *o;
        OK(json_read_bytes("x", cases[i].text, strlen(cases[i].text), &sets));
        o = json_pack("{s:o}", "sets", sets);
        FAILS(set_counters_check("trainer.json", o), DRV_E_DATA, cases[i].says);
        json_decref(o);
    }
}

static int set_up(void **state) {
    static arena *a;
    log_to_file_only(true);
    a = arena_new("data sets");
    *state = a;
    prefixes[0] = write_set(a, "one", 300, 7);
    prefixes[1] = write_set(a, "two", 170, 50);
    prefixes[2] = write_set(a, "three", 97, 97);
    return 0;
}

static int tear_down(void **state) {
    arena_free(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_set_goes_on),
            cmocka_unit_test(nothing_changed), cmocka_unit_test(of_an_earlier_version),
            cmocka_unit_test(moved_and_grown), cmocka_unit_test(nothing_is_believed),
            cmocka_unit_test(rows_of_a_step_after_another_batch)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
