// Parses the names of folders and files of ranks.
#include "source/rank_files.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "pickle/tar.h"

#define NEMO_WEIGHTS "model_weights.ckpt"

enum { MAX_RANKS = 4096 };

typedef struct rank_name {
    int tensor, pipeline;
    bool is_file, is_megatron;
} rank_name;

// Removes a word and the digits after it from the front of a name.
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

// Returns the step in the name of a Lightning checkpoint. NeMo's own scripts take the highest.
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
        if (str_ends(names[i], ".ckpt") && (!best || step_of(names[i]) > step_of(best)) &&
                !file_is_dir(path_join(a, dir, names[i])))
            best = names[i];
    return best ? path_join(a, dir, best) : NULL;
}

// Returns the file of a run of one rank, which has no folder of its own; NULL: there is none.
static const char *alone_in(arena *a, const char *dir) {
    const char *file = file_is_dir(dir) ? file_in(a, dir) : NULL;
    if (!file) return NULL;
    const char *name = path_name(file);
    const bool is_one = strcmp(name, "model_optim_rng.pt") == 0 ||
                        strcmp(name, NEMO_WEIGHTS) == 0 || strstr(name, "consumed_samples=");
    return is_one ? file : NULL;
}

static const char *folder_of(arena *a, const char *path) {
    static const char *const below[] = {"model", "shards/model", "shards"};
    const char *here = rank_files_iteration(a, path);
    if (has_ranks(a, here) || alone_in(a, here)) return here;
    for (size_t i = 0; i < sizeof below / sizeof *below; i++)
        if (has_ranks(a, path_join(a, path, below[i]))) return path_join(a, path, below[i]);
    return NULL;
}

bool rank_files_are_there(arena *a, const char *path) {
    return file_is_dir(path) ? folder_of(a, path) != NULL : str_ends(path, ".nemo");
}

static drv_status check_all(const char *path, const rank_files *files) {
    for (int i = 0; i < files->tensor * files->pipeline; i++)
        if (!files->file[i])
            return drv_fail(DRV_E_DATA,
                    "\"%s\" lacks the file of tensor rank %d and pipeline rank %d, expected those of "
                    "%d x %d ranks",
                    path, i % files->tensor, i / files->tensor, files->tensor, files->pipeline);
    return DRV_OK;
}

// Counts a rank by its parsed name.
static void count_rank(const rank_name *rank, rank_files *out) {
    if (rank->tensor >= out->tensor) out->tensor = rank->tensor + 1;
    if (rank->pipeline >= out->pipeline) out->pipeline = rank->pipeline + 1;
    out->is_megatron = rank->is_megatron;
}

static drv_status make_room(arena *a, const char *path, rank_files *out) {
    if (out->tensor * out->pipeline > MAX_RANKS)
        return drv_fail(DRV_E_DATA, "\"%s\" has %d x %d ranks, expected at most %d", path,
                out->tensor, out->pipeline, MAX_RANKS);
    out->file = ARENA_ARRAY(a, const char *, out->tensor * out->pipeline);
    return DRV_OK;
}

// --- archives
// Returns whether a member has the weights of a rank.
static bool is_of_rank(arena *a, const char *member, rank_name *rank) {
    const char *slash = strchr(member, '/');
    *rank = (rank_name){0};
    if (strcmp(member, NEMO_WEIGHTS) == 0) return true;
    return slash && strcmp(slash + 1, NEMO_WEIGHTS) == 0 &&
           parse(arena_strndup(a, member, (size_t)(slash - member)), rank) && !rank->is_file;
}

static drv_status refuse_archive(const char *path, const tar_file *tar) {
    for (int i = 0; i < tar->n; i++)
        if (str_starts(tar->members[i].name, "model_weights/"))
            return drv_fail(DRV_E_DATA,
                    "\"%s\" has a distributed checkpoint; unpack it (tar xf FILE -C DIR) and give "
                    "DIR/model_weights",
                    path);
    return drv_fail(DRV_E_DATA, "\"%s\" has no %s, as archives of NeMo have", path, NEMO_WEIGHTS);
}

static drv_status find_in_archive(arena *a, const file_part *archive, rank_files *out) {
    tar_file tar;
    rank_name rank;
    if (!tar_is_tar(archive))
        return drv_fail(DRV_E_DATA,
                "\"%s\" is not a tar archive, or is compressed; unpack it (tar xzf FILE -C DIR) and "
                "give DIR",
                archive->path);
    DRV_TRY(tar_read(a, archive, &tar));
    for (int i = 0; i < tar.n; i++)
        if (is_of_rank(a, tar.members[i].name, &rank)) count_rank(&rank, out);
    if (!out->tensor) return refuse_archive(archive->path, &tar);
    DRV_TRY(make_room(a, archive->path, out));
    out->parts = ARENA_ARRAY(a, file_part, out->tensor * out->pipeline);
    for (int i = 0; i < tar.n; i++)
        if (is_of_rank(a, tar.members[i].name, &rank)) {
            const int k = rank.pipeline * out->tensor + rank.tensor;
            out->parts[k] = tar.members[i].part;
            out->parts[k].path = out->file[k] =
                    arena_printf(a, "%s:%s", archive->path, tar.members[i].name);
        }
    return check_all(archive->path, out);
}

static drv_status open_archive(arena *a, const char *path, rank_files *out) {
    file_part archive = {.path = path};
    DRV_TRY(file_open_regular(path, &archive.fd, &archive.size));
    const drv_status status = find_in_archive(a, &archive, out);
    if (status != DRV_OK) close(archive.fd);
    return status;
}

// --- folders
static drv_status find_in_folder(arena *a, const char *path, rank_files *out) {
    char **names;
    int n_names;
    rank_name rank;
    DRV_TRY(dir_list(a, out->folder, &names, &n_names));
    for (int i = 0; i < n_names; i++)
        if (parse(names[i], &rank)) count_rank(&rank, out);
    if (!out->tensor) out->tensor = out->pipeline = 1;
    DRV_TRY(make_room(a, path, out));
    out->file[0] = alone_in(a, out->folder);
    for (int i = 0; i < n_names; i++)
        if (parse(names[i], &rank)) {
            const char *found = path_join(a, out->folder, names[i]);
            out->file[rank.pipeline * out->tensor + rank.tensor] =
                    rank.is_file ? found : file_in(a, found);
        }
    return check_all(out->folder, out);
}

drv_status rank_files_find(arena *a, const char *path, rank_files *out) {
    *out = (rank_files){0};
    if (!file_is_dir(path)) return open_archive(a, path, out);
    out->folder = folder_of(a, path);
    return find_in_folder(a, path, out);
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
    const char *file = files->file[rank], *name = path_name(file), *folder = path_parent(a, file);
    const bool is_lightning = str_ends(name, ".ckpt");
    const char *after = is_lightning ? "" : strstr(name, "_tp_rank_"), *dir;
    *count = 0;
    if (!after || files->parts) return DRV_OK;
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
