// ckpt: look at checkpoints.
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "ckpt/ckpt.h"
#include "cli/cli.h"

static drv_status list(arena *a, const char *run_dir) {
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

static drv_status show(arena *a, const char *path) {
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

static drv_status run(arena *a, int argc, char **argv) {
    cli_args c;
    DRV_TRY(cli_parse(a, &verb_ckpt, argc, argv, 2, 2, &c));
    const char *what = c.positional[0], *path = c.positional[1];
    if (strcmp(what, "list") == 0) return list(a, path);
    if (strcmp(what, "show") == 0) return show(a, path);
    if (strcmp(what, "verify") != 0)
        return drv_fail(DRV_E_USAGE, "ckpt: \"%s\" is unknown, expected list, show or verify",
                what);
    drv_status s = ckpt_verify(path);
    if (cli_has(&c, "--json"))
        printf("{\"path\": \"%s\", \"valid\": %s}\n", path, s == DRV_OK ? "true" : "false");
    else if (s == DRV_OK)
        printf("%s: ok\n", path);
    return s;
}

static const cli_option options[] = {CLI_JSON};
const verb verb_ckpt = {"ckpt", "list, show and verify checkpoints",
        "list RUN_DIR | show|verify CHECKPOINT",
        "A checkpoint is a Hugging Face folder with optimizer state and a manifest of hashes beside it.\n"
        "list and verify check every byte.",
        options, 1, run};
