// Any bytes as another trainer's file, of the kind that the first byte says: refused by a message,
// or a config that is YAML of ours. The other targets of this folder try the readers alone.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "config/config.h"
#include "config/value.h"
#include "translate/translate.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

typedef struct fuzzed_kind {
    const char *kind, *ending;
} fuzzed_kind;

static void read_back(arena *a, const str *config) {
    value root;
    DRV_ASSERT(yaml_read(a, "translation", config->p, config->n, &root) == DRV_OK,
            "no YAML of ours: %s", drv_message());
    run_config cfg;
    if (config_load_text(a, "translation", config->p, config->n, &cfg) == DRV_OK) return;
    DRV_ASSERT(*drv_message(), "refused without a message");
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes) {
    static const fuzzed_kind kinds[] = {{"nxdt", "yaml"}, {"axolotl", "yaml"}, {"args", "sh"},
            {"nemo-megatron", "sh"}, {"nxdt", "sh"}, {"nemo-megatron", "yaml"}};
    if (n_bytes == 0) return 0;
    const fuzzed_kind *of = &kinds[bytes[0] % (sizeof kinds / sizeof *kinds)];
    char path[64];
    snprintf(path, sizeof path, "/tmp/drover-fuzz-%d.%s", (int)getpid(), of->ending);
    FILE *file = fopen(path, "w");
    if (!file) return 0;
    const bool written = fwrite(bytes + 1, 1, n_bytes - 1, file) == n_bytes - 1;
    arena *a = arena_new("fuzz");
    const char *const files[] = {path}, *const sets[] = {"model.preset=tiny"},
                      *const accepts[] = {"all"};
    const translate_opts opts = {.kind = of->kind,
            .files = files,
            .n_files = 1,
            .sets = sets,
            .n_sets = 1,
            .accepts = accepts,
            .n_accepts = 1,
            .ranks = 8};
    str config = {0}, report = {0};
    if (fclose(file) == 0 && written) {
        const drv_status status = translate(a, &opts, &config, &report);
        DRV_ASSERT((status == DRV_OK) == (config.n > 0), "a config and a refusal: %s",
                drv_message());
        if (status == DRV_OK) read_back(a, &config);
    }
    unlink(path);
    str_free(&config);
    str_free(&report);
    arena_free(a);
    return 0;
}
