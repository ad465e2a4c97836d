// Exports, merges and copies models, and prints the proof.
#include "cli/ckpt_convert.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/parallel.h"
#include "cli/generate_args.h"
#include "convert/convert_gguf.h"
#include "infer/resolve.h"
#include "source/checkpoint_names.h"

drv_status ckpt_find(arena *a, const char *name, const char **path) {
    const bool config = str_ends(name, ".yaml") || str_ends(name, ".yml");
    const bool folder = file_is_dir(name) && !file_exists(path_join(a, name, "config.json"));
    const bool run = folder && (ckpt_run_hint(a, name) || str_ends(name, "checkpoints"));
    *path = name;
    return config || run ? ckpt_resolve(a, name, path) : DRV_OK;
}

// Does the same, and checks a checkpoint byte by byte; ckpt_find has checked that of a run.
static drv_status find_model(arena *a, const char *name, const char **path) {
    DRV_TRY(ckpt_find(a, name, path));
    const bool named = *path == name && file_exists(path_join(a, name, "manifest.json"));
    return named ? ckpt_verify_weights(name) : DRV_OK;
}

drv_status ckpt_read_options(const cli_args *args, const char *what, model_write_opts *opts) {
    const char *type = cli_get(args, "--dtype", NULL);
    *opts = (model_write_opts){.verb = what,
            .has_type = type != NULL,
            .force = cli_has(args, "--force")};
    if (type && !st_type_of(type, &opts->type))
        return drv_fail(DRV_E_USAGE, "%s: --dtype is \"%s\", expected bf16, f16 or f32", args->name,
                type);
    return cli_get_bytes(args, "--max-shard-size", 1, &opts->shard_bytes);
}

// --- printing
// Prints the differences of logits with their bounds; nothing if none were compared.
static void print_comparison(const comparison *c) {
    const bool same = strcmp(c->hash_a, c->hash_b) == 0 && c->hash_a[0];
    if (c->tokens == 0) return;
    printf("%lld tokens, %lld logits each%s\n", (long long)c->tokens, (long long)c->vocab,
            same ? "; all weights are equal" : "");
    printf("largest difference of logits  %.3g (bound %.3g)\n", c->max_abs, c->bound_max_abs);
    printf("relative to their spread      %.3g (bound %.3g)\n", c->rms, c->bound_rms);
    if (c->effect > 0)
        printf("what the adapter changes      %.3g; rounding to %s takes %.1f %% of the adapter's effect\n",
                c->effect, c->type_b, 100 * c->rms / c->effect);
    printf("KL divergence                 %.3g nats per token, at most %.3g\n", c->kl, c->kl_max);
    printf("same likeliest token          %lld of %lld", (long long)c->same_top,
            (long long)c->tokens);
    if (c->same_top < c->tokens) printf("; in A the others were ahead by at most %.3g", c->top_gap);
    printf("\n");
}

drv_status ckpt_print_result(drv_status status, const char *out, const char *type,
        const convert_result *r) {
    if (status == DRV_OK)
        log_info("%s: %d tensors, %s of %s in %.1f s", out, r->written.n_tensors,
                str_bytes((double)r->written.bytes), type ? type : st_type_name(r->written.type),
                r->written.seconds);
    if (r->compared) print_comparison(&r->comparison);
    if (status != DRV_OK) return status;
    if (!r->compared)
        printf("not verified: drover ckpt verify compares two models\n");
    else if (r->comparison.tokens)
        printf("proved: verify.json in it holds these numbers\n");
    else
        printf("proved: all weights are equal to the bit; verify.json in it says so\n");
    return DRV_OK;
}

// --- verbs
// Reads --type and --force of --gguf.
static drv_status read_gguf_opts(const cli_args *args, const char *what, const char *file,
        gguf_write_opts *out) {
    const char *type = cli_get(args, "--type", NULL);
    *out = (gguf_write_opts){.verb = what,
            .has_type = type != NULL,
            .force = cli_has(args, "--force")};
    DRV_TRY(gguf_write_check(file, out->force));
    if (!type || gguf_write_type(type, &out->type)) return DRV_OK;
    return drv_fail(DRV_E_USAGE, "%s: --type is \"%s\", expected f32, f16, bf16, q8_0 or q4_k",
            args->name, type);
}

static drv_status write_gguf(arena *a, const cli_args *args, const model *m, const char *name,
        const char *file, const gguf_write_opts *opts) {
    const bool verify = !cli_has(args, "--no-verify");
    comparison compared;
    const drv_status status = convert_gguf(a, m, name, file, opts, verify, &compared);
    print_comparison(&compared);
    if (status == DRV_OK && verify) printf("proved: %s.verify.json holds these numbers\n", file);
    return status;
}

static drv_status export_gguf(arena *a, const cli_args *args, const char *path, const char *file) {
    model m;
    gguf_write_opts opts;
    DRV_TRY(read_gguf_opts(args, "export", file, &opts));
    DRV_TRY(model_open(a, path, &m));
    const drv_status status = write_gguf(a, args, &m, m.path, file, &opts);
    model_close(&m);
    return status;
}

// Reads --names and --prefix of --dcp.
static drv_status read_names(const cli_args *args, model_write_opts *opts) {
    const char *names = cli_get(args, "--names", "hf");
    opts->dcp = foreign_names_find(names);
    opts->dcp_prefix = cli_get(args, "--prefix", "");
    if (opts->dcp) return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "%s: --names is \"%s\", expected hf, torchtitan, torchtitan-main or megatron",
            args->name, names);
}

drv_status ckpt_export(arena *a, const cli_args *args) {
    const char *path, *out, *gguf = cli_get(args, "--gguf", NULL),
                            *dcp = cli_get(args, "--dcp", NULL);
    model_write_opts opts;
    convert_result result;
    if (dcp)
        out = dcp;
    else if (!gguf)
        DRV_TRY(cli_need(args, "--out", &out));
    DRV_TRY(cli_set_threads(args));
    DRV_TRY(ckpt_read_options(args, "export", &opts));
    if (dcp) DRV_TRY(read_names(args, &opts));
    DRV_TRY(find_model(a, args->positional[0], &path));
    if (gguf) return export_gguf(a, args, path, gguf);
    const drv_status status =
            convert_export(a, path, out, &opts, !cli_has(args, "--no-verify"), &result);
    DRV_TRY(ckpt_print_result(status, out, NULL, &result));
    generation_print_hint(out);
    return DRV_OK;
}

static drv_status merge_gguf(arena *a, const cli_args *args, const char *base,
        const char *adapter_path, const char *file) {
    merged_model m;
    gguf_write_opts opts;
    DRV_TRY(read_gguf_opts(args, "merge", file, &opts));
    DRV_TRY(merged_open(a, base, adapter_path, &m));
    opts.change = &m.change;
    opts.files = m.files;
    opts.n_files = m.n_files;
    const drv_status status = write_gguf(a, args, &m.base, m.name, file, &opts);
    merged_close(&m);
    return status;
}

drv_status ckpt_merge(arena *a, const cli_args *args) {
    const char *base, *adapter_path, *out, *gguf = cli_get(args, "--gguf", NULL);
    model_write_opts opts;
    convert_result result;
    if (!gguf) DRV_TRY(cli_need(args, "--out", &out));
    DRV_TRY(cli_set_threads(args));
    DRV_TRY(ckpt_read_options(args, "merge", &opts));
    DRV_TRY(find_model(a, args->positional[0], &base));
    DRV_TRY(find_model(a, args->positional[1], &adapter_path));
    if (gguf) return merge_gguf(a, args, base, adapter_path, gguf);
    const drv_status status = convert_merge(a, base, adapter_path, out, &opts,
            !cli_has(args, "--no-verify"), &result);
    DRV_TRY(ckpt_print_result(status, out, NULL, &result));
    generation_print_hint(out);
    return DRV_OK;
}

drv_status ckpt_consolidate_verb(arena *a, const cli_args *args) {
    const char *path, *out;
    int64_t shard_bytes = INT64_MAX;
    DRV_TRY(cli_need(args, "--out", &out));
    DRV_TRY(cli_get_bytes(args, "--max-shard-size", 1, &shard_bytes));
    DRV_TRY(find_model(a, args->positional[0], &path));
    DRV_TRY(ckpt_consolidate(a, path, out, shard_bytes, cli_has(args, "--force")));
    printf("%s\n", out);
    return DRV_OK;
}

drv_status ckpt_compare(arena *a, const cli_args *args) {
    const char *paths[2];
    model models[2];
    comparison result;
    par_set_threads(0);
    for (int k = 0; k < 2; k++)
        DRV_TRY(find_model(a, args->positional[k], &paths[k]));
    DRV_TRY(model_open(a, paths[0], &models[0]));
    drv_status status = model_open(a, paths[1], &models[1]);
    if (status == DRV_OK) {
        status = compare_models(a, &models[0], &models[1], false, &result);
        model_close(&models[1]);
    }
    model_close(&models[0]);
    DRV_TRY(status);
    if (cli_has(args, "--json")) {
        json_t *json = comparison_json(&result, paths[0], paths[1]);
        cli_puts_json(json, json_dumps(json, JSON_INDENT(2) | JSON_REAL_PRECISION(9)));
    } else {
        printf("A  %-8s %s  %s\nB  %-8s %s  %s\n", result.type_a, result.hash_a, paths[0],
                result.type_b, result.hash_b, paths[1]);
        print_comparison(&result);
        if (!result.problem) puts("good: B is A within the bounds");
    }
    if (!result.problem) return DRV_OK;
    return drv_fail(DRV_E_DATA, "\"%s\" and \"%s\": %s", paths[0], paths[1], result.problem);
}
