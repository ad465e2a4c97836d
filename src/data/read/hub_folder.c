// Splits by names, cards and licences of a folder.
#include "data/read/hub_folder.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "data/read/data_split.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"

drv_status hub_folder_snapshot(arena *a, const char *folder, const char **out) {
    const char *refs = path_join(a, folder, "refs"), *all = path_join(a, folder, "snapshots");
    char **names, *revision = NULL;
    int n;
    size_t n_bytes;
    *out = NULL;
    if (!file_is_dir(refs) || !file_is_dir(all)) return DRV_OK;
    DRV_TRY(dir_list(a, all, &names, &n));
    const char *main_ref = path_join(a, refs, "main");
    if (file_exists(main_ref)) DRV_TRY(file_read(a, main_ref, &revision, &n_bytes));
    if (revision) revision[strcspn(revision, "\r\n")] = 0;
    for (int i = 0; i < n && !*out; i++)
        if (n == 1 || (revision && strcmp(names[i], revision) == 0))
            *out = path_join(a, all, names[i]);
    if (!*out)
        return drv_fail(DRV_E_USAGE,
                "%s has %d snapshots of a data set, none of which refs/main names, expected the path of one of them",
                folder, n);
    log_info("%s: snapshot %s is read", folder, path_name(*out));
    return DRV_OK;
}

// Returns the split that a file's name says. Documentation and source code have such words in their
// names, too.
static data_split split_of(const char *folder, const input_file *file) {
    const char *path = file->path + strlen(folder);
    path += strspn(path, "/");
    if (file->kind == INPUT_TEXT && !strcasestr(path_name(path), ".txt")) return SET_UNSPLIT;
    return data_split_of_path(path);
}

// Returns whether a file has what a call of map or filter made of the data in the same folder:
// cache-FINGERPRINT.arrow, or several of them (cache_file_name of datasets/arrow_dataset.py).
static bool is_made_by_map(const char *name) {
    if (!str_starts(name, "cache-") || !str_ends(name, ".arrow")) return false;
    const size_t n = strspn(name + 6, "0123456789abcdef");
    return n == 16 && (name[6 + n] == '.' || name[6 + n] == '_');
}

// Returns whether a file is about the data set: its card, its licence, or a file that datasets
// writes beside the data (FILES_TO_IGNORE of datasets/data_files.py).
static bool is_about(const char *path) {
    static const char *const names[] = {"readme.md", "readme.txt", "config.json",
            "dataset_info.json", "dataset_infos.json", "dataset_dict.json"};
    static const char *const stems[] = {"license", "licence", "copying"};
    const char *name = path_name(path);
    if (is_made_by_map(name)) return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcasecmp(name, names[i]) == 0) return true;
    for (size_t i = 0; i < sizeof stems / sizeof *stems; i++) {
        const size_t n = strlen(stems[i]);
        if (strncasecmp(name, stems[i], n) == 0 && (name[n] == '.' || !name[n])) return true;
    }
    return false;
}

// Returns whether a file is the card of a data set, which begins with a block of YAML.
static bool is_card(const char *path) {
    char begin[4] = "";
    FILE *f = strcasecmp(path_name(path), "readme.md") == 0 ? fopen(path, "re") : NULL;
    if (!f) return false;
    const bool is =
            fread(begin, 1, sizeof begin, f) == sizeof begin && memcmp(begin, "---\n", 4) == 0;
    fclose(f);
    return is;
}

static bool has_shard_number(const char *path) {
    int at = 0;
    const char *dash = strchr(path_name(path), '-');
    return dash && sscanf(dash, "-%*5[0-9]-of-%*5[0-9]%n", &at) == 0 && at == 15;
}

typedef struct survey {
    bool has_train, has_shards, has_records, has_card;
    bool apart; // the training split is to be taken alone
    int of[N_DATA_SPLITS];
} survey;

static survey look(const char *folder, const input_file *files, int n) {
    survey x = {0};
    unsigned kinds[N_DATA_SPLITS] = {0}; // bits of input_kind
    for (int i = 0; i < n; i++) {
        const data_split split = split_of(folder, &files[i]);
        const bool about = is_about(files[i].path);
        kinds[split] |= about ? 0 : 1u << files[i].kind;
        x.of[split] += !about;
        x.has_shards |= split == SET_TRAIN && has_shard_number(files[i].path);
        x.has_records |= files[i].kind != INPUT_TEXT && !about;
        x.has_card |= is_card(files[i].path);
    }
    x.has_train = x.of[SET_TRAIN] > 0;
    x.apart = x.has_shards || (kinds[SET_TRAIN] & (kinds[SET_VALIDATION] | kinds[SET_TEST])) != 0;
    return x;
}

static void name_file(str *list, int count, const char *path) {
    enum { NAMED = 4 };
    if (count <= NAMED) str_printf(list, "%s%s", list->n ? ", " : "", path_name(path));
    if (count == NAMED + 1) str_puts(list, ", ...");
}

static void say(const char *folder, const survey *x, int n_left, int n_about, const str *about,
        int n_none, const str *none) {
    str out = {0};
    for (data_split split = SET_VALIDATION; x->apart && split < N_DATA_SPLITS; split++)
        if (x->of[split])
            str_printf(&out, "%s%d of %s", out.n ? ", " : "", x->of[split], data_split_name(split));
    if (n_none) str_printf(&out, "%s%d of no split (%s)", out.n ? ", " : "", n_none, none->p);
    if (n_about) str_printf(&out, "%s%s", out.n ? ", and " : "", about->p);
    if (x->apart)
        log_info("%s: the split train alone is read, %d file%s; left out: %s; name a folder or a file to read another",
                folder, n_left, str_plural(n_left), out.p ? out.p : "nothing");
    else if (n_about)
        log_info("%s: ignored: %s, files about the data set", folder, out.p);
    str_free(&out);
}

void hub_folder_choose(const char *folder, input_file *files, int *n_files) {
    const survey x = look(folder, files, *n_files);
    const bool is_set = x.apart || x.has_records || x.has_card;
    int kept = 0, n_about = 0, n_none = 0;
    str about = {0}, none = {0};
    for (int i = 0; i < *n_files; i++) {
        const data_split split = split_of(folder, &files[i]);
        if (is_set && is_about(files[i].path))
            name_file(&about, ++n_about, files[i].path);
        else if (x.apart && split == SET_UNSPLIT)
            name_file(&none, ++n_none, files[i].path);
        else if (!x.apart || split == SET_TRAIN)
            files[kept++] = files[i];
    }
    *n_files = kept;
    say(folder, &x, kept, n_about, &about, n_none, &none);
    if (!x.has_train && x.of[SET_VALIDATION] && x.of[SET_TEST])
        log_warn("%s holds the splits validation and test of a data set, and none to train on: all are read",
                folder);
    str_free(&about);
    str_free(&none);
}
