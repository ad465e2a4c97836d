// drover ckpt: lists, shows and verifies checkpoints; the table of its subverbs.
#include <math.h>
#include <stdio.h>

#include "base/log.h"
#include "ckpt/ckpt.h"
#include "cli/cli.h"
#include "train/trainer_json.h"

// --- list
typedef struct listed {
    const char *path, *problem; // NULL: verified
    int64_t step, bytes;
    double loss; // NaN: not known
} listed;

static int64_t folder_bytes(arena *a, const char *path) {
    char **names;
    int n;
    int64_t bytes = 0;
    if (dir_list(a, path, &names, &n) != DRV_OK) return 0;
    for (int i = 0; i < n; i++)
        bytes += file_size(path_join(a, path, names[i]));
    return bytes;
}

static listed look_at(arena *a, const char *path) {
    listed found = {.path = path,
            .step = ckpt_step_of(path),
            .bytes = folder_bytes(a, path),
            .loss = (double)NAN};
    run_state state;
    json_t *about = NULL;
    drv_status status = ckpt_verify(path);
    if (status == DRV_OK) status = trainer_json_read(path, &state, &about);
    if (status == DRV_OK)
        found.loss = state.loss;
    else
        found.problem = arena_strdup(a, drv_message());
    json_decref(about);
    return found;
}

static json_t *listed_json(const listed *x) {
    return json_pack("{s:o, s:I, s:o, s:I, s:b, s:o}", "path", json_of_text(x->path), "step",
            (json_int_t)x->step, "loss", json_of_f64(x->loss), "bytes", (json_int_t)x->bytes,
            "verified", x->problem == NULL, "problem", json_of_text(x->problem));
}

static void print_json(json_t *value) {
    cli_puts_json(value,
            json_dumps(value, JSON_INDENT(2) | JSON_REAL_PRECISION(9) | JSON_ENSURE_ASCII));
}

// Returns the folder of a run's checkpoints: that in its directory, or else the path itself.
static const char *checkpoints_of(arena *a, const char *path) {
    const char *dir = path_join(a, path, "checkpoints");
    return file_is_dir(dir) ? dir : path;
}

static drv_status run_list(arena *a, const cli_args *args) {
    const char *run_dir = args->positional[0], *dir = checkpoints_of(a, run_dir);
    char **names;
    int n_steps;
    if (!file_is_dir(dir))
        return drv_fail(DRV_E_IO, "\"%s\" is not a folder, expected a run directory", run_dir);
    DRV_TRY(ckpt_list(a, dir, &names, &n_steps));
    if (n_steps == 0) log_info("%s holds no checkpoint (step-NNNNNN)", dir);
    json_t *all = json_array();
    for (int i = 0; i < n_steps; i++) {
        const listed x = look_at(a, path_join(a, dir, names[i]));
        char loss[32] = "not known";
        if (isfinite(x.loss)) snprintf(loss, sizeof loss, "%.4f", x.loss);
        if (cli_has(args, "--json"))
            json_array_append_new(all, listed_json(&x));
        else
            printf("%s  step %lld  loss %s  %s  %s%s\n", x.path, (long long)x.step, loss,
                    str_bytes((double)x.bytes), x.problem ? "refused: " : "verified",
                    x.problem ? x.problem : "");
    }
    if (cli_has(args, "--json"))
        print_json(all);
    else
        json_decref(all);
    return DRV_OK;
}

// --- verify
static drv_status check_whole(arena *a, const char *path) {
    if (file_is_dir(path) && !file_exists(path_join(a, path, "manifest.json")))
        return drv_fail(DRV_E_DATA,
                "\"%s\" has no manifest.json, the hashes of a drover checkpoint; drover ckpt verify A B compares two models",
                path);
    return ckpt_verify(path);
}

static json_t *verified_json(const char *path, const char *problem) {
    return json_pack("{s:o, s:b, s:o}", "path", json_of_text(path), "valid", problem == NULL,
            "problem", json_of_text(problem));
}

// Verifies all checkpoints of a run, since a resume may need any of them.
static drv_status verify_run(arena *a, const char *dir, bool json) {
    char **names;
    int n_steps, bad = 0;
    DRV_TRY(ckpt_list(a, dir, &names, &n_steps));
    if (n_steps == 0) return drv_fail(DRV_E_DATA, "%s holds no checkpoint (step-NNNNNN)", dir);
    json_t *all = json_array();
    for (int i = 0; i < n_steps; i++) {
        const char *path = path_join(a, dir, names[i]), *problem = NULL;
        if (check_whole(a, path) != DRV_OK) problem = arena_strdup(a, drv_message());
        bad += problem != NULL;
        if (json)
            json_array_append_new(all, verified_json(path, problem));
        else
            printf("%s: %s\n", path, problem ? problem : "ok");
    }
    if (json)
        print_json(all);
    else
        json_decref(all);
    if (!bad) return DRV_OK;
    return drv_fail(DRV_E_DATA, "%s: not valid: %d of %d checkpoint%s", dir, bad, n_steps,
            str_plural(n_steps));
}

static drv_status run_verify(arena *a, const cli_args *args) {
    if (args->n_positional == 2) return ckpt_compare(a, args);
    const char *path = args->positional[0];
    const bool json = cli_has(args, "--json");
    if (ckpt_run_hint(a, path)) return verify_run(a, checkpoints_of(a, path), json);
    drv_status status = check_whole(a, path);
    if (json)
        print_json(verified_json(path, status == DRV_OK ? NULL : drv_message()));
    else if (status == DRV_OK)
        printf("%s: ok\n", path);
    return status;
}

#define KEY_OPTION                                                                                 \
    { "--key", "KEY", "key of the dict of tensors in a file of torch.save, such as model" }

static const cli_option import_options[] = {
        {"--out", "DIR", "the Hugging Face folder to write"},
        {"--dtype", "TYPE", "type of all tensors: bf16, f16 or f32 (default: see above)"},
        {"--config", "FILE", "the config.json of the model, if it is not in the folder"},
        KEY_OPTION,
        {"--optimizer", NULL, "also import the optimizer's state, for model.weights: resume"},
        {"--keep-blocks", NULL, "keep the GGUF file in the folder, to train LoRA on its blocks"},
        {"--max-shard-size", "SIZE", "largest size of a file, such as 500MB or 2GB (default 5GB)"},
        {"--no-verify", NULL, "do not compare the result with its source"},
        {"--force", NULL,
                "write into a folder that has files; model*.safetensors in it are removed"},
};

static const cli_rule import_rules[] = {
        {.option = "--keep-blocks", .excludes = "--dtype --max-shard-size"},
        {.option = "--optimizer", .excludes = "--dtype --key --keep-blocks"},
};

static const cli_option json_options[] = {CLI_JSON};
static const cli_option show_options[] = {KEY_OPTION, CLI_JSON};

#define OUT_OPTION                                                                                 \
    { "--out", "DIR", "the folder to write; it appears whole or not at all" }
#define SHARD_OPTION                                                                               \
    {                                                                                              \
        "--max-shard-size", "SIZE",                                                                \
                "largest size of a file, such as 500MB or 2GB (default 5GB, as transformers)"      \
    }
#define GGUF_OPTIONS                                                                               \
    {"--gguf", "FILE", "write a GGUF file for llama.cpp instead of a folder"}, {                   \
        "--type", "TYPE",                                                                          \
                "type of its matrices: f32, f16, bf16, q8_0 or q4_k (default: as they are)"        \
    }
#define FORCE_OPTION                                                                               \
    {                                                                                              \
        "--force", NULL,                                                                           \
                "write into a folder that has other files; an earlier model in it is removed"      \
    }

#define WRITE_OPTIONS                                                                              \
    OUT_OPTION,                                                                                    \
            {"--dtype", "TYPE", "type of the weights: bf16, f16 or f32 (default: as they are)"},   \
            SHARD_OPTION, GGUF_OPTIONS,                                                            \
            {"--no-verify", NULL, "do not run and compare the result"},                            \
            {"--force", NULL, "write into a folder that has other files, or replace FILE"}, {      \
        "--threads", "N", "number of threads; 0: all cores (default)"                              \
    }

static const cli_option merge_options[] = {WRITE_OPTIONS};
static const cli_option export_options[] = {
        WRITE_OPTIONS,
        {"--dcp", "DIR", "write a checkpoint of torch.distributed.checkpoint instead"},
        {"--names", "WHOSE",
                "names of the tensors: hf (default), torchtitan, torchtitan-main, megatron"},
        {"--prefix", "TEXT", "text before each name, such as \"model.\""},
};
static const cli_rule gguf_rules[] = {
        {.option = "--gguf", .excludes = "--out --dtype --max-shard-size"},
        {.option = "--type", .needs = "--gguf"},
};
static const cli_rule export_rules[] = {
        {.option = "--gguf", .excludes = "--out --dtype --max-shard-size --dcp"},
        {.option = "--type", .needs = "--gguf"},
        {.option = "--dcp", .excludes = "--out --max-shard-size"},
        {.option = "--names", .needs = "--dcp"},
        {.option = "--prefix", .needs = "--dcp"},
};
static const cli_option consolidate_options[] = {
        OUT_OPTION,
        {"--max-shard-size", "SIZE",
                "largest size of a file of weights, such as 500MB or 2GB (default: one file)"},
        FORCE_OPTION,
};

static const verb subverbs[] = {
        {
                .name = "import",
                .summary = "convert a model of another format to a Hugging Face folder",
                .usage =
                        "FILE.gguf|FOLDER --out DIR [--dtype bf16|f16|f32] [--config FILE]\nFILE.gguf --out DIR --keep-blocks\nFILE.pt --out DIR [--key KEY] [--dtype bf16|f16|f32]",
                .help = "Writes a folder that drover and transformers load: config.json, weights in safetensors, the\n"
                        "tokenizer (tokenizer.json, tokenizer_config.json with the chat template) and\n"
                        "generation_config.json. The folder appears complete or not at all. Memory does not depend on the\n"
                        "size of the model.\n"
                        "\n"
                        "GGUF: reads weights of F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 and Q2_K to Q6_K of a Llama\n"
                        "or a related model (docs/families.md), and makes the tokenizer from the metadata. Quantised\n"
                        "weights become f32, which represents them exactly; --dtype bf16 rounds them and takes half the\n"
                        "space. Other weights keep their type. docs/conversions.md lists the metadata that is kept.\n"
                        "--keep-blocks keeps the file as model.gguf instead: a base for model.base_dtype gguf\n"
                        "(docs/small-machines.md).\n"
                        "\n"
                        "Folders: reads safetensors or pytorch_model.bin, in one or several files, and Meta's own files\n"
                        "(consolidated.NN.pth, params.json); models of an unknown family are refused with the difference.\n"
                        "\n"
                        "PyTorch: reads a file of torch.save (.bin, .pt, .pth, .ckpt) beside config.json and the\n"
                        "tokenizer. The file is the dict of the model's tensors, or has it under KEY, such as model or\n"
                        "state_dict. No code in it is run, and names that tensors do not need are refused.\n"
                        "\n"
                        "Checkpoints of torch.distributed.checkpoint (.metadata: PyTorch, torchtitan, Megatron-Core) are\n"
                        "read chunk by chunk. Their tensors get Hugging Face's names and order of rows; the sizes come\n"
                        "from config.json in the folder, or from --config (docs/foreign-checkpoints.md). The same holds\n"
                        "for the per-rank files of Megatron-LM, NeMo 1 (also .nemo), NxD, neuronx-nemo-megatron and\n"
                        "Optimum Neuron. --optimizer also imports moments, master weights and the step: the folder is\n"
                        "then a checkpoint with a manifest, from which a run continues by model.weights: resume.\n"
                        "\n"
                        "drover compares a hash of all values of the result with that of the source. If --dtype rounded\n"
                        "values, it runs both models and compares them as in export. verify.json records the result.",
                CLI_OPTIONS(import_options),
                CLI_RULES(import_rules),
                CLI_WORDS(1, 1),
                .run = ckpt_import,
        },
        {
                .name = "list",
                .summary = "list the checkpoints of a run, and verify them",
                .usage = "RUN_DIR [--json]",
                .help = "Checks every byte of each checkpoint against its manifest of hashes.",
                CLI_OPTIONS(json_options),
                CLI_WORDS(1, 1),
                .run = run_list,
        },
        {
                .name = "show",
                .summary = "list the tensors of a checkpoint",
                .usage = "CHECKPOINT|RUN_DIR|FILE.safetensors|FILE.pt [--key KEY] [--json]",
                .help = "Prints file, name, type and shape of each tensor of a Hugging Face folder, of the newest\n"
                        "checkpoint of a run directory or config, of a file of safetensors, or of torch.save (.bin, .pt,\n"
                        ".pth, .ckpt): there the names are the keys that lead to the tensor, joined by dots.",
                CLI_OPTIONS(show_options),
                CLI_WORDS(1, 1),
                .run = ckpt_show,
        },
        {
                .name = "verify",
                .summary = "check every byte of a checkpoint, or compare two models",
                .usage = "CHECKPOINT|RUN_DIR [--json]\nA B [--json]",
                .help = "CHECKPOINT: compares all files with the manifest of hashes; a failure names the file.\n"
                        "\n"
                        "RUN_DIR: does so for all checkpoints of the run, one a line; with --json as a list of objects.\n"
                        "\n"
                        "A B: compares two models in any format and type (Hugging Face folders, checkpoints, run\n"
                        "directories, GGUF files). The same prompts go through both in fp32: four texts, if one of them\n"
                        "has a tokenizer, and random sequences over the whole vocabulary. It prints the largest\n"
                        "difference of two logits, its size relative to the spread of the logits, the KL divergence, how\n"
                        "often the most likely token is the same, and a hash of all weights that does not depend on their\n"
                        "type or on the files. The tokenizers of two folders must agree. Equal weights must give equal\n"
                        "bits. Otherwise logits and weights may differ by no more than rounding to the coarser type\n"
                        "explains (docs/proof.md); the first weight beyond that is named with both values. Exit status 1:\n"
                        "out of bounds. The models stay on disk; memory is some 200 MB for any size.",
                CLI_OPTIONS(json_options),
                CLI_WORDS(1, 2),
                .run = run_verify,
        },
        {
                .name = "export",
                .summary = "write a model for publishing, and check it",
                .usage =
                        "SRC --out DIR [--dtype bf16|f16|f32]\nSRC --gguf FILE [--type f32|f16|bf16|q8_0|q4_k]\nSRC --dcp DIR [--names WHOSE] [--prefix TEXT] [--dtype bf16|f16|f32]",
                .help = "SRC is a checkpoint, a run directory or config (its newest checkpoint), or any model that drover\n"
                        "reads. DIR becomes a Hugging Face folder for transformers and other programs that read this\n"
                        "format: safetensors in shards with an index, config.json with the true type,\n"
                        "generation_config.json, tokenizer and chat template. Optimizer and run state are left out; for a\n"
                        "copy that resumes, see ckpt consolidate.\n"
                        "\n"
                        "Without --dtype weights keep their type and their bytes. A weight that f16 cannot hold is\n"
                        "refused by name. Memory does not depend on the size of the model. --gguf writes weights,\n"
                        "tokenizer and chat template in one file that llama.cpp loads. With --type q4_k the output weight\n"
                        "is Q8_0; with q8_0 and q4_k a matrix whose rows are not multiples of a block (32 or 256 numbers)\n"
                        "is Q8_0 or F16.\n"
                        "\n"
                        "--dcp writes a checkpoint for PyTorch, torchtitan and Megatron-Core: .metadata and __0_0.distcp,\n"
                        "with the names and the order of rows that --names selects (docs/foreign-checkpoints.md).\n"
                        "\n"
                        "The result is checked: the same prompts run through SRC and DIR, as in ckpt verify A B, and\n"
                        "verify.json (FILE.verify.json) has the numbers. A result that is out of bounds stays at\n"
                        "DIR.unproved (FILE.unproved), and the exit status is 1.",
                CLI_OPTIONS(export_options),
                CLI_RULES(export_rules),
                CLI_WORDS(1, 1),
                .run = ckpt_export,
        },
        {
                .name = "merge",
                .summary = "merge a LoRA adapter into its base, and check the result",
                .usage =
                        "BASE ADAPTER --out DIR [--dtype bf16|f16|f32]\nBASE ADAPTER --gguf FILE [--type f32|f16|bf16|q8_0|q4_k]",
                .help = "ADAPTER is PEFT's folder (adapter_config.json, adapter_model.safetensors), as drover and PEFT\n"
                        "save it; or a LoRA run's directory, whose newest checkpoint is used. Each weight becomes W +\n"
                        "scale B A, computed in fp32 and rounded once; scale is alpha / r, or alpha / sqrt(r) for rsLoRA,\n"
                        "and rank_pattern and alpha_pattern are applied. Features that would change the model differently\n"
                        "are refused by name: DoRA, biases, modules_to_save, a base of other shapes, and adapters whose\n"
                        "initialisation changed the base (PiSSA, OLoRA).\n"
                        "\n"
                        "The tokenizer is the adapter's if it has one. Everything else is as in ckpt export: the same\n"
                        "prompts run through base + adapter and the merged model. --gguf quantises the merged model as\n"
                        "--type says, whatever the type of the base in memory was during training.",
                CLI_OPTIONS(merge_options),
                CLI_RULES(gguf_rules),
                CLI_WORDS(2, 2),
                .run = ckpt_merge,
        },
        {
                .name = "consolidate",
                .summary = "copy a checkpoint into fewer or more files, bit for bit",
                .usage = "CHECKPOINT --out DIR [--max-shard-size SIZE]",
                .help = "Copies a checkpoint, with its optimizer and run state, and puts its weights into one file, or\n"
                        "into files of at most SIZE. Every tensor keeps its type and its bytes, and the copy resumes as\n"
                        "the original does. For a model to publish, or one of another type, see ckpt export.",
                CLI_OPTIONS(consolidate_options),
                CLI_WORDS(1, 1),
                .run = ckpt_consolidate_verb,
        },
};

const verb verb_ckpt = {
        .name = "ckpt",
        .summary = "inspect checkpoints; import, export, merge and compare models",
        .help = "A checkpoint is a Hugging Face folder with optimizer state and a manifest of hashes in it.\n"
                "import reads models of other formats, export and merge write models, and verify compares two.",
        CLI_SUBVERBS(subverbs),
};
