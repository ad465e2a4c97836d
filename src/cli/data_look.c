// drover data info, show, verify: what looks at a data set that is there.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/log.h"
#include "cli/cli.h"
#include "data/set/pair_marks.h"

static const char *const types[] = {"?", "u8", "i8", "i16", "i32", "i64", "?", "?", "u16"};

static json_t *answers_json(const dataset *set, const dataset_answers *n, int64_t row) {
    json_t *o = json_pack("{s:s?, s:I, s:I, s:I, s:I}", "template", set->about.template, "tokens",
            (json_int_t)n->tokens, "last_tokens", (json_int_t)n->last_tokens,
            "examples_without_answer", (json_int_t)n->without, "longest", (json_int_t)n->longest);
    if (row)
        json_object_update_new(o,
                json_pack("{s:I, s:I, s:I}", "sequence_length", (json_int_t)row, "longer",
                        (json_int_t)n->n_longer, "tokens_beyond", (json_int_t)n->n_beyond));
    return o;
}

// Prints what a set of conversations teaches. row: --sequence-length; 0: not given.
static void print_answers(const dataset *set, const dataset_answers *n, int64_t row) {
    const double tokens = (double)(set->n_tokens ? set->n_tokens : 1);
    printf("answers    %lld tokens (%.1f%%), %lld of them of last answers (%.1f%%); %lld of %lld "
           "examples have none\n",
            (long long)n->tokens, 100 * (double)n->tokens / tokens, (long long)n->last_tokens,
            100 * (double)n->last_tokens / tokens, (long long)n->without, (long long)n->documents);
    if (set->about.template) printf("template   %s\n", set->about.template);
    printf("longest    %lld tokens\n", (long long)n->longest);
    if (row)
        printf("too long   %lld of %lld examples for rows of %lld tokens: data.too_long cuts off %lld "
               "tokens of them, or leaves them out\n",
                (long long)n->n_longer, (long long)n->documents, (long long)row,
                (long long)n->n_beyond);
}

// answers: of a set that has answers, else NULL.
static void print_info_json(const dataset *set, json_t *answers) {
    const dataset_about *x = &set->about;
    json_t *made_by = json_null(), *eod = json_null();
    if (x->known)
        made_by = json_pack("{s:s?, s:s?, s:I}", "path", x->tokenizer, "xxh3", x->tokenizer_hash,
                "vocab_size", (json_int_t)x->n_vocab);
    if (x->known && x->eod >= 0)
        eod = json_pack("{s:I, s:s?}", "id", (json_int_t)x->eod, "text", x->eod_text);
    json_t *o = json_pack("{s:o?, s:s, s:I, s:I, s:I, s:o?, s:o?, s:o}", "prefix",
            json_string(set->prefix), "type", types[set->code], "sequences",
            (json_int_t)set->n_sequences, "documents", (json_int_t)set->n_documents, "tokens",
            (json_int_t)set->n_tokens, "tokenizer", made_by, "end_of_document", eod, "largest_id",
            x->known && x->largest_id >= 0 ? json_integer(x->largest_id) : json_null());
    if (answers) json_object_set_new(o, "answers", answers);
    if (x->pairs) json_object_set_new(o, "pairs", json_integer(x->pairs));
    cli_puts_json(o, json_dumps(o, JSON_COMPACT | JSON_ENSURE_ASCII));
}

static drv_status data_info(const cli_args *args, const dataset *set) {
    const dataset_about *about = &set->about;
    const bool has_answers = dataset_has_roles(set);
    dataset_answers answers;
    int64_t row = 0;
    DRV_TRY(cli_get_i64(args, "--sequence-length", 1, 1 << 24, &row));
    if (row && !has_answers)
        return drv_fail(DRV_E_USAGE,
                "data info: --sequence-length is for a set that --sft built; %s has no .roles",
                set->prefix);
    if (has_answers) DRV_TRY(dataset_count_answers(set, row ? row : INT32_MAX, &answers));
    if (cli_has(args, "--json")) {
        print_info_json(set, has_answers ? answers_json(set, &answers, row) : NULL);
        return DRV_OK;
    }
    printf("prefix     %s\ntype       %s\nsequences  %lld\ndocuments  %lld\ntokens     %lld\n",
            set->prefix, types[set->code], (long long)set->n_sequences, (long long)set->n_documents,
            (long long)set->n_tokens);
    if (set->n_documents)
        printf("mean       %.1f tokens per document\n",
                (double)set->n_tokens / (double)set->n_documents);
    if (about->pairs)
        printf("pairs      %lld, two documents each: chosen, rejected\n", (long long)about->pairs);
    if (has_answers) print_answers(set, &answers, row);
    if (!about->known) {
        printf("tokenizer  not recorded (no %s.idx.json that can be read)\n", set->prefix);
        return DRV_OK;
    }
    printf("tokenizer  %s (%lld tokens)\n", about->tokenizer ? about->tokenizer : "not recorded",
            (long long)about->n_vocab);
    if (about->eod >= 0)
        printf("end        %s (id %lld) after each document\n",
                about->eod_text ? about->eod_text : "?", (long long)about->eod);
    else
        puts("end        no token after the documents");
    if (about->largest_id >= 0)
        printf("largest    id %lld, token %lld\n", (long long)about->largest_id,
                (long long)about->largest_at);
    return DRV_OK;
}

// Answers between marks, or in green on a terminal, the last one of a conversation in bold too.
static drv_status show_answers(const dataset *d, const tokenizer *t, int64_t first,
        const id_list *ids) {
    static const char *const begin[2][3] = {{"", "[[", "[[*"}, {"", "\033[32m", "\033[1;32m"}},
                             *const end[2][3] = {{"", "]]", "*]]"}, {"", "\033[0m", "\033[0m"}};
    const int look = terminal_has_colour(STDOUT_FILENO);
    unsigned char *roles = mem_alloc((size_t)(ids->n + 1));
    const drv_status status = dataset_read_roles(d, first, ids->n, roles);
    for (int64_t i = 0, next; status == DRV_OK && i < ids->n; i = next) {
        str text = {0};
        for (next = i; next < ids->n && roles[next] == roles[i];)
            next++;
        tokenizer_decode(t, ids->p + i, next - i, false, &text);
        printf("%s%s%s", begin[look][roles[i]], text.p ? text.p : "", end[look][roles[i]]);
        str_free(&text);
    }
    puts("");
    free(roles);
    return status;
}

static drv_status data_show(arena *a, const cli_args *args, const dataset *set) {
    int64_t document = 0;
    const char *dir = cli_get(args, "--tokenizer", NULL);
    if (set->n_documents == 0) return drv_fail(DRV_E_DATA, "%s: no documents", set->prefix);
    DRV_TRY_CTX(cli_get_i64(args, "--document", 0, set->n_documents - 1, &document),
            "%s: %lld document%s, counted from 0", set->prefix, (long long)set->n_documents,
            str_plural(set->n_documents));
    int64_t first, n;
    DRV_TRY(dataset_find_document(set, document, &first, &n));
    id_list ids = {.p = mem_alloc(sizeof(int32_t) * (size_t)(n + 1)), .n = n};
    drv_status s = dataset_read(set, first, n, INT32_MAX, ids.p);
    tokenizer *t = NULL;
    if (s == DRV_OK && dir) s = tokenizer_open(a, dir, &t);
    if (s == DRV_OK && t && dataset_has_roles(set)) {
        s = show_answers(set, t, first, &ids);
        tokenizer_close(t);
    } else if (s == DRV_OK && t) {
        str text = {0};
        tokenizer_decode(t, ids.p, n, false, &text);
        puts(text.p ? text.p : "");
        str_free(&text);
        tokenizer_close(t);
    } else if (s == DRV_OK) {
        cli_print_ids(&ids, false, true, true);
    }
    free(ids.p);
    return s;
}

// The entries of the vocabulary that the tokens must be in, and its name for messages.
static drv_status verify_vocab(arena *a, const cli_args *args, const dataset *set, int64_t *n_vocab,
        const char **name) {
    const char *dir = cli_get(args, "--tokenizer", NULL);
    *n_vocab = INT32_MAX;
    *name = "any vocabulary of up to 2^31 - 1 entries";
    if (cli_has(args, "--vocab-size")) {
        DRV_TRY(cli_get_i64(args, "--vocab-size", 1, INT32_MAX, n_vocab));
        *name = arena_printf(a, "a vocabulary of %lld entries", (long long)*n_vocab);
    } else if (dir) {
        tokenizer *t;
        DRV_TRY(tokenizer_open(a, dir, &t));
        *n_vocab = tokenizer_n_vocab(t);
        *name = arena_printf(a, "the %lld tokens of %s", (long long)*n_vocab, tokenizer_path(t));
        uint64_t hash;
        const drv_status status = dataset_tokenizer_hash(tokenizer_path(t), &hash);
        tokenizer_close(t);
        DRV_TRY(status);
        if (set->about.known && set->about.tokenizer_hash &&
                strcmp(set->about.tokenizer_hash,
                        arena_printf(a, "%016llx", (unsigned long long)hash)) != 0)
            return drv_fail(DRV_E_DATA,
                    "%s: built with another tokenizer, \"%s\" (xxh3 %s), expected %s (xxh3 %016llx)",
                    set->prefix, set->about.tokenizer ? set->about.tokenizer : "?",
                    set->about.tokenizer_hash, dir, (unsigned long long)hash);
    } else if (set->about.known && set->about.n_vocab > 0) {
        *n_vocab = set->about.n_vocab;
        *name = arena_printf(a, "the %lld tokens of the tokenizer that it was built with",
                (long long)*n_vocab);
    }
    return DRV_OK;
}

static drv_status data_verify(arena *a, const cli_args *args, const dataset *set) {
    int64_t n_vocab;
    const char *name;
    DRV_TRY(verify_vocab(a, args, set, &n_vocab, &name));
    DRV_TRY(dataset_scan_vocab(set, n_vocab, NULL));
    if (set->about.known && set->about.largest_id >= 0 && !dataset_knows_largest(set))
        return drv_fail(DRV_E_DATA,
                "%s.idx.json: \"largest\" has id %lld at token %lld, but the .bin has another id there",
                set->prefix, (long long)set->about.largest_at, (long long)set->about.largest_id);
    dataset_answers n;
    if (dataset_has_roles(set)) DRV_TRY(dataset_count_answers(set, INT32_MAX, &n));
    DRV_TRY(pair_marks_verify(set));
    printf("%s: ok, %lld tokens, all of them in %s\n", set->prefix, (long long)set->n_tokens, name);
    if (dataset_has_roles(set))
        printf("%s.roles: ok, %lld tokens of answers, %lld of them of last answers, in %lld of %lld "
               "examples\n",
                set->prefix, (long long)n.tokens, (long long)n.last_tokens,
                (long long)(n.documents - n.without), (long long)n.documents);
    if (set->about.pairs_hash)
        printf("%s.pairs: ok, %lld pairs\n", set->prefix, (long long)set->about.pairs);
    return DRV_OK;
}

// --- the subverbs
drv_status data_look(arena *a, const cli_args *args) {
    const char *name = args->verb->name;
    dataset *set;
    DRV_TRY(dataset_open(a, args->positional[0], &set));
    const drv_status status = strcmp(name, "info") == 0   ? data_info(args, set)
                              : strcmp(name, "show") == 0 ? data_show(a, args, set)
                                                          : data_verify(a, args, set);
    dataset_close(set);
    return status;
}
