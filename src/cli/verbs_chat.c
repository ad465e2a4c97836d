// drover chat: a conversation with a model, or as the text that the model sees.
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "ckpt/adapter.h"
#include "cli/chat_prompt.h"
#include "cli/generate_args.h"
#include "data/sft/template_words.h"
#include "infer/resolve.h"

// --- what the template sees

static drv_status read_json(const char *path, const char *key, json_t **out) {
    DRV_TRY(json_read_any(path, out));
    json_t *inside = json_is_object(*out) ? json_object_get(*out, key) : NULL;
    if (inside) { // {"messages": [...]} as well as the list itself
        json_incref(inside);
        json_decref(*out);
        *out = inside;
    }
    if (json_is_array(*out)) return DRV_OK;
    json_decref(*out);
    return drv_fail(DRV_E_DATA, "%s: expected a list, or an object with a list as \"%s\"", path,
            key);
}

static drv_status take_named_template(arena *a, const char *name, chat_model *out) {
    char *text;
    if (strcmp(name, "alpaca") == 0) {
        chat_model_take_alpaca(out);
        return DRV_OK;
    }
    DRV_TRY(file_read_any(a, name, &text, &out->n_source));
    out->source = text;
    out->path = name;
    return DRV_OK;
}

// The template that --template names, else that of the first folder that has one. The special
// tokens come from where the folder's template is.
static drv_status find_template(arena *a, const cli_args *args, const char *const *folders, int n,
        chat_model *out) {
    const char *name = cli_get(args, "--template", "chat");
    const bool own = strcmp(name, "chat") == 0;
    *out = (chat_model){.specials = ARENA_ARRAY(a, special_text, 2)};
    for (int i = 0; i < n && !out->path; i++) {
        if (!file_is_dir(folders[i]))
            return drv_fail(DRV_E_IO, "\"%s\" is not a folder", folders[i]);
        DRV_TRY(chat_model_read(a, folders[i], cli_has(args, "--tools"), out));
    }
    if (n > 0 && own && !out->path)
        return drv_fail(DRV_E_DATA, "\"%s\" has no chat template; give one by --template FILE",
                folders[n - 1]);
    if (!own) DRV_TRY(take_named_template(a, name, out));
    if (!out->source) return drv_fail(DRV_E_USAGE, "chat: a MODEL or --template FILE is missing");
    return DRV_OK;
}

// --bos and --eos stand in for those of a model.
static void set_special(arena *a, const cli_args *args, const char *option, const char *role,
        chat_model *m) {
    const char *text = cli_get(args, option, NULL);
    if (!text) return;
    special_text *list = ARENA_ARRAY(a, special_text, m->n_specials + 1);
    int n = 0;
    for (int i = 0; i < m->n_specials; i++)
        if (strcmp(m->specials[i].role, role) != 0) list[n++] = m->specials[i];
    list[n++] = (special_text){role, text};
    m->specials = list;
    m->n_specials = n;
}

// JSON beside the messages.
typedef struct extras {
    json_t *tools, *documents; // NULL: none
} extras;

static drv_status read_extras(const cli_args *args, extras *out) {
    const char *tools = cli_get(args, "--tools", NULL),
               *documents = cli_get(args, "--documents", NULL);
    *out = (extras){NULL, NULL};
    if (tools) DRV_TRY(read_json(tools, "tools", &out->tools));
    if (!documents) return DRV_OK;
    const drv_status status = read_json(documents, "documents", &out->documents);
    if (status == DRV_OK) return DRV_OK;
    json_decref(out->tools);
    return status;
}

static void free_extras(extras *e) {
    json_decref(e->tools);
    json_decref(e->documents);
}

// --- --print
static drv_status print_text(arena *a, const chat_model *m, const chat_input *in) {
    chat_template *t;
    chat_output out;
    DRV_TRY(chat_template_open(a, m->path, m->source, m->n_source, &t));
    template_tell_words(NULL, m);
    DRV_TRY(chat_render(a, t, in, &out));
    fwrite(out.text.p ? out.text.p : "", 1, out.text.n, stdout);
    str_free(&out.text);
    return DRV_OK;
}

static bool holds_template(arena *a, const char *folder) {
    return file_exists(path_join(a, folder, "chat_template.jinja")) ||
           file_exists(path_join(a, folder, "tokenizer_config.json"));
}

// The folders that may have the template, as in a conversation: the adapter's, then the model's. A
// folder of templates and tokenizers alone will do, and with --template none is needed.
static drv_status template_folders(arena *a, const cli_args *args, const char **folders, int *n) {
    const char *name = args->n_positional ? args->positional[0] : NULL,
               *beside = cli_get(args, "--adapter", NULL);
    *n = 0;
    if (!name && !beside) return DRV_OK;
    if (!beside && holds_template(a, name) && !adapter_is_folder(a, name)) {
        folders[(*n)++] = name;
        return DRV_OK;
    }
    model_ref model;
    DRV_TRY(model_resolve(a, name, beside, &model));
    if (*model.adapter) folders[(*n)++] = model.adapter;
    folders[(*n)++] = model.folder;
    return DRV_OK;
}

static drv_status print_conversation(arena *a, const cli_args *args) {
    chat_model model;
    extras beside;
    const char *path;
    json_t *messages;
    const char *folders[2];
    int n_folders;
    DRV_TRY(template_folders(a, args, folders, &n_folders));
    DRV_TRY(find_template(a, args, folders, n_folders, &model));
    DRV_TRY(cli_need(args, "--messages", &path));
    set_special(a, args, "--bos", "bos_token", &model);
    set_special(a, args, "--eos", "eos_token", &model);
    DRV_TRY(read_json(path, "messages", &messages));
    drv_status status = read_extras(args, &beside);
    if (status == DRV_OK) {
        chat_input in = {.messages = messages,
                .tools = beside.tools,
                .documents = beside.documents,
                .add_generation_prompt = cli_has(args, "--generation-prompt"),
                .specials = model.specials,
                .n_specials = model.n_specials};
        status = chat_date(cli_get(args, "--date", NULL), &in.now);
        if (status == DRV_OK) status = print_text(a, &model, &in);
        free_extras(&beside);
    }
    json_decref(messages);
    return status;
}

// --- answering
enum { DEFAULT_CONTEXT = 4096 };

// Opens the generator with its caches: the template is known to be there before the weights are
// read, which may take long.
static drv_status load(arena *a, const cli_args *args, const generator_opts *model,
        chat_model *template, generator **out) {
    const bool tuned = model->adapter && *model->adapter;
    const char *folders[] = {tuned ? model->adapter : model->folder, model->folder};
    int64_t context = 0;
    DRV_TRY(cli_get_i64(args, "--context", 8, 1 << 24, &context));
    DRV_TRY(find_template(a, args, folders, tuned ? 2 : 1, template));
    set_special(a, args, "--bos", "bos_token", template);
    set_special(a, args, "--eos", "eos_token", template);
    DRV_TRY(generator_open(a, model, out));
    template_tell_words(generator_tokenizer(*out), template);
    const int64_t most = generator_context(*out);
    if (context == 0) context = most < DEFAULT_CONTEXT ? most : DEFAULT_CONTEXT;
    return generator_load(*out, context);
}

static drv_status converse(arena *a, const cli_args *args, conversation_opts *opts) {
    const generator *g = opts->generator;
    extras beside;
    conversation *c = NULL;
    DRV_TRY(read_extras(args, &beside));
    opts->tools = beside.tools;
    opts->documents = beside.documents;
    opts->date = cli_get(args, "--date", NULL);
    drv_status status = conversation_open(a, opts, &c);
    if (status == DRV_OK) status = chat_prompt_listen();
    if (status == DRV_OK) {
        conversation_set_system(c, cli_get(args, "--system", ""));
        if (isatty(STDIN_FILENO))
            log_info("a context of %lld tokens, %s weights; /help shows the commands, Ctrl-D leaves",
                    (long long)generator_capacity(g), generator_weights(g));
        status = chat_prompt_run(c);
    }
    conversation_close(c);
    free_extras(&beside);
    return status;
}

static drv_status answer_messages(arena *a, const cli_args *args) {
    chat_model template;
    generator_opts model = {.interrupted = chat_prompt_interrupted};
    conversation_opts opts = {.model = &template, .answer.emit = generation_print};
    DRV_TRY(generation_read(a, args, &model, &opts.answer));
    drv_status status = load(a, args, &model, &template, &opts.generator);
    if (status == DRV_OK) status = converse(a, args, &opts);
    generator_close(opts.generator);
    return status;
}

static drv_status run_chat(arena *a, const cli_args *args) {
    if (cli_has(args, "--print")) return print_conversation(a, args);
    return answer_messages(a, args);
}

static const cli_option options[] = {
        CLI_ADAPTER,
        {"--system", "TEXT", "the system message at the beginning of the conversation"},
        {"--max-tokens", "N", "at most N tokens per answer (default: as the context allows)"},
        {"--context", "N", "tokens of the conversation (default 4096, or the model's if fewer)"},
        GENERATION_OPTIONS,
        {"--template", "NAME", "chat (the model's own, default), alpaca, or a Jinja file"},
        {"--tools", "FILE", "JSON file with a list of tools, for templates that use them"},
        {"--documents", "FILE", "JSON file with a list of documents, for templates that use them"},
        {"--date", "DAY", "date for the template, as 2026-11-22 (default: today)"},
        {"--bos", "TEXT", "value of bos_token in the template"},
        {"--eos", "TEXT", "value of eos_token in the template"},
        {"--print", NULL, "print the text of --messages, and answer nothing"},
        {"--messages", "FILE", "JSON file with a list of {\"role\", \"content\"}, to print"},
        {"--generation-prompt", NULL, "append the generation prompt to the printed text"},
};

static const cli_rule rules[] = {
        {.option = "--print",
                .excludes = "--system --max-tokens --context --temperature --top-k --top-p "
                            "--min-p --repetition-penalty --stop --seed --precision --threads"},
        {.option = "--messages", .needs = "--print"},
        {.option = "--generation-prompt", .needs = "--print"},
        {.option = "--system", .may_be_empty = true},
        {.option = "--bos", .may_be_empty = true},
        {.option = "--eos", .may_be_empty = true},
};

const verb verb_chat = {
        .name = "chat",
        .summary = "chat with a model, or print a conversation as the model sees it",
        .usage = "[MODEL] [--adapter DIR] [--system TEXT] [--temperature X]\n"
                 "MODEL --messages FILE --print [--generation-prompt] [--tools FILE]\n"
                 "--template FILE --messages FILE --print",
        .help = "Each line of standard input is a message; answers go to standard output as they are generated,\n"
                "prompts and notes to standard error. An answer ends where the model or its template ends a turn;\n"
                "Ctrl-C ends it, too. The model answers lines from a file or a pipe one after another; with the\n"
                "same --seed, or with --temperature 0, the same lines get the same answers.\n"
                "\n"
                "MODEL is a Hugging Face folder with tokenizer and chat template, a run directory or CONFIG, a\n"
                "GGUF file, or an adapter, as for generate; a template in the adapter's folder takes precedence\n"
                "over the model's. Weights are bf16 if config.json or the run says so.\n"
                "\n"
                "Commands, each on a line of its own:\n"
                "\n" CHAT_COMMANDS_HELP "\n"
                "\n"
                "If the context has no room for all turns and an answer of --max-tokens (at most a quarter of the\n"
                "context), the oldest questions are dropped with their answers, and a note says so; a message\n"
                "that is too long by itself is refused. A larger --context needs more memory.\n"
                "\n"
                "--print applies a chat template to a conversation, as transformers' apply_chat_template does:\n"
                "the template of a model's folder (chat_template.jinja or tokenizer_config.json) or a file. A\n"
                "template that takes too much time or memory is stopped.",
        CLI_OPTIONS(options),
        CLI_RULES(rules),
        .max_positional = 1,
        .run = run_chat,
};
