// Parses the names of folders and files of ranks.
#include "ckpt/rank_files.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/str.h"

enum { MAX_RANKS = 4096 };

typedef struct rank_name {
    int tensor, pipeline;
    bool is_file, is_megatron;
} rank_name;

// Takes a word and the digits after it away from a name.
static bool take(const char **name, const char *word, int *number) {
    const char *p = *name + strlen(word);
    int digits = 0;
    if (!str_starts(*name, word)) return false;
    for (*number = 0; *p >= '0' && *p <= '9' && digits < 5; p++, digits++)
        *number = *number * 10 + (*p - '0');
    if (digits) *name = p;
    return digits > 0;
}

static bool parse(const char *name, rank_name *out) {
    int other = 0;
    *out = (rank_name){0};
    out->is_megatron = take(&name, "mp_rank_", &out->tensor);
    if (out->is_megatron)
        take(&name, "_", &out->pipeline);
    else {
        out->is_file = take(&name, "dp_rank_", &other);
        if (out->is_file && (other || (take(&name, "_ep_rank_", &other) && other))) return false;
        if (!take(&name, out->is_file ? "_tp_rank_" : "tp_rank_", &out->tensor)) return false;
        if (!take(&name, "_pp_rank_", &out->pipeline)) return false;
    }
    return strcmp(name, out->is_file ? ".pt" : "") == 0 && out->tensor < MAX_RANKS &&
           out->pipeline < MAX_RANKS;
}

const char *rank_files_iteration(arena *a, const char *path) {
    char *text;
    size_t n;
    int64_t iteration;
    const char *tracker = path_join(a, path, "latest_checkpointed_iteration.txt");
    if (!file_exists(tracker) || file_read_small(a, tracker, 100, &text, &n) != DRV_OK) return path;
    text[strcspn(text, " \r\n")] = 0;
    if (strcmp(text, "release") == 0) return path_join(a, path, "release");
    if (!str_to_i64(text, &iteration)) return path;
    return path_join(a, path, arena_printf(a, "iter_%07lld", (long long)iteration));
}

static bool has_ranks(arena *a, const char *folder) {
    char **names;
    int n;
    rank_name rank;
    if (!file_is_dir(folder) || dir_list(a, folder, &names, &n) != DRV_OK) return false;
    for (int i = 0; i < n; i++)
        if (parse(names[i], &rank)) return true;
    return false;
}

static const char *folder_of(arena *a, const char *path) {
    static const char *const below[] = {"model", "shards/model", "shards"};
    const char *here = rank_files_iteration(a, path);
    if (has_ranks(a, here)) return here;
    for (size_t i = 0; i < sizeof below / sizeof *below; i++)
        if (has_ranks(a, path_join(a, path, below[i]))) return path_join(a, path, below[i]);
    return NULL;
}

bool rank_files_are_there(arena *a, const char *path) {
    return file_is_dir(path) && folder_of(a, path);
}

// Returns the steps of a checkpoint of Lightning. NeMo's own scripts take the one of the most.
static int64_t step_of(const char *name) {
    const char *mark = strstr(name, "step=");
    return mark ? strtoll(mark + 5, NULL, 10) : -1;
}

static const char *file_in(arena *a, const char *dir) {
    static const char *const usual[] = {"model_optim_rng.pt", "model_rng.pt", "checkpoint.pt"};
    char **names;
    const char *best = NULL;
    int n;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (file_exists(path_join(a, dir, usual[i]))) return path_join(a, dir, usual[i]);
    if (dir_list(a, dir, &names, &n) != DRV_OK) return NULL;
    for (int i = 0; i < n; i++)
        if (str_ends(names[i], ".ckpt") && (!best || step_of(names[i]) > step_of(best)))
            best = names[i];
    return best ? path_join(a, dir, best) : NULL;
}

drv_status rank_files_find(arena *a, const char *path, rank_files *out) {
    char **names;
    int n_names;
    rank_name rank;
    *out = (rank_files){.folder = folder_of(a, path)};
    DRV_TRY(dir_list(a, out->folder, &names, &n_names));
    for (int i = 0; i < n_names; i++)
        if (parse(names[i], &rank)) {
            if (rank.tensor >= out->tensor) out->tensor = rank.tensor + 1;
            if (rank.pipeline >= out->pipeline) out->pipeline = rank.pipeline + 1;
            out->is_megatron = rank.is_megatron;
        }
    if (out->tensor * out->pipeline > MAX_RANKS)
        return drv_fail(DRV_E_DATA, "\"%s\" has %d x %d ranks, expected at most %d", path,
                out->tensor, out->pipeline, MAX_RANKS);
    out->file = ARENA_ARRAY(a, const char *, out->tensor * out->pipeline);
    for (int i = 0; i < n_names; i++)
        if (parse(names[i], &rank)) {
            const char *found = path_join(a, out->folder, names[i]);
            out->file[rank.pipeline * out->tensor + rank.tensor] =
                    rank.is_file ? found : file_in(a, found);
        }
    for (int i = 0; i < out->tensor * out->pipeline; i++)
        if (!out->file[i])
            return drv_fail(DRV_E_DATA,
                    "\"%s\" lacks the file of tensor rank %d and pipeline rank %d, expected those of "
                    "%d x %d ranks",
                    out->folder, i % out->tensor, i / out->tensor, out->tensor, out->pipeline);
    return DRV_OK;
}

// --- the optimizer's
// NAME[-last].ckpt -> NAME-optimizer_states[-last].ckpt
static const char *lightning_name(arena *a, const char *name) {
    const char *end = str_ends(name, "-last.ckpt") ? "-last.ckpt" : ".ckpt";
    return arena_printf(a, "%.*s-optimizer_states%s", (int)(strlen(name) - strlen(end)), name, end);
}

// Returns how many data ranks have a file or folder of their own: one more than the last of them.
static drv_status count_shards(arena *a, const char *dir, const char *after, int *n) {
    char **names;
    int n_names;
    *n = 0;
    if (!file_is_dir(dir)) return DRV_OK;
    DRV_TRY(dir_list(a, dir, &names, &n_names));
    for (int i = 0; i < n_names; i++) {
        const char *rest = names[i];
        int number;
        if (strcmp(rest, ".metadata") == 0)
            return drv_fail(DRV_E_DATA,
                    "\"%s\" is in the form of use_zero1_dcp, which is not read; save without it",
                    dir);
        if (take(&rest, "dp_rank_", &number) && strcmp(rest, after) == 0 && number >= *n)
            *n = number + 1;
    }
    if (*n > MAX_RANKS)
        return drv_fail(DRV_E_DATA, "\"%s\" has files of %d data ranks, expected at most %d", dir,
                *n, MAX_RANKS);
    return DRV_OK;
}

drv_status rank_files_shards(arena *a, const rank_files *files, int rank, const char ***out,
        int *count) {
    const char *file = files->file[rank], *name = strrchr(file, '/') + 1,
               *folder = arena_strndup(a, file, (size_t)(name - file - 1));
    const bool is_lightning = str_ends(name, ".ckpt");
    const char *after = is_lightning ? "" : strstr(name, "_tp_rank_"), *dir;
    *count = 0;
    if (!after) return DRV_OK;
    dir = !is_lightning && str_ends(folder, "/model")
                  ? arena_printf(a, "%.*soptim", (int)(strlen(folder) - strlen("model")), folder)
                  : path_join(a, folder, "optim");
    DRV_TRY(count_shards(a, dir, after, count));
    *out = ARENA_ARRAY(a, const char *, *count + 1);
    for (int i = 0; i < *count; i++) {
        (*out)[i] = is_lightning
                            ? arena_printf(a, "%s/dp_rank_%03d/%s", dir, i, lightning_name(a, name))
                            : arena_printf(a, "%s/dp_rank_%02d%s", dir, i, after);
        if (!file_exists((*out)[i]))
            return drv_fail(DRV_E_DATA,
                    "\"%s\" is not there, expected the optimizer's files of %d data ranks",
                    (*out)[i], *count);
    }
    return DRV_OK;
}
