// drover model: downloads a model, or publishes one.
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/str.h"
#include "cli/fetch.h"
#include "cli/generate_args.h"
#include "cli/model_push.h"
#include "config/value.h"

static drv_status model_get(arena *a, const cli_args *args) {
    const char *spec = args->positional[0];
    if (str_starts(spec, "hf:")) spec += 3;
    const char *slash = strrchr(spec, '/');
    const char *out =
            cli_get(args, "--out", arena_printf(a, "models/%s", slash ? slash + 1 : spec));
    fetch_opts o;
    download *list;
    int n;
    bool has_tokenizer = false;
    DRV_TRY(fetch_options(a, args, out, &o));
    DRV_TRY(hub_list_model(a, spec, &o.hub, &list, &n));
    DRV_TRY(fetch_files(&o, list, n));
    for (int i = 0; i < n; i++)
        has_tokenizer |= str_ends(list[i].path, "/tokenizer.json") ||
                         str_ends(list[i].path, "/tokenizer.model");
    if (!has_tokenizer)
        log_warn("%s: the model has no tokenizer; name another one in the config", out);
    str from = {0};
    yaml_put_path(out, &from);
    printf("in a config: model: {from: %s}\n", from.p);
    str_free(&from);
    generation_print_hint(out);
    return DRV_OK;
}

static const cli_option get_options[] = {
        {"--out", "DIR", "where the files go (default models/NAME)"},
        CLI_FETCH,
};

static const verb subverbs[] = {
        {
                .name = "get",
                .summary = "download a model from the Hugging Face hub",
                .usage = "hf:ORG/NAME [--revision NAME] [--out DIR]",
                .help = "Downloads config.json, generation_config.json, the tokenizer's files, the chat template and\n"
                        "the weights in safetensors, or where there are none in pytorch_model*.bin, several files at a\n"
                        "time. Files are checked against their size and hash, and interrupted downloads are resumed.\n"
                        "The token is that of HF_TOKEN or of `hf auth login`; it is sent to the hub alone, over https.\n"
                        "HF_ENDPOINT names another hub. At the end it prints how to go on: `model: {from:\n"
                        "models/NAME}` in a config trains the model further.",
                CLI_OPTIONS(get_options),
                .min_positional = 1,
                .max_positional = 1,
                .run = model_get,
        },
        {
                .name = "push",
                .summary = "publish a model on the Hugging Face hub",
                .usage = "FOLDER hf:ORG/NAME [--create [--private]] [--dry-run]",
                .help = MODEL_PUSH_HELP,
                .options = model_push_options,
                .n_options = N_MODEL_PUSH_OPTIONS,
                .rules = model_push_rules,
                .n_rules = N_MODEL_PUSH_RULES,
                .min_positional = 2,
                .max_positional = 2,
                .run = model_push,
        },
};

const verb verb_model = {
        .name = "model",
        .summary = "get a model from the Hugging Face hub, or publish one there",
        CLI_SUBVERBS(subverbs),
};
