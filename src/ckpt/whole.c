// Checks that a checkpoint is whole. The ranks of a job share the work: each hashes its blocks of
// every file, all get all digests, and so all reach the same verdict.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/log.h"
#include "base/stop.h"
#include "model/family/model_files.h"
#include "ckpt/block_hash.h"
#include "ckpt/ckpt.h"

typedef struct listed_file {
    const char *name, *path;
    int64_t bytes, n_blocks;
    const char *hash;
    bool by_blocks; // else of the whole file, as versions before 2 did
} listed_file;

typedef struct verification {
    arena *a;
    const char *folder;
    int rank, ranks;
    bool weights_do;  // files that only a resume reads may be missing
    bool heeds_stops; // a stop ends the check, as before a run begins; not while it saves
    json_t *manifest;
    int64_t block_bytes;
    listed_file *files;
    int n;
    block_digest *mine; // of this rank's blocks, file by file
    int64_t n_mine;
} verification;

// --- the manifest
enum { NEWEST_VERSION = 2 };

static drv_status wrong(const char *folder, const json_t *of, const char *key,
        const char *expected) {
    const json_t *x = json_object_get(of, key);
    char *text = x ? json_print(x, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    const drv_status status = drv_fail(DRV_E_DATA, "%s/manifest.json: \"%s\" is %.60s, expected %s",
            folder, key, text ? text : "missing", expected);
    free(text);
    return status;
}

// Another version may mean something else by the same names, so only known versions are read.
static drv_status check_header(const char *folder, const json_t *manifest) {
    const json_t *format = json_object_get(manifest, "format"), // manifests of old have none
            *version = json_object_get(manifest, "version"),
                 *step = json_object_get(manifest, "step");
    if (!json_is_object(manifest))
        return drv_fail(DRV_E_DATA, "%s/manifest.json: expected a JSON object", folder);
    if (format && (!json_is_string(format) ||
                          strcmp(json_string_value(format), "drover checkpoint") != 0))
        return wrong(folder, manifest, "format", "\"drover checkpoint\"");
    if (!json_is_integer(version) || json_integer_value(version) < 1 ||
            json_integer_value(version) > NEWEST_VERSION)
        return wrong(folder, manifest, "version", "1 or 2; a later drover may read it");
    if (!json_is_integer(step) || json_integer_value(step) < 0)
        return wrong(folder, manifest, "step", "a whole number from 0 on");
    if (!json_is_object(json_object_get(manifest, "files")))
        return wrong(folder, manifest, "files", "an object, an entry for each file");
    return DRV_OK;
}

// Checks that it belongs to this folder and lists all files that a resume needs.
static drv_status check_manifest(const char *folder, const json_t *manifest) {
    DRV_TRY(check_header(folder, manifest));
    const json_t *files = json_object_get(manifest, "files");
    const json_t *step = json_object_get(manifest, "step");
    // One file of each row must be listed.
    static const char *const required[][3] = {{"config.json", "adapter_config.json"},
            {"trainer.json"}, {"optimizer.safetensors"},
            {"model.safetensors", "model.safetensors.index.json", "adapter_model.safetensors"}};
    for (size_t i = 0; i < sizeof required / sizeof *required; i++) {
        bool found = false;
        for (int k = 0; k < 3 && required[i][k]; k++)
            found |= json_object_get(files, required[i][k]) != NULL;
        if (!found)
            return drv_fail(DRV_E_DATA, "%s/manifest.json does not list %s", folder,
                    required[i][0]);
    }
    const int64_t named = ckpt_step_of(folder);
    if (named >= 0 && json_integer_value(step) != named)
        return drv_fail(DRV_E_DATA, "%s/manifest.json: step is %lld, expected %lld as in the name",
                folder, (long long)json_integer_value(step), (long long)named);
    return DRV_OK;
}

static drv_status read_block_bytes(verification *v) {
    const json_t *given = json_object_get(v->manifest, "block_bytes");
    v->block_bytes = given ? json_integer_value(given) : CKPT_BLOCK_BYTES;
    if (block_bytes_fit(v->block_bytes)) return DRV_OK;
    return wrong(v->folder, v->manifest, "block_bytes", "a multiple of 64 up to 2^30");
}

// Returns the hash of an entry by its name; NULL: there is none, or it is not a hash.
static const char *hash_of(const json_t *entry, const char *key) {
    const char *hash = json_string_value(json_object_get(entry, key));
    return hash && strlen(hash) == 32 && strspn(hash, "0123456789abcdef") == 32 ? hash : NULL;
}

// Returns whether a file is missing that only a resume reads, if nothing will resume.
static bool may_be_gone(const verification *v, const char *name) {
    const char *path = path_join(v->a, v->folder, name);
    if (strcmp(name, "optimizer.safetensors") != 0 && strcmp(name, "trainer.json") != 0)
        return false;
    if (!v->weights_do || access(path, F_OK) == 0 || errno != ENOENT) return false;
    log_info("%s is missing: the weights can be used, but no run can resume from this checkpoint",
            path);
    return true;
}

static drv_status list_file(verification *check, const char *name, const json_t *entry) {
    const json_t *bytes = json_object_get(entry, "bytes");
    const char *whole = hash_of(entry, "xxh3_128"), *blocks = hash_of(entry, "xxh3_128_blocks");
    if (!(whole || blocks) || !json_is_integer(bytes) || json_integer_value(bytes) < 0 ||
            (strchr(name, '/') && strcmp(name, TOOL_TEMPLATE_FILE) != 0))
        return drv_fail(DRV_E_DATA,
                "%s/manifest.json: bad entry \"%s\", expected a file of the folder with its bytes and a hash of 32 digits",
                check->folder, name);
    listed_file *f = &check->files[check->n++];
    *f = (listed_file){.name = name,
            .path = path_join(check->a, check->folder, name),
            .bytes = json_integer_value(bytes),
            .hash = blocks ? blocks : whole,
            .by_blocks = blocks != NULL};
    if (access(f->path, F_OK) != 0)
        return drv_fail(DRV_E_IO, "%s: %s", f->path,
                errno == ENOENT ? "missing, but its manifest.json lists it" : strerror(errno));
    if (file_size(f->path) != f->bytes)
        return drv_fail(DRV_E_DATA, "%s: %lld bytes, expected %lld", f->path,
                (long long)file_size(f->path), (long long)f->bytes);
    // A file with one hash for all of it counts as one block.
    f->n_blocks = 1;
    if (!f->by_blocks) return DRV_OK;
    return block_count(f->path, f->bytes, check->block_bytes, &f->n_blocks);
}

static drv_status list_files(verification *v) {
    const char *name;
    json_t *entry, *files;
    DRV_TRY(json_read_file(path_join(v->a, v->folder, "manifest.json"), &v->manifest));
    DRV_TRY(check_manifest(v->folder, v->manifest));
    DRV_TRY(read_block_bytes(v));
    files = json_object_get(v->manifest, "files");
    v->files = ARENA_ARRAY(v->a, listed_file, json_object_size(files) + 1);
    json_object_foreach(files, name, entry) {
        if (!may_be_gone(v, name)) DRV_TRY(list_file(v, name, entry));
    }
    return DRV_OK;
}

// --- hashes
// Read in pieces, not mapped: pages of a map would count as this process's memory.
static drv_status hash_range(int fd, const listed_file *f, int64_t first, int64_t n,
        bool heeds_stops, XXH3_state_t *state, char *piece, block_digest *out) {
    enum { PIECE = 1 << 20 };
    XXH128_canonical_t canonical;
    XXH3_128bits_reset(state);
    for (int64_t at = first; at < first + n;) {
        const int64_t left = first + n - at, want = left < PIECE ? left : PIECE;
        if (heeds_stops) DRV_TRY(stop_check("a checkpoint was checked"));
        const int64_t got = file_read_at(fd, piece, want, at);
        if (got < want && errno) return file_fail("read", f->path);
        if (got < want) return drv_fail(DRV_E_DATA, "%s: shortened while it was read", f->path);
        XXH3_128bits_update(state, piece, (size_t)got);
        at += got;
    }
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
    memcpy(out->byte, canonical.digest, sizeof out->byte);
    return DRV_OK;
}

// Every rank gets a share of each file; files of one block are dealt to the ranks in turn.
static block_range share_of(const verification *v, int file, int rank) {
    const listed_file *f = &v->files[file];
    const int shifted = f->n_blocks < v->ranks ? (rank + file) % v->ranks : rank;
    return blocks_of_rank(f->n_blocks, shifted, v->ranks);
}

static drv_status hash_share(verification *v, int file, XXH3_state_t *state, char *piece) {
    const listed_file *f = &v->files[file];
    const block_range mine = share_of(v, file, v->rank);
    if (mine.first == mine.end) return DRV_OK;
    int fd;
    int64_t bytes;
    DRV_TRY(file_open_regular(f->path, &fd, &bytes));
    drv_status status = DRV_OK;
    for (int64_t b = mine.first; b < mine.end && status == DRV_OK; b++) {
        const int64_t size = f->by_blocks ? v->block_bytes : f->bytes, first = b * size,
                      left = f->bytes - first;
        status = hash_range(fd, f, first, left < size ? left : size, v->heeds_stops, state, piece,
                &v->mine[v->n_mine++]);
    }
    close(fd);
    return status;
}

static drv_status hash_shares(verification *v) {
    enum { PIECE = 1 << 20 };
    int64_t n = 0;
    drv_status status = DRV_OK;
    for (int i = 0; i < v->n; i++)
        n += v->files[i].n_blocks;
    v->mine = ARENA_ARRAY(v->a, block_digest, n + 1);
    XXH3_state_t *state = XXH3_createState();
    DRV_MEMORY(state, "to hash in");
    char *piece = mem_alloc(PIECE);
    for (int i = 0; i < v->n && status == DRV_OK; i++)
        status = hash_share(v, i, state, piece);
    free(piece);
    XXH3_freeState(state);
    return status;
}

// Orders the digests, which `all` has rank by rank, by file, and compares them.
static drv_status compare(const verification *check, const block_digest *all) {
    const block_digest **next = ARENA_ARRAY(check->a, const block_digest *, check->ranks);
    const block_digest *first = all;
    for (int r = 0; r < check->ranks; r++) {
        next[r] = first;
        for (int i = 0; i < check->n; i++)
            first += share_of(check, i, r).end - share_of(check, i, r).first;
    }
    for (int i = 0; i < check->n; i++) {
        const listed_file *f = &check->files[i];
        block_digest *list = ARENA_ARRAY(check->a, block_digest, f->n_blocks + 1);
        char hex[33];
        for (int r = 0; r < check->ranks; r++) {
            const block_range share = share_of(check, i, r);
            for (int64_t b = share.first; b < share.end; b++)
                list[b] = *next[r]++;
        }
        block_hash_list(list, f->n_blocks, hex);
        if (!f->by_blocks) block_digest_hex(list, hex);
        if (strcmp(hex, f->hash) != 0)
            return drv_fail(DRV_E_DATA,
                    "%s: content has hash %s, expected %s: it has changed since it was written",
                    f->path, hex, f->hash);
    }
    return DRV_OK;
}

static drv_status gather(const verification *v, const ckpt_ranks *ranks, block_digest **all) {
    int64_t *bytes = ARENA_ARRAY(v->a, int64_t, v->ranks), total = 0;
    *all = v->mine;
    if (v->ranks == 1) return DRV_OK;
    for (int r = 0; r < v->ranks; r++) {
        for (int i = 0; i < v->n; i++)
            bytes[r] += share_of(v, i, r).end - share_of(v, i, r).first;
        bytes[r] *= (int64_t)sizeof **all;
        total += bytes[r];
    }
    *all = arena_alloc(v->a, (size_t)total + 1);
    return comm_all_gather(comm_all_ranks(ranks->comm), v->mine, 0, bytes, *all);
}

static drv_status verify(verification *v, const ckpt_ranks *ranks) {
    block_digest *all;
    DRV_TRY(ckpt_agree(ranks, list_files(v)));
    DRV_TRY(ckpt_agree(ranks, hash_shares(v)));
    DRV_TRY(gather(v, ranks, &all));
    return compare(v, all);
}

static drv_status verify_and_free(verification *v, const ckpt_ranks *ranks) {
    const drv_status status = verify(v, ranks);
    json_decref(v->manifest);
    arena_free(v->a);
    return status;
}

drv_status ckpt_verify_shared(const ckpt_ranks *ranks, const char *path) {
    verification v = {.a = arena_new("verify"),
            .folder = path,
            .ranks = ckpt_size(ranks),
            .rank = ckpt_rank(ranks),
            .heeds_stops = true};
    return verify_and_free(&v, ranks);
}

drv_status ckpt_verify(const char *path) {
    verification v = {.a = arena_new("verify"), .folder = path, .ranks = 1};
    return verify_and_free(&v, NULL);
}

drv_status ckpt_verify_weights(const char *path) {
    verification v = {.a = arena_new("verify"), .folder = path, .ranks = 1, .weights_do = true};
    return verify_and_free(&v, NULL);
}
