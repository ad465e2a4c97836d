// Downloads with libcurl: parts that grow, ranges to resume, hashes at the end, waits between tries.
#include "data/get/download.h"

#include <ctype.h>
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"

enum { FIRST_WAIT_S = 1, MAX_WAIT_S = 60, SILENT_S = 60, CONNECT_S = 30 };

typedef enum job_state { JOB_WAITS, JOB_RUNS, JOB_DONE } job_state;

typedef struct job {
    const download *d;
    const download_opts *o;
    job_state state;
    CURL *curl;
    int fd;
    char part[4096];
    int64_t have, began_with; // bytes of the file; before this try
    int64_t total;            // as the server says; -1: it does not
    long code;
    int failures; // since the last progress
    double not_before;
    double retry_after;
    bool no_range;       // the server sends all of it, whatever was asked for
    char error_code[64]; // X-Error-Code of the hub
    int write_errno;
    str body; // of a text instead of a file
    bool is_text;
    char *next; // from the Link header
} job;

// --- one transfer
static void set_common(job *j, const char *url) {
    CURL *c = j->curl;
    curl_easy_setopt(c, CURLOPT_URL, url);
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(c, CURLOPT_MAXREDIRS, 10L);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)SILENT_S);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "drover");
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    // Only to the host that was asked, not to where it redirects.
    const size_t n_host = j->o->token ? strlen(j->o->host) : 0;
    if (n_host && strncmp(url, j->o->host, n_host) == 0 && url[n_host] == '/') {
        curl_easy_setopt(c, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
        curl_easy_setopt(c, CURLOPT_XOAUTH2_BEARER, j->o->token);
    }
}

static void copy_value(char *to, size_t cap, const char *p, size_t n) {
    while (n && isspace((unsigned char)*p))
        p++, n--;
    while (n && isspace((unsigned char)p[n - 1]))
        n--;
    snprintf(to, cap, "%.*s", (int)n, p);
}

// <URL>; rel="next"
static void take_next(job *j, const char *value) {
    const char *rel = strstr(value, "rel=\"next\""), *end = rel;
    if (!rel) return;
    while (end > value && *end != '>')
        end--;
    const char *begin = end;
    while (begin > value && *begin != '<')
        begin--;
    if (*begin != '<' || end <= begin) return;
    free(j->next);
    j->next = strndup(begin + 1, (size_t)(end - begin - 1));
}

static size_t on_header(char *p, size_t size, size_t count, void *ctx) {
    job *j = ctx;
    const size_t n = size * count;
    const char *colon = memchr(p, ':', n);
    char value[2048];
    if (n > 5 && memcmp(p, "HTTP/", 5) == 0) { // the answer of a redirect is behind
        j->total = -1;
        j->retry_after = 0;
        j->error_code[0] = 0;
    }
    if (!colon) return n;
    const size_t n_name = (size_t)(colon - p);
    copy_value(value, sizeof value, colon + 1, n - n_name - 1);
    if (n_name == 13 && strncasecmp(p, "Content-Range", 13) == 0) {
        const char *slash = strchr(value, '/');
        if (slash && isdigit((unsigned char)slash[1])) j->total = atoll(slash + 1);
    } else if (n_name == 11 && strncasecmp(p, "Retry-After", 11) == 0) {
        j->retry_after = strtod(value, NULL);
        if (isdigit((unsigned char)*value) && j->retry_after == 0) j->retry_after = 0.01;
    } else if (n_name == 12 && strncasecmp(p, "X-Error-Code", 12) == 0) {
        snprintf(j->error_code, sizeof j->error_code, "%.63s", value);
    } else if (n_name == 4 && strncasecmp(p, "Link", 4) == 0) {
        take_next(j, value);
    }
    return n;
}

static size_t on_body(char *p, size_t size, size_t count, void *ctx) {
    job *j = ctx;
    const size_t n = size * count;
    long code = 0;
    curl_easy_getinfo(j->curl, CURLINFO_RESPONSE_CODE, &code);
    if (j->is_text) {
        str_add(&j->body, p, n);
        return j->body.n > (size_t)256 << 20 ? 0 : n;
    }
    if (code != 200 && code != 206) return n;                       // the text of an error
    if (code == 200 && j->have == j->began_with && j->began_with) { // all of it again
        if (ftruncate(j->fd, 0) != 0 || lseek(j->fd, 0, SEEK_SET) != 0) return 0;
        j->have = j->began_with = 0;
    }
    for (size_t done = 0; done < n;) {
        const ssize_t k = write(j->fd, p + done, n - done);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) {
            j->write_errno = errno;
            return 0;
        }
        done += (size_t)k;
    }
    j->have += (int64_t)n;
    return n;
}

static drv_status begin(job *j, CURLM *multi) {
    const download *d = j->d;
    char *slash = strrchr(d->path, '/'), dir[4096];
    if (slash) {
        snprintf(dir, sizeof dir, "%.*s", (int)(slash - d->path), d->path);
        DRV_TRY(dir_make(dir));
    }
    snprintf(j->part, sizeof j->part, "%s.part", d->path);
    j->fd = open(j->part, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (j->fd < 0)
        return drv_fail(DRV_E_IO, "could not create \"%s\": %s", j->part, strerror(errno));
    j->have = file_size(j->part);
    const bool too_long = d->size >= 0 && j->have > d->size;
    if (too_long || j->no_range) {
        if (ftruncate(j->fd, 0) != 0)
            return drv_fail(DRV_E_IO, "could not write \"%s\": %s", j->part, strerror(errno));
        j->have = 0;
    }
    lseek(j->fd, j->have, SEEK_SET);
    j->began_with = j->have;
    j->curl = curl_easy_init();
    DRV_ASSERT(j->curl, "libcurl");
    set_common(j, d->url);
    curl_easy_setopt(j->curl, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(j->curl, CURLOPT_WRITEDATA, j);
    curl_easy_setopt(j->curl, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(j->curl, CURLOPT_HEADERDATA, j);
    curl_easy_setopt(j->curl, CURLOPT_PRIVATE, j);
    if (j->have) curl_easy_setopt(j->curl, CURLOPT_RESUME_FROM_LARGE, (curl_off_t)j->have);
    j->state = JOB_RUNS;
    curl_multi_add_handle(multi, j->curl);
    return DRV_OK;
}

// --- what became of it
static drv_status refused(const char *url, long code, const char *hub) {
    if (strcmp(hub, "GatedRepo") == 0)
        return drv_fail(DRV_E_IO,
                "%s: gated: accept its terms on its page, and set HF_TOKEN to a token of that "
                "account",
                url);
    if (code == 401)
        return drv_fail(DRV_E_IO,
                "%s: not authorised (401): private, or not there; set HF_TOKEN to a valid token",
                url);
    if (code == 403)
        return drv_fail(DRV_E_IO, "%s: forbidden (403): the token in HF_TOKEN may not read it",
                url);
    if (code == 404) return drv_fail(DRV_E_IO, "%s: not found (404)", url);
    return drv_fail(DRV_E_IO, "%s: the server answered %ld", url, code);
}

static bool worth_a_try(long code) {
    return code == 0 || code == 200 || code == 206 || code == 408 || code == 416 || code == 425 ||
           code == 429 || code >= 500;
}

static void hex(const unsigned char *p, unsigned n, char *out) {
    for (unsigned i = 0; i < n; i++)
        snprintf(out + 2 * i, 3, "%02x", p[i]);
}

static drv_status hash_file(const char *path, const EVP_MD *kind, bool git, char *out) {
    unsigned char sum[EVP_MAX_MD_SIZE], *piece;
    unsigned n_sum = 0;
    FILE *f = fopen(path, "rb");
    if (!f) return drv_fail(DRV_E_IO, "could not open \"%s\": %s", path, strerror(errno));
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    DRV_ASSERT(c && EVP_DigestInit_ex(c, kind, NULL), "libcrypto");
    char head[64];
    if (git) {
        const int n = snprintf(head, sizeof head, "blob %lld", (long long)file_size(path));
        EVP_DigestUpdate(c, head, (size_t)n + 1);
    }
    piece = mem_alloc(1 << 20);
    for (size_t k; (k = fread(piece, 1, 1 << 20, f));)
        EVP_DigestUpdate(c, piece, k);
    EVP_DigestFinal_ex(c, sum, &n_sum);
    hex(sum, n_sum, out);
    free(piece);
    EVP_MD_CTX_free(c);
    fclose(f);
    return DRV_OK;
}

// The whole file is there: is it the right one? *why: what is wrong with it.
static drv_status check(const job *j, char *why, size_t cap) {
    char sum[2 * EVP_MAX_MD_SIZE + 1];
    const char *want = j->d->sha256 ? j->d->sha256 : j->d->git;
    *why = 0;
    if (j->d->size >= 0 && j->have != j->d->size) {
        snprintf(why, cap, "%lld bytes came, expected %lld", (long long)j->have,
                (long long)j->d->size);
        return DRV_OK;
    }
    if (!want) return DRV_OK;
    DRV_TRY(hash_file(j->part, j->d->sha256 ? EVP_sha256() : EVP_sha1(), !j->d->sha256, sum));
    if (strcasecmp(sum, want) != 0) snprintf(why, cap, "its hash is %s, expected %s", sum, want);
    return DRV_OK;
}

static drv_status again(job *j, const char *why) {
    if (j->have > j->began_with) j->failures = 0;
    if (++j->failures >= j->o->tries)
        return drv_fail(DRV_E_IO, "%s: given up after %d tries: %s", j->d->url, j->failures, why);
    double wait = FIRST_WAIT_S * 0.25 * (1 << (j->failures < 9 ? j->failures : 9));
    if (j->retry_after > 0) wait = j->retry_after;
    if (wait > MAX_WAIT_S) wait = MAX_WAIT_S;
    j->not_before = clock_s() + wait;
    j->state = JOB_WAITS;
    log_file_only("%s: %s; again in %.1f s", j->d->url, why, wait);
    return DRV_OK;
}

static drv_status finish(job *j) {
    if (fsync(j->fd) != 0)
        return drv_fail(DRV_E_IO, "could not sync \"%s\": %s", j->part, strerror(errno));
    if (rename(j->part, j->d->path) != 0)
        return drv_fail(DRV_E_IO, "could not rename \"%s\" into place: %s", j->part,
                strerror(errno));
    j->state = JOB_DONE;
    return DRV_OK;
}

static drv_status settle(job *j, CURLcode result) {
    char why[512];
    curl_easy_getinfo(j->curl, CURLINFO_RESPONSE_CODE, &j->code);
    if (j->write_errno)
        return drv_fail(DRV_E_IO, "could not write \"%s\": %s", j->part, strerror(j->write_errno));
    const bool good = j->code == 200 || j->code == 206;
    if (!worth_a_try(j->code)) return refused(j->d->url, j->code, j->error_code);
    if (j->code == 416) { // nothing behind what is there: it is whole, or not the file
        DRV_TRY(check(j, why, sizeof why));
        if (!*why && (j->d->size >= 0 || j->d->sha256)) return finish(j);
        j->no_range = true;
        return again(j, "the server has no such range");
    }
    if (!good && result == CURLE_OK) {
        snprintf(why, sizeof why, "the server answered %ld", j->code);
        return again(j, why);
    }
    if (result == CURLE_RANGE_ERROR) j->no_range = true; // it sent all of it instead
    if (result != CURLE_OK) return again(j, curl_easy_strerror(result));
    if (j->total >= 0 && j->have < j->total) return again(j, "less came than the server said");
    if (j->d->size >= 0 && j->have < j->d->size) return again(j, "the answer ended too early");
    DRV_TRY(check(j, why, sizeof why));
    if (!*why) return finish(j);
    // It is of no use: from the front, and no progress.
    j->no_range = true;
    j->have = j->began_with;
    return again(j, why);
}

static void end_transfer(job *j, CURLM *multi) {
    if (j->curl) {
        curl_multi_remove_handle(multi, j->curl);
        curl_easy_cleanup(j->curl);
    }
    if (j->fd >= 0) close(j->fd);
    j->curl = NULL;
    j->fd = -1;
}

// --- all of them
typedef struct crowd {
    job *jobs;
    int n, running, done;
    double begin;
    int64_t total, present; // bytes; -1: not all are known
} crowd;

static drv_status start_some(crowd *c, CURLM *multi, const download_opts *o) {
    for (int i = 0; i < c->n && c->running < o->parallel; i++) {
        job *j = &c->jobs[i];
        if (j->state != JOB_WAITS || clock_s() < j->not_before) continue;
        DRV_TRY(begin(j, multi));
        c->running++;
    }
    return DRV_OK;
}

static int64_t bytes_so_far(const crowd *c) {
    int64_t sum = 0;
    for (int i = 0; i < c->n; i++)
        sum += c->jobs[i].have;
    return sum;
}

static void show(const crowd *c) {
    const int64_t have = bytes_so_far(c);
    const double t = clock_s() - c->begin, speed = (double)(have - c->present) / (t > 0 ? t : 1);
    progress("%d of %d files  %s of %s  %.1f MB/s  eta %s", c->done, c->n, str_bytes((double)have),
            c->total >= 0 ? str_bytes((double)c->total) : "?", speed / 1e6,
            c->total >= 0 && speed > 0 ? str_duration((double)(c->total - have) / speed) : "?");
}

static drv_status drive(crowd *c, CURLM *multi, const download_opts *o) {
    while (c->done < c->n) {
        DRV_TRY(start_some(c, multi, o));
        int busy, left;
        curl_multi_perform(multi, &busy);
        for (CURLMsg *m; (m = curl_multi_info_read(multi, &left));) {
            if (m->msg != CURLMSG_DONE) continue;
            job *j;
            const CURLcode result = m->data.result;
            curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&j);
            drv_status s = settle(j, result);
            end_transfer(j, multi);
            c->running--;
            c->done += j->state == JOB_DONE;
            DRV_TRY(s);
        }
        show(c);
        curl_multi_poll(multi, NULL, 0, 200, NULL);
    }
    return DRV_OK;
}

drv_status download_files(const download *list, int n, const download_opts *o,
        download_stats *out) {
    crowd c = {.n = n, .begin = clock_s()};
    *out = (download_stats){.files = n};
    curl_global_init(CURL_GLOBAL_DEFAULT);
    c.jobs = mem_alloc(((size_t)n + 1) * sizeof *c.jobs);
    for (int i = 0; i < n; i++) {
        job *j = &c.jobs[i];
        *j = (job){.d = &list[i], .o = o, .fd = -1, .total = -1};
        const int64_t there = file_size(list[i].path); // it has its name: it was right
        if (there >= 0 && (list[i].size < 0 || there == list[i].size)) {
            j->state = JOB_DONE;
            j->have = there;
            c.done++;
            out->there_already++;
        } else {
            char part[4096];
            snprintf(part, sizeof part, "%s.part", list[i].path);
            if (file_size(part) > 0) j->have = file_size(part);
        }
        c.total = c.total < 0 || list[i].size < 0 ? -1 : c.total + list[i].size;
    }
    c.present = bytes_so_far(&c);
    CURLM *multi = curl_multi_init();
    drv_status s = drive(&c, multi, o);
    progress_end();
    for (int i = 0; i < n; i++) {
        end_transfer(&c.jobs[i], multi);
        free(c.jobs[i].next);
    }
    out->bytes = bytes_so_far(&c) - c.present;
    out->seconds = clock_s() - c.begin;
    curl_multi_cleanup(multi);
    free(c.jobs);
    return s;
}

drv_status download_text(arena *a, const char *url, const download_opts *o, char **text, size_t *n,
        char **next) {
    const download d = {.url = url, .path = url, .size = -1};
    job j = {.d = &d, .o = o, .fd = -1, .total = -1, .is_text = true};
    curl_global_init(CURL_GLOBAL_DEFAULT);
    drv_status s = DRV_OK;
    for (j.state = JOB_WAITS; s == DRV_OK && j.state == JOB_WAITS;) {
        if (j.not_before > clock_s()) {
            usleep(20000);
            continue;
        }
        str_clear(&j.body);
        j.curl = curl_easy_init();
        DRV_ASSERT(j.curl, "libcurl");
        set_common(&j, url);
        curl_easy_setopt(j.curl, CURLOPT_WRITEFUNCTION, on_body);
        curl_easy_setopt(j.curl, CURLOPT_WRITEDATA, &j);
        curl_easy_setopt(j.curl, CURLOPT_HEADERFUNCTION, on_header);
        curl_easy_setopt(j.curl, CURLOPT_HEADERDATA, &j);
        const CURLcode result = curl_easy_perform(j.curl);
        curl_easy_getinfo(j.curl, CURLINFO_RESPONSE_CODE, &j.code);
        curl_easy_cleanup(j.curl);
        j.curl = NULL;
        char why[128];
        snprintf(why, sizeof why, "the server answered %ld", j.code);
        if (result == CURLE_OK && j.code == 200)
            j.state = JOB_DONE;
        else if (!worth_a_try(j.code))
            s = refused(url, j.code, j.error_code);
        else
            s = again(&j, result == CURLE_OK ? why : curl_easy_strerror(result));
    }
    if (s == DRV_OK) {
        *text = arena_strndup(a, j.body.p ? j.body.p : "", j.body.n);
        *n = j.body.n;
        *next = arena_strdup(a, j.next ? j.next : "");
    }
    free(j.next);
    str_free(&j.body);
    return s;
}
