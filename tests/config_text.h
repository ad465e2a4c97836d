// Configurations as text, and what is said of wrong ones.
#pragma once
#include "harness.h"

// Loads a file run.yaml of this text.
static inline drv_status load(arena *a, const char *yaml, run_config *cfg) {
    static const char *folder;
    if (!folder) folder = temporary_dir(a);
    const char *path = path_join(a, folder, "run.yaml");
    OK(file_write_atomic(path, yaml, strlen(yaml)));
    return config_load(a, path, NULL, 0, cfg);
}

typedef struct refusal {
    const char *yaml;
    const char *says[5]; // parts of the message
} refusal;

static inline void refuse_all(const refusal *cases, size_t n) {
    for (size_t i = 0; i < n; i++) {
        arena *a = arena_new("refused config");
        run_config cfg;
        if (load(a, cases[i].yaml, &cfg) == DRV_OK) fail_msg("accepted: %s", cases[i].yaml);
        for (const char *const *part = cases[i].says; *part; part++)
            if (!strstr(drv_message(), *part))
                fail_msg("\"%s\" does not say \"%s\"; config:\n%s", drv_message(), *part,
                        cases[i].yaml);
        assert_null(strchr(drv_message(), '\n'));
        arena_free(a);
    }
}
#define REFUSE_ALL(cases) refuse_all(cases, sizeof(cases) / sizeof *(cases))
#define TINY              "model: {preset: tiny}\n"
