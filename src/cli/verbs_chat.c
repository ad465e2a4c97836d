// drover chat: a conversation as the text that a model sees.
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "chat/chat_model.h"
#include "cli/cli.h"

static drv_status read_json(const char *path, const char *key, json_t **out) {
    DRV_TRY(json_read_file(path, out));
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

static drv_status find_template(arena *a, const cli_args *args, chat_model *out) {
    const char *file = cli_get(args, "--template", NULL);
    *out = (chat_model){.specials = ARENA_ARRAY(a, special_text, 2)};
    if (args->n_positional) {
        const char *folder = args->positional[0];
        if (!file_is_dir(folder)) return drv_fail(DRV_E_IO, "\"%s\" is not a folder", folder);
        DRV_TRY(chat_model_read(a, folder, cli_has(args, "--tools"), out));
        if (!file && !out->path)
            return drv_fail(DRV_E_DATA, "\"%s\" has no chat template; give one by --template FILE",
                    folder);
    }
    if (file) {
        char *text;
        DRV_TRY(file_read(a, file, &text, &out->n_source));
        out->source = text;
        out->path = file;
    }
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

static drv_status print_text(arena *a, const chat_model *m, const chat_input *in) {
    chat_template *t;
    chat_output out;
    DRV_TRY(chat_template_open(a, m->path, m->source, m->n_source, &t));
    DRV_TRY(chat_render(a, t, in, &out));
    fwrite(out.text.p ? out.text.p : "", 1, out.text.n, stdout);
    str_free(&out.text);
    return DRV_OK;
}

static drv_status run_chat(arena *a, const cli_args *args) {
    chat_model m;
    const char *messages;
    json_t *list[3] = {NULL, NULL, NULL};
    if (!cli_has(args, "--print"))
        return drv_fail(DRV_E_USAGE, "chat: --print is missing; answering is not there yet");
    DRV_TRY(find_template(a, args, &m));
    DRV_TRY(cli_need(args, "--messages", &messages));
    set_special(a, args, "--bos", "bos_token", &m);
    set_special(a, args, "--eos", "eos_token", &m);
    const time_t now = time(NULL);
    chat_input in = {.add_generation_prompt = cli_has(args, "--generation-prompt"),
            .specials = m.specials,
            .n_specials = m.n_specials};
    localtime_r(&now, &in.now);
    const char *tools = cli_get(args, "--tools", NULL),
               *documents = cli_get(args, "--documents", NULL);
    drv_status status = read_json(messages, "messages", &list[0]);
    if (status == DRV_OK && tools) status = read_json(tools, "tools", &list[1]);
    if (status == DRV_OK && documents) status = read_json(documents, "documents", &list[2]);
    in.messages = list[0];
    in.tools = list[1];
    in.documents = list[2];
    if (status == DRV_OK) status = print_text(a, &m, &in);
    for (int i = 0; i < 3 && status == DRV_OK; i++)
        json_decref(list[i]);
    return status;
}

static const cli_option options[] = {
        {"--messages", "FILE", "JSON: the conversation, a list of {\"role\", \"content\"}"},
        {"--tools", "FILE", "JSON: a list of tools, for templates that know them"},
        {"--documents", "FILE", "JSON: a list of documents, likewise"},
        {"--template", "FILE", "a Jinja template; default: the model's own"},
        {"--generation-prompt", NULL, "end with what begins the answer"},
        {"--bos", "TEXT", "what the template sees as bos_token"},
        {"--eos", "TEXT", "and as eos_token"},
        {"--print", NULL, "write the text to standard output"},
};

const verb verb_chat = {
        .name = "chat",
        .summary = "print a conversation as a model sees it",
        .usage = "MODEL --messages FILE --print [--generation-prompt] [--tools FILE]\n"
                 "--template FILE --messages FILE --print",
        .help = "Applies a chat template to a conversation, as transformers' apply_chat_template does:\n"
                "the template of a model's folder (chat_template.jinja or tokenizer_config.json) or a\n"
                "file. A template that asks for too much time or memory is stopped.",
        .options = options,
        .n_options = sizeof options / sizeof *options,
        .max_positional = 1,
        .run = run_chat,
};
