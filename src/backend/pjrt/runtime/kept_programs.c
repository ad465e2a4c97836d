// Maintains the compile cache's folder. A file's modification time is its last use, since many file
// systems do not keep access times.
#include "backend/kept_programs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/pjrt/runtime/program_file.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/str.h"

const char *kept_programs_folder(arena *a, const char *dir) {
    const char *env = getenv("DROVER_COMPILE_CACHE"),
               *cache = path_user_cache(a, "drover/compiled");
    if (dir && *dir) return dir;
    if (env && *env) return env;
    return cache ? cache : "none";
}

// False: it is not a regular file, or it is gone, since another process may have evicted it.
static bool look_at(const char *path, kept_program *out) {
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode)) return false;
    *out = (kept_program){.path = path,
            .bytes = st.st_size,
            .used_at = (double)st.st_mtim.tv_sec + 1e-9 * (double)st.st_mtim.tv_nsec};
    return true;
}

// Removes control characters from the text of a file, since anyone may have written it.
static const char *printable(arena *a, const char *text) {
    char *clean = arena_strdup(a, text);
    for (char *c = clean; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127) *c = '?';
    return clean;
}

static void look_into(arena *a, kept_program *kept) {
    arena *bytes = arena_new("a compiled program");
    program_about about;
    const unsigned char *payload;
    char *p;
    size_t n, n_payload;
    drv_status status = file_read(bytes, kept->path, &p, &n);
    if (status == DRV_OK)
        status = program_file_check((const unsigned char *)p, n, &about, &payload, &n_payload);
    arena_free(bytes);
    if (status != DRV_OK) {
        kept->damage = arena_strdup(a, drv_message());
        return;
    }
    kept->program = printable(a, about.program);
    kept->plugin = printable(a, about.plugin);
    kept->kind = printable(a, about.kind);
    kept->interface = printable(a, about.interface);
    kept->drover = printable(a, about.drover);
    kept->n_devices = about.n_devices;
    kept->compile_s = about.compile_s;
}

static int last_used_first(const void *a, const void *b) {
    const kept_program *x = a, *y = b;
    if (x->used_at != y->used_at) return x->used_at < y->used_at ? 1 : -1;
    return strcmp(x->path, y->path);
}

// Lists the programs of a folder, or the files that unfinished writes left.
static drv_status list_files(arena *a, const char *dir, bool left_overs, kept_program **out,
        int *n) {
    char **names;
    int n_names;
    *n = 0;
    *out = NULL;
    if (!file_is_dir(dir)) return DRV_OK;
    DRV_TRY(dir_list(a, dir, &names, &n_names));
    kept_program *list = ARENA_ARRAY(a, kept_program, n_names + 1);
    for (int i = 0; i < n_names; i++)
        if (str_ends(names[i], ".pjrt") != left_overs && strstr(names[i], ".pjrt"))
            *n += look_at(path_join(a, dir, names[i]), &list[*n]);
    qsort(list, (size_t)*n, sizeof *list, last_used_first);
    *out = list;
    return DRV_OK;
}

drv_status kept_programs_list(arena *a, const char *dir, kept_program **out, int *n) {
    DRV_TRY(list_files(a, dir, false, out, n));
    for (int i = 0; i < *n; i++)
        look_into(a, &(*out)[i]);
    return DRV_OK;
}

static drv_status take_away(const char *path) {
    if (unlink(path) == 0 || errno == ENOENT) return DRV_OK; // another process has removed it
    return file_fail("remove", path);
}

static drv_status evict_left_overs(arena *a, const char *dir, double now) {
    enum { LONG_AGO_S = 3600 }; // longer than any write takes
    kept_program *list;
    int n;
    DRV_TRY(list_files(a, dir, true, &list, &n));
    for (int i = 0; i < n; i++)
        if (now - list[i].used_at > LONG_AGO_S) DRV_TRY(take_away(list[i].path));
    return DRV_OK;
}

static drv_status evict(arena *a, const char *dir, const keep_limits *limits, evicted *out) {
    const double now = clock_utc_s();
    kept_program *list;
    int n;
    DRV_TRY(limits->look_inside ? kept_programs_list(a, dir, &list, &n)
                                : list_files(a, dir, false, &list, &n));
    for (int i = 0; i < n; i++) {
        const bool old = limits->max_age_s >= 0 && now - list[i].used_at > limits->max_age_s,
                   large = limits->max_bytes >= 0 &&
                           out->bytes_left + list[i].bytes > limits->max_bytes;
        if (old || large || list[i].damage) {
            DRV_TRY(take_away(list[i].path));
            out->n++;
            out->bytes += list[i].bytes;
        } else {
            out->n_left++;
            out->bytes_left += list[i].bytes;
        }
    }
    return evict_left_overs(a, dir, now);
}

drv_status kept_programs_evict(const char *dir, const keep_limits *limits, evicted *out) {
    arena *a = arena_new("kept programs");
    *out = (evicted){0};
    const drv_status status = evict(a, dir, limits, out);
    arena_free(a);
    return status;
}
