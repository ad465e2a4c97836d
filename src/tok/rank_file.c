// Sources: tiktoken 0.14, tiktoken_ext/openai_public.py (its possessive quantifiers are written as
// plain ones, which match the same here); github.com/meta-llama/llama-models,
// models/llama3/tokenizer.py; Qwen's tokenization_qwen.py.
#include "tok/rank_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/file.h"
#include "tok/tokenizer_internal.h"
#include "tok/unicode.h"

enum { MAX_RANKS = 1 << 24 };

static const rank_family families[] = {
        {.name = "Llama 3",
                .in_name = "llama3",
                .n_ranks = 128000,
                .pattern = split_pattern_llama3,
                .bos = "<|begin_of_text|>",
                .eos = "<|end_of_text|>",
                .pad = "<|finetune_right_pad_id|>"},
        {.name = "cl100k",
                .in_name = "cl100k",
                .n_ranks = 100256,
                .pattern = split_pattern_cl100k,
                .eos = "<|endoftext|>"},
        {.name = "o200k",
                .in_name = "o200k",
                .n_ranks = 199998,
                .pattern = split_pattern_o200k,
                .eos = "<|endoftext|>"},
        {.name = "Qwen",
                .in_name = "qwen",
                .n_ranks = 151643,
                .pattern = split_pattern_qwen2,
                .nfc = true,
                .eos = "<|endoftext|>"},
};
enum { N_FAMILIES = sizeof families / sizeof *families };

// --- special tokens
static void add_special(json_t *list, int32_t id, const char *text) {
    json_array_append_new(list,
            json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", id, "content", text,
                    "single_word", 0, "lstrip", 0, "rstrip", 0, "normalized", 0, "special", 1));
}

static void add_numbered(json_t *list, int32_t id, const char *form, int number) {
    char text[48];
    snprintf(text, sizeof text, "<|%s_%d|>", form, number);
    add_special(list, id, text);
}

static void add_llama3(json_t *list, int32_t first) { // as Llama 3.1 names them
    static const char *const names[] = {"<|begin_of_text|>", "<|end_of_text|>",
            "<|reserved_special_token_0|>", "<|reserved_special_token_1|>",
            "<|finetune_right_pad_id|>", "<|step_id|>", "<|start_header_id|>", "<|end_header_id|>",
            "<|eom_id|>", "<|eot_id|>", "<|python_tag|>", "<|image|>"};
    const int n_names = sizeof names / sizeof *names;
    for (int i = 0; i < 256; i++)
        if (i < n_names)
            add_special(list, first + i, names[i]);
        else
            add_numbered(list, first + i, "reserved_special_token", 2 + i - n_names);
}

static void add_qwen(json_t *list, int32_t first) {
    static const char *const names[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    for (int i = 0; i < 3; i++)
        add_special(list, first + i, names[i]);
    for (int i = 0; i < 205; i++)
        add_numbered(list, first + 3 + i, "extra", i);
}

json_t *rank_file_specials(const rank_file *ranks) {
    json_t *list = json_array();
    const char *name = ranks->family->in_name;
    const int32_t first = ranks->n_ids;
    if (strcmp(name, "llama3") == 0) add_llama3(list, first);
    if (strcmp(name, "qwen") == 0) add_qwen(list, first);
    if (strcmp(name, "cl100k") == 0) {
        add_special(list, first + 1, "<|endoftext|>");
        add_special(list, first + 2, "<|fim_prefix|>");
        add_special(list, first + 3, "<|fim_middle|>");
        add_special(list, first + 4, "<|fim_suffix|>");
        add_special(list, first + 20, "<|endofprompt|>");
    }
    if (strcmp(name, "o200k") == 0) {
        add_special(list, first + 1, "<|endoftext|>");
        add_special(list, first + 20, "<|endofprompt|>");
    }
    return list;
}

// --- reading
typedef struct rank_line {
    str_view base64;
    int32_t rank;
} rank_line;

// Reads the next line. False: it does not have this form.
static bool next_line(str_view *rest, rank_line *out) {
    const char *end = memchr(rest->p, '\n', rest->n);
    size_t n = end ? (size_t)(end - rest->p) : rest->n;
    const char *line = rest->p;
    rest->p += n + (end != NULL);
    rest->n -= n + (end != NULL);
    if (n && line[n - 1] == '\r') n--;
    const char *space = memchr(line, ' ', n);
    if (!space || space == line) return false;
    const size_t n_digits = n - (size_t)(space + 1 - line);
    if (n_digits < 1 || n_digits > 8) return false;
    out->base64 = (str_view){line, (size_t)(space - line)};
    out->rank = 0;
    for (size_t i = 0; i < n_digits; i++) {
        if (space[1 + i] < '0' || space[1 + i] > '9') return false;
        out->rank = 10 * out->rank + (space[1 + i] - '0');
    }
    return true;
}

bool rank_file_is(const void *bytes, size_t n) {
    str_view rest = {bytes, n};
    rank_line line;
    str token = {0};
    const bool is =
            n && next_line(&rest, &line) && base64_decode(line.base64.p, line.base64.n, &token);
    str_free(&token);
    return is;
}

// Finds the family by the number of ranks; of a smaller file, by its name.
static drv_status find_family(const char *path, rank_file *file) {
    for (int i = 0; i < N_FAMILIES && !file->family; i++)
        if (file->n_ids == families[i].n_ranks) file->family = &families[i];
    for (int i = 0; i < N_FAMILIES && !file->family; i++)
        if (file->n_ids < families[i].n_ranks && strstr(path_name(path), families[i].in_name))
            file->family = &families[i];
    if (!file->family && file->n_ids < families[0].n_ranks &&
            strcmp(path_name(path), "tokenizer.model") == 0)
        file->family = &families[0];
    if (file->family) return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "%s: %d ranks of tiktoken, whose pattern the file does not have; expected 128000 (Llama 3), 100256 (cl100k), 199998 (o200k) or 151643 (Qwen), or one of cl100k, o200k and qwen in the file's name",
            path, file->n_ids);
}

static int by_id(const void *x, const void *y) {
    const rank_line *a = x, *b = y;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

static drv_status read_lines(const char *path, str_view rest, rank_line **lines, int64_t *n) {
    int64_t cap = 0;
    for (int64_t number = 1; rest.n; number++) {
        if (*rest.p == '\n') { // an empty line
            rest.p++;
            rest.n--;
            continue;
        }
        MEM_GROW(*lines, *n, cap);
        if (!next_line(&rest, &(*lines)[*n]) || (*lines)[*n].rank >= MAX_RANKS)
            return drv_fail(DRV_E_DATA,
                    "%s:%lld: expected a token in Base64, a space and its rank, at most %d", path,
                    (long long)number, MAX_RANKS - 1);
        ++*n;
    }
    qsort(*lines, (size_t)*n, sizeof **lines, by_id);
    return DRV_OK;
}

static drv_status take_lines(arena *a, const char *path, const rank_line *lines, rank_file *out) {
    str token = {0};
    drv_status status = DRV_OK;
    for (int64_t i = 0; i < out->n && status == DRV_OK; i++) {
        str_clear(&token);
        if (!base64_decode(lines[i].base64.p, lines[i].base64.n, &token) || token.n == 0)
            status = drv_fail(DRV_E_DATA, "%s: rank %d: \"%.*s\" is not Base64", path,
                    lines[i].rank, lines[i].base64.n > 40 ? 40 : (int)lines[i].base64.n,
                    lines[i].base64.p);
        else if (i && lines[i].rank == lines[i - 1].rank)
            status = drv_fail(DRV_E_DATA, "%s: two tokens have rank %d", path, lines[i].rank);
        else
            out->tokens[i] = byte_names(a, token.p, token.n);
        out->ids[i] = lines[i].rank;
        out->scores[i] = -(float)lines[i].rank;
    }
    str_free(&token);
    return status;
}

drv_status rank_file_read(arena *a, const char *path, const void *bytes, size_t n, rank_file *out) {
    rank_line *lines = NULL;
    *out = (rank_file){0};
    drv_status status = read_lines(path, (str_view){bytes, n}, &lines, &out->n);
    if (status == DRV_OK) {
        out->tokens = ARENA_ARRAY(a, str_view, out->n + 1);
        out->ids = ARENA_ARRAY(a, int32_t, out->n + 1);
        out->scores = ARENA_ARRAY(a, float, out->n + 1);
        status = take_lines(a, path, lines, out);
    }
    if (status == DRV_OK) {
        out->n_ids = out->n ? out->ids[out->n - 1] + 1 : 0;
        status = find_family(path, out);
    }
    free(lines);
    return status;
}
