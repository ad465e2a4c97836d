// Chooses downloads from the hub's list of files: for a data set by its card, folders and
// extensions, for a model by names.
#include "data/get/hub.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "data/get/hub_call.h"
#include "data/read/data_split.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "model/family/model_files.h"
#include "base/str.h"

typedef struct hub {
    arena *a;
    bool model; // else a data set
    const hub_opts *opts;
    const char *repo, *config; // config NULL: all
    const char *revision;      // escaped: a branch may have slashes
    download *files;
    int n, cap;
    const json_t *patterns; // of the config: a string, a list, or objects with "path"
    const json_t *configs;  // of the card, those with other splits among them
    str config_names;       // for the message
    str other_weights;      // of a model: files that drover does not read, for the message
    bool has_text;          // of a data set: others than .json
    bool has_config, has_safetensors, has_torch; // of a model; torch: pytorch_model*.bin
    bool other_splits;                           // the card names some beside training
    int64_t n_entries, n_pages;                  // of the list so far
    const char *kept_page;                       // its address
} hub;

bool hub_is_name(const char *text) {
    static const char allowed[] =
            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    const size_t org = strspn(text, allowed),
                 name = text[org] == '/' ? strspn(text + org + 1, allowed) : 0;
    return org && name && !text[org + 1 + name] && text[0] != '.' && text[org + 1] != '.' &&
           !strstr(text, "..");
}

static drv_status parse_spec(hub *request, const char *spec) {
    const char *colon = strchr(spec, ':'), *slash = strchr(spec, '/');
    request->repo = colon ? arena_strndup(request->a, spec, (size_t)(colon - spec)) : spec;
    request->config = colon ? colon + 1 : NULL;
    const bool parts = slash ? slash > spec && slash[1] && !strchr(slash + 1, '/')
                             : request->model && *spec; // the oldest models have no ORG
    const bool ok = parts && (!colon || (!request->model && colon > slash + 1 && colon[1])) &&
                    !strpbrk(request->repo, "?#% ") && !strstr(request->repo, "..");
    return ok ? DRV_OK
              : drv_fail(DRV_E_USAGE, "\"hf:%s\": expected hf:ORG/NAME%s", spec,
                        request->model ? "" : " or hf:ORG/NAME:CONFIG");
}

static bool safe(const char *path) {
    if (*path == '/' || !*path) return false;
    for (const char *p = path; *p; p += strcspn(p, "/"), p += *p == '/')
        if (strncmp(p, "..", 2) == 0 && (p[2] == '/' || !p[2])) return false;
    return true;
}

// Returns whether a path matches one of the hub's globs: "**" crosses folders, "*" does not.
static bool matches(const char *pattern, const char *path) {
    if (strncmp(pattern, "./", 2) == 0) pattern += 2;
    const bool deep = strstr(pattern, "**") != NULL;
    return fnmatch(pattern, path, deep ? 0 : FNM_PATHNAME) == 0;
}

static bool named_by(const json_t *p, const char *path) {
    if (json_is_string(p)) return matches(json_string_value(p), path);
    if (json_is_object(p)) return named_by(json_object_get(p, "path"), path);
    for (size_t i = 0; i < json_array_size(p); i++)
        if (named_by(json_array_get(p, i), path)) return true;
    return false;
}

// Returns the split of a file by the card, SET_UNSPLIT where that says none.
static data_split split_by_card(const hub *request, const char *path) {
    for (size_t i = 0; i < json_array_size(request->configs); i++) {
        const json_t *files = json_object_get(json_array_get(request->configs, i), "data_files");
        if (request->patterns && files != request->patterns) continue;
        for (size_t k = 0; k < json_array_size(files); k++) {
            const json_t *entry = json_array_get(files, k);
            const char *split = json_string_value(json_object_get(entry, "split"));
            if (split && named_by(entry, path)) return data_split_of_name(split);
        }
    }
    return SET_UNSPLIT;
}

// Returns where a file goes: under its own path, which says its split; where only the card does, in
// a folder of that split.
static const char *local_path(hub *request, const char *path) {
    const data_split split = request->model ? SET_UNSPLIT : split_by_card(request, path),
                     said = data_split_of_path(path);
    const bool tells = split == SET_UNSPLIT || split == said ||
                       (split == SET_TRAIN && said == SET_UNSPLIT && !request->other_splits);
    const char *folder = tells ? request->opts->out
                               : path_join(request->a, request->opts->out, data_split_name(split));
    return path_join(request->a, folder, path);
}

static bool in_folder(const char *folder, const char *path) {
    const size_t n = strlen(folder);
    for (const char *p = path; p; p = strchr(p, '/'), p = p ? p + 1 : NULL)
        if (strncmp(p, folder, n) == 0 && p[n] == '/') return true;
    return false;
}

// Returns whether a file has weights, or their index, that an older transformers wrote by torch.save.
static bool is_torch_weights(const char *name) {
    return strcmp("pytorch_model.bin", name) == 0 || fnmatch("pytorch_model-*.bin", name, 0) == 0 ||
           strcmp("pytorch_model.bin.index.json", name) == 0;
}

// The files of a model's first folder that drover reads or copies; weights under the names that
// transformers gives them, as some folders hold the same weights twice.
static bool wanted_of_model(hub *request, const char *path) {
    static const char *const names[] = {"config.json", "generation_config.json", "tokenizer.json",
            "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
            "merges.txt", "tokenizer.model", "chat_template.jinja", "chat_template.json",
            TOOL_TEMPLATE_FILE, "model.safetensors.index.json", "model.safetensors",
            "model-*.safetensors"};
    static const char *const others[] = {".bin", ".pth", ".pt", ".gguf", ".onnx", ".msgpack", ".h5",
            ".safetensors"};
    if (strchr(path, '/') && strcmp(path, TOOL_TEMPLATE_FILE) != 0) return false;
    if (is_torch_weights(path)) {
        request->has_torch |= str_ends(path, ".bin");
        return true;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (fnmatch(names[i], path, 0) != 0) continue;
        request->has_config |= strcmp(path, "config.json") == 0;
        request->has_safetensors |= str_ends(path, ".safetensors");
        return true;
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (str_ends(path, others[i]) && request->other_weights.n < 200)
            str_printf(&request->other_weights, "%s%s", request->other_weights.n ? ", " : "", path);
    return false;
}

static bool ends_in(const char *path, const char *const *endings) {
    while (*endings && !str_ends(path, *endings))
        endings++;
    return *endings;
}

// Files of token ids and archives. Beside text files they may be anything, so they are taken only
// if there are none.
static bool is_shard(const char *path) {
    static const char *const endings[] = {".bin", ".npy", ".tar", ".tar.gz", ".tgz", NULL};
    return ends_in(path, endings);
}

static bool wanted(hub *request, const char *path) {
    if (request->model) return wanted_of_model(request, path);
    static const char *const texts[] = {".parquet", ".jsonl", ".ndjson", ".txt", ".jsonl.gz",
            ".txt.gz", ".jsonl.zst", ".txt.zst", NULL},
                             *const others[] = {".json", ".json.gz", ".json.zst", ".mds",
                                     ".mds.zstd", ".mds.gz", NULL};
    if (request->patterns) return named_by(request->patterns, path);
    if (request->config && !in_folder(request->config, path)) return false;
    const bool is_text = ends_in(path, texts);
    request->has_text |= is_text;
    return is_text || ends_in(path, others) || is_shard(path);
}

static drv_status add_file(hub *request, const json_t *entry) {
    const char *path = json_string_value(json_object_get(entry, "path"));
    const char *type = json_string_value(json_object_get(entry, "type"));
    if (!path || !type || strcmp(type, "file") != 0 || !wanted(request, path)) return DRV_OK;
    if (!safe(path))
        return drv_fail(DRV_E_DATA, "%s: the hub names a file \"%s\"", request->repo, path);
    const json_t *lfs = json_object_get(entry, "lfs"), *size = json_object_get(entry, "size");
    const char *sha = json_string_value(json_object_get(lfs, "oid"));
    const char *git = json_string_value(json_object_get(entry, "oid"));
    if (json_is_object(lfs)) size = json_object_get(lfs, "size");
    MEM_GROW(request->files, request->n, request->cap);
    request->files[request->n++] = (download){.path = local_path(request, path),
            .url = arena_printf(request->a, "%s/%s%s/resolve/%s/%s", request->opts->link.endpoint,
                    request->model ? "" : "datasets/", request->repo, request->revision,
                    http_escape(request->a, path, "/")),
            .size = json_is_integer(size) ? json_integer_value(size) : -1,
            .sha256 = sha && strlen(sha) == 64 ? arena_strdup(request->a, sha) : NULL,
            .git = !json_is_object(lfs) && git && strlen(git) == 40 ? arena_strdup(request->a, git)
                                                                    : NULL};
    return DRV_OK;
}

// A list ends: each page has entries, and the next one is new.
static drv_status check_next(hub *request, const char *url, const char *next, const json_t *page) {
    enum { MAX_ENTRIES = 20000000 };
    request->n_entries += (int64_t)json_array_size(page);
    // A page that comes again is one of those that are kept: the 1st, 2nd, 4th, ... (Brent 1980).
    const int64_t n = ++request->n_pages;
    if ((n & (n - 1)) == 0) request->kept_page = url;
    const bool again = strcmp(next, request->kept_page) == 0;
    if (json_array_size(page) > 0 && !again && request->n_entries <= MAX_ENTRIES) return DRV_OK;
    return drv_fail(DRV_E_DATA,
            "%s: the list of files does not end: after %lld entries its next page is \"%s\"", url,
            (long long)request->n_entries, next);
}

static int by_path(const void *x, const void *y) {
    return strcmp(((const download *)x)->path, ((const download *)y)->path);
}

static bool same_text(const char *x, const char *y) {
    return x == y || (x && y && strcmp(x, y) == 0);
}

// Two files of one place would be written over each other. The same entry twice, as of pages
// between which the list has changed, counts once.
static drv_status check_paths(hub *request) {
    int n = 0;
    if (request->n) qsort(request->files, (size_t)request->n, sizeof *request->files, by_path);
    for (int i = 0; i < request->n; i++) {
        const download *file = &request->files[i], *last = n ? &request->files[n - 1] : NULL;
        if (!last || strcmp(last->path, file->path) != 0) {
            request->files[n++] = *file;
            continue;
        }
        const bool same = strcmp(last->url, file->url) == 0 && last->size == file->size &&
                          same_text(last->sha256, file->sha256) && same_text(last->git, file->git);
        if (!same)
            return drv_fail(DRV_E_DATA,
                    "%s: the hub lists two files for \"%s\", of %lld and %lld bytes, expected one",
                    request->repo, file->path, (long long)last->size, (long long)file->size);
    }
    request->n = n;
    return DRV_OK;
}

static drv_status list_tree(hub *request) {
    char *url = arena_printf(request->a, "%s/api/%s/%s/tree/%s?recursive=true",
            request->opts->link.endpoint, request->model ? "models" : "datasets", request->repo,
            request->revision);
    while (*url) {
        json_t *page;
        char *next;
        DRV_TRY(hub_call_list(request->a, &request->opts->link, url, &page, &next));
        drv_status status =
                json_is_array(page) ? DRV_OK : drv_fail(DRV_E_DATA, "%s: expected a list", url);
        for (size_t i = 0; status == DRV_OK && i < json_array_size(page); i++)
            status = add_file(request, json_array_get(page, i));
        if (status == DRV_OK && *next) status = check_next(request, url, next, page);
        json_decref(page);
        DRV_TRY(status);
        url = next;
    }
    return check_paths(request);
}

// The patterns of the config from the data set's card, and which splits that knows.
static void read_card(hub *request, const json_t *info) {
    request->configs = json_object_get(json_object_get(info, "cardData"), "configs");
    for (size_t i = 0; i < json_array_size(request->configs); i++) {
        const json_t *c = json_array_get(request->configs, i),
                     *files = json_object_get(c, "data_files");
        const char *name = json_string_value(json_object_get(c, "config_name"));
        for (size_t k = 0; k < json_array_size(files); k++) {
            const char *split =
                    json_string_value(json_object_get(json_array_get(files, k), "split"));
            request->other_splits |= split && data_split_of_name(split) > SET_TRAIN;
        }
        if (!name) continue;
        str_printf(&request->config_names, "%s\"%s\"", request->config_names.n ? ", " : "", name);
        if (request->config && strcmp(name, request->config) == 0) request->patterns = files;
    }
}

// Reads the card. That of all files only says their splits: they are known by their names without.
static drv_status get_card(hub *request, json_t **info) {
    char *next;
    const drv_status status = hub_call_list(request->a, &request->opts->link,
            arena_printf(request->a, "%s/api/datasets/%s/revision/%s", request->opts->link.endpoint,
                    request->repo, request->revision),
            info, &next);
    if (status != DRV_OK && request->config) return status;
    if (status != DRV_OK)
        log_file_only("the card of %s is not read: %s", request->repo, drv_message());
    else
        read_card(request, *info);
    return DRV_OK;
}

// Leaves out the weights of torch.save where there are safetensors, and shards where there are texts.
static void choose_files(hub *request) {
    int n = 0;
    for (int i = 0; i < request->n; i++) {
        const char *path = request->files[i].path, *slash = strrchr(path, '/');
        const bool is_spare =
                request->model ? request->has_safetensors && slash && is_torch_weights(slash + 1)
                               : request->has_text && is_shard(path);
        if (!is_spare) request->files[n++] = request->files[i];
    }
    request->n = n;
}

static drv_status check_model(const hub *request) {
    if (!request->has_config)
        return drv_fail(DRV_E_DATA, "hf:%s: no config.json: not a model that transformers loads",
                request->repo);
    if (!request->has_safetensors && !request->has_torch)
        return drv_fail(DRV_E_DATA,
                "hf:%s: no weights that drover reads (model.safetensors, model-*.safetensors, "
                "pytorch_model.bin, pytorch_model-*.bin); it has %s",
                request->repo,
                request->other_weights.n ? request->other_weights.p : "no weights at all");
    return DRV_OK;
}

static drv_status list(hub *request, json_t **info) {
    if (!request->model) DRV_TRY(get_card(request, info));
    DRV_TRY(list_tree(request));
    choose_files(request);
    if (request->model) return check_model(request);
    if (request->n) return DRV_OK;
    if (request->config)
        return drv_fail(DRV_E_DATA, "hf:%s: no files of a config \"%s\"; it has %s", request->repo,
                request->config,
                request->config_names.n ? request->config_names.p : "none by name");
    return drv_fail(DRV_E_DATA,
            "hf:%s: no file of text, JSON lines, Parquet, MDS, WebDataset or token ids",
            request->repo);
}

static drv_status list_files(hub *request, const char *spec, const hub_opts *opts, download **files,
        int *n) {
    request->opts = opts;
    json_t *info = NULL;
    request->revision = http_escape(request->a, opts->revision, "");
    DRV_TRY(parse_spec(request, spec));
    const drv_status status = list(request, &info);
    json_decref(info);
    str_free(&request->config_names);
    str_free(&request->other_weights);
    *files = ARENA_ARRAY(request->a, download, request->n + 1);
    if (request->n) memcpy(*files, request->files, sizeof *request->files * (size_t)request->n);
    *n = request->n;
    free(request->files);
    return status;
}

drv_status hub_list_data(arena *a, const char *spec, const hub_opts *o, download **files, int *n) {
    return list_files(&(hub){.a = a}, spec, o, files, n);
}

drv_status hub_list_model(arena *a, const char *spec, const hub_opts *o, download **files, int *n) {
    return list_files(&(hub){.a = a, .model = true}, spec, o, files, n);
}
