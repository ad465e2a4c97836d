// Multiple choice: contexts, ids, log-likelihoods and accuracies are those of lm-evaluation-harness
// (tools/golden_choices.py); a record that is none is refused with its line.
#include "harness.h"

#include <math.h>

#include "base/file.h"
#include "infer/choices.h"

// A line of scores.txt: "SPECIALS GOLD ACC ACC_NORM N VALUE..."; the pointer moves past it.
static void check_line(char **p, bool specials, const choice_record *record, const double *got,
        int *right, int *right_norm) {
    assert_int_equal(strtol(*p, p, 10), specials);
    assert_int_equal(strtol(*p, p, 10), record->gold);
    *right += (int)strtol(*p, p, 10);
    *right_norm += (int)strtol(*p, p, 10);
    assert_int_equal(strtol(*p, p, 10), record->n_choices);
    for (int k = 0; k < record->n_choices; k++) {
        const double want = strtod(*p, p);
        if (fabs(got[k] - want) > 2e-4)
            fail_msg("line %lld, choice %d: %.9g, expected %.9g", (long long)record->line, k,
                    got[k], want);
    }
}

static void skip_line(char **p) {
    *p = strchr(*p, '\n') + 1;
}

static void check_scores(bool specials) {
    arena *a = arena_new("test");
    const choices_opts opts = {.model = {.folder = golden_path(a, "choices"),
                                       .adapter = "",
                                       .backend = ""},
            .specials = specials};
    choice_set set;
    choices_result result;
    char *text;
    size_t n;
    int right = 0, right_norm = 0;
    OK(choices_read(a, path_join(a, opts.model.folder, "records.jsonl"), &set));
    assert_int_equal(set.n, 9);
    OK(choices_score(a, &opts, &set, &result));
    assert_int_equal(result.n, 9);
    OK(file_read(a, path_join(a, opts.model.folder, "scores.txt"), &text, &n));
    for (int64_t i = 0; i < set.n; i++) {
        if (!specials) skip_line(&text);
        check_line(&text, specials, set.record + i, result.log_likelihood[i], &right, &right_norm);
        skip_line(&text);
        if (specials) skip_line(&text);
    }
    assert_true(right > 0 && right_norm > right);
    const double acc = right / 9.0;
    assert_true(fabs(result.acc - acc) < 1e-12);
    assert_true(fabs(result.acc_norm - right_norm / 9.0) < 1e-12);
    assert_true(fabs(result.acc_err - sqrt(acc * (1 - acc) / 8)) < 1e-12);
    assert_int_equal(result.n_cut, 2);
    arena_free(a);
}

TEST(scores_are_those_of_transformers) {
    check_scores(true);
    check_scores(false);
}

TEST(bad_records_are_refused_with_their_line) {
    static const struct {
        const char *line, *says;
    } cases[] = {{"{\"context\": \"a\"", "not valid JSON"}, {"[1]", "no JSON object"},
            {"{\"choices\": [\"a\", \"b\"], \"gold\": 0}", "no \"context\" or \"query\""},
            {"{\"context\": \"a\", \"choices\": [\"a\", \"b\"]}",
                    "no \"gold\", \"label\" or \"answer\""},
            {"{\"context\": 7, \"choices\": [\"a\", \"b\"], \"gold\": 0}",
                    "\"context\" is not a string"},
            {"{\"context\": \"a\", \"gold\": 0}", "\"choices\" is not there"},
            {"{\"context\": \"a\", \"choices\": \"ab\", \"gold\": 0}", "\"choices\" is not a list"},
            {"{\"context\": \"a\", \"choices\": [\"a\"], \"gold\": 0}", "a list of fewer than 2"},
            {"{\"context\": \"a\", \"choices\": [\"a\", 3], \"gold\": 0}",
                    "\"choices\"[1] is not a string"},
            {"{\"context\": \"a\", \"choices\": [\"a\", \"\"], \"gold\": 0}",
                    "\"choices\"[1] is empty"},
            {"{\"context\": \"a\", \"choices\": [\"a\", \"b\"], \"gold\": 2}",
                    "\"gold\" is 2, expected"},
            {"{\"context\": \"a\", \"choices\": [\"a\", \"b\"], \"gold\": -1}", "\"gold\" is -1"},
            {"{\"context\": \"a\", \"choices\": [\"a\", \"b\"], \"gold\": 4294967296}",
                    "\"gold\" is 42949"},
            {"{\"context\": \"a\", \"choices\": [\"a\", \"b\"], \"gold\": \"c\"}",
                    "\"gold\" is \"c\""},
            {"{\"ctx_a\": \"a\", \"endings\": [\"a\", \"b\"], \"label\": \"\"}",
                    "\"activity_label\" is not"},
            {"{\"activity_label\": \"x\", \"ctx_a\": \"a\", \"ctx_b\": \"\", \"endings\": [\"a\", \"b\"], \"label\": \"\"}",
                    "\"label\" is \"\", expected the number"},
            {"{\"question\": \"a\", \"choices\": {\"text\": [\"a\", \"b\"], \"label\": [\"A\", \"B\"]}, \"answerKey\": \"C\"}",
                    "\"answerKey\" is \"C\""},
            {"{\"question\": \"a\", \"choices\": {\"text\": [\"a\", \"b\"], \"label\": [\"A\", \"B\", \"C\"]}, \"answerKey\": \"C\"}",
                    "\"choices.label\" has 3 entries"},
            {"{\"question\": \"a\", \"choices\": {\"text\": [\"a\", \"b\"]}, \"answerKey\": \"C\"}",
                    "\"choices.label\" is not there"}};
    const char *path = path_join(a, temporary_dir(a), "bad.jsonl");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *text = arena_printf(a,
                "{\"context\": \"a\", \"choices\": [\"a\", \"b\"], \"gold\": 1}\n\n%s\n",
                cases[i].line);
        choice_set set;
        OK(file_write_atomic(path, text, strlen(text)));
        assert_int_equal(choices_read(a, path, &set), DRV_E_DATA);
        if (!strstr(drv_message(), cases[i].says) || !strstr(drv_message(), "bad.jsonl:3: "))
            fail_msg("\"%s\" says: %s", cases[i].line, drv_message());
    }
    choice_set set;
    OK(file_write_atomic(path, "\n \n", 3));
    assert_int_equal(choices_read(a, path, &set), DRV_E_DATA);
}
