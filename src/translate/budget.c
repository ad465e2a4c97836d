// Counts what a translation reads against fixed limits.
#include "translate/budget.h"

#include "base/clock.h"
#include "base/file.h"

enum { MAX_FILES = 100, MAX_WORDS = 20000, MAX_BYTES = 64 << 20, MAX_FILE = 1 << 20, MAX_S = 10 };

budget budget_begin(void) {
    return (budget){.until_s = clock_s() + MAX_S};
}

static drv_status check_time(const budget *self, const char *where) {
    if (clock_s() < self->until_s) return DRV_OK;
    return drv_fail(DRV_E_USAGE, "%s: the scripts that it calls take longer than %d s to read", where, MAX_S);
}

drv_status budget_read(budget *self, arena *a, const char *path, char **text, size_t *n) {
    DRV_TRY(check_time(self, path));
    if (++self->n_files > MAX_FILES)
        return drv_fail(DRV_E_USAGE,
                "%s: more than %d files are read, which may call each other in a circle", path,
                MAX_FILES);
    return file_read_small(a, path, MAX_FILE, text, n);
}

drv_status budget_words(budget *self, const char *where, int64_t n) {
    if (!self) return DRV_OK;
    self->n_words += n;
    if (self->n_words > MAX_WORDS)
        return drv_fail(DRV_E_USAGE, "%s: more than %d words and keys in all that is read", where,
                MAX_WORDS);
    return check_time(self, where);
}

drv_status budget_bytes(budget *self, const char *where, size_t n) {
    if (!self) return DRV_OK;
    self->n_bytes += (int64_t)n;
    if (self->n_bytes <= MAX_BYTES) return DRV_OK;
    return drv_fail(DRV_E_USAGE, "%s: its variables and values become longer than %d MiB together",
            where, MAX_BYTES >> 20);
}
