// Split patterns: where texts are cut, against Hugging Face (tools/golden_split_patterns.py): those
// of known models, odd ones and random ones. What Hugging Face refuses is refused; the rest gives
// the same words or is refused by name. With a FILE of that script as an argument: the same for it.
#include "harness.h"

#include "base/json.h"
#include "tok/split.h"

typedef struct words {
    const unsigned char *text;
    const json_t *cuts; // where Hugging Face's words begin
    size_t n;
    bool same;
} words;

static void compare_words(void *ctx, const unsigned char *const *at, int n) {
    words *w = ctx;
    for (int i = 0; i < n; i++, w->n++)
        w->same &= w->n < json_array_size(w->cuts) &&
                   at[i] - w->text == json_integer_value(json_array_get(w->cuts, w->n));
}

// Returns whether all texts have the same words.
static bool same_cuts(const char *pattern, const split_rule *r, const json_t *texts,
        const json_t *cuts) {
    size_t i;
    json_t *text;
    json_array_foreach(texts, i, text) {
        words w = {.text = (const unsigned char *)json_string_value(text),
                .cuts = json_array_get(cuts, i),
                .same = true};
        split_text(r, 1, w.text, json_string_length(text), compare_words, &w);
        if (w.same && w.n == json_array_size(w.cuts)) continue;
        print_message("\"%s\": other words of text %zu\n", pattern, i);
        return false;
    }
    return true;
}

typedef struct tally {
    int n, n_refused, n_wrong;
} tally;

static void check_pattern(const json_t *texts, const json_t *line, tally *t) {
    const char *pattern = json_string_value(json_object_get(line, "pattern"));
    const json_t *cuts = json_object_get(line, "cuts");
    split_rule r;
    t->n++;
    if (split_rule_for("here", pattern, &r) != DRV_OK) {
        assert_null(strchr(drv_message(), '\n'));
        t->n_refused++;
        if (!json_is_true(json_object_get(line, "must"))) return;
        print_message("%s\n", drv_message());
        t->n_wrong++;
        return;
    }
    if (json_is_null(cuts)) {
        print_message("\"%s\" is taken, Hugging Face refuses it\n", pattern);
        t->n_wrong++;
    } else if (!same_cuts(pattern, &r, texts, cuts)) {
        t->n_wrong++;
    }
    split_rule_free(&r);
}

static void check_patterns(const char *path) {
    FILE *in = fopen(path, "r");
    if (!in) fail_msg("no %s", path);
    char *line = NULL;
    size_t cap = 0;
    json_t *head = NULL;
    tally all = {0};
    for (ssize_t k; (k = getline(&line, &cap, in)) > 0;) {
        json_t *o = json_loadb(line, (size_t)k, JSON_ALLOW_NUL, NULL);
        assert_non_null(o);
        if (head)
            check_pattern(json_object_get(head, "texts"), o, &all);
        else
            head = json_incref(o);
        json_decref(o);
    }
    print_message("%d patterns, %d of them refused\n", all.n, all.n_refused);
    assert_true(all.n > 100 && all.n_refused < all.n);
    assert_int_equal(all.n_wrong, 0);
    json_decref(head);
    free(line);
    fclose(in);
}

static const char *file; // of the command line; NULL: the golden one

TEST(as_hugging_face) {
    check_patterns(file ? file : golden_path(a, "tokenizers/patterns.jsonl"));
}

int main(int argc, char **argv) {
    if (argc > 1) file = argv[1];
    return tests_run();
}
