// The steps of a push: repository, branch, what the hub has, large files, commits.
#include "push/hub_push.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/base64.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"

// Limits of a question to the hub and of a commit, so that it ends in time: the number of files,
// and the bytes of those whose content is in it. MAX_OTHERS: how often a commit is repeated because
// another one came first.
enum { ASK_FILES = 256, SAMPLE_BYTES = 512, COMMIT_FILES = 256, MAX_OTHERS = 5 };
#define COMMIT_BYTES ((int64_t)32 << 20)

typedef struct push {
    arena *a;
    const push_opts *o;
    push_file *files;
    int n;
    push_result *out;
    const char *branch; // escaped
    char head[65];      // commit that the branch is at
    bool stale;         // the last commit was refused since the branch has moved
} push;

// --- requests
static drv_status get(push *self, const char *url, hub_call *call) {
    *call = (hub_call){.method = "GET", .url = url, .fd = -1};
    return hub_call_run(&self->o->link, call);
}

// Sends JSON, and takes over (decrefs) the value.
static drv_status post(push *self, const char *url, json_t *value, hub_call *call) {
    char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;
    json_decref(value);
    if (!text) return drv_fail(DRV_E_USAGE, "%s: a name or the message is not UTF-8", url);
    *call = hub_call_post(url, "application/json", text, strlen(text));
    const drv_status status = hub_call_run(&self->o->link, call);
    call->bytes = NULL;
    free(text);
    return status;
}

static const char *api(push *self, const char *what) {
    return arena_printf(self->a, "%s/api/models/%s/%s", self->o->link.endpoint, self->o->repo,
            what);
}

// --- repository and branch
// Creates the repository. *refusal: the hub refused; the repository may exist (409), also if the
// token may not create one (401, 403).
static drv_status create_repo(push *self, drv_saved *refusal) {
    const char *slash = strchr(self->o->repo, '/');
    const char *url = arena_printf(self->a, "%s/api/repos/create", self->o->link.endpoint);
    json_t *body = json_pack("{s:s, s:s, s:s}", "name", slash + 1, "organization",
            arena_strndup(self->a, self->o->repo, (size_t)(slash - self->o->repo)), "type",
            "model");
    if (self->o->is_private) json_object_set_new(body, "visibility", json_string("private"));
    hub_call call = {.fd = -1};
    drv_status status = post(self, url, body, &call);
    if (status == DRV_OK && hub_call_succeeded(&call)) {
        log_info("created %s/%s%s", self->o->link.endpoint, self->o->repo,
                self->o->is_private ? ", private" : "");
    } else if (status == DRV_OK) {
        status = hub_call_refused(&call);
        drv_save(status, refusal);
        if (call.code == 409 || call.code == 401 || call.code == 403) status = DRV_OK;
    }
    hub_call_free(&call);
    return status;
}

static bool is_hex(const char *text, size_t n) {
    return text && strlen(text) == n && strspn(text, "0123456789abcdef") == n;
}

// Reads the commit at the head of the branch. *missing: "repository" or "branch" if that does not
// exist, else NULL.
static drv_status read_head(push *self, const char **missing) {
    hub_call call;
    json_t *info = NULL;
    drv_status status =
            get(self, api(self, arena_printf(self->a, "revision/%s", self->branch)), &call);
    *missing = NULL;
    if (status == DRV_OK && call.code == 404 && strcmp(call.error_code, "RevisionNotFound") == 0)
        *missing = "branch";
    else if (status == DRV_OK && (call.code == 404 || call.code == 401) &&
             (call.code == 404 || strcmp(call.error_code, "RepoNotFound") == 0))
        *missing = "repository";
    if (status != DRV_OK || *missing) {
        hub_call_free(&call);
        return status;
    }
    DRV_TRY(hub_call_answer(&call, DRV_OK, &info));
    const char *sha = json_string_value(json_object_get(info, "sha"));
    if (!is_hex(sha, 40))
        status = drv_fail(DRV_E_DATA, "%s: sha is \"%.80s\", expected a commit of 40 digits",
                call.url, sha ? sha : "");
    else
        snprintf(self->head, sizeof self->head, "%s", sha);
    if (status == DRV_OK && self->o->create && self->o->is_private &&
            json_is_false(json_object_get(info, "private")))
        status = drv_fail(DRV_E_USAGE,
                "hf:%s is there and public, and --private asks for a private one: nothing was sent",
                self->o->repo);
    json_decref(info);
    return status;
}

static drv_status create_branch(push *self) {
    hub_call call = {.fd = -1};
    drv_status status = post(self, api(self, arena_printf(self->a, "branch/%s", self->branch)),
            json_object(), &call);
    status = hub_call_answer(&call, status, NULL);
    if (status == DRV_OK) log_info("created the branch \"%s\"", self->o->branch);
    return status;
}

static drv_status missing_is(push *self, const char *missing) {
    if (strcmp(missing, "repository") == 0)
        return drv_fail(DRV_E_USAGE,
                "hf:%s is not there, or the token may not see it: --create makes it",
                self->o->repo);
    return drv_fail(DRV_E_USAGE, "hf:%s has no branch \"%s\": --create makes it", self->o->repo,
            self->o->branch);
}

static drv_status open_branch(push *self) {
    const char *missing;
    drv_saved refusal = {0};
    if (self->o->create) DRV_TRY(create_repo(self, &refusal));
    DRV_TRY(read_head(self, &missing));
    if (missing && self->o->create && strcmp(missing, "branch") == 0) {
        DRV_TRY(create_branch(self));
        DRV_TRY(read_head(self, &missing));
    }
    if (missing && refusal.status != DRV_OK) return drv_restore(&refusal);
    return missing ? missing_is(self, missing) : DRV_OK;
}

// --- what the hub has
static drv_status read_part(const push_file *file, int64_t n, str *out) {
    if (!file->path) {
        str_add(out, file->text, (size_t)n);
        return DRV_OK;
    }
    FILE *f = fopen(file->path, "rbe");
    if (!f) return file_fail("open", file->path);
    str_reserve(out, (size_t)n);
    const size_t got = fread(out->p + out->n, 1, (size_t)n, f);
    out->n += got;
    fclose(f);
    out->p[out->n] = 0;
    if (got == (size_t)n) return DRV_OK;
    return drv_fail(DRV_E_IO, "\"%s\" has become shorter while it was read", file->path);
}

static drv_status hash(push_file *file, hash_kind kind, char out[HASH_TEXT_BYTES]) {
    return file->path ? file_hash(file->path, kind, out)
                      : bytes_hash(file->text, (size_t)file->size, kind, out);
}

static drv_status know_sha256(push_file *file) {
    if (file->sha256[0]) return DRV_OK;
    progress("hashing %s (%s)", file->name, str_bytes((double)file->size));
    return hash(file, HASH_SHA256, file->sha256);
}

// Compares a file with what the hub has under its name, which knows large ones by their SHA-256 and
// others by git's hash. `oid` NULL: it has none.
static drv_status compare(push_file *file, const char *oid) {
    char sum[HASH_TEXT_BYTES];
    file->there = false;
    if (!oid) return DRV_OK;
    if (file->lfs)
        DRV_TRY(know_sha256(file));
    else
        DRV_TRY(hash(file, HASH_GIT, sum));
    file->there = strcmp(file->lfs ? file->sha256 : sum, oid) == 0;
    return DRV_OK;
}

static drv_status take_mode(const char *url, push_file *file, const json_t *list) {
    const json_t *mine = NULL;
    for (size_t i = 0; i < json_array_size(list) && !mine; i++) {
        const char *path = json_string_value(json_object_get(json_array_get(list, i), "path"));
        if (path && strcmp(path, file->name) == 0) mine = json_array_get(list, i);
    }
    const char *mode = json_string_value(json_object_get(mine, "uploadMode"));
    if (!mode || (strcmp(mode, "lfs") != 0 && strcmp(mode, "regular") != 0))
        return drv_fail(DRV_E_DATA,
                "%s: uploadMode of \"%s\" is \"%.40s\", expected lfs or regular", url, file->name,
                mode ? mode : "");
    // Storage takes no empty file, and a text of ours has no file.
    file->lfs = strcmp(mode, "lfs") == 0 && file->size > 0 && file->path;
    file->ignored = json_is_true(json_object_get(mine, "shouldIgnore"));
    file->asked = true;
    if (!file->lfs && file->size > COMMIT_BYTES)
        return drv_fail(DRV_E_DATA,
                "%s: \"%s\" of %lld bytes is to be a regular file, expected LFS beyond %lld", url,
                file->name, (long long)file->size, (long long)COMMIT_BYTES);
    return file->ignored ? DRV_OK : compare(file, json_string_value(json_object_get(mine, "oid")));
}

static drv_status add_sample(const push_file *file, json_t *list) {
    str bytes = {0}, text = {0};
    const int64_t n = file->size < SAMPLE_BYTES ? file->size : SAMPLE_BYTES;
    const drv_status status = read_part(file, n, &bytes);
    base64_encode(bytes.p, bytes.n, &text);
    json_t *entry = json_pack("{s:s, s:s, s:I}", "path", file->name, "sample", text.p ? text.p : "",
            "size", (json_int_t)file->size);
    if (entry) json_array_append_new(list, entry);
    str_free(&bytes);
    str_free(&text);
    return status;
}

static drv_status ask_modes(push *self) {
    const char *url = api(self, arena_printf(self->a, "preupload/%s%s", self->branch,
                                        self->o->pull_request ? "?create_pr=1" : ""));
    for (int i = 0; i < self->n; i += ASK_FILES) {
        const int n = self->n - i < ASK_FILES ? self->n - i : ASK_FILES;
        json_t *list = json_array(), *said = NULL;
        drv_status status = DRV_OK;
        for (int k = 0; k < n && status == DRV_OK; k++)
            status = add_sample(&self->files[i + k], list);
        json_t *body = json_pack("{s:o}", "files", list);
        hub_call call = {.fd = -1};
        if (status == DRV_OK)
            status = hub_call_answer(&call, post(self, url, body, &call), &said);
        else
            json_decref(body);
        for (int k = 0; k < n && status == DRV_OK; k++)
            status = take_mode(url, &self->files[i + k], json_object_get(said, "files"));
        json_decref(said);
        DRV_TRY(status);
    }
    progress_end();
    return DRV_OK;
}

// --- large files
static bool is_new(const push_file *file) {
    return !file->ignored && !file->there;
}

static drv_status send_large(push *self) {
    lfs_object *list = ARENA_ARRAY(self->a, lfs_object, self->n + 1);
    lfs_stats stats;
    int n_objects = 0;
    for (int i = 0; i < self->n; i++) {
        push_file *file = &self->files[i];
        bool again = false; // two files of one content are one object
        if (!is_new(file) || !file->lfs) continue;
        DRV_TRY(know_sha256(file));
        for (int k = 0; k < n_objects; k++)
            again |= strcmp(list[k].sha256, file->sha256) == 0;
        if (again) continue;
        list[n_objects] = (lfs_object){.name = file->name, .path = file->path, .size = file->size};
        snprintf(list[n_objects++].sha256, sizeof list->sha256, "%s", file->sha256);
    }
    progress_end();
    if (!n_objects) return DRV_OK;
    // A pull request may be opened without the right to write to its branch.
    DRV_TRY(lfs_upload(self->a, &self->o->link, self->o->repo,
            self->o->pull_request ? NULL : self->o->branch, list, n_objects, &stats));
    self->out->lfs.files += stats.files;
    self->out->lfs.there += stats.there;
    self->out->lfs.bytes += stats.bytes;
    self->out->lfs.seconds += stats.seconds;
    return DRV_OK;
}

// --- commits
static drv_status check_unchanged(const push_file *file) {
    struct stat st;
    if (!file->path) return DRV_OK;
    if (stat(file->path, &st) == 0 && st.st_size == file->size &&
            st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec == file->changed_ns)
        return DRV_OK;
    return drv_fail(DRV_E_IO, "\"%s\" has changed while it was sent", file->path);
}

static drv_status add_file(const push_file *file, str *out) {
    str bytes = {0}, text = {0};
    drv_status status = check_unchanged(file);
    if (status == DRV_OK && file->lfs) {
        json_t *line = json_pack("{s:s, s:{s:s, s:s, s:s, s:I}}", "key", "lfsFile", "value", "path",
                file->name, "algo", "sha256", "oid", file->sha256, "size", (json_int_t)file->size);
        json_print_to(out, line, JSON_COMPACT);
        str_puts(out, "\n");
    } else if (status == DRV_OK) {
        status = read_part(file, file->size, &bytes);
        base64_encode(bytes.p, bytes.n, &text);
        str_puts(out, "{\"key\":\"file\",\"value\":{\"encoding\":\"base64\",\"path\":");
        str_add_json(out, file->name, strlen(file->name));
        str_printf(out, ",\"content\":\"%s\"}}\n", text.p ? text.p : "");
    }
    str_free(&bytes);
    str_free(&text);
    return status;
}

static void add_header(push *self, const char *summary, str *out) {
    str_puts(out, "{\"key\":\"header\",\"value\":{\"summary\":");
    str_add_json(out, summary, strlen(summary));
    str_printf(out, ",\"description\":\"\",\"parentCommit\":\"%s\"}}\n", self->head);
}

// Reads the answer to a commit, which becomes the parent of the next one.
static drv_status take_commit(push *self, const char *url, const json_t *said) {
    const char *oid = json_string_value(json_object_get(said, "commitOid")),
               *where = json_string_value(json_object_get(said, "commitUrl")),
               *request = json_string_value(json_object_get(said, "pullRequestUrl"));
    if (!is_hex(oid, 40))
        return drv_fail(DRV_E_DATA, "%s: commitOid is \"%.80s\", expected 40 digits", url,
                oid ? oid : "");
    snprintf(self->head, sizeof self->head, "%s", oid);
    if (!self->out->url || !self->o->pull_request) {
        const char *shown = self->o->pull_request ? request : where;
        self->out->url = arena_strdup(self->a, shown ? shown : "");
    }
    self->out->n_commits++;
    return DRV_OK;
}

// Finds the branch of a pull request from its URL, which ends with its number.
static drv_status branch_of_request(push *self, const char **out) {
    const char *slash = strrchr(self->out->url, '/'), *number = slash ? slash + 1 : "";
    if (!*number || strspn(number, "0123456789") != strlen(number) || strlen(number) > 10)
        return drv_fail(DRV_E_DATA,
                "the hub calls the pull request \"%.200s\", expected an address that ends with its number",
                self->out->url);
    *out = arena_printf(self->a, "refs%%2Fpr%%2F%s", number);
    return DRV_OK;
}

static drv_status send_commit(push *self, const str *body, int n_before) {
    const bool opens = self->o->pull_request && n_before == 0;
    const char *branch = self->branch;
    json_t *said = NULL;
    if (self->o->pull_request && !opens) DRV_TRY(branch_of_request(self, &branch));
    // With its parent a commit whose answer was lost is found out by its second try.
    const char *url =
            api(self, arena_printf(self->a, "commit/%s%s", branch, opens ? "?create_pr=1" : ""));
    hub_call call = hub_call_post(url, "application/x-ndjson", body->p, body->n);
    call.once = opens;
    const drv_status sent = hub_call_run(&self->o->link, &call);
    if (sent == DRV_OK && (call.code == 409 || call.code == 412) && !self->o->pull_request) {
        self->stale = true;
        hub_call_free(&call);
        return DRV_OK;
    }
    DRV_TRY(hub_call_answer(&call, sent, &said));
    const drv_status status = take_commit(self, url, said);
    json_decref(said);
    return status;
}

// The files from *next on that fit into one commit.
static drv_status commit_some(push *self, int *next, int n_new, int n_before) {
    str body = {0};
    int64_t bytes = 0;
    int n_added = 0, i = *next;
    drv_status status = DRV_OK;
    const bool many = n_new > COMMIT_FILES || n_before > 0;
    add_header(self,
            many ? arena_printf(self->a, "%s (part %d)", self->o->message, n_before + 1)
                 : self->o->message,
            &body);
    for (; i < self->n && n_added < COMMIT_FILES && status == DRV_OK; i++) {
        const push_file *file = &self->files[i];
        if (!is_new(file)) continue;
        const int64_t more = file->lfs ? 0 : file->size;
        if (n_added && bytes + more > COMMIT_BYTES) break;
        status = add_file(file, &body);
        bytes += more;
        n_added++;
    }
    if (status == DRV_OK && n_added) status = send_commit(self, &body, n_before);
    str_free(&body);
    if (status == DRV_OK && !self->stale) {
        self->out->n_sent += n_added;
        *next = i;
    }
    return status;
}

// Commits all new files. If the branch has moved, `stale` is set, and the hub must be asked again
// about the rest.
static drv_status commit_all(push *self) {
    int n_new = 0, next = 0;
    for (int i = 0; i < self->n; i++)
        n_new += is_new(&self->files[i]);
    self->stale = false;
    while (n_new && next < self->n && !self->stale)
        DRV_TRY(commit_some(self, &next, n_new, self->out->n_commits));
    return DRV_OK;
}

// --- all of it
static drv_status check_card(push *self) {
    for (int i = 0; i < self->n; i++) {
        const push_file *file = &self->files[i];
        if (strcmp(file->name, "README.md") != 0 || file->size > COMMIT_BYTES) continue;
        str text = {0};
        hub_call call = {.fd = -1};
        json_t *said = NULL;
        drv_status status = read_part(file, file->size, &text);
        if (status == DRV_OK)
            status = post(self,
                    arena_printf(self->a, "%s/api/validate-yaml", self->o->link.endpoint),
                    json_pack("{s:s%, s:s}", "content", text.p ? text.p : "", text.n, "repoType",
                            "model"),
                    &call);
        str_free(&text);
        if (status == DRV_OK && call.code == 400 &&
                json_read_bytes(call.url, call.body.p ? call.body.p : "", call.body.n, &said) ==
                        DRV_OK) {
            const json_t *first = json_array_get(json_object_get(said, "errors"), 0);
            const char *why = json_string_value(json_object_get(first, "message"));
            status = drv_fail(DRV_E_DATA, "README.md: the hub refuses its YAML header: %.500s",
                    why ? why : "?");
        } // where a hub has no such check, it makes it as it commits
        json_decref(said);
        hub_call_free(&call);
        return status;
    }
    return DRV_OK;
}

static push begin(arena *a, const push_opts *o, push_file *files, int n, push_result *out) {
    *out = (push_result){0};
    return (push){.a = a,
            .o = o,
            .files = files,
            .n = n,
            .out = out,
            .branch = http_escape(a, o->branch, "")};
}

static drv_status check_endpoint(const push_opts *o) {
    return hub_url_check(&o->link, o->link.endpoint, "HF_ENDPOINT is") == DRV_OK ? DRV_OK
                                                                                 : DRV_E_USAGE;
}

drv_status hub_push_ask(arena *a, const push_opts *o, push_file *files, int n, bool *exists) {
    push_result nothing;
    push self = begin(a, o, files, n, &nothing);
    const char *missing;
    DRV_TRY(check_endpoint(o));
    DRV_TRY(read_head(&self, &missing));
    *exists = !missing;
    return missing ? DRV_OK : ask_modes(&self);
}

drv_status hub_push(arena *a, const push_opts *opts, push_file *files, int n_files,
        push_result *out) {
    push self = begin(a, opts, files, n_files, out);
    const char *missing;
    DRV_TRY(check_endpoint(opts));
    DRV_TRY(open_branch(&self));
    DRV_TRY(check_card(&self));
    for (int others = 0;; others++) {
        DRV_TRY(ask_modes(&self));
        DRV_TRY(send_large(&self));
        DRV_TRY(commit_all(&self));
        if (!self.stale) break;
        if (others == MAX_OTHERS)
            return drv_fail(DRV_E_BUSY, "hf:%s: the branch \"%s\" has moved %d times before ours",
                    opts->repo, opts->branch, others + 1);
        log_info("hf:%s: another commit was made to \"%s\"; checking its files again", opts->repo,
                opts->branch);
        DRV_TRY(read_head(&self, &missing));
        if (missing) return missing_is(&self, missing);
    }
    for (int i = 0; i < n_files; i++) {
        out->n_ignored += files[i].ignored;
        out->n_there += files[i].there;
    }
    return DRV_OK;
}
