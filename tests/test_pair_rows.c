// Rows of preference pairs: what both documents begin with stands there once, each response sees it
// and itself; what does not fit is cut or left out; who knows which token is of which pair.
#include "harness.h"

#include <ctype.h>
#include <xxhash.h>

#include "base/file.h"
#include "ir/pair_word.h"
#include "data/set/dataset_writer.h"
#include "data/set/pair_marks.h"
#include "data/set/rows.h"
#include "data/sft/sft.h"

enum { WIDTH = 8, VOCAB = 128 };

// Documents of letters, the large ones of which are responses; two to a pair.
static const char *const pairs[] = {
        "abX", "abY",                 // the last token of the prompt predicts both responses
        "abcdeXY", "abcdeZ",          //
        "abX", "cbY",                 // nothing alike
        "abXXXXXX", "abYYYY",         // does not fit: 1 + 6 + 4
        "abcdefghijX", "abcdefghijY", // nor does its prompt
        "abc", "abY",                 // a response that is empty
        "abXY", "abXY",               // responses that are alike
};
enum { N_DOCUMENTS = sizeof pairs / sizeof *pairs };

typedef enum kept { NO_MARKS, MARKS, OTHER_MARKS } kept; // PREFIX.pairs

// Writes PREFIX.pairs; or marks that the tokens do not have: the prompts of the second pair are
// said to differ in their fourth token.
static void write_marks(arena *a, const dataset *set, int n_pairs, kept marks, char *hash) {
    char *path = arena_printf(a, "%s.pairs", set->prefix), *bytes;
    size_t n;
    OK(pair_marks_write(set, n_pairs, hash));
    if (marks != OTHER_MARKS) return;
    OK(file_read(a, path, &bytes, &n));
    const pair_mark other = {3, {4, 4}};
    memcpy(bytes + sizeof other, &other, sizeof other);
    OK(file_write_atomic(path, bytes, n));
    snprintf(hash, 17, "%016llx", (unsigned long long)XXH3_64bits(bytes, n));
}

static const char *write_pairs(arena *a, const char *const *documents, int n_documents,
        kept marks) {
    const char *prefix = path_join(a, temporary_dir(a), "pairs");
    dataset_writer *writer;
    dataset *set;
    int64_t responses = 0;
    OK(dataset_writer_open(a, prefix, VOCAB, 0, 0, true, &writer));
    for (int i = 0; i < n_documents; i++) {
        for (const char *p = documents[i]; *p; p++) {
            const int32_t token = *p;
            const char role = isupper(*p) ? ROLE_LAST_ANSWER : ROLE_OTHER;
            responses += role == ROLE_LAST_ANSWER;
            OK(dataset_writer_add(writer, &token, 1));
            OK(dataset_writer_add_roles(writer, &role, 1));
        }
        OK(dataset_writer_end_document(writer));
    }
    OK(dataset_writer_finish(writer));
    OK(dataset_open(a, prefix, &set));
    char hash[17];
    if (marks != NO_MARKS) write_marks(a, set, n_documents / 2, marks, hash);
    const dataset_about about = {.known = true,
            .eod = -1,
            .largest_id = -1,
            .roles_hash = set->roles_hash,
            .answers = responses,
            .last_answers = responses,
            .pairs = n_documents / 2,
            .pairs_hash = marks != NO_MARKS ? hash : NULL};
    OK(dataset_about_write(set, &about));
    dataset_close(set);
    return prefix;
}

static const char *write_set(arena *a, kept marks) {
    return write_pairs(a, pairs, N_DOCUMENTS, marks);
}

typedef struct row {
    int32_t tokens[WIDTH], position[WIDTH], labels[WIDTH], pair[WIDTH], reference[2 * WIDTH],
            hidden[2 * WIDTH];
    int64_t number[WIDTH / 2], counted, pairs;
} row;

static row next_row(rows *r) {
    row x = {.counted = 0};
    OK(rows_next(r, &(row_out){.tokens = x.tokens,
                            .position = x.position,
                            .labels = x.labels,
                            .pair = x.pair,
                            .reference = x.reference,
                            .hidden = x.hidden,
                            .number = x.number,
                            .counted = &x.counted,
                            .pairs = &x.pairs}));
    return x;
}

// A row as text: '|' before a position 0, '*' after a token whose label counts, then the ends of
// what it does not see.
static void print_row(const row *x, str *out) {
    for (int i = 0; i < WIDTH; i++) {
        str_printf(out, "%s%c%s", x->position[i] ? "" : "|", x->tokens[i] ? x->tokens[i] : '.',
                x->labels[i] >= 0 ? "*" : "");
        if (x->hidden[2 * i] < x->hidden[2 * i + 1])
            str_printf(out, "<%d-%d>", x->hidden[2 * i], x->hidden[2 * i + 1]);
        str_puts(out, i + 1 < WIDTH ? " " : "\n");
    }
}

static rows *open_rows(arena *a, const char *prefix, int width, bool drop_long) {
    rows *r;
    const row_source_spec s = {prefix, 1};
    const rows_opts o = {.sources = &s,
            .n_sources = 1,
            .row_tokens = width,
            .n_vocab = VOCAB,
            .packing = PACKING_PAIRS,
            .loss = LOSS_LAST,
            .drop_long = drop_long};
    OK(rows_open(a, &o, &r));
    return r;
}

static rows *open_set(arena *a, const char *prefix, bool drop_long) {
    return open_rows(a, prefix, WIDTH, drop_long);
}

static void expect_rows(arena *a, const char *prefix, bool drop_long, const char *want) {
    rows *r = open_set(a, prefix, drop_long);
    str text = {0};
    for (int64_t i = 0; i < rows_per_epoch(r); i++) {
        const row x = next_row(r);
        print_row(&x, &text);
    }
    if (strcmp(text.p, want) != 0) fail_msg("rows\n%sexpected\n%s", text.p, want);
    str_free(&text);
    rows_close(r);
}

static const char as_they_are[] = "|a b* b*<1-2> |a b* |c<3-5> b*<3-5> |.\n"
                                  "|a b c d e* X* e*<4-6> |.\n"
                                  "|a b* X* X* b*<1-4> Y*<1-4> Y*<1-4> |.\n",
                  by_other_marks[] = "|a b* b*<1-2> |a b* |c<3-5> b*<3-5> |.\n"
                                     "|a b c d e* X* d<3-6> e*<3-6>\n"
                                     "|a b* X* X* b*<1-4> Y*<1-4> Y*<1-4> |.\n";

TEST(prompts_stand_there_once) {
    const char *prefix = write_set(a, NO_MARKS);
    expect_rows(a, prefix, false, as_they_are);
    expect_rows(a, prefix, true,
            "|a b* b*<1-2> |a b* |c<3-5> b*<3-5> |.\n"
            "|a b c d e* X* e*<4-6> |.\n");
}

static drv_status verify(arena *a, const char *prefix) {
    dataset *set;
    OK(dataset_open(a, prefix, &set));
    const drv_status status = pair_marks_verify(set);
    dataset_close(set);
    return status;
}

// Rows are made of the marks that a build keeps, where they are those that it kept.
TEST(pairs_that_do_not_fit_are_counted) {
    rows *r;
    const row_source_spec s = {write_pairs(a, &pairs[6], 2, MARKS), 1}; // 1 + 6 + 4 tokens
    const rows_opts o = {.sources = &s,
            .n_sources = 1,
            .row_tokens = WIDTH,
            .n_vocab = VOCAB,
            .packing = PACKING_PAIRS,
            .loss = LOSS_LAST,
            .drop_long = true};
    FAILS(rows_open(a, &o, &r), DRV_E_DATA,
            "nothing to predict in 1 pairs; 1 too long for a row are left out (data.too_long: drop)");
}

TEST(marks_stand_for_the_tokens) {
    const char *prefix = write_set(a, MARKS), *path = arena_printf(a, "%s.pairs", prefix);
    char *bytes;
    size_t n;
    OK(verify(a, prefix));
    expect_rows(a, prefix, false, as_they_are);
    OK(file_read(a, path, &bytes, &n));
    assert_int_equal(n, 12 * N_DOCUMENTS / 2);
    for (size_t i = 0; i < n; i += 7) { // any bit, and any length: the tokens are read
        bytes[i] ^= 1;
        OK(file_write_atomic(path, bytes, n));
        expect_rows(a, prefix, false, as_they_are);
        bytes[i] ^= 1;
        OK(file_write_atomic(path, bytes, i));
        expect_rows(a, prefix, false, as_they_are);
        assert_int_equal(verify(a, prefix), DRV_E_DATA);
    }
    prefix = write_set(a, OTHER_MARKS);
    expect_rows(a, prefix, false, by_other_marks);
    assert_int_equal(verify(a, prefix), DRV_E_DATA);
    assert_non_null(strstr(drv_message(), "pair 1 has 3, 4 and 4, expected 5, 4 and 4"));
}

TEST(tokens_know_their_pairs) {
    rows *r = open_set(a, write_set(a, MARKS), false);
    const double references[N_DOCUMENTS] = {-1, -2, -3, -4, -5, -6};
    rows_set_references(r, references);
    const row first = next_row(r), second = next_row(r);
    const int32_t want[WIDTH] = {PAIR_NONE, pair_word(0, false, true), pair_word(0, true, true),
            PAIR_NONE, pair_word(1, false, true), PAIR_NONE, pair_word(1, true, true), PAIR_NONE};
    assert_memory_equal(first.pair, want, sizeof want);
    assert_int_equal(first.pairs, 2);
    assert_int_equal(first.counted, 4);
    assert_true(first.number[0] == 0 && first.number[1] == 2 && second.number[0] == 1);
    const double at_heads[] = {0, -1, -2, 0, -5, 0, -6, 0};
    assert_memory_equal(first.reference, at_heads, sizeof at_heads);
    assert_int_equal(second.pair[4], pair_word(0, false, true));
    assert_int_equal(second.pair[5], pair_word(0, false, false));
    rows_close(r);
}

// --- responses by length, parity and how long they are alike
enum { PROMPTS = 3, COMMON = 8, TAILS = 8, N_DRAWN = 2 * PROMPTS * COMMON * TAILS * TAILS };

static const char in_no_row[] = "in no row"; // there is nothing to learn of the pair

// A prompt of "a", a response of "X", in which both are alike, and a tail of its own.
static const char *drawn(arena *a, int prompt, int common, int tail, char letter) {
    char *text = arena_strdup(a, "aaaXXXXXXXXtttttttt");
    memset(text, 'a', (size_t)prompt);
    memset(text + prompt, 'X', (size_t)common);
    memset(text + prompt + common, letter, (size_t)tail);
    text[prompt + common + tail] = '\0';
    return text;
}

static int min_of(int x, int y) {
    return x < y ? x : y;
}

// The tokens that count of both responses, as text.
static const char *kept_of(arena *a, int width, int prompt, const char *chosen,
        const char *rejected) {
    const char *x = chosen + prompt, *y = rejected + prompt;
    const int n[2] = {(int)strlen(x), (int)strlen(y)}, least = min_of(n[0], n[1]),
              shared = min_of(prompt - 1, width), half = (width - shared) / 2;
    int keep[2] = {n[0], n[1]};
    if (shared + n[0] + n[1] > width && least > half)
        keep[0] = keep[1] = half;
    else if (shared + n[0] + n[1] > width)
        keep[n[0] <= n[1]] = width - shared - least;
    const bool alike = keep[0] == keep[1] && strncmp(x, y, (size_t)keep[0]) == 0;
    if (keep[0] == 0 || keep[1] == 0 || alike) return in_no_row;
    return arena_printf(a, "%.*s|%.*s", keep[0], x, keep[1], y);
}

// The same of the pairs of rows, by their numbers.
static const char **kept_by_rows(arena *a, const char *prefix, int width) {
    const char **out = ARENA_ARRAY(a, const char *, N_DRAWN / 2);
    for (int i = 0; i < N_DRAWN / 2; i++)
        out[i] = in_no_row;
    rows *r = open_rows(a, prefix, width, false);
    for (int64_t i = 0; i < rows_per_epoch(r); i++) {
        const row x = next_row(r);
        for (int64_t k = 0; k < x.pairs; k++) {
            char *text = arena_alloc(a, 2 * WIDTH + 2);
            int n = 0;
            for (int side = 0; side < 2; side++)
                for (int t = side ? (text[n++] = '|', 0) : 0; t < width; t++)
                    if (x.pair[t] == pair_word(k, side, true) ||
                            x.pair[t] == pair_word(k, side, false))
                        text[n++] = (char)x.labels[t];
            out[x.number[k]] = text;
        }
    }
    rows_close(r);
    return out;
}

// Both responses lose as much; those that are alike once they are cut are in no row, at any length.
TEST(both_are_cut_alike) {
    const char **documents = ARENA_ARRAY(a, const char *, N_DRAWN);
    int n = 0;
    for (int i = 0; i < N_DRAWN / 2; i++) {
        const int prompt = 1 + i % PROMPTS, common = i / PROMPTS % COMMON,
                  x = i / PROMPTS / COMMON % TAILS, y = i / PROMPTS / COMMON / TAILS;
        documents[n++] = drawn(a, prompt, common, x, 'C');
        documents[n++] = drawn(a, prompt, common, y, 'R');
    }
    const char *prefix = write_pairs(a, documents, N_DRAWN, MARKS);
    for (int width = 2; width <= WIDTH; width++) {
        const char **got = kept_by_rows(a, prefix, width);
        for (int i = 0; i < N_DRAWN / 2; i++) {
            const char *x = documents[2 * i], *y = documents[2 * i + 1],
                       *want = kept_of(a, width, 1 + i % PROMPTS, x, y);
            if (strcmp(want, got[i]) != 0)
                fail_msg("%s and %s in %d tokens: %s, expected %s", x, y, width, got[i], want);
        }
    }
}
