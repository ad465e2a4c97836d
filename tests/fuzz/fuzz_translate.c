// Any bytes as another trainer's file, of the kind that the first byte says: refused by a message,
// or a config that is YAML of ours. The other targets of this folder try the readers alone.
#include "fuzz.h"

#include "config/config.h"
#include "config/value.h"
#include "translate/translate.h"

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

void fuzz_input(arena *a, const uint8_t *bytes, size_t n_bytes) {
    static const fuzzed_kind kinds[] = {{"nxdt", "yaml"}, {"axolotl", "yaml"}, {"args", "sh"},
            {"nemo-megatron", "sh"}, {"nxdt", "sh"}, {"nemo-megatron", "yaml"}};
    if (n_bytes == 0) return;
    const fuzzed_kind *of = &kinds[bytes[0] % (sizeof kinds / sizeof *kinds)];
    const char *name = arena_printf(a, "input.%s", of->ending),
               *path = fuzz_file(a, name, bytes + 1, n_bytes - 1);
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
    const drv_status status = translate(a, &opts, &config, &report);
    DRV_ASSERT((status == DRV_OK) == (config.n > 0), "a config and a refusal: %s", drv_message());
    if (status == DRV_OK) read_back(a, &config);
    str_free(&config);
    str_free(&report);
}
