// drover model push: its options, and the verb.
#pragma once
#include "cli/cli.h"

enum { N_MODEL_PUSH_OPTIONS = 14, N_MODEL_PUSH_RULES = 2 };
extern const cli_option model_push_options[N_MODEL_PUSH_OPTIONS];
extern const cli_rule model_push_rules[N_MODEL_PUSH_RULES];

#define MODEL_PUSH_HELP                                                                                \
    "Uploads a model folder, a checkpoint (also by its run directory) or a LoRA adapter: config, "     \
    "weights, tokenizer, chat template, licence texts, verify.json and README.md. Files that\n"        \
    "the hub has are not sent again, so the same command continues an interrupted push; of a\n"        \
    "large file it sends the missing parts. All files appear on the hub at once, in one commit\n"      \
    "(in several beyond 256 files). Large files are uploaded by Git LFS, even if the hub\n"            \
    "stores them in Xet.\n\n"                                                                          \
    "Without a README.md in the folder drover writes a card with the facts it has: data, steps, loss " \
    "and ranks of the run, hashes of the weights, the proof of verify.json. Add others by\n"           \
    "--base, --dataset, --license and --language.\n\n"                                                 \
    "The token comes from HF_TOKEN, or from the file that `hf auth login` has written "                \
    "(HF_TOKEN_PATH, HF_HOME). It is sent to the hub alone, over https; HF_ENDPOINT names "            \
    "another hub."

drv_status model_push(arena *a, const cli_args *args);
