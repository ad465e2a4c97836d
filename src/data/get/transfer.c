// Downloads one file over HTTP: its attempts, and their results.
#include "data/get/transfer.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/file.h"
#include "data/get/file_hash.h"

// --- a try
static size_t on_header(char *text, size_t size, size_t count, void *ctx) {
    transfer *job = ctx;
    const size_t n_bytes = size * count;
    char value[128];
    if (n_bytes > 5 && memcmp(text, "HTTP/", 5) == 0) { // the answer of a redirect has been passed
        job->total = -1;
        job->tries.retry_after = 0;
        job->error_code[0] = 0;
    }
    if (http_header(text, n_bytes, "Content-Range", value, sizeof value)) {
        const char *slash = strchr(value, '/');
        if (slash && isdigit((unsigned char)slash[1])) job->total = atoll(slash + 1);
    }
    http_retry_after(text, n_bytes, &job->tries.retry_after);
    http_header(text, n_bytes, "X-Error-Code", job->error_code, sizeof job->error_code);
    return n_bytes;
}

static size_t on_body(char *bytes, size_t size, size_t count, void *ctx) {
    transfer *job = ctx;
    const size_t n_bytes = size * count;
    long code = 0;
    curl->easy_getinfo(job->handle, CURLINFO_RESPONSE_CODE, &code);
    if (code != 200 && code != 206) return n_bytes;                       // the text of an error
    if (code == 200 && job->have == job->began_with && job->began_with) { // all of it again
        if (ftruncate(job->fd, 0) != 0 || lseek(job->fd, 0, SEEK_SET) != 0) return 0;
        job->have = job->began_with = 0;
    }
    if (job->file->size >= 0 && job->have + (int64_t)n_bytes > job->file->size) {
        job->too_long = true;
        return 0;
    }
    for (size_t done = 0; done < n_bytes;) {
        const ssize_t k = write(job->fd, bytes + done, n_bytes - done);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) {
            job->write_errno = errno;
            return 0;
        }
        done += (size_t)k;
    }
    job->have += (int64_t)n_bytes;
    return n_bytes;
}

static void open_handle(transfer *job) {
    job->handle = curl->easy_init();
    DRV_ASSERT(job->handle, "libcurl");
    http_prepare(job->handle, job->file->url, job->link);
    curl->easy_setopt(job->handle, CURLOPT_FOLLOWLOCATION, 1L);
    curl->easy_setopt(job->handle, CURLOPT_MAXREDIRS, 10L);
    curl->easy_setopt(job->handle, CURLOPT_WRITEFUNCTION, on_body);
    curl->easy_setopt(job->handle, CURLOPT_WRITEDATA, job);
    curl->easy_setopt(job->handle, CURLOPT_HEADERFUNCTION, on_header);
    curl->easy_setopt(job->handle, CURLOPT_HEADERDATA, job);
}

drv_status transfer_begin(transfer *job, CURLM *multi) {
    const download *file = job->file;
    DRV_TRY(dir_make_parent(file->path));
    snprintf(job->part, sizeof job->part, "%s.part", file->path);
    job->fd = open(job->part, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (job->fd < 0) return file_fail("create", job->part);
    job->have = file_size(job->part);
    const bool too_long = file->size >= 0 && job->have > file->size;
    if (too_long || job->no_range) {
        if (ftruncate(job->fd, 0) != 0) return file_fail("write", job->part);
        job->have = 0;
    }
    lseek(job->fd, job->have, SEEK_SET);
    job->began_with = job->have;
    open_handle(job);
    curl->easy_setopt(job->handle, CURLOPT_PRIVATE, job);
    if (job->have) curl->easy_setopt(job->handle, CURLOPT_RESUME_FROM_LARGE, (curl_off_t)job->have);
    job->too_long = false;
    job->state = JOB_RUNS;
    curl->multi_add_handle(multi, job->handle);
    return DRV_OK;
}

// --- the result of a try
// Checks a complete file against its hash. *why: the difference.
static drv_status check(const transfer *job, char *why, size_t cap) {
    char sum[HASH_TEXT_BYTES];
    const char *want = job->file->sha256 ? job->file->sha256 : job->file->git;
    *why = 0;
    if (job->file->size >= 0 && job->have != job->file->size) {
        snprintf(why, cap, "%lld bytes arrived, expected %lld", (long long)job->have,
                (long long)job->file->size);
        return DRV_OK;
    }
    if (!want) return DRV_OK;
    DRV_TRY(file_hash(job->part, job->file->sha256 ? HASH_SHA256 : HASH_GIT, sum));
    if (strcasecmp(sum, want) != 0) snprintf(why, cap, "its hash is %s, expected %s", sum, want);
    return DRV_OK;
}

static drv_status again(transfer *job, const char *why) {
    if (job->have > job->began_with) job->tries.failures = 0;
    job->state = JOB_WAITS;
    return http_failed(job->link, job->file->url, why, HTTP_SAID_FROM, &job->tries);
}

static drv_status finish(transfer *job) {
    if (fsync(job->fd) != 0) return file_fail("sync", job->part);
    if (rename(job->part, job->file->path) != 0) return file_fail("rename into place", job->part);
    job->state = JOB_DONE;
    return DRV_OK;
}

drv_status transfer_settle(transfer *job, CURLcode result) {
    char why[512];
    curl->easy_getinfo(job->handle, CURLINFO_RESPONSE_CODE, &job->code);
    if (job->write_errno) {
        errno = job->write_errno;
        return file_fail("write", job->part);
    }
    if (job->too_long) {
        snprintf(why, sizeof why, "more bytes arrived than the %lld that are listed",
                (long long)job->file->size);
        job->no_range = true;
        job->have = job->began_with; // of no use, and no progress
        return again(job, why);
    }
    const bool good = job->code == 200 || job->code == 206;
    if (!http_worth_a_try(job->code))
        return http_refused("GET", job->file->url, job->code, job->error_code, "");
    if (job->code == 416) { // nothing after what is there: it is whole, or not the file
        DRV_TRY(check(job, why, sizeof why));
        if (!*why && (job->file->size >= 0 || job->file->sha256)) return finish(job);
        job->no_range = true;
        return again(job, "the server has no such range");
    }
    if (!good && result == CURLE_OK) {
        snprintf(why, sizeof why, "the server answered %ld", job->code);
        return again(job, why);
    }
    if (result == CURLE_RANGE_ERROR) job->no_range = true; // it sent all of it instead
    if (result != CURLE_OK) return again(job, curl->easy_strerror(result));
    if (job->total >= 0 && job->have < job->total)
        return again(job, "the answer is shorter than the server said");
    if (job->file->size >= 0 && job->have < job->file->size)
        return again(job, "the answer ended too early");
    DRV_TRY(check(job, why, sizeof why));
    if (!*why) return finish(job);
    // It is of no use: from the front, and no progress.
    job->no_range = true;
    job->have = job->began_with;
    return again(job, why);
}

void transfer_end(transfer *job, CURLM *multi) {
    if (job->handle) {
        curl->multi_remove_handle(multi, job->handle);
        curl->easy_cleanup(job->handle);
    }
    if (job->fd >= 0) close(job->fd);
    job->handle = NULL;
    job->fd = -1;
}
