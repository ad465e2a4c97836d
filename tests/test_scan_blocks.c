// Words found 64 bytes at a time are those that the scanners of scan.c find one by one: random
// texts of what the patterns look at, for each kind and level of the processor.
#include "harness.h"

#include "tok/scan_blocks.h"
#include "tok/unicode.h"

enum { MAX_TEXT = 400, ROUNDS = 20000 };

// The first and last letters and digits and their neighbours too.
static const char *const pieces[] = {"z", "Z", "A", "@", "[", "`", "{", "/", "0", "9", ":", "a",
        "B", "word", "letters", "1", "23", "4567", " ", " ", "  ", "    ", "\n", "\r\n", "\n\n",
        "\t", "\v", "'", "'s", "'T", "'re", "'VE", "'ll", "'d", "'m", "'t", "'S", "'x", ".", "...",
        "(", ");", "=", "\x01", "\x7f", "\xC3\xA9", "\xE3\x80\x80", "\xC2\xA0", "\xC5\xBF",
        "\xE6\x97\xA5", "                                                        ",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "1234567890123456789",
        "----------------------------------------------------------------"};

// A text; which pieces are frequent differs from seed to seed.
static size_t make_text(uint64_t seed, unsigned char *out) {
    enum { N_PIECES = sizeof pieces / sizeof *pieces };
    const rng_key key = {seed, RNG_TEST, 0};
    const int range = 2 + (int)(rng_uniform(&key, 0) * (N_PIECES - 2));
    const int first = (int)(rng_uniform(&key, 1) * N_PIECES);
    size_t n = 0;
    for (uint64_t i = 2; n < MAX_TEXT - 80; i++) {
        const int at = first + (int)(rng_uniform(&key, i) * range);
        const char *piece = pieces[at % N_PIECES];
        memcpy(out + n, piece, strlen(piece));
        n += strlen(piece);
    }
    return n;
}

// All words of the text: by blocks as far as they go, then one by one.
static void check_text(uint64_t seed, split_kind kind, cpu_level level, const unsigned char *s,
        size_t n) {
    const split_scan scan = split_scanner(kind);
    const split_rule rule = {.kind = kind, .blocks = scan_blocks_for(kind, level)};
    split_cursor t = {s, s, s + n};
    const unsigned char *bounds[SPLIT_BATCH + 1];
    const unsigned char *want = s;
    for (int k; (k = split_batch(&rule, &t, bounds)) > 0;)
        for (int i = 0; i < k; i++) {
            const unsigned char *end = scan(want, s + n, cp_table());
            if (bounds[i] != want || bounds[i + 1] != end)
                fail_msg("seed %llu, kind %d, level %s: a word at %zu of %zu bytes, expected %zu of "
                         "%zu in \"%.*s\"",
                        (unsigned long long)seed, kind, cpu_level_name(level),
                        (size_t)(bounds[i] - s), (size_t)(bounds[i + 1] - bounds[i]),
                        (size_t)(want - s), (size_t)(end - want), (int)n, (const char *)s);
            want = end;
        }
    assert_ptr_equal(want, s + n);
}

TEST(blocks_find_the_same_words) {
    static const split_kind kinds[] = {SPLIT_GPT2, SPLIT_DIGITS_GPT2, SPLIT_LLAMA3};
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        unsigned char text[MAX_TEXT];
        const size_t n = make_text(seed, text);
        unsigned char *exact = malloc(n); // nothing may be read past it
        assert_non_null(exact);
        memcpy(exact, text, n);
        for (int k = 0; k < 3; k++)
            for (cpu_level level = CPU_AVX2; level <= cpu_detect(); level++)
                check_text(seed, kinds[k], level, exact, n);
        free(exact);
    }
}

// Blocks are used at all: a plain text is cut by them but for its last bytes.
TEST(blocks_go_far) {
    if (cpu_detect() < CPU_AVX2) skip();
    unsigned char text[MAX_TEXT];
    for (int i = 0; i < MAX_TEXT; i++)
        text[i] = (unsigned char)(i % 7 == 6 ? ' ' : 'a' + i % 5);
    split_cursor t = {text, text, text + MAX_TEXT};
    const unsigned char *bounds[SPLIT_BATCH + 1];
    bounds[0] = text;
    const int k = scan_blocks_for(SPLIT_LLAMA3, cpu_detect())(&t, bounds, 0);
    assert_true(k >= (MAX_TEXT - 64) / 7 - 1 && k <= MAX_TEXT / 7);
}
