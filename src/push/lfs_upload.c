// Git LFS: the batch API (github.com/git-lfs/git-lfs, in its documents) and the hub's multipart
// transfer (huggingface_hub, lfs.py): the answer of a batch has the address of each part, storage
// answers a part with its ETag, and a last request joins the parts by these.
#include "push/lfs_upload.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "push/part_journal.h"

// Files of a batch, few enough that its signed addresses are still good when the last file begins;
// S3 has 10,000 parts of a file at most.
enum { BATCH_FILES = 16, MAX_PARTS = 10000, MAX_RESTARTS = 3 };
#define LFS_TYPE "application/vnd.git-lfs+json"

typedef struct upload {
    const lfs_object *object;
    int fd;
    hub_call *parts; // one: the whole file
    int n_parts, n_done;
    int64_t sent, had; // bytes of parts that arrived in this run, and before
    bool multipart, resumed;
    bool lost;                             // storage does not take it any more: it begins anew
    const char *complete_url, *verify_url; // NULL: none
    hub_call last;                         // joins the parts, then asks the hub to verify them
    part_journal journal;
} upload;

typedef struct crowd {
    arena *a;
    const http_link *link;
    const char *repo, *branch;
    CURLM *multi;
    hub_call **queue; // in the order in which they begin
    int n, cap, first, running;
    hub_call *runs[64];
    int n_files, n_done;
    int64_t total, done; // bytes
    double begin;
} crowd;

// --- the answer of a batch
static drv_status malformed(const lfs_object *object, const char *what) {
    return drv_fail(DRV_E_DATA, "%s: the hub's answer to the LFS batch: %s", object->name, what);
}

// Reads the URL of an action. A mirror of the hub may name the hub itself: its own address is used.
static drv_status take_url(crowd *all, const upload *job, const json_t *action, const char **out) {
    static const char own[] = "https://huggingface.co/";
    const char *url = json_string_value(json_object_get(action, "href"));
    if (!url) return malformed(job->object, "an action without href");
    if (str_starts(url, own))
        url = arena_printf(all->a, "%s/%s", all->link->endpoint, url + sizeof own - 1);
    DRV_TRY(hub_url_check(all->link, url, "the hub names the address"));
    *out = arena_strdup(all->a, url);
    return DRV_OK;
}

static bool is_number(const char *text) {
    return *text && strspn(text, "0123456789") == strlen(text);
}

static drv_status take_parts(crowd *all, upload *job, const json_t *header, int64_t chunk) {
    const int64_t size = job->object->size, n_parts = chunk > 0 ? (size - 1) / chunk + 1 : 0;
    const char *key;
    json_t *value;
    int found = 0;
    if (n_parts < 1 || n_parts > MAX_PARTS)
        return drv_fail(DRV_E_DATA,
                "%s: the hub asks for parts of %lld bytes of its %lld, expected 1 to %d parts",
                job->object->name, (long long)chunk, (long long)size, MAX_PARTS);
    job->multipart = true;
    job->n_parts = (int)n_parts;
    job->parts = ARENA_ARRAY(all->a, hub_call, n_parts);
    json_object_foreach((json_t *)(uintptr_t)header, key, value) {
        int64_t number;
        const char *url = json_string_value(value);
        if (!is_number(key)) continue;
        if (!url || !str_to_i64(key, &number) || number < 1 || number > n_parts ||
                job->parts[number - 1].url)
            return malformed(job->object,
                    arena_printf(all->a,
                            "part \"%.20s\", expected the numbers 1 to %lld, each once, with an address",
                            key, (long long)n_parts));
        DRV_TRY(hub_url_check(all->link, url, "the hub names the address"));
        const int64_t first = (number - 1) * chunk;
        job->parts[number - 1] = (hub_call){.url = arena_strdup(all->a, url),
                .first = first,
                .n_bytes = size - first < chunk ? size - first : chunk};
        found++;
    }
    if (found == n_parts) return DRV_OK;
    return malformed(job->object, arena_printf(all->a, "%d addresses of parts, expected %lld",
                                          found, (long long)n_parts));
}

static drv_status take_action(crowd *all, upload *job, const json_t *action) {
    const json_t *header = json_object_get(action, "header"),
                 *chunk = json_object_get(header, "chunk_size");
    const char *url;
    DRV_TRY(take_url(all, job, action, &url));
    if (chunk) {
        const char *text = json_string_value(chunk);
        int64_t bytes = json_integer_value(chunk);
        if (text && (!is_number(text) || !str_to_i64(text, &bytes))) bytes = 0;
        job->complete_url = url;
        return take_parts(all, job, header, bytes);
    }
    job->parts = ARENA_NEW(all->a, hub_call);
    job->parts[0] = (hub_call){.url = url, .n_bytes = job->object->size};
    job->n_parts = 1;
    return DRV_OK;
}

// Resumes the upload of an earlier run if its journal has one, else begins a journal.
static drv_status take_journal(crowd *all, upload *job, const json_t *action) {
    json_t *kept, *etags;
    part_journal_read(all->a, all->link, all->repo, job->object, &job->journal, &kept, &etags);
    upload earlier = *job;
    if (kept && take_action(all, &earlier, kept) == DRV_OK && earlier.multipart) {
        earlier.journal = job->journal;
        earlier.resumed = true;
        *job = earlier;
        action = NULL;
        for (int i = 0; i < job->n_parts; i++) {
            char key[32];
            snprintf(key, sizeof key, "%d", i + 1);
            const char *etag = json_string_value(json_object_get(etags, key));
            if (!etag || !*etag) continue;
            snprintf(job->parts[i].etag, sizeof job->parts[i].etag, "%s", etag);
            job->parts[i].state = CALL_DONE;
            job->n_done++;
        }
        log_info("%s: %d of its %d parts are there", job->object->name, job->n_done, job->n_parts);
    }
    json_decref(kept);
    json_decref(etags);
    if (job->multipart) part_journal_begin(&job->journal, action);
    return DRV_OK;
}

// --- calls
static void enqueue(crowd *all, hub_call *call) {
    MEM_GROW(all->queue, all->n, all->cap);
    all->queue[all->n++] = call;
}

static void enqueue_last(crowd *all, upload *job, const char *url, json_t *body) {
    const char *text = json_print_in(all->a, body, JSON_COMPACT);
    hub_call_free(&job->last);
    job->last = hub_call_post(url, LFS_TYPE, text, strlen(text));
    job->last.owner = job;
    job->last.number = -1;
    enqueue(all, &job->last);
}

static void done(crowd *all, upload *job) {
    part_journal_remove(&job->journal);
    if (job->fd >= 0) close(job->fd);
    job->fd = -1;
    all->n_done++;
}

// Sends the request that follows the last part, or the request after that.
static drv_status go_on(crowd *all, upload *job) {
    if (job->complete_url) {
        json_t *parts = json_array();
        for (int i = 0; i < job->n_parts; i++) {
            json_t *part = json_pack("{s:i, s:s}", "partNumber", i + 1, "etag", job->parts[i].etag);
            if (!job->parts[i].etag[0] || !part) {
                json_decref(parts);
                json_decref(part);
                return drv_fail(DRV_E_DATA, "%s: storage answered part %d without a usable ETag",
                        job->object->name, i + 1);
            }
            json_array_append_new(parts, part);
        }
        const char *url = job->complete_url;
        job->complete_url = NULL;
        enqueue_last(all, job, url,
                json_pack("{s:s, s:o}", "oid", job->object->sha256, "parts", parts));
    } else if (job->verify_url) {
        const char *url = job->verify_url;
        job->verify_url = NULL;
        job->resumed = false; // the parts are one object now
        part_journal_remove(&job->journal);
        enqueue_last(all, job, url,
                json_pack("{s:s, s:I}", "oid", job->object->sha256, "size",
                        (json_int_t)job->object->size));
    } else {
        done(all, job);
    }
    return DRV_OK;
}

static drv_status take_answer(crowd *all, hub_call *call) {
    upload *job = call->owner;
    if (job->lost) return DRV_OK;
    if (!hub_call_succeeded(call)) {
        // A signature expires, and storage forgets parts: the hub gives new addresses.
        const bool gone = call->code == 403 || call->code == 404 || call->code == 410;
        if (!(job->resumed && call->code < 500) && !(gone && call->number >= 0))
            return hub_call_refused(call);
        log_info("%s: storage responded with status %ld; asking the hub for new URLs",
                job->object->name, call->code);
        job->lost = true;
        all->done -= job->sent;
        all->total += job->had;
        part_journal_remove(&job->journal);
        return DRV_OK;
    }
    if (call->number < 0) return go_on(all, job);
    all->done += call->n_bytes;
    job->sent += call->n_bytes;
    if (job->multipart) part_journal_add(&job->journal, call->number + 1, call->etag);
    return ++job->n_done == job->n_parts ? go_on(all, job) : DRV_OK;
}

static void start_some(crowd *all) {
    while (all->first < all->n && all->queue[all->first]->state == CALL_DONE)
        all->first++;
    for (int i = all->first; i < all->n && all->running < all->link->parallel; i++) {
        hub_call *call = all->queue[i];
        const upload *job = call->owner;
        if (call->state != CALL_WAITS || clock_s() < call->tries.not_before) continue;
        if (job->lost) {
            call->state = CALL_DONE;
            continue;
        }
        hub_call_begin(all->link, call, all->multi);
        all->runs[all->running++] = call;
    }
}

static drv_status end_one(crowd *all, const CURLMsg *m) {
    hub_call *call;
    const CURLcode result = m->data.result;
    curl->easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&call);
    drv_status status = hub_call_settle(all->link, call, result);
    hub_call_close(call, all->multi);
    for (int i = 0; i < all->running; i++)
        if (all->runs[i] == call) all->runs[i] = all->runs[--all->running];
    if (status == DRV_OK && call->state == CALL_DONE) status = take_answer(all, call);
    if (call->state == CALL_DONE && call->number >= 0) hub_call_free(call);
    return status;
}

static void show(const crowd *all) {
    int64_t have = all->done;
    for (int i = 0; i < all->running; i++)
        if (all->runs[i]->number >= 0) have += all->runs[i]->sent;
    const double t = clock_s() - all->begin, speed = (double)have / (t > 0 ? t : 1);
    progress("%d of %d large files sent  %s of %s  %.1f MB/s  eta %s", all->n_done, all->n_files,
            str_bytes((double)have), str_bytes((double)all->total), speed / 1e6,
            speed > 0 ? str_duration((double)(all->total - have) / speed) : "?");
}

static drv_status drive(crowd *all) {
    for (start_some(all); all->running || all->first < all->n; start_some(all)) {
        int busy, left, n_ended = 0;
        curl->multi_perform(all->multi, &busy);
        for (CURLMsg *m; (m = curl->multi_info_read(all->multi, &left));) {
            if (m->msg != CURLMSG_DONE) continue;
            DRV_TRY(end_one(all, m));
            n_ended++;
        }
        show(all);
        if (!n_ended) curl->multi_poll(all->multi, NULL, 0, 200, NULL);
    }
    return DRV_OK;
}

// --- a batch
static upload new_job(const lfs_object *object) {
    return (upload){.object = object, .fd = -1, .journal.fd = -1};
}

static drv_status ask(crowd *all, const upload *jobs, int n_jobs, json_t **out) {
    json_t *objects = json_array();
    for (int i = 0; i < n_jobs; i++)
        json_array_append_new(objects, json_pack("{s:s, s:I}", "oid", jobs[i].object->sha256,
                                               "size", (json_int_t)jobs[i].object->size));
    json_t *body = json_pack("{s:s, s:[s, s], s:o, s:s}", "operation", "upload", "transfers",
            "basic", "multipart", "objects", objects, "hash_algo", "sha256");
    if (all->branch) json_object_set_new(body, "ref", json_pack("{s:s}", "name", all->branch));
    const char *text = json_print_in(all->a, body, JSON_COMPACT);
    hub_call call = hub_call_post(arena_printf(all->a, "%s/%s.git/info/lfs/objects/batch",
                                          all->link->endpoint, all->repo),
            LFS_TYPE, text, strlen(text));
    return hub_call_answer(&call, hub_call_run(all->link, &call), out);
}

// Reads what the answer says about one object. *there: the hub has it.
static drv_status take_object(crowd *all, upload *job, const json_t *answer, bool *there) {
    const json_t *objects = json_object_get(answer, "objects"), *mine = NULL;
    for (size_t i = 0; i < json_array_size(objects) && !mine; i++) {
        const json_t *entry = json_array_get(objects, i);
        const char *oid = json_string_value(json_object_get(entry, "oid"));
        if (oid && strcmp(oid, job->object->sha256) == 0) mine = entry;
    }
    if (!mine) return malformed(job->object, "it is not among \"objects\"");
    const char *error =
            json_string_value(json_object_get(json_object_get(mine, "error"), "message"));
    if (json_object_get(mine, "error"))
        return malformed(job->object, arena_printf(all->a, "refused: %.300s", error ? error : "?"));
    const json_t *actions = json_object_get(mine, "actions"),
                 *send = json_object_get(actions, "upload"),
                 *verify = json_object_get(actions, "verify");
    *there = !json_is_object(send);
    if (*there) return DRV_OK;
    DRV_TRY(take_action(all, job, send));
    if (job->multipart) DRV_TRY(take_journal(all, job, send));
    if (verify) DRV_TRY(take_url(all, job, verify, &job->verify_url));
    return DRV_OK;
}

static drv_status begin_job(crowd *all, upload *job) {
    int64_t size;
    DRV_TRY(file_open_regular(job->object->path, &job->fd, &size));
    for (int i = 0; i < job->n_parts; i++) {
        hub_call *call = &job->parts[i];
        if (call->state == CALL_DONE) {
            all->total -= call->n_bytes;
            job->had += call->n_bytes;
            continue;
        }
        call->method = "PUT";
        call->fd = job->fd;
        call->owner = job;
        call->number = i;
        enqueue(all, call);
    }
    return job->n_done == job->n_parts ? go_on(all, job) : DRV_OK;
}

// Sends a batch. *n_lost: the number of objects that need new URLs; they are moved to the front.
static drv_status send_batch(crowd *all, upload *jobs, int n_jobs, int *n_lost, lfs_stats *stats) {
    json_t *answer = NULL;
    drv_status status = ask(all, jobs, n_jobs, &answer);
    for (int i = 0; i < n_jobs && status == DRV_OK; i++) {
        bool there = false;
        status = take_object(all, &jobs[i], answer, &there);
        if (status == DRV_OK && !there) status = begin_job(all, &jobs[i]);
        if (!there) continue;
        stats->there++;
        all->n_done++;
        all->total -= jobs[i].object->size;
    }
    json_decref(answer);
    if (status == DRV_OK) status = drive(all);
    *n_lost = 0;
    for (int i = 0; i < n_jobs; i++) {
        for (int k = 0; k < jobs[i].n_parts; k++) {
            hub_call_close(&jobs[i].parts[k], all->multi);
            hub_call_free(&jobs[i].parts[k]);
        }
        hub_call_close(&jobs[i].last, all->multi);
        hub_call_free(&jobs[i].last);
        part_journal_close(&jobs[i].journal);
        if (jobs[i].fd >= 0) close(jobs[i].fd);
        if (jobs[i].lost) jobs[(*n_lost)++] = new_job(jobs[i].object);
    }
    all->n = all->first = all->running = 0;
    return status;
}

static drv_status send_all(crowd *all, const lfs_object *list, int n, lfs_stats *stats) {
    upload *jobs = ARENA_ARRAY(all->a, upload, BATCH_FILES);
    for (int i = 0; i < n; i += BATCH_FILES) {
        int n_jobs = n - i < BATCH_FILES ? n - i : BATCH_FILES, n_restarts = 0;
        for (int k = 0; k < n_jobs; k++)
            jobs[k] = new_job(&list[i + k]);
        while (n_jobs) {
            int n_lost;
            DRV_TRY(send_batch(all, jobs, n_jobs, &n_lost, stats));
            if (n_lost && ++n_restarts > MAX_RESTARTS)
                return drv_fail(DRV_E_IO,
                        "%s: storage refuses its parts, %d times with new addresses of the hub",
                        jobs[0].object->name, n_restarts);
            n_jobs = n_lost;
        }
    }
    return DRV_OK;
}

drv_status lfs_upload(arena *a, const http_link *link, const char *repo, const char *branch,
        const lfs_object *list, int n, lfs_stats *out) {
    crowd all = {.a = a, .link = link, .repo = repo, .branch = branch, .n_files = n};
    *out = (lfs_stats){0};
    DRV_TRY(curl_open("uploads need"));
    for (int i = 0; i < n; i++)
        all.total += list[i].size;
    all.begin = clock_s();
    all.multi = curl->multi_init();
    DRV_MEMORY(all.multi, "no memory for uploads");
    const drv_status status = send_all(&all, list, n, out);
    progress_end();
    curl->multi_cleanup(all.multi);
    free(all.queue);
    out->files = all.n_done - out->there;
    out->bytes = all.done;
    out->seconds = clock_s() - all.begin;
    return status;
}
