// drover tokenizer train: text in, the files of a tokenizer out.
#include "cli/cli.h"

#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "chat/chat_form.h"
#include "data/read/trainer_input.h"
#include "tok/bpe_trainer.h"
#include "tok/unicode.h"

static const char default_eos[] = "<|endoftext|>";

static drv_status check_special(const char *option, const char *text) {
    if (utf8_valid(text, strlen(text))) return DRV_OK;
    return drv_fail(DRV_E_USAGE, "tokenizer train: %s is \"%s\", which is not UTF-8", option, text);
}

// The special token that begins or ends a text where no option names one; NULL: none does.
static const char *default_role(token_role role, const chat_form *chat, bool lists_specials) {
    if (role == ROLE_BOS) return chat ? chat->bos : NULL;
    if (role != ROLE_EOS) return NULL;
    if (chat) return chat->eos;
    return lists_specials ? NULL : default_eos;
}

// The special tokens in the order of their ids: those of --special, those of --bos, --eos, --pad
// and --unk, and those of --chat. A role that no option names goes to the token whose name says it.
static drv_status choose_specials(arena *a, const cli_args *args, const chat_form *chat,
        bpe_trainer_opts *opts) {
    int n_specials;
    const char **named = cli_get_all(a, args, "--special", &n_specials);
    const char **list =
            ARENA_ARRAY(a, const char *, n_specials + N_TOKEN_ROLES + MAX_CHAT_MARKERS + 1);
    const bool lists_specials = n_specials > 0;
    for (int i = 0; i < n_specials; i++) {
        DRV_TRY(check_special("--special", named[i]));
        if (str_index(named[i], list, i) >= 0)
            return drv_fail(DRV_E_USAGE, "tokenizer train: --special \"%s\" is given twice",
                    named[i]);
        list[i] = named[i];
    }
    for (token_role role = 0; role < N_TOKEN_ROLES; role++) {
        const char *option = arena_printf(a, "--%s", token_role_short(role));
        opts->role[role] = cli_get(args, option, default_role(role, chat, lists_specials));
        if (!opts->role[role]) continue;
        DRV_TRY(check_special(option, opts->role[role]));
        if (str_index(opts->role[role], list, n_specials) < 0)
            list[n_specials++] = opts->role[role];
    }
    for (int i = 0; chat && i < MAX_CHAT_MARKERS && chat->markers[i]; i++)
        if (str_index(chat->markers[i], list, n_specials) < 0)
            list[n_specials++] = chat->markers[i];
    opts->begin_with_bos = opts->role[ROLE_BOS] != NULL;
    for (token_role role = 0; role < N_TOKEN_ROLES; role++)
        for (const char *const *name = token_role_names(role); !opts->role[role] && *name; name++)
            if (str_index(*name, list, n_specials) >= 0) opts->role[role] = *name;
    opts->specials = list;
    opts->n_specials = n_specials;
    return DRV_OK;
}

static void print_specials(const bpe_trainer_opts *o, const chat_form *chat) {
    for (int id = 0; id < o->n_specials; id++) {
        str roles = {0};
        for (token_role role = 0; role < N_TOKEN_ROLES; role++)
            if (o->role[role] && strcmp(o->role[role], o->specials[id]) == 0)
                str_printf(&roles, "%s%s (%s)%s", roles.n ? ", " : "", token_role_means(role),
                        token_role_short(role),
                        role == ROLE_BOS && o->begin_with_bos ? ", put before each text" : "");
        for (int i = 0; chat && i < MAX_CHAT_MARKERS && chat->markers[i]; i++)
            if (strcmp(chat->markers[i], o->specials[id]) == 0)
                str_printf(&roles, "%s%s", roles.n ? ", " : "",
                        chat->markers[i] == chat->turn_end ? "end of a turn" : "mark of a turn");
        log_info("special token %s: id %d, %s", o->specials[id], id,
                roles.n ? roles.p : "no role (--bos, --eos, --pad, --unk give one)");
        str_free(&roles);
    }
    if (!o->role[ROLE_EOS])
        log_warn("no token ends a text, and data build --append-eod needs one: --eos TEXT adds it");
}

static drv_status read_options(arena *a, const cli_args *args, const chat_form **chat,
        bpe_trainer_opts *o) {
    const char *form = cli_get(args, "--chat", NULL);
    int pattern = 0;
    *chat = form ? chat_form_of(form) : NULL;
    if (form && !*chat)
        return drv_fail(DRV_E_USAGE, "tokenizer train: --chat is \"%s\", expected " CHAT_FORM_NAMES,
                form);
    DRV_TRY(cli_get_i64(args, "--vocab-size", 257, 1 << 24, &o->vocab_size));
    DRV_TRY(cli_get_i64(args, "--min-frequency", 1, INT64_MAX, &o->min_frequency));
    DRV_TRY(cli_get_bytes(args, "--memory", BPE_TRAINER_MIN_MEMORY, &o->memory));
    DRV_TRY(cli_get_choice(args, "--pattern", "gpt2 or llama3", &pattern));
    o->pattern = pattern == 0 ? split_pattern_gpt2 : split_pattern_llama3;
    return choose_specials(a, args, *chat, o);
}

static int id_of(const bpe_trainer_opts *o, const char *special) {
    return str_index(special, o->specials, o->n_specials);
}

static drv_status write_chat(const bpe_trainer_opts *o, const chat_form *chat, const char *out) {
    const chat_form_ids ids = {.bos = id_of(o, o->role[ROLE_BOS]),
            .eos = id_of(o, o->role[ROLE_EOS]),
            .pad = id_of(o, o->role[ROLE_PAD]),
            .turn_end = id_of(o, chat->turn_end)};
    DRV_TRY(chat_form_write(chat, &ids, out));
    log_info("%s/chat_template.jinja: %s; generation_config.json lists %s as an end token", out,
            chat->name, chat->turn_end);
    return DRV_OK;
}

// A model's own tokenizer is not replaced by one whose ids mean something else, nor any silently.
static drv_status check_folder(arena *a, const char *out, const chat_form *chat) {
    static const char *const chat_files[] = {"chat_template.jinja", "generation_config.json"};
    if (file_exists(path_join(a, out, "config.json")))
        return drv_fail(DRV_E_USAGE,
                "tokenizer train: --out is \"%s\", which holds a model (config.json), expected a folder of its own",
                out);
    const char *old = path_join(a, out, "tokenizer.json");
    if (file_exists(old)) log_info("%s is there already; it is replaced when this is done", old);
    for (size_t i = 0; !chat && i < sizeof chat_files / sizeof *chat_files; i++)
        if (file_exists(path_join(a, out, chat_files[i])))
            log_warn("%s/%s exists already and stays unchanged: its tokens may differ from this tokenizer's",
                    out, chat_files[i]);
    return DRV_OK;
}

drv_status tokenizer_train(arena *a, const cli_args *args) {
    bpe_trainer_opts opts = {.vocab_size = 32000, .min_frequency = 2};
    int n_endings; // the list has room for its end
    const char **endings = cli_get_all(a, args, "--ending", &n_endings);
    endings[n_endings] = NULL;
    const reader_opts from = {.key = cli_get(args, "--json-key", NULL),
            .inputs = {.endings = endings, .others = "--ending"},
            .separator = cli_get(args, "--separator", NULL),
            .strict = cli_has(args, "--strict")};
    const char *out;
    int n_inputs;
    const char **inputs = cli_get_all(a, args, "--input", &n_inputs);
    DRV_TRY(cli_set_threads(args));
    DRV_TRY(cli_need(args, "--out", &out));
    if (!n_inputs) return drv_fail(DRV_E_USAGE, "tokenizer train: --input is missing");
    const chat_form *chat;
    DRV_TRY(read_options(a, args, &chat, &opts));
    DRV_TRY(check_folder(a, out, chat));
    const double begin = clock_s();
    int64_t bytes = 0, n_vocab = 0;
    reader *r;
    drv_status status = reader_open(a, inputs, n_inputs, &from, &r);
    if (status != DRV_OK) return cli_judge_input(status);
    bpe_trainer *t = bpe_trainer_new(&opts);
    status = trainer_input_read(r, t, &bytes);
    if (status == DRV_OK) status = bpe_trainer_finish(t, out, &n_vocab);
    if (status == DRV_OK && chat) status = write_chat(&opts, chat, out);
    bpe_trainer_free(t);
    reader_close(r);
    if (status != DRV_OK) return cli_judge_input(status);
    print_specials(&opts, chat);
    log_info("%s/tokenizer.json: %lld tokens from %s of text in %.1f s", out, (long long)n_vocab,
            str_bytes((double)bytes), clock_s() - begin);
    if (n_vocab < opts.vocab_size)
        log_warn("--vocab-size is %lld, but no further pair occurs %lld times (--min-frequency); more text gives more tokens",
                (long long)opts.vocab_size, (long long)opts.min_frequency);
    return DRV_OK;
}
