// Decides which transfer begins when, and shows how far all of them are.
#include "data/get/download.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "data/get/transfer.h"

typedef struct downloads {
    transfer *jobs;
    int n, running, done;
    double begin;
    int64_t total, present; // bytes; -1: not all are known
} downloads;

static drv_status start_some(downloads *all, CURLM *multi, const http_link *link) {
    for (int i = 0; i < all->n && all->running < link->parallel; i++) {
        transfer *job = &all->jobs[i];
        if (job->state != JOB_WAITS || clock_s() < job->tries.not_before) continue;
        DRV_TRY(transfer_begin(job, multi));
        all->running++;
    }
    return DRV_OK;
}

static int64_t bytes_so_far(const downloads *all) {
    int64_t sum = 0;
    for (int i = 0; i < all->n; i++)
        sum += all->jobs[i].have;
    return sum;
}

static void show(const downloads *all) {
    const int64_t have = bytes_so_far(all);
    const double t = clock_s() - all->begin,
                 speed = (double)(have - all->present) / (t > 0 ? t : 1);
    progress("%d of %d files  %s of %s  %.1f MB/s  eta %s", all->done, all->n,
            str_bytes((double)have), all->total >= 0 ? str_bytes((double)all->total) : "?",
            speed / 1e6,
            all->total >= 0 && speed > 0 ? str_duration((double)(all->total - have) / speed) : "?");
}

static drv_status drive(downloads *all, CURLM *multi, const http_link *link) {
    while (all->done < all->n) {
        DRV_TRY(start_some(all, multi, link));
        int busy, left;
        curl->multi_perform(multi, &busy);
        for (CURLMsg *m; (m = curl->multi_info_read(multi, &left));) {
            if (m->msg != CURLMSG_DONE) continue;
            transfer *job;
            const CURLcode result = m->data.result;
            curl->easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&job);
            drv_status status = transfer_settle(job, result);
            transfer_end(job, multi);
            all->running--;
            all->done += job->state == JOB_DONE;
            DRV_TRY(status);
        }
        show(all);
        curl->multi_poll(multi, NULL, 0, 200, NULL);
    }
    return DRV_OK;
}

drv_status download_files(const download *list, int n_files, const http_link *link,
        download_stats *out) {
    downloads all = {.n = n_files, .begin = clock_s()};
    *out = (download_stats){.files = n_files};
    DRV_TRY(curl_open("downloads need"));
    all.jobs = mem_alloc(((size_t)n_files + 1) * sizeof *all.jobs);
    for (int i = 0; i < n_files; i++) {
        transfer *job = &all.jobs[i];
        *job = (transfer){.file = &list[i], .link = link, .fd = -1, .total = -1};
        const int64_t there = file_size(list[i].path); // it has its name: it was right
        if (there >= 0 && (list[i].size < 0 || there == list[i].size)) {
            job->state = JOB_DONE;
            job->have = there;
            all.done++;
            out->there_already++;
        } else {
            char part[4096];
            snprintf(part, sizeof part, "%s.part", list[i].path);
            if (file_size(part) > 0) job->have = file_size(part);
        }
        all.total = all.total < 0 || list[i].size < 0 ? -1 : all.total + list[i].size;
    }
    all.present = bytes_so_far(&all);
    CURLM *multi = curl->multi_init();
    drv_status status = drive(&all, multi, link);
    progress_end();
    for (int i = 0; i < n_files; i++)
        transfer_end(&all.jobs[i], multi);
    out->bytes = bytes_so_far(&all) - all.present;
    out->seconds = clock_s() - all.begin;
    curl->multi_cleanup(multi);
    free(all.jobs);
    return status;
}

static const char *last_part(const char *url) {
    const char *end = url + strcspn(url, "?#"), *p = end;
    while (p > url && p[-1] != '/')
        p--;
    return p;
}

drv_status download_of_url(arena *a, const char *url, const char *dir, download *out) {
    const char *mark = strstr(url, "#sha256=");
    const char *name = last_part(url);
    const size_t n = strcspn(name, "?#");
    if (n == 0 || name[0] == '.')
        return drv_fail(DRV_E_USAGE, "\"%s\": the URL names no file", url);
    if (mark && strlen(mark + 8) != 64)
        return drv_fail(DRV_E_USAGE, "\"%s\": expected 64 hexadecimal digits after #sha256=", url);
    *out = (download){.url = mark ? arena_strndup(a, url, (size_t)(mark - url)) : url,
            .path = path_join(a, dir, arena_strndup(a, name, n)),
            .size = -1,
            .sha256 = mark ? mark + 8 : NULL};
    return DRV_OK;
}
