// Reads index.json (mosaicml/streaming, streaming/base/format/base/writer.py).
#include "data/read/mds_index.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/str.h"

// Returns whether an index.json is that of MDS, which begins with the list of shards or the
// version: other kinds of folders have an index.json too.
static bool looks_like_index(const char *path) {
    char text[64] = "";
    FILE *f = fopen(path, "re");
    if (!f) return false;
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    const char *p = text;
    while (isspace((unsigned char)*p))
        p++;
    if (*p++ != '{') return false;
    while (isspace((unsigned char)*p))
        p++;
    return str_starts(p, "\"shards\"") || str_starts(p, "\"version\"");
}

// Returns whether a name leads to a file below the folder. Names may have folders, as in merged
// indexes.
static bool stays_below(const char *name) {
    if (!*name || *name == '/') return false;
    for (const char *p = name; p; p = strchr(p, '/')) {
        p += *p == '/';
        if (strncmp(p, "..", 2) == 0 && (p[2] == '/' || !p[2])) return false;
    }
    return true;
}

static drv_status check_format(const char *index, size_t i, const json_t *shard) {
    const char *format = "";
    int64_t version = 0;
    DRV_TRY(json_get_str(index, shard, "format", &format));
    DRV_TRY(json_get_i64(index, shard, "version", &version));
    if (strcmp(format, "mds") != 0)
        return drv_fail(DRV_E_DATA, "%s: format of shard %zu is \"%.20s\", expected \"mds\"", index,
                i, format);
    if (version != 2)
        return drv_fail(DRV_E_DATA, "%s: version of shard %zu is %lld, expected 2", index, i,
                (long long)version);
    return DRV_OK;
}

// Finds the file that `key` (raw_data or zip_data) names; path NULL: the shard has no such file, or
// it is not there.
static drv_status find_file(arena *a, const char *folder, const char *index, const json_t *shard,
        const char *key, const char **path, int64_t *bytes) {
    const json_t *info = json_object_get(shard, key);
    const char *name = NULL;
    *path = NULL;
    *bytes = -1;
    if (!info || json_is_null(info)) return DRV_OK;
    DRV_TRY(json_get_str(index, info, "basename", &name));
    DRV_TRY(json_get_i64(index, info, "bytes", bytes));
    if (!name || !stays_below(name) || *bytes < 0)
        return drv_fail(DRV_E_DATA,
                "%s: a shard's %s has basename \"%.80s\" and %lld bytes, expected a file of this folder and its size",
                index, key, name ? name : "", (long long)*bytes);
    const char *found = path_join(a, folder, name);
    if (file_exists(found)) *path = found;
    return DRV_OK;
}

static drv_status add_shard(arena *a, const char *folder, const char *index, size_t i,
        const json_t *shard, input_file *out) {
    const char *raw, *packed;
    int64_t raw_bytes, packed_bytes;
    *out = (input_file){.kind = INPUT_MDS};
    DRV_TRY(check_format(index, i, shard));
    DRV_TRY(json_get_i64(index, shard, "samples", &out->samples));
    DRV_TRY(find_file(a, folder, index, shard, "raw_data", &raw, &raw_bytes));
    DRV_TRY(find_file(a, folder, index, shard, "zip_data", &packed, &packed_bytes));
    out->path = out->name = raw ? raw : packed;
    if (!out->path) return drv_fail(DRV_E_DATA, "%s names shard %zu, which is not there", index, i);
    const int64_t expected = raw ? raw_bytes : packed_bytes;
    out->unpacked = raw_bytes;
    out->bytes = file_size(out->path);
    if (out->bytes != expected)
        return drv_fail(DRV_E_DATA, "%s: %lld bytes long, expected %lld, as index.json says",
                out->path, (long long)out->bytes, (long long)expected);
    return DRV_OK;
}

static drv_status list_shards(arena *a, const char *folder, const char *index, const json_t *root,
        input_file **files, int *n) {
    const json_t *shards = json_object_get(root, "shards");
    size_t i;
    json_t *shard;
    if (!json_is_array(shards)) return drv_fail(DRV_E_DATA, "%s: no list \"shards\"", index);
    if (json_array_size(shards) == 0)
        return drv_fail(DRV_E_DATA,
                "%s: the list \"shards\" is empty, expected the shards (.mds) of this folder",
                index);
    *n = 0;
    *files = ARENA_ARRAY(a, input_file, json_array_size(shards) + 1);
    json_array_foreach(shards, i, shard)
            DRV_TRY(add_shard(a, folder, index, i, shard, &(*files)[(*n)++]));
    return DRV_OK;
}

drv_status mds_index_files(arena *a, const char *folder, bool *is_mds, input_file **files, int *n) {
    const char *index = path_join(a, folder, "index.json");
    json_t *root;
    *is_mds = looks_like_index(index);
    if (!*is_mds) return DRV_OK;
    DRV_TRY(json_read_file(index, &root));
    const drv_status status = list_shards(a, folder, index, root, files, n);
    json_decref(root);
    return status;
}
