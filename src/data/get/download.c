// Downloads, several at a time: who begins when, how far all have come.
#include "data/get/download.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "data/get/transfer.h"

// --- files
typedef struct crowd {
    transfer *jobs;
    int n, running, done;
    double begin;
    int64_t total, present; // bytes; -1: not all are known
} crowd;

static drv_status start_some(crowd *all, CURLM *multi, const download_opts *opts) {
    for (int i = 0; i < all->n && all->running < opts->parallel; i++) {
        transfer *job = &all->jobs[i];
        if (job->state != JOB_WAITS || clock_s() < job->not_before) continue;
        DRV_TRY(transfer_begin(job, multi));
        all->running++;
    }
    return DRV_OK;
}

static int64_t bytes_so_far(const crowd *all) {
    int64_t sum = 0;
    for (int i = 0; i < all->n; i++)
        sum += all->jobs[i].have;
    return sum;
}

static void show(const crowd *all) {
    const int64_t have = bytes_so_far(all);
    const double t = clock_s() - all->begin,
                 speed = (double)(have - all->present) / (t > 0 ? t : 1);
    progress("%d of %d files  %s of %s  %.1f MB/s  eta %s", all->done, all->n,
            str_bytes((double)have), all->total >= 0 ? str_bytes((double)all->total) : "?",
            speed / 1e6,
            all->total >= 0 && speed > 0 ? str_duration((double)(all->total - have) / speed) : "?");
}

static drv_status drive(crowd *all, CURLM *multi, const download_opts *opts) {
    while (all->done < all->n) {
        DRV_TRY(start_some(all, multi, opts));
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

drv_status download_files(const download *list, int n_files, const download_opts *opts,
        download_stats *out) {
    crowd all = {.n = n_files, .begin = clock_s()};
    *out = (download_stats){.files = n_files};
    DRV_TRY(curl_open("downloads need"));
    all.jobs = mem_alloc(((size_t)n_files + 1) * sizeof *all.jobs);
    for (int i = 0; i < n_files; i++) {
        transfer *job = &all.jobs[i];
        *job = (transfer){.file = &list[i], .opts = opts, .fd = -1, .total = -1};
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
    drv_status status = drive(&all, multi, opts);
    progress_end();
    for (int i = 0; i < n_files; i++) {
        transfer_end(&all.jobs[i], multi);
        free(all.jobs[i].next);
    }
    out->bytes = bytes_so_far(&all) - all.present;
    out->seconds = clock_s() - all.begin;
    curl->multi_cleanup(multi);
    free(all.jobs);
    return status;
}

// --- a text
drv_status download_text(arena *a, const char *url, const download_opts *opts, char **text,
        size_t *n_bytes, char **next) {
    const download file = {.url = url, .path = url, .size = -1};
    transfer job = {.file = &file, .opts = opts, .fd = -1, .total = -1, .is_text = true};
    drv_status status = curl_open("downloads need");
    for (job.state = JOB_WAITS; status == DRV_OK && job.state == JOB_WAITS;) {
        if (job.not_before > clock_s()) {
            usleep(20000);
            continue;
        }
        str_clear(&job.body);
        transfer_open(&job, url);
        const CURLcode result = curl->easy_perform(job.handle);
        curl->easy_getinfo(job.handle, CURLINFO_RESPONSE_CODE, &job.code);
        curl->easy_cleanup(job.handle);
        job.handle = NULL;
        status = transfer_settle_text(&job, result);
    }
    if (status == DRV_OK) {
        *text = arena_strndup(a, job.body.p ? job.body.p : "", job.body.n);
        *n_bytes = job.body.n;
        *next = arena_strdup(a, job.next ? job.next : "");
    }
    free(job.next);
    str_free(&job.body);
    return status;
}
