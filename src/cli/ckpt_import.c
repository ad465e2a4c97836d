// drover ckpt import: a GGUF file, or a Hugging Face folder, becomes a folder that drover and
// transformers load.
#include "cli/ckpt_import.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "ckpt/ckpt.h"
#include "ckpt/model_writer.h"
#include "config/model_config.h"
#include "model/parameters.h"

// The tensors that the model of this config has.
static ckpt_tensor *expected_tensors(arena *a, const model_config *m, int *n) {
    const model_layout layout = layout_of(m);
    const param_list params = llama_params(a, &layout);
    ckpt_tensor *list = ARENA_ARRAY(a, ckpt_tensor, MAX_PARTS * params.n + 1);
    *n = 0;
    for (int i = 0; i < params.n; i++) {
        const param *w = &params.p[i];
        for (int k = 0; k < w->n_parts; k++)
            list[(*n)++].entry = (st_entry){.name = w->part[k].hf_name,
                    .n_dims = w->n_dims,
                    .dim = {w->part[k].rows, w->n_dims == 2 ? w->dim[1] : 0}};
    }
    return list;
}

static drv_status read_config(arena *a, const model_source *s, model_config *out) {
    json_t *json;
    const bool folder = file_is_dir(s->path);
    DRV_TRY(s->reader->config(s, &json));
    const drv_status status =
            model_config_of_json(folder ? path_join(a, s->path, "config.json") : s->path, json,
                    out);
    json_decref(json);
    return status;
}

static drv_status write_folder(arena *a, const model_source *s, const char *out,
        const model_write_opts *opts, model_written *written) {
    model_config m;
    int n;
    DRV_TRY(read_config(a, s, &m));
    const ckpt_tensor *expected = expected_tensors(a, &m, &n);
    DRV_TRY(ckpt_check_source(a, s, expected, n));
    st_entry *list = ARENA_ARRAY(a, st_entry, n + 1);
    for (int i = 0; i < n; i++)
        list[i] = expected[i].entry;
    return model_write(a, s, list, n, out, opts, written);
}

// The folder is complete; a tokenizer that drover does not read would be found out only later.
static void try_tokenizer(arena *a, const char *out) {
    tokenizer *t;
    if (!file_exists(path_join(a, out, "tokenizer.json")))
        log_warn("%s has no tokenizer; name one in the config (tokenizer: DIR)", out);
    else if (tokenizer_open(a, out, &t) == DRV_OK)
        tokenizer_close(t);
    else
        log_warn("the tokenizer is there, but drover does not read it: %s", drv_message());
}

static drv_status read_options(const cli_args *args, model_write_opts *opts) {
    const char *type = cli_get(args, "--dtype", NULL);
    *opts = (model_write_opts){.verb = "import",
            .has_type = type != NULL,
            .force = cli_has(args, "--force")};
    if (type && !st_type_of(type, &opts->type))
        return drv_fail(DRV_E_USAGE, "ckpt import: --dtype is \"%s\", expected bf16, f16 or f32",
                type);
    return cli_get_bytes(args, "--max-shard-size", 1, &opts->shard_bytes);
}

drv_status ckpt_import(arena *a, const cli_args *args) {
    const char *in = args->positional[0], *out;
    model_write_opts opts;
    model_source source;
    model_written written;
    DRV_TRY(cli_need(args, "--out", &out));
    DRV_TRY(read_options(args, &opts));
    DRV_TRY(model_write_check(in, out, opts.force));
    DRV_TRY(model_source_open(a, in, &source));
    const drv_status status = write_folder(a, &source, out, &opts, &written);
    model_source_close(&source);
    DRV_TRY(status);
    try_tokenizer(a, out);
    log_info("%s: %d tensors, %s of %s in %.1f s", out, written.n_tensors,
            str_bytes((double)written.bytes), st_type_name(written.type), written.seconds);
    printf("in a config: model: {from: %s}\ntry it: drover generate %s --prompt \"Once upon a "
           "time\"\n",
            out, out);
    return DRV_OK;
}
