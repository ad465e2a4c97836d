// Finds words by Boolean algebra. The bytes of a block are classified into 64-bit masks, bit i for
// byte i; a shift by one is "the byte before" or "the byte after", and a few operations give a mask
// of all bytes at which a word begins (as in gigatoken; M. Roed, 2026).
//
// A block begins where a word begins, and gives only beginnings that are certain: the bytes that
// decide about them are ASCII and in the block. The next block starts at the last of them, so
// nothing is carried from block to block: neither pattern looks back beyond the beginning of a
// word.
#include "tok/scan_blocks.h"

#ifdef __x86_64__
#include <immintrin.h>

enum {
    BLOCK = SPLIT_BLOCK,
    MAX_LOOKAHEAD = 2
}; // "'ll": an apostrophe looks at the two bytes after it

typedef struct block_masks {
    uint64_t letter, digit, space, blank, line_end, apostrophe, other, beyond_ascii;
} block_masks; // space: ' '; blank: white space that ends no line

#define INLINE static inline __attribute__((always_inline))

// --- classes
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,bmi,bmi2,lzcnt,popcnt")))
AVX512 static inline block_masks masks_avx512(const unsigned char *s) {
    const __m512i x = _mm512_loadu_si512(s), folded = _mm512_or_si512(x, _mm512_set1_epi8(0x20));
    block_masks m;
    m.letter = _mm512_cmplt_epu8_mask(_mm512_sub_epi8(folded, _mm512_set1_epi8('a')),
            _mm512_set1_epi8(26));
    m.digit =
            _mm512_cmplt_epu8_mask(_mm512_sub_epi8(x, _mm512_set1_epi8('0')), _mm512_set1_epi8(10));
    const uint64_t control_space = _mm512_cmplt_epu8_mask( // \t \n \v \f \r
            _mm512_sub_epi8(x, _mm512_set1_epi8('\t')), _mm512_set1_epi8(5));
    m.space = _mm512_cmpeq_epi8_mask(x, _mm512_set1_epi8(' '));
    m.line_end = _mm512_cmpeq_epi8_mask(x, _mm512_set1_epi8('\n')) |
                 _mm512_cmpeq_epi8_mask(x, _mm512_set1_epi8('\r'));
    m.apostrophe = _mm512_cmpeq_epi8_mask(x, _mm512_set1_epi8('\''));
    m.beyond_ascii = _mm512_movepi8_mask(x);
    m.blank = m.space | (control_space & ~m.line_end);
    m.other = ~(m.letter | m.digit | m.blank | m.line_end);
    return m;
}

#define AVX2 __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))
AVX2 INLINE uint64_t both(__m256i low, __m256i high) {
    return (uint32_t)_mm256_movemask_epi8(low) | (uint64_t)(uint32_t)_mm256_movemask_epi8(high)
                                                         << 32;
}

AVX2 INLINE uint64_t equal_avx2(__m256i low, __m256i high, char c) {
    const __m256i all = _mm256_set1_epi8(c);
    return both(_mm256_cmpeq_epi8(low, all), _mm256_cmpeq_epi8(high, all));
}

// Returns the mask of bytes in [first, first + n): x - first <= n - 1, unsigned.
AVX2 INLINE uint64_t range_avx2(__m256i low, __m256i high, char first, char n) {
    const __m256i from = _mm256_set1_epi8(first), last = _mm256_set1_epi8((char)(n - 1));
    low = _mm256_sub_epi8(low, from);
    high = _mm256_sub_epi8(high, from);
    return both(_mm256_cmpeq_epi8(_mm256_min_epu8(low, last), low),
            _mm256_cmpeq_epi8(_mm256_min_epu8(high, last), high));
}

AVX2 static inline block_masks masks_avx2(const unsigned char *s) {
    const __m256i low = _mm256_loadu_si256((const __m256i *)(const void *)s),
                  high = _mm256_loadu_si256((const __m256i *)(const void *)(s + 32)),
                  fold = _mm256_set1_epi8(0x20);
    block_masks m;
    m.letter = range_avx2(_mm256_or_si256(low, fold), _mm256_or_si256(high, fold), 'a', 26);
    m.digit = range_avx2(low, high, '0', 10);
    m.space = equal_avx2(low, high, ' ');
    m.line_end = equal_avx2(low, high, '\n') | equal_avx2(low, high, '\r');
    m.apostrophe = equal_avx2(low, high, '\'');
    m.beyond_ascii = both(low, high);
    m.blank = m.space | (range_avx2(low, high, '\t', 5) & ~m.line_end);
    m.other = ~(m.letter | m.digit | m.blank | m.line_end);
    return m;
}

// --- the patterns
// Returns the length of "'s", "'t", "'re" ... at s, 0: none. `fold`: capitals too.
INLINE int contraction_at(const unsigned char *s, bool fold) {
    const int a = fold ? s[1] | 0x20 : s[1], b = fold ? s[2] | 0x20 : s[2];
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

// Makes contractions whose apostrophe begins a word into words, and corrects `starts` after them.
INLINE uint64_t split_contractions(const unsigned char *s, uint64_t starts, uint64_t apostrophes,
        bool fold) {
    for (uint64_t rest = starts & apostrophes; rest; rest &= rest - 1) {
        const int i = __builtin_ctzll(rest), n = contraction_at(s + i, fold);
        if (!n) continue;
        starts &= ~(3ull * 2 << i) | (n == 2 ? 2ull * 2 << i : 0);
        if (i + n < BLOCK) starts |= 1ull << (i + n);
    }
    return starts;
}

// Returns the word starts of GPT-2's pattern: a run of letters, of digits or of others takes one
// space before it; white space before a word is cut before its last character. `single`: each digit
// is a word, and what comes before it is a text of its own.
INLINE uint64_t starts_gpt2(const block_masks *m, bool single) {
    const uint64_t white = m->blank | m->line_end, wordy = ~white & (single ? ~m->digit : ~0ull);
    const uint64_t spaced = m->space << 1; // after a space
    const uint64_t runs = (m->letter & ~(m->letter << 1)) | (m->other & ~(m->other << 1));
    const uint64_t digits = single ? m->digit : m->digit & ~(m->digit << 1) & ~spaced;
    return (runs & ~spaced) | digits | (white & (~(white << 1) | wordy >> 1));
}

// Returns those runs of ones in `runs` that end right before a bit of `before`.
INLINE uint64_t runs_before(uint64_t runs, uint64_t before) {
    uint64_t found = runs & before >> 1;
    for (int k = 1; k < BLOCK; k *= 2) {
        found |= runs & found >> k;
        runs &= runs >> k;
    }
    return found;
}

// Returns the word starts of Llama 3's pattern (split_kind). Line ends after a run of others belong
// to it. Other white space is a word up to its last line end; the blanks after that are cut as in
// GPT-2. Letters take one blank, or one other that stands alone; digits go three by three.
INLINE uint64_t starts_llama3(const block_masks *m) {
    const uint64_t white = m->blank | m->line_end;
    const uint64_t first_other = m->other & ~(m->other << 1) & ~(m->space << 1);
    const uint64_t letters = m->letter & ~(m->letter << 1) & ~(m->blank << 1) & ~(first_other << 1);
    uint64_t digits = m->digit & ~(m->digit << 1);
    const uint64_t pairs = m->digit & m->digit << 1, fourth = pairs & pairs << 2;
    for (uint64_t next = digits << 3 & fourth; next; next = next << 3 & fourth)
        digits |= next;
    // Adding a bit to the first of a run of ones clears the run.
    const uint64_t owned = m->line_end & ~(m->line_end + (m->line_end & m->other << 1));
    const uint64_t free_white = white & ~owned;
    const uint64_t tail = m->blank & ~runs_before(m->blank, m->line_end);
    return first_other | letters | digits | (free_white & ~(free_white << 1)) |
           (tail & (~(m->blank << 1) | ~white >> 1));
}

// Returns the number of bytes before the blanks that end the block: what follows these is unknown.
INLINE int before_last_blanks(uint64_t blank, int n) {
    const uint64_t others = ~blank & (n < BLOCK ? (1ull << n) - 1 : ~0ull);
    return others ? BLOCK - __builtin_clzll(others) : 0;
}

// --- places
// Writes the addresses of the starts, and junk after them: there is room for those of a block.
AVX2 static inline void put_avx2(const unsigned char *s, uint64_t starts,
        const unsigned char **bounds) {
    const unsigned char **end = bounds + __builtin_popcountll(starts);
    for (; bounds < end; bounds += 4) {
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++, starts = _blsr_u64(starts))
            bounds[i] = s + _tzcnt_u64(starts); // of 0: 64
    }
}

// Writes the addresses of eight bytes at a time, whether words begin there or not: the number of
// iterations is constant, so the processor never mispredicts the end of the loop.
AVX512 static inline void put_avx512(const unsigned char *s, uint64_t starts,
        const unsigned char **bounds) {
    const __m512i step = _mm512_set1_epi64(8);
    __m512i places = _mm512_add_epi64(_mm512_set1_epi64((long long)(uintptr_t)s),
            _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0));
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++, starts >>= 8, places = _mm512_add_epi64(places, step)) {
        const __mmask8 here = (__mmask8)starts;
        _mm512_storeu_si512(bounds, _mm512_maskz_compress_epi64(here, places));
        bounds += __builtin_popcount(here);
    }
}

INLINE int scan(split_cursor *text, const unsigned char **bounds, int k, split_kind kind,
        block_masks (*classify)(const unsigned char *block),
        void (*put)(const unsigned char *block, uint64_t starts, const unsigned char **bounds)) {
    const unsigned char *block = text->next;
    while (text->end - block >= BLOCK && k + BLOCK <= SPLIT_BATCH) {
        const block_masks m = classify(block);
        const int n_ascii = m.beyond_ascii ? __builtin_ctzll(m.beyond_ascii) : BLOCK;
        int certain = n_ascii - MAX_LOOKAHEAD;
        uint64_t starts = kind == SPLIT_LLAMA3 ? starts_llama3(&m)
                                               : starts_gpt2(&m, kind == SPLIT_DIGITS_GPT2);
        if (kind == SPLIT_LLAMA3) {
            const int known = before_last_blanks(m.blank, n_ascii);
            certain = known < certain ? known : certain;
        }
        if (certain <= 1) break;
        starts |= 1; // a word begins here
        const uint64_t places = (1ull << certain) - 1;
        starts = split_contractions(block, starts, m.apostrophe & places, kind == SPLIT_LLAMA3);
        starts &= places & ~1ull;
        if (!starts) break;
        put(block, starts, bounds + k + 1);
        k += __builtin_popcountll(starts);
        block += BLOCK - 1 - __builtin_clzll(starts);
    }
    text->next = block;
    return k;
}

#define SCANNER(level, LEVEL, name, kind)                                                          \
    LEVEL static int name##_##level(split_cursor *t, const unsigned char **bounds, int k) {        \
        return scan(t, bounds, k, kind, masks_##level, put_##level);                               \
    }
SCANNER(avx2, AVX2, blocks_gpt2, SPLIT_GPT2)
SCANNER(avx2, AVX2, blocks_digits_gpt2, SPLIT_DIGITS_GPT2)
SCANNER(avx2, AVX2, blocks_llama3, SPLIT_LLAMA3)
SCANNER(avx512, AVX512, blocks_gpt2, SPLIT_GPT2)
SCANNER(avx512, AVX512, blocks_digits_gpt2, SPLIT_DIGITS_GPT2)
SCANNER(avx512, AVX512, blocks_llama3, SPLIT_LLAMA3)

scan_blocks scan_blocks_for(split_kind kind, cpu_level level) {
    if (level < CPU_AVX2) return NULL;
    const bool wide = level >= CPU_AVX512;
    switch (kind) {
    case SPLIT_GPT2:
        return wide ? blocks_gpt2_avx512 : blocks_gpt2_avx2;
    case SPLIT_DIGITS_GPT2:
        return wide ? blocks_digits_gpt2_avx512 : blocks_digits_gpt2_avx2;
    case SPLIT_LLAMA3:
        return wide ? blocks_llama3_avx512 : blocks_llama3_avx2;
    default:
        return NULL;
    }
}
#else
scan_blocks scan_blocks_for(split_kind kind DRV_UNUSED, cpu_level level DRV_UNUSED) {
    return NULL;
}
#endif
