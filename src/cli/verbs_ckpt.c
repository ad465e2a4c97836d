// ckpt: look at checkpoints.
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "ckpt/ckpt.h"
#include "cli/cli.h"

static drv_status run_list(arena *a, const cli_args *args) {
    const char *run_dir = args->positional[0];
    char **names, *dir = path_join(a, run_dir, "checkpoints");
    int n;
    if (!file_is_dir(dir)) dir = arena_strdup(a, run_dir);
    DRV_TRY(ckpt_list(a, dir, &names, &n));
    for (int i = 0; i < n; i++) {
        const char *path = path_join(a, dir, names[i]);
        const bool ok = ckpt_verify(path) == DRV_OK;
        printf("%s  %s\n", path, ok ? "ok" : drv_message());
    }
    return DRV_OK;
}

static drv_status run_show(arena *a, const cli_args *args) {
    const char *path = args->positional[0];
    char **names;
    int n;
    DRV_TRY(dir_list(a, path, &names, &n));
    for (int i = 0; i < n; i++) {
        if (!str_ends(names[i], ".safetensors")) continue;
        st_file f;
        DRV_TRY(st_open(a, path_join(a, path, names[i]), &f));
        for (int k = 0; k < f.n; k++) {
            const st_tensor *t = &f.tensors[k];
            printf("%-24s %-60s %-5s [", names[i], t->name, t->type_name);
            for (int d = 0; d < t->n_dims; d++)
                printf(d ? ", %lld" : "%lld", (long long)t->dim[d]);
            puts("]");
        }
        st_close(&f);
    }
    return DRV_OK;
}

static drv_status run_verify(arena *a, const cli_args *args) {
    (void)a;
    const char *path = args->positional[0];
    drv_status s = ckpt_verify(path);
    if (cli_has(args, "--json"))
        printf("{\"path\": \"%s\", \"valid\": %s}\n", path, s == DRV_OK ? "true" : "false");
    else if (s == DRV_OK)
        printf("%s: ok\n", path);
    return s;
}

static const cli_option verify_options[] = {CLI_JSON};

static const verb subverbs[] = {
        {
                .name = "list",
                .summary = "the checkpoints of a run, each verified",
                .usage = "RUN_DIR",
                .help = "Every byte of each checkpoint is checked against its manifest of hashes.",
                .min_positional = 1,
                .max_positional = 1,
                .run = run_list,
        },
        {
                .name = "show",
                .summary = "the tensors of a checkpoint",
                .usage = "CHECKPOINT",
                .help = "File, name, type and shape of each tensor of a Hugging Face folder.",
                .min_positional = 1,
                .max_positional = 1,
                .run = run_show,
        },
        {
                .name = "verify",
                .summary = "check every byte of a checkpoint",
                .usage = "CHECKPOINT [--json]",
                .help = "Compares all files with the manifest of hashes; a failure names the file.",
                .options = verify_options,
                .n_options = sizeof verify_options / sizeof *verify_options,
                .min_positional = 1,
                .max_positional = 1,
                .run = run_verify,
        },
};

const verb verb_ckpt = {
        .name = "ckpt",
        .summary = "list, show and verify checkpoints",
        .help = "A checkpoint is a Hugging Face folder with optimizer state and a manifest of hashes\n"
                "beside it.",
        .subverbs = subverbs,
        .n_subverbs = sizeof subverbs / sizeof *subverbs,
};
