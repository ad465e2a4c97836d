// Makes one try after the other to fetch a file or a text with libcurl: a part that grows, ranges
// to resume, hashes at the end, waits between tries. download.c runs many side by side.
#pragma once
#include "base/str.h"
#include "base/curl_calls.h"
#include "data/get/download.h"

typedef enum job_state { JOB_WAITS, JOB_RUNS, JOB_DONE } job_state;

typedef struct transfer {
    const download *file;
    const download_opts *opts;
    job_state state;
    CURL *handle; // while a try runs
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
    bool too_long;       // more bytes came than the file has
    int write_errno;
    str body; // of a text instead of a file
    bool is_text;
    char *next; // from the Link header
} transfer;

// Makes a handle for one try, which the caller performs.
void transfer_open(transfer *job, const char *url);
// Begins a try for a file: it goes on where the part ends.
DRV_CHECKED drv_status transfer_begin(transfer *job, CURLM *multi);
// Handles the end of a try: the file is renamed into place (JOB_DONE), or another try follows
// (JOB_WAITS, until not_before). DRV_E_IO: another try would fail too.
DRV_CHECKED drv_status transfer_settle(transfer *job, CURLcode result);
// Does the same for a text, whose body is complete at JOB_DONE.
DRV_CHECKED drv_status transfer_settle_text(transfer *job, CURLcode result);
// Closes the handle and the file of a try.
void transfer_end(transfer *job, CURLM *multi);
