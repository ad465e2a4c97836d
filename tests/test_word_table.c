// The table of words that all threads share: what was put in is found whole, a set that is full
// says so.
#include "harness.h"

#include "tok/word_table.h"

static word_key key_of(uint64_t word) { // of 8 bytes
    return (word_key){{word, 8ull << 56}};
}

static word_slot *first_slot(const word_table *t, const word_key *key) {
    return t->slots + word_place(key);
}

static void make_ids(uint64_t word, int n, int32_t *ids) {
    for (int i = 0; i < n; i++)
        ids[i] = (int32_t)((word * 31 + (uint64_t)i) & 0xFFFFFF);
}

static void check_word(const word_table *t, uint64_t word, int n) {
    const word_key key = key_of(word);
    int32_t want[WORD_MANY_IDS], got[WORD_MANY_IDS];
    make_ids(word, n, want);
    const int n_got = word_table_find(t, first_slot(t, &key), &key, got);
    if (n_got != n || memcmp(got, want, sizeof *got * (size_t)n) != 0)
        fail_msg("word %llu: %d ids, expected %d, or others", (unsigned long long)word, n_got, n);
}

// 1 to 16 ids: few lie in the slot, many beside it.
static int n_ids_of(uint64_t word) {
    return 1 + (int)(word % WORD_MANY_IDS);
}

static bool add_word(word_table *t, uint64_t word) {
    const word_key key = key_of(word);
    int32_t ids[WORD_MANY_IDS];
    make_ids(word, n_ids_of(word), ids);
    return word_table_add(t, first_slot(t, &key), &key, ids, n_ids_of(word));
}

enum { N_WORDS = 50000 };

TEST(words_are_found_until_all_is_forgotten) {
    word_table t;
    int32_t ids[WORD_MANY_IDS];
    const word_key last = key_of(N_WORDS);
    assert_true(word_table_open(&t));
    for (uint64_t w = 1; w <= N_WORDS; w++)
        assert_true(add_word(&t, w));
    for (uint64_t w = 1; w <= N_WORDS; w++)
        check_word(&t, w, n_ids_of(w));
    word_table_clear(&t);
    assert_int_equal(word_table_find(&t, first_slot(&t, &last), &last, ids), 0);
    word_table_close(&t);
}

TEST(a_full_set_says_so) {
    word_table t;
    assert_true(word_table_open(&t));
    const word_key one = key_of(1);
    int n = 0;
    for (uint64_t w = 1; n <= WORD_WAYS; w++) { // words of one set
        const word_key key = key_of(w);
        if ((word_place(&key) ^ word_place(&one)) >= WORD_WAYS) continue;
        int32_t ids[WORD_MANY_IDS];
        const int unknown = word_table_find(&t, first_slot(&t, &key), &key, ids);
        assert_int_equal(unknown, n < WORD_WAYS ? 0 : -1);
        assert_int_equal(add_word(&t, w), n < WORD_WAYS);
        if (n++ < WORD_WAYS) check_word(&t, w, n_ids_of(w));
    }
    check_word(&t, 1, n_ids_of(1));
    word_table_close(&t);
}

static void add_some(void *arg, int64_t chunk) {
    for (uint64_t w = 1; w <= 2000; w++)
        add_word(arg, w + (uint64_t)(chunk / 2) * 1000); // two chunks add the same words
}

TEST(threads_add_at_once) {
    word_table t;
    assert_true(word_table_open(&t));
    par_for(16, add_some, &t);
    for (uint64_t w = 1; w <= 9000; w++)
        check_word(&t, w, n_ids_of(w));
    word_table_close(&t);
}
