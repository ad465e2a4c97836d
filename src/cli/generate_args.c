// Options that generate and chat share, text on its way out, and how to try a model.
#include "cli/generate_args.h"

#include <stdio.h>
#include <string.h>

#include "backend/caps/backend_caps.h"
#include "base/file.h"
#include "record/model_hint.h"
#include "setup/device.h"
#include "infer/resolve.h"

drv_status generation_precision(const cli_args *args, generate_precision *out) {
    int index = 0;
    DRV_TRY(cli_get_choice(args, "--precision", "bf16, fp32 or blocks", &index));
    if (cli_has(args, "--precision")) *out = (generate_precision)(GENERATE_BF16 + index);
    return DRV_OK;
}

// Reads --backend NAME. A back end that has devices takes the keys pjrt.* of the config or the run
// that is named, or is given as "NAME:PLUGIN".
static void read_device(arena *a, const cli_args *args, generator_opts *model) {
    const char *name = cli_get(args, "--backend", NULL),
               *target = args->n_positional ? args->positional[0] : "";
    run_config *cfg = ARENA_NEW(a, run_config);
    const char *file = file_is_dir(target) ? path_join(a, target, "config.yaml") : target;
    model->backend = name;
    if (!name) return;
    const size_t n = strcspn(name, ":");
    const char *alone = arena_printf(a, "%.*s", (int)n, name);
    if (!backend_caps_of(alone)->has_devices) return;
    if (str_ends(file, ".yaml") && file_exists(file) && !file_odd_kind(file) &&
            config_load(a, file, NULL, 0, cfg) == DRV_OK)
        model->device = device_opts(cfg);
    if (!name[n]) return;
    model->backend = alone;
    model->device.plugin = name + n + 1;
}

drv_status generation_read(arena *a, const cli_args *args, generator_opts *model,
        generate_opts *out) {
    out->sampling = (sample_opts){.temperature = 0.8, .top_p = 0.95, .repetition_penalty = 1};
    DRV_TRY(cli_get_i64(args, "--max-tokens", 1, 1 << 24, &out->max_tokens));
    DRV_TRY(cli_get_f64(args, "--temperature", 0, 100, &out->sampling.temperature));
    DRV_TRY(cli_get_f64(args, "--top-p", 0.001, 1, &out->sampling.top_p));
    DRV_TRY(cli_get_f64(args, "--min-p", 0, 1, &out->sampling.min_p));
    DRV_TRY(cli_get_i64(args, "--top-k", 0, INT32_MAX, &out->sampling.top_k));
    DRV_TRY(cli_get_f64(args, "--repetition-penalty", 0.01, 100,
            &out->sampling.repetition_penalty));
    DRV_TRY(cli_get_i64(args, "--seed", 0, INT64_MAX, &out->seed));
    DRV_TRY(generation_precision(args, &model->precision));
    read_device(a, args, model);
    out->stops = cli_get_all(a, args, "--stop", &out->n_stops);
    DRV_TRY(cli_set_threads(args));
    model_ref ref;
    DRV_TRY(model_resolve(a, args->n_positional ? args->positional[0] : NULL,
            cli_get(args, "--adapter", NULL), &ref));
    model->folder = ref.folder;
    model->adapter = ref.adapter;
    return DRV_OK;
}

void generation_print(void *ctx DRV_UNUSED, const char *text, size_t n) {
    fwrite(text, 1, n, stdout);
    fflush(stdout);
}

void generation_print_hint(const char *folder) {
    str command = {0};
    model_hint(folder, &command);
    if (command.n > 0) printf("try it: %s\n", command.p);
    str_free(&command);
}
