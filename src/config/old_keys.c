// The keys that have changed their names.
#include "config/old_keys.h"

#include <string.h>

#include "base/log.h"
#include "config/config_internal.h"

static const struct {
    const char *before, *now;
} renamed[] = {
        {"parallel.lanes", "parallel.accumulation_groups"},
        {"parallel.leaves", "parallel.tensor_blocks"},
        {"parallel.context_leaves", "parallel.context_blocks"},
        {"parallel.addend_rows", "parallel.partial_sum_rows"},
};
enum { N_RENAMED = sizeof renamed / sizeof *renamed };

const char *config_key_now(const char *path) {
    for (int i = 0; i < N_RENAMED; i++)
        if (strcmp(path, renamed[i].before) == 0) return renamed[i].now;
    return path;
}

const char *config_key_before(const char *path) {
    for (int i = 0; i < N_RENAMED; i++)
        if (strcmp(path, renamed[i].now) == 0) return renamed[i].before;
    return NULL;
}

void config_say_old_keys(const run_config *cfg) {
    for (int i = 0; i < N_RENAMED; i++) {
        const value *v = config_given(cfg, renamed[i].now);
        if (v && strcmp(v->path, renamed[i].before) == 0)
            log_info("%s: \"%s\" is now called \"%s\", and is printed by this name", v->where,
                    renamed[i].before, renamed[i].now);
    }
}
