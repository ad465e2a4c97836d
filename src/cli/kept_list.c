// drover compile --list and --evict: lists and removes compiled programs.
#include "cli/cli.h"

#include <math.h>
#include <string.h>

#include "backend/kept_programs.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/str.h"
#include "config/config.h"

// max_bytes: the limit of the folder from the config or its default.
static drv_status find_folder(arena *a, const cli_args *args, const char **dir,
        int64_t *max_bytes) {
    static const char *const any_model[] = {"model.preset=tiny"}; // a config needs one
    run_config cfg;
    int n_sets;
    const char **sets = cli_get_all(a, args, "--set", &n_sets);
    if (!args->n_positional && n_sets)
        return drv_fail(DRV_E_USAGE, "compile: --set without CONFIG, expected --cache DIR");
    DRV_TRY(args->n_positional ? config_load(a, args->positional[0], sets, n_sets, &cfg)
                               : config_load(a, NULL, any_model, 1, &cfg));
    *dir = kept_programs_folder(a, cli_get(args, "--cache", cfg.pjrt.cache));
    *max_bytes =
            cfg.pjrt.cache_gib > 0 ? (int64_t)(cfg.pjrt.cache_gib * (double)(1 << 30)) : KEEP_ANY;
    if (strcmp(*dir, "none") == 0)
        return drv_fail(DRV_E_USAGE, "compile: the compile cache is \"none\", expected a folder");
    if (file_exists(*dir) && !file_is_dir(*dir))
        return drv_fail(DRV_E_USAGE, "compile: the compile cache \"%s\" is not a folder", *dir);
    return DRV_OK;
}

// Returns "8 x NVIDIA H200".
static const char *devices_of(arena *a, const kept_program *p) {
    return p->n_devices > 1 ? arena_printf(a, "%lld x %s", (long long)p->n_devices, p->kind)
                            : p->kind;
}

static void print_text(arena *a, const kept_program *list, int n, const char *dir) {
    double bytes = 0;
    if (n)
        printf("%-14s %-30s %11s %11s  %-19s %s\n", "program", "for", "size", "compiled in",
                "last used", "file");
    for (int i = 0; i < n; i++) {
        const kept_program *p = &list[i];
        const char *used =
                arena_printf(a, "%s ago", str_long_duration(fmax(0, clock_utc_s() - p->used_at)));
        bytes += (double)p->bytes;
        if (p->damage) {
            printf("%-14s %-30s %11s %11s  %-19s %s: %s\n", "(damaged)", "",
                    str_bytes((double)p->bytes), "", used, path_name(p->path), p->damage);
            continue;
        }
        const char *target = arena_printf(a, "%s, %s", devices_of(a, p), p->interface);
        printf("%-14s %-30s %11s %9.1f s  %-19s %s\n", p->program, target,
                str_bytes((double)p->bytes), p->compile_s, used, path_name(p->path));
    }
    printf("%d program%s, %s, in %s\n", n, str_plural(n), str_bytes(bytes), dir);
}

static void print_json(const kept_program *list, int n, const char *dir) {
    json_t *programs = json_array();
    for (int i = 0; i < n; i++) {
        const kept_program *p = &list[i];
        json_array_append_new(programs,
                json_pack("{so sI sf so so so so so so sI sf}", "file", json_of_text(p->path),
                        "bytes", (json_int_t)p->bytes, "last_used", p->used_at, "damage",
                        json_of_text(p->damage), "program", json_of_text(p->program), "plugin",
                        json_of_text(p->plugin), "kind", json_of_text(p->kind), "interface",
                        json_of_text(p->interface), "drover", json_of_text(p->drover), "devices",
                        (json_int_t)p->n_devices, "compile_s", p->compile_s));
    }
    json_t *o = json_pack("{so so}", "folder", json_of_text(dir), "programs", programs);
    cli_puts_json(o, json_dumps(o, JSON_INDENT(2)));
}

drv_status kept_list(arena *a, const cli_args *args) {
    const char *dir;
    int64_t max_bytes;
    kept_program *list;
    int n;
    DRV_TRY(find_folder(a, args, &dir, &max_bytes));
    DRV_TRY(kept_programs_list(a, dir, &list, &n));
    if (cli_has(args, "--json"))
        print_json(list, n, dir);
    else
        print_text(a, list, n, dir);
    return DRV_OK;
}

drv_status kept_evict(arena *a, const cli_args *args) {
    enum { DAY_S = 24 * 3600 };
    const char *dir;
    keep_limits limits = {.max_age_s = KEEP_ANY, .look_inside = true};
    double days = KEEP_ANY;
    evicted gone;
    DRV_TRY(find_folder(a, args, &dir, &limits.max_bytes));
    DRV_TRY(cli_get_bytes(args, "--max-size", 0, &limits.max_bytes));
    DRV_TRY(cli_get_f64(args, "--max-age", 0, 1e6, &days));
    if (days >= 0) limits.max_age_s = days * DAY_S;
    DRV_TRY(kept_programs_evict(dir, &limits, &gone));
    printf("removed %d program%s, %s; %d left, %s, in %s\n", gone.n, str_plural(gone.n),
            str_bytes((double)gone.bytes), gone.n_left, str_bytes((double)gone.bytes_left), dir);
    return DRV_OK;
}
