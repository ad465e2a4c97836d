// Splits a text into words by the rules of a pre-tokenizer.
#include "tok/split.h"

#include <string.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "tok/oniguruma.h"
#include "tok/scan_blocks.h"
#include "tok/tokenizer.h"
#include "tok/unicode.h"

// --- patterns of known models
#define SHORTENED "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define WORD      SHORTENED "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define MARKS     " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
#define SPACES    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER     "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER     "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
// Words that begin anew at a capital after small letters, and marks that may end with a slash.
#define CASES(suffix)                                                                              \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" suffix "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER  \
    "*" suffix "|"
#define MARKS_SLASH " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|"

const char split_pattern_gpt2[] =
        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
const char split_pattern_llama3[] = WORD "\\p{N}{1,3}|" MARKS SPACES;
const char split_pattern_cl100k[] = WORD "\\p{N}{1,3}|" MARKS "\\s+(?![\\s\\S])|" SPACES;
const char split_pattern_qwen2[] = WORD "\\p{N}|" MARKS SPACES;
const char split_pattern_tekken[] = CASES("") "\\p{N}|" MARKS_SLASH SPACES;
const char split_pattern_o200k[] = CASES(SHORTENED "?") "\\p{N}{1,3}|" MARKS_SLASH SPACES;

static drv_status compile(const char *where, const char *pattern, const str *ours,
        split_rule *out) {
    int code;
    PCRE2_SIZE offset;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    DRV_MEMORY(context, "a table or a state of some KiB");
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_code *re = pcre2_compile((PCRE2_SPTR)(ours->n ? ours->p : ""), ours->n, PCRE2_UTF, &code,
            &offset, context);
    pcre2_compile_context_free(context);
    if (!re) {
        PCRE2_UCHAR text[128];
        pcre2_get_error_message(code, text, sizeof text);
        return drv_fail(DRV_E_DATA, "%s: split pattern \"%.60s\" is refused by PCRE2: %s", where,
                pattern, (char *)text);
    }
    pcre2_jit_compile(re, PCRE2_JIT_COMPLETE);
    out->regex = re;
    return DRV_OK;
}

drv_status split_rule_for(const char *where, const char *pattern, split_rule *out) {
    *out = (split_rule){.kind = SPLIT_REGEX};
    if (strcmp(pattern, split_pattern_gpt2) == 0) out->kind = SPLIT_GPT2;
    if (strcmp(pattern, split_pattern_llama3) == 0) out->kind = SPLIT_LLAMA3;
    if (out->kind != SPLIT_REGEX) return DRV_OK;
    str ours = {0};
    drv_status status = oniguruma_to_pcre2(where, pattern, &ours);
    if (status == DRV_OK) status = compile(where, pattern, &ours, out);
    str_free(&ours);
    return status;
}

void split_rule_free(split_rule *r) {
    if (r->regex) pcre2_code_free(r->regex);
    r->regex = NULL;
}

void split_rule_speed_up(split_rule *r) {
    cpu_level level;
    if (cpu_level_chosen(&level) != DRV_OK)
        level = CPU_REF; // DROVER_CPU is invalid: the kernels report it
    r->blocks = scan_blocks_for(r->kind, level);
}

// Matches with compiled code, or interprets if that runs out of its small stack.
static bool match(const pcre2_code *re, const unsigned char *s, size_t n, size_t from,
        pcre2_match_data *m, pcre2_match_context *limits) {
    int code = pcre2_match(re, s, n, from, PCRE2_NO_UTF_CHECK, m, limits);
    if (code == PCRE2_ERROR_JIT_STACKLIMIT)
        code = pcre2_match(re, s, n, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, m, limits);
    DRV_ASSERT(code > 0 || code == PCRE2_ERROR_NOMATCH, "PCRE2 fails with %d", code);
    return code > 0;
}

// Lifts PCRE2's limits: it would give up on a slow text, and the words would differ.
static pcre2_match_context *no_limits(void) {
    pcre2_match_context *c = pcre2_match_context_create(NULL);
    DRV_MEMORY(c, "a table or a state of some KiB");
    pcre2_set_match_limit(c, UINT32_MAX);
    pcre2_set_depth_limit(c, UINT32_MAX);
    pcre2_set_heap_limit(c, UINT32_MAX);
    return c;
}

// Makes words of the matches and of the text between them (behaviour "Isolated"). An empty match
// cuts too, but not right after a match (find_iter of the Rust crate onig 6.5).
static int regex_batch(const split_rule *rule, split_cursor *text, const unsigned char **bounds) {
    pcre2_match_data *hits = pcre2_match_data_create_from_pattern(rule->regex, NULL);
    pcre2_match_context *limits = no_limits();
    const unsigned char *begin = text->begin;
    const size_t n_text = (size_t)(text->end - begin);
    size_t done = (size_t)(text->next - begin), from = done; // last word's end, search offset
    int k = 0;
    while (k + 2 <= SPLIT_BATCH && done < n_text) {
        const PCRE2_SIZE *o = pcre2_get_ovector_pointer(hits);
        const bool found = from < n_text && match(rule->regex, begin, n_text, from, hits, limits);
        if (!found) {
            bounds[++k] = text->end;
            done = n_text;
            continue;
        }
        if (o[0] > done) bounds[++k] = begin + o[0];
        if (o[1] > o[0]) bounds[++k] = begin + o[1];
        done = from = o[1];
        if (o[1] == o[0] && o[0] < n_text) { // or it would be found again
            const unsigned char *p = begin + from;
            utf8_next(&p);
            from = (size_t)(p - begin);
        }
    }
    pcre2_match_context_free(limits);
    pcre2_match_data_free(hits);
    text->next = begin + done;
    return k;
}

static int joins_batch(const byte_joins *j, split_cursor *t, const unsigned char **bounds) {
    const unsigned char *s = t->next, *end = t->end;
    int k = 0;
    while (k < SPLIT_BATCH && s < end) {
        for (s++; s < end && (j->row[s[-1]][*s >> 6] >> (*s & 63) & 1);)
            s++;
        bounds[++k] = s;
    }
    t->next = s;
    return k;
}

int split_batch(const split_rule *r, split_cursor *t, const unsigned char **bounds) {
    enum { WORDS_BETWEEN = 4 }; // scanned one by one before a block is tried again
    bounds[0] = t->next;
    if (r->kind == SPLIT_REGEX) return regex_batch(r, t, bounds);
    if (r->kind == SPLIT_JOINS) return joins_batch(r->joins, t, bounds);
    const split_scan scan = split_scanner(r->kind);
    const uint8_t *cp = cp_table();
    int k = 0;
    while (k < SPLIT_BATCH && t->next < t->end) {
        if (r->blocks) k = r->blocks(t, bounds, k);
        if (r->blocks && k > SPLIT_BATCH - SPLIT_BLOCK) break; // no room for the words of a block
        const int stop =
                r->blocks && k + WORDS_BETWEEN < SPLIT_BATCH ? k + WORDS_BETWEEN : SPLIT_BATCH;
        const unsigned char *s = t->next;
        while (k < stop && s < t->end)
            bounds[++k] = s = scan(s, t->end, cp);
        t->next = s;
    }
    return k;
}

void split_text(const split_rule *rules, int n_rules, const unsigned char *s, size_t n,
        split_words words, void *ctx) {
    const unsigned char *bounds[SPLIT_BATCH + 1] = {s, s + n};
    if (n_rules == 0) {
        if (n) words(ctx, bounds, 1);
        return;
    }
    split_cursor t = {s, s, s + n};
    for (int k; (k = split_batch(rules, &t, bounds)) > 0;) {
        if (n_rules == 1) words(ctx, bounds, k);
        for (int i = 0; n_rules > 1 && i < k; i++)
            split_text(rules + 1, n_rules - 1, bounds[i], (size_t)(bounds[i + 1] - bounds[i]),
                    words, ctx);
    }
}

static bool ascii_letter(unsigned char c) {
    return (unsigned char)((c | 0x20) - 'a') < 26;
}

size_t split_cut(const void *text, size_t n) {
    const unsigned char *s = text;
    for (size_t i = n < 3 ? 0 : n - 2; i > 0; i--)
        if (s[i] == ' ' && ascii_letter(s[i - 1]) && ascii_letter(s[i + 1])) return i;
    return 0;
}
