// Rows of whole examples: nothing is cut but what says so, nothing is learned but answers, windows
// predict each token once.
#include "harness.h"

#include "data/set/dataset_writer.h"
#include "data/set/packed_rows.h"
#include "read_row.h"
#include "data/sft/sft.h"

enum { WIDTH = 8, VOCAB = 60000 };

// Documents of counting tokens, and a role for each: '.', 'a' (answer), 'L' (last answer).
static const char *write_set(arena *a, const char *const *documents, int n, bool roles) {
    const char *prefix = path_join(a, temporary_dir(a), "set");
    dataset_writer *w;
    int32_t next = 0;
    OK(dataset_writer_open(a, prefix, VOCAB, 0, 0, roles, &w));
    for (int i = 0; i < n; i++) {
        for (const char *p = documents[i]; *p; p++, next++) {
            const char role = *p == 'a' ? ROLE_ANSWER : *p == 'L' ? ROLE_LAST_ANSWER : ROLE_OTHER;
            OK(dataset_writer_add(w, &next, 1));
            if (roles) OK(dataset_writer_add_roles(w, &role, 1));
        }
        OK(dataset_writer_end_document(w));
    }
    OK(dataset_writer_finish(w));
    return prefix;
}

static rows *open_set(arena *a, const char *prefix, rows_opts o) {
    rows *r;
    const row_source_spec s = {prefix, 1};
    o.sources = &s;
    o.n_sources = 1;
    o.row_tokens = WIDTH;
    o.n_vocab = VOCAB;
    OK(rows_open(a, &o, &r));
    return r;
}

// Rows as text: tokens, '|' before a position 0, '*' after one whose label counts.
static void print_rows(rows *r, int64_t n, str *out) {
    int32_t tokens[WIDTH], position[WIDTH], labels[WIDTH];
    for (int64_t i = 0; i < n; i++) {
        int64_t counted = 0, marks = 0;
        OK(read_row(r, tokens, position, labels, &counted));
        for (int k = 0; k < WIDTH; k++) {
            str_printf(out, "%s%d%s ", position[k] ? "" : "|", tokens[k],
                    labels[k] >= 0 ? "*" : "");
            if (labels[k] < 0) continue;
            marks++;
            assert_int_equal(labels[k], tokens[k] + 1);
        }
        assert_int_equal(counted, marks);
        str_puts(out, "\n");
    }
}

static const char *const talks[] = {"..L", ".....aa..L", "...", ".aaaaaaaaaaa", "..a.L", "",
        "........L", "........."};

TEST(rows_of_examples) {
    const char *prefix = write_set(a, talks, 8, true);
    static const struct {
        rows_opts o;
        const char *rows;
    } cases[] = {
            // Talks 2 and 7 have no answer. Of talk 1 nine tokens fit, so its last answer is cut off.
            {{0}, "|0 1* |28 29* 30 31* |0 0 \n|3 4 5 6 7* 8* 9 10 \n|16* 17* 18* 19* 20* 21* 22* 23* \n"
                  "|33 34 35 36 37 38 39 40* \n"},
            {{.drop_long = true}, "|0 1* |28 29* 30 31* |0 0 \n|33 34 35 36 37 38 39 40* \n"},
            {{.loss = LOSS_LAST}, "|0 1* |28 29 30 31* |0 0 \n|33 34 35 36 37 38 39 40* \n"},
    };
    for (size_t i = 0; i < 3; i++) {
        rows *r = open_set(a, prefix, cases[i].o);
        str text = {0};
        print_rows(r, rows_per_epoch(r), &text);
        if (strcmp(text.p, cases[i].rows) != 0)
            fail_msg("case %zu: rows are\n%sexpected\n%s", i, text.p, cases[i].rows);
        str_free(&text);
        rows_close(r);
    }
    rows *r = open_set(a, prefix, (rows_opts){.loss = LOSS_ALL});
    assert_int_equal(rows_per_epoch(r), 5);
    rows_close(r);
}

// Cut rows of a set with roles count answers alone too, and sets without roles are refused where
// answers are to count.
TEST(loss_without_packing) {
    rows *r = open_set(a, write_set(a, talks, 2, true), (rows_opts){.packing = PACKING_DOCUMENTS});
    str text = {0};
    print_rows(r, rows_per_epoch(r), &text);
    assert_string_equal(text.p, "|0 1* 2 |3 4 5 6 7* \n|8* 9 10 11* 12 |0 0 0 \n");
    str_free(&text);
    rows_close(r);
    const row_source_spec s = {write_set(a, talks, 2, false), 1};
    const rows_opts o = {.sources = &s,
            .n_sources = 1,
            .row_tokens = WIDTH,
            .n_vocab = VOCAB,
            .loss = LOSS_RESPONSES};
    FAILS(rows_open(a, &o, &r), DRV_E_USAGE, "data.loss is responses, but no");
}

TEST(sets_without_an_answer) {
    static const char *const silent[] = {"....", ".........L"};
    rows *r;
    const row_source_spec s = {write_set(a, silent, 2, true), 1};
    const rows_opts o = {.sources = &s, .n_sources = 1, .row_tokens = WIDTH, .n_vocab = VOCAB};
    FAILS(rows_open(a, &o, &r), DRV_E_DATA,
            "nothing to predict in 2 examples (data.loss: responses); 1 longer than 9 tokens are cut off there "
            "(data.too_long: truncate); 2 without a token to learn are left out; expected a larger data.sequence_length");
}

// A first token is never predicted, so an answer that is only that leaves nothing to learn.
TEST(answers_of_a_first_token) {
    static const char *const first[] = {"L..", "..L", "L.L"};
    rows *r = open_set(a, write_set(a, first, 3, true), (rows_opts){0});
    str text = {0};
    print_rows(r, rows_per_epoch(r), &text);
    assert_string_equal(text.p, "|3 4* |6 7* |0 0 0 0 \n");
    str_free(&text);
    rows_close(r);
}

// Every piece once, none cut, each row filled; the same whatever was packed before.
TEST(packing_of_random_lengths) {
    const rng_key key = {11, RNG_TEST, 0};
    enum { N = 5000, T = 200 };
    piece_list list = {0};
    int64_t total = 0;
    for (int64_t i = 0; i < N; i++) {
        const int32_t n = 1 + (int32_t)(rng_u64(&key, (uint64_t)i) % T);
        MEM_GROW(list.p, list.n, list.cap);
        list.p[list.n++] = (row_piece){i, n, 0};
        total += n;
    }
    packed_rows p;
    packing_make(&list, T, &p);
    bool seen[N] = {false};
    int64_t first_before = -1;
    for (int64_t row = 0; row < p.n_rows; row++) {
        int64_t n = 0;
        for (int64_t k = p.row[row]; k < p.row[row + 1]; k++) {
            const int64_t i = p.pieces[k].first;
            assert_false(seen[i]);
            seen[i] = true;
            n += p.pieces[k].n;
            assert_true(k == p.row[row] || p.pieces[k - 1].first < i);
        }
        assert_true(n > 0 && n <= T && p.pieces[p.row[row]].first > first_before);
        first_before = p.pieces[p.row[row]].first;
    }
    assert_true(p.row[p.n_rows] == N && p.n_tokens == total);
    if (p.n_rows > total / T * 101 / 100)
        fail_msg("%lld rows for %lld tokens (seed 11)", (long long)p.n_rows, (long long)total);
    packing_free(&p);
    free(list.p);
}

// Against the definition in lm-evaluation-harness, lm_eval/utils.py: get_rolling_token_windows,
// whose prefix is our first token.
TEST(windows_predict_each_token_once) {
    for (int64_t n = 0; n < 40; n++)
        for (int64_t stride = 1; stride <= WIDTH; stride++) {
            piece_list list = {0};
            piece_windows(&list, 100, 100 + n, WIDTH, stride);
            int64_t predicted = 1; // token 0 is not
            for (int64_t i = 0; i < list.n; i++) {
                const int64_t left = n - predicted, most = i ? stride : WIDTH,
                              take = left < most ? left : most, end = predicted + take,
                              begin = end - 1 - WIDTH < 0 ? 0 : end - 1 - WIDTH;
                assert_int_equal(list.p[i].first, 100 + begin);
                assert_int_equal(list.p[i].n, end - 1 - begin);
                assert_int_equal(list.p[i].first - 100 + list.p[i].skip + 1, predicted);
                predicted = end;
            }
            assert_true(n < 2 ? list.n == 0 : predicted == n);
            free(list.p);
        }
}

// Windows of documents in rows: what fits stays whole.
TEST(rows_of_windows) {
    static const char *const texts[] = {"....", "...........", ".....", "."};
    rows *r = open_set(a, write_set(a, texts, 4, false),
            (rows_opts){.packing = PACKING_DOCUMENTS, .stride = WIDTH});
    str text = {0};
    print_rows(r, rows_per_epoch(r), &text);
    assert_string_equal(text.p,
            "|0* 1* 2* |15* 16* 17* 18* |0 \n|4* 5* 6* 7* 8* 9* 10* 11* \n|6 7 8 9 10 11 12* 13* \n");
    str_free(&text);
    rows_close(r);
}

TEST(damaged_roles) {
    dataset *set;
    const char *prefix = write_set(a, talks, 2, true), *path = arena_printf(a, "%s.roles", prefix);
    OK(dataset_open(a, prefix, &set));
    const dataset_about about = {.eod = -1, .largest_id = -1, .roles_hash = set->roles_hash};
    OK(dataset_about_write(set, &about));
    dataset_close(set);
    OK(dataset_open(a, prefix, &set));
    assert_true(dataset_has_roles(set) && set->about.known);
    dataset_close(set);
    static const struct {
        const char *bytes, *says;
    } cases[] = {{"\0\0\2\0\0\0\0\0\1\1\0\0", "12 bytes long, expected 13"},
            {"\0\0\2\0\0\0\0\0\1\1\0\0\7", "token 12 has role 7, expected 0"},
            {"\0\0\2\0\0\0\0\0\1\1\0\0\0", "the file is damaged or of another set"}};
    for (int i = 0; i < 3; i++) {
        OK(file_write_atomic(path, cases[i].bytes, i ? 13 : 12));
        FAILS(dataset_open(a, prefix, &set), DRV_E_DATA, cases[i].says);
    }
    assert_int_equal(remove(path), 0);
    FAILS(dataset_open(a, prefix, &set), DRV_E_DATA, "is missing, but");
}
