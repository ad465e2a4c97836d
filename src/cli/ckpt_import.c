// drover ckpt import: makes a folder that drover and transformers load from a GGUF file, a
// Hugging Face folder or a file of torch.save.
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "cli/generate_args.h"
#include "cli/ckpt_convert.h"
#include "source/foreign_state.h"
#include "config/value.h"
#include "convert/convert.h"
#include "tok/model_file.h"

static int by_name(const void *x, const void *y) {
    return strcmp(((const st_entry *)x)->name, ((const st_entry *)y)->name);
}

// Orders tensors as an existing folder does, or by name, as transformers saves a model.
static drv_status write_folder(arena *a, const model *m, const char *out,
        const model_write_opts *opts, bool verify, convert_result *result) {
    st_entry *list = model_entries(a, m);
    if (!file_is_dir(m->source.path)) qsort(list, (size_t)m->n_tensors, sizeof *list, by_name);
    return convert_import(a, m, list, m->n_tensors, out, opts, verify, result);
}

static drv_status check_blocks(const model *m) {
    for (int i = 0; i < m->source.n; i++)
        if (m->source.tensors[i].quant) return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "ckpt import: --keep-blocks, but \"%s\" is %s, expected a GGUF file", m->path,
            m->source.reader->format);
}

// The folder is complete. Checks the tokenizer now; otherwise one that drover cannot read would be
// noticed only later.
static void try_tokenizer(arena *a, const char *out) {
    tokenizer *t;
    if (!tokenizer_file_of(a, out))
        log_warn("%s has no tokenizer; name one in the config (tokenizer: DIR)", out);
    else if (tokenizer_open(a, out, &t) == DRV_OK)
        tokenizer_close(t);
    else
        log_warn("the tokenizer is there, but drover does not read it: %s", drv_message());
}

// Writes the folder, with the state of the optimizer where that is asked for.
static drv_status write_all(arena *a, const cli_args *args, const model *m, model_write_opts *opts,
        const char *out, convert_result *result) {
    const bool verify = !cli_has(args, "--no-verify");
    model_source state;
    foreign_progress stood;
    if (!cli_has(args, "--optimizer")) return write_folder(a, m, out, opts, verify, result);
    DRV_TRY(model_source_open_optimizer(a, args->positional[0], cli_get(args, "--config", NULL),
            &state, &stood));
    opts->optimizer = &state;
    opts->progress = &stood;
    const drv_status status = write_folder(a, m, out, opts, verify, result);
    if (status == DRV_OK)
        log_info("%s: with the optimizer's state of step %lld, %d tensors", out,
                (long long)stood.step, state.n);
    model_source_close(&state);
    return status;
}

drv_status ckpt_import(arena *a, const cli_args *args) {
    const char *in = args->positional[0], *out;
    model_write_opts opts;
    model source;
    convert_result result;
    DRV_TRY(cli_need(args, "--out", &out));
    DRV_TRY(ckpt_read_options(args, "import", &opts));
    opts.keep_blocks = cli_has(args, "--keep-blocks");
    DRV_TRY(model_write_check(in, out, opts.force));
    const char *key = cli_get(args, "--key", NULL), *config = cli_get(args, "--config", NULL);
    if (key && file_is_dir(in))
        return drv_fail(DRV_E_USAGE,
                "ckpt import: --key is \"%s\", and \"%s\" is a folder, expected a file of torch.save (.pt, .pth, .ckpt)",
                key, in);
    const drv_status opened = key ? model_source_open_torch(a, in, key, &source.source)
                                  : model_source_open_with(a, in, config, &source.source);
    if (key) source.source.config_file = config;
    DRV_TRY(model_of_source(opened, a, in, &source));
    const char *kept = opts.keep_blocks ? model_main_tensor(&source)->type_name : NULL;
    drv_status status = kept ? check_blocks(&source) : DRV_OK;
    result.compared = false;
    if (status == DRV_OK) status = write_all(a, args, &source, &opts, out, &result);
    model_close(&source);
    DRV_TRY(ckpt_print_result(status, out, kept, &result));
    try_tokenizer(a, out);
    str from = {0};
    yaml_put_path(out, &from);
    printf("in a config: model: {from: %s%s}\n", from.p,
            kept                           ? ", base_dtype: gguf"
            : cli_has(args, "--optimizer") ? ", weights: resume"
                                           : "");
    str_free(&from);
    generation_print_hint(out);
    return DRV_OK;
}
