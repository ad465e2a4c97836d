// generate: text from a model.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "cli/generate_args.h"

enum { DEFAULT_TOKENS = 200 };

// Reads the prompt of --prompt TEXT or --prompt-file FILE; "-" in either means standard input.
static drv_status read_prompt(arena *a, const cli_args *args, str *out) {
    const char *text = cli_get(args, "--prompt", NULL),
               *path = cli_get(args, "--prompt-file", NULL);
    char *bytes;
    size_t n;
    if (text && strcmp(text, "-") != 0)
        str_puts(out, text);
    else if (text || path) {
        DRV_TRY(file_read_input(a, text ? text : path, &bytes, &n));
        str_add(out, bytes, n);
    }
    return DRV_OK;
}

// --- the samples
typedef struct generate_call {
    generator *generator;
    generate_opts opts;
    const str *prompt;
    const char *folder; // of the model
    id_list ids;        // of the prompt
    int64_t n;          // samples
    bool json;
} generate_call;

static double rate(int64_t n, double seconds) {
    return seconds > 0 ? (double)n / seconds : 0;
}

static void print_json(const generate_call *call, const prompt_cost *cost,
        const generate_result *r) {
    const str *prompt = call->prompt;
    json_t *ids = json_array();
    for (int64_t i = 0; i < r->ids.n; i++)
        json_array_append_new(ids, json_integer(r->ids.p[i]));
    json_t *o = json_pack("{so so sI so ss sf sI so}", "prompt",
            generated_json(prompt->p ? prompt->p : "", prompt->n), "text",
            generated_json(r->text.p ? r->text.p : "", r->text.n), "tokens", (json_int_t)r->ids.n,
            "ids", ids, "finish_reason", r->end == GENERATE_STOP ? "stop" : "length",
            "tokens_per_s", rate(r->ids.n, r->seconds), "prompt_tokens", (json_int_t)call->ids.n,
            "prompt_tokens_per_s",
            json_of_f64(cost->n_tokens ? rate(cost->n_tokens, cost->seconds) : (double)NAN));
    cli_puts_json(o, json_dumps(o, JSON_REAL_PRECISION(6)));
    fflush(stdout);
}

static drv_status print_sample(generate_call *call, prompt_cost *cost, generate_result *r) {
    const str *prompt = call->prompt;
    DRV_TRY(generator_prompt(call->generator, call->ids.p, call->ids.n, cost));
    if (!call->json) generation_print(NULL, prompt->p ? prompt->p : "", prompt->n);
    drv_status status = generate(call->generator, &call->opts, r);
    if (!call->json) generation_print(NULL, "\n", 1); // before the line on standard error
    DRV_TRY_CTX(status, "\"%s\"", call->folder);
    if (call->json) print_json(call, cost, r);
    return DRV_OK;
}

static drv_status print_samples(generate_call *call) {
    int64_t tokens = 0, n_computed = 0; // the last token of a prompt counts with the new ones
    double seconds = 0, prompt_s = 0;
    for (int64_t i = 0; i < call->n; i++) {
        generate_result r;
        prompt_cost cost;
        if (!call->json && i > 0) puts("---");
        call->opts.index = i;
        DRV_TRY(print_sample(call, &cost, &r));
        tokens += r.ids.n;
        seconds += r.seconds;
        n_computed += cost.n_tokens;
        prompt_s += cost.seconds;
        generate_result_free(&r);
    }
    char prompt_time[32] = "";
    if (n_computed) snprintf(prompt_time, sizeof prompt_time, " in %.3g s", prompt_s);
    log_info("%lld prompt token%s%s, %lld new token%s in %.3g s: %.1f tokens/s, %s weights",
            (long long)call->ids.n, str_plural(call->ids.n), prompt_time, (long long)tokens,
            str_plural(tokens), seconds, rate(tokens, seconds), generator_weights(call->generator));
    return DRV_OK;
}

// --- the verb
static drv_status read_options(arena *a, const cli_args *args, generator_opts *model,
        generate_call *call) {
    DRV_TRY(cli_get_i64(args, "--n", 1, 1 << 24, &call->n));
    DRV_TRY(generation_read(a, args, model, &call->opts));
    call->json = cli_has(args, "--json");
    if (!call->json) call->opts.emit = generation_print;
    call->folder = model->folder;
    return DRV_OK;
}

// Finds how many new tokens the model's context leaves beside the prompt.
static drv_status fit_context(generate_call *call) {
    const int64_t context = generator_context(call->generator), n = call->ids.n, left = context - n;
    int64_t *max_tokens = &call->opts.max_tokens;
    if (left < 1)
        return drv_fail(DRV_E_USAGE,
                "the prompt has %lld tokens, but the model's context of %lld leaves room for fewer than that",
                (long long)n, (long long)context);
    if (*max_tokens == 0) *max_tokens = left < DEFAULT_TOKENS ? left : DEFAULT_TOKENS;
    if (*max_tokens > left)
        return drv_fail(DRV_E_USAGE,
                "prompt and --max-tokens are %lld tokens, but the model's context is %lld; expected --max-tokens of at most %lld",
                (long long)(n + *max_tokens), (long long)context, (long long)left);
    return DRV_OK;
}

static drv_status prepare(arena *a, const generator_opts *model, generate_call *call) {
    const str *prompt = call->prompt;
    DRV_TRY(generator_open(a, model, &call->generator));
    DRV_TRY(generator_encode(call->generator, prompt->p, prompt->n, true, &call->ids));
    const int32_t bos = tokenizer_role(generator_tokenizer(call->generator), ROLE_BOS);
    if (call->ids.n == 0) id_list_add(&call->ids, bos >= 0 ? bos : 0);
    DRV_TRY(fit_context(call));
    return generator_load(call->generator, call->ids.n + call->opts.max_tokens);
}

static drv_status run_generate(arena *a, const cli_args *args) {
    str prompt = {0};
    generator_opts model = {0};
    generate_call call = {.prompt = &prompt, .n = 1};
    DRV_TRY(read_options(a, args, &model, &call));
    drv_status status = read_prompt(a, args, &prompt);
    if (status == DRV_OK) status = prepare(a, &model, &call);
    if (status == DRV_OK) status = print_samples(&call);
    generator_close(call.generator);
    id_list_free(&call.ids);
    str_free(&prompt);
    return status;
}

static const cli_option generate_options[] = {
        CLI_ADAPTER,
        {"--prompt", "TEXT", "the beginning of the text; - reads standard input"},
        {"--prompt-file", "FILE", "read the prompt from a file; - reads standard input"},
        {"--max-tokens", "N", "at most N new tokens (default 200, or as the context allows)"},
        {"--n", "N", "number of samples (default 1), with --- between them"},
        {"--json", NULL, "print one JSON object per sample"},
        GENERATION_OPTIONS,
};

static const cli_rule generate_rules[] = {
        {.option = "--prompt", .may_be_empty = true},
        {.option = "--prompt-file", .excludes = "--prompt"},
};

const verb verb_generate = {
        .name = "generate",
        .summary = "write text with a model",
        .usage = "[MODEL] [--adapter DIR] --prompt TEXT [--max-tokens N] [--temperature X]",
        .help = "MODEL is a Hugging Face folder with a tokenizer: a checkpoint of a run, or any Llama; a run\n"
                "directory or CONFIG, whose newest checkpoint is used; or a GGUF file with its own tokenizer.\n"
                "Nothing is printed until the model is loaded and the prompt is known to fit its context.\n"
                "\n"
                "An adapter is a folder that PEFT saved or a checkpoint of a LoRA run; without MODEL it is used\n"
                "with the base that it names. A tokenizer in its folder takes precedence over the base's.\n"
                "\n"
                "Weights are bf16 if config.json says bfloat16, and for checkpoints of a run that trained in bf16\n"
                "(fp32 weights are rounded, as in training): memory bandwidth limits generation, so half the\n"
                "bytes take half the time. --precision changes this: with blocks, the weights of a GGUF file stay\n"
                "quantised in memory and are converted to fp32 when they are used. This takes only as much memory\n"
                "as the file is large and gives the results of fp32, but takes several times as long.\n"
                "\n"
                "Sampling applies the repetition penalty, temperature, top k, top p and min p in the same order\n"
                "as transformers. --json prints prompt, text, tokens (new ones), ids, finish_reason (stop,\n"
                "length), tokens_per_s, prompt_tokens and prompt_tokens_per_s (of those that had to be computed:\n"
                "of a second sample few, or none: null); the text ends before a stop text.",
        CLI_OPTIONS(generate_options),
        CLI_RULES(generate_rules),
        .max_positional = 1,
        .run = run_generate,
};
