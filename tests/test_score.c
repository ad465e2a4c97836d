// Texts of all lengths beside lm-evaluation-harness: windows, what stands before the first token,
// and the log-likelihoods of tools/golden_rolling.py; documents of a data set likewise.
#include "harness.h"

#include <math.h>

#include "base/file.h"
#include "data/set/dataset_writer.h"
#include "infer/prefix.h"
#include "infer/score.h"

typedef struct model_of {
    arena *a;
    const char *folder;
    tokenizer *t;
    int32_t prefix;
} model_of;

static model_of open_model(void) {
    model_of m = {.a = arena_new("test")};
    m.folder = golden_path(m.a, "choices");
    OK(tokenizer_open(m.a, m.folder, &m.t));
    OK(prefix_token(m.t, &m.prefix));
    return m;
}

static void close_model(model_of *m) {
    tokenizer_close(m->t);
    arena_free(m->a);
}

static score_opts opts_of(const model_of *m, int64_t context, int64_t stride) {
    return (score_opts){.model = {.folder = m->folder, .adapter = "", .backend = ""},
            .context = context,
            .stride = stride};
}

static documents read_texts(const model_of *m, const char *path, bool specials) {
    documents d;
    const documents_opts opts = {.inputs = &path,
            .n_inputs = 1,
            .prefix = m->prefix,
            .specials = specials};
    OK(documents_read(m->a, m->t, &opts, &d));
    return d;
}

// A line of rolling.txt; the pointer moves past it.
typedef struct expected {
    int specials;
    int64_t context, stride, tokens, words, bytes;
    double log_likelihood;
} expected;

static expected next_line(char **p) {
    expected e;
    e.specials = (int)strtol(*p, p, 10);
    e.context = strtol(*p, p, 10);
    e.stride = strtol(*p, p, 10);
    e.tokens = strtol(*p, p, 10);
    e.words = strtol(*p, p, 10);
    e.bytes = strtol(*p, p, 10);
    e.log_likelihood = strtod(*p, p);
    *p = strchr(*p, '\n') + 1;
    return e;
}

// Sums of fp32 losses: 2^-24 of logits of some 10, in each of `tokens`.
static void check_loss(const score_result *got, const expected *want, const char *what) {
    if (got->tokens != want->tokens ||
            fabs(got->loss + want->log_likelihood) > 2e-5 * (double)(want->tokens + 1))
        fail_msg("%s, context %lld, stride %lld: %.9g of %lld tokens, expected %.9g of %lld", what,
                (long long)want->context, (long long)want->stride, -got->loss,
                (long long)got->tokens, want->log_likelihood, (long long)want->tokens);
}

// The document alone.
static documents only(const documents *all, int64_t i, int64_t *begin) {
    documents d = *all;
    begin[0] = all->begin[i];
    begin[1] = all->begin[i + 1];
    d.begin = begin;
    d.n = 1;
    return d;
}

// All lines for text i: in rolling.txt they follow each other, specials first.
enum { N_SETTINGS = 6, N_LINES = 2 * N_SETTINGS };

typedef struct harness_scores {
    documents with, without; // what the tokenizer puts around a text
    expected *line;          // [with.n * N_LINES]
} harness_scores;

static harness_scores open_scores(const model_of *m) {
    const char *path = path_join(m->a, m->folder, "texts.jsonl");
    harness_scores h = {read_texts(m, path, true), read_texts(m, path, false), NULL};
    char *p;
    size_t n;
    OK(file_read(m->a, path_join(m->a, m->folder, "rolling.txt"), &p, &n));
    h.line = ARENA_ARRAY(m->a, expected, h.with.n * N_LINES);
    for (int64_t i = 0; i < h.with.n * N_LINES; i++)
        h.line[i] = next_line(&p);
    assert_int_equal(*p, 0);
    return h;
}

static void close_scores(harness_scores *h) {
    documents_free(&h->with);
    documents_free(&h->without);
}

TEST(each_text_alone) {
    model_of m = open_model();
    harness_scores h = open_scores(&m);
    for (int64_t i = 0; i < h.with.n * N_LINES; i++) {
        const expected *want = &h.line[i];
        int64_t begin[2];
        documents d = only(want->specials ? &h.with : &h.without, i / N_LINES, begin);
        const score_opts opts = opts_of(&m, want->context, want->stride);
        score_result got;
        const drv_status status = score_documents(m.a, &opts, &d, &got);
        assert_int_equal(status, want->tokens ? DRV_OK : DRV_E_DATA);
        if (status == DRV_OK)
            check_loss(&got, want, arena_printf(m.a, "text %lld", (long long)i / N_LINES));
    }
    close_scores(&h);
    close_model(&m);
}

// The sums of a setting over all texts.
static expected sum_of(const harness_scores *h, int setting) {
    expected sum = h->line[setting];
    for (int64_t i = 1; i < h->with.n; i++) {
        const expected *e = &h->line[i * N_LINES + setting];
        sum.tokens += e->tokens;
        sum.words += e->words;
        sum.bytes += e->bytes;
        sum.log_likelihood += e->log_likelihood;
    }
    return sum;
}

// The same texts in rows that they share, none of which sees another.
TEST(all_texts_together) {
    model_of m = open_model();
    harness_scores h = open_scores(&m);
    for (int setting = 0; setting < N_LINES; setting++) {
        const expected want = sum_of(&h, setting);
        const score_opts opts = opts_of(&m, want.context, want.stride);
        score_result got;
        OK(score_documents(m.a, &opts, want.specials ? &h.with : &h.without, &got));
        check_loss(&got, &want, "all texts");
        assert_int_equal(got.words, want.words);
        assert_int_equal(got.bytes, want.bytes);
        assert_int_equal(got.documents, h.with.n);
        assert_true(got.complete);
    }
    close_scores(&h);
    close_model(&m);
}

// As documents of a data set that begin with the prefix.
TEST(a_data_set) {
    model_of model = open_model();
    harness_scores harness = open_scores(&model);
    run_config cfg;
    dataset_writer *writer;
    const char *prefix = path_join(model.a, temporary_dir(model.a), "set");
    const char *sets[] = {arena_printf(model.a, "model.from=%s", model.folder)};
    OK(dataset_writer_open(model.a, prefix, 320, 0, 0, false, &writer));
    for (int64_t i = 0; i < harness.with.n; i++) {
        const int64_t *at = harness.with.begin + i;
        OK(dataset_writer_add(writer, harness.with.ids.p + at[0], at[1] - at[0]));
        OK(dataset_writer_end_document(writer));
    }
    OK(dataset_writer_finish(writer));
    dataset_writer_close(writer, false);
    OK(config_load(model.a, NULL, sets, 1, &cfg));
    data_source source = {prefix, 1, "the test"};
    cfg.valid = &source;
    cfg.n_valid = 1;
    for (int setting = 0; setting < N_SETTINGS; setting++) {
        const expected want = sum_of(&harness, setting);
        const score_opts opts = opts_of(&model, want.context, want.stride);
        score_result got;
        OK(score_rows(model.a, &opts, &cfg, &got));
        check_loss(&got, &want, "a data set");
        assert_int_equal(got.longest, want.context);
    }
    close_scores(&harness);
    close_model(&model);
}
