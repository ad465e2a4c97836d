// drover model: downloads a model, or publishes one.
#include <stdio.h>

#include "base/log.h"
#include "base/file.h"
#include "base/str.h"
#include "cli/fetch.h"
#include "cli/generate_args.h"
#include "config/value.h"

static drv_status model_get(arena *a, const cli_args *args) {
    const char *spec = args->positional[0];
    if (str_starts(spec, "hf:")) spec += 3;
    const char *out = cli_get(args, "--out", arena_printf(a, "models/%s", path_name(spec)));
    hub_opts o;
    download *list;
    int n;
    bool has_tokenizer = false;
    DRV_TRY(fetch_options(a, args, out, &o));
    DRV_TRY(hub_list_model(a, spec, &o, &list, &n));
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
        {"--out", "DIR", "the folder for the files (default models/NAME)"},
        CLI_FETCH,
};

static const cli_option push_options[] = {
        {"--create", NULL, "create the repository or the branch if it does not exist"},
        {"--private", NULL, "make the new repository private"},
        {"--branch", "NAME", "the branch that gets the commit (default main)"},
        {"--create-pr", NULL, "open a pull request to the branch instead"},
        {"--message", "TEXT", "message of the commit (default \"Upload NAME with drover\")"},
        {"--optimizer", NULL,
                "also send the files that resuming needs: optimizer, trainer.json, manifest.json"},
        {"--card", NULL, "write the card even if the folder has a README.md"},
        {"--base", "NAME", "for the card: the model of the hub that this one comes from"},
        {"--dataset", "NAME", "for the card: a data set of the hub (repeatable)"},
        {"--license", "NAME", "for the card: the licence, as the hub names it (apache-2.0)"},
        {"--language", "CODE", "for the card: the language of the texts (en)"},
        {"--dry-run", NULL, "print what would be sent, and the card, and send nothing"},
        {"--parallel", "N", "files or parts at a time (default 4)"},
        {"--tries", "N", "attempts for a request that fails (default 8)"},
};
static const cli_rule push_rules[] = {
        {"--private", .needs = "--create"},
        {"--dry-run", .excludes = "--create --private"},
};

static const verb subverbs[] = {
        {
                .name = "get",
                .summary = "download a model from the Hugging Face hub",
                .usage = "hf:ORG/NAME [--revision NAME] [--out DIR]",
                .help = "Downloads config.json, generation_config.json, the tokenizer's files, the chat template and the\n"
                        "weights in safetensors, or, if there are none, in pytorch_model*.bin, several files at a time.\n"
                        "It checks their size and hash, and resumes interrupted downloads. The token comes from HF_TOKEN\n"
                        "or `hf auth login`; it is sent only to the hub, over https. HF_ENDPOINT names another hub. At\n"
                        "the end it prints the next step: `model: {from: models/NAME}` in a config trains the model\n"
                        "further.",
                CLI_OPTIONS(get_options),
                CLI_WORDS(1, 1),
                .run = model_get,
        },
        {
                .name = "push",
                .summary = "publish a model on the Hugging Face hub",
                .usage = "FOLDER hf:ORG/NAME [--create [--private]] [--dry-run]",
                .help = "Uploads a model folder, a checkpoint (also by its run directory) or a LoRA adapter: config,\n"
                        "weights, tokenizer, chat template, licence texts, verify.json and README.md. Files that the hub\n"
                        "has are not sent again, so the same command continues an interrupted push; of a large file it\n"
                        "sends the missing parts. All files appear on the hub at once, in one commit (in several beyond\n"
                        "256 files). Large files are uploaded by Git LFS, even if the hub stores them in Xet.\n"
                        "\n"
                        "Without a README.md in the folder drover writes a card with the facts it has: data, steps, loss\n"
                        "and ranks of the run, hashes of the weights, the proof of verify.json. Add more with --base,\n"
                        "--dataset, --license and --language.\n"
                        "\n"
                        "The token comes from HF_TOKEN, or from the file that `hf auth login` has written (HF_TOKEN_PATH,\n"
                        "HF_HOME). It is sent only to the hub, over https; HF_ENDPOINT names another hub.",
                CLI_OPTIONS(push_options),
                CLI_RULES(push_rules),
                CLI_WORDS(2, 2),
                .run = model_push,
        },
};

const verb verb_model = {
        .name = "model",
        .summary = "get a model from the Hugging Face hub, or publish one there",
        CLI_SUBVERBS(subverbs),
};
