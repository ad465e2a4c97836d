// Fetches one file with libcurl, in as many attempts as are needed: appends to a .part
// file, resumes by range requests, verifies the hash at the end, and waits between attempts.
// download.c runs several transfers at a time.
#pragma once
#include "data/get/download.h"

typedef enum job_state { JOB_WAITS, JOB_RUNS, JOB_DONE } job_state;

typedef struct transfer {
    const download *file;
    const http_link *link;
    job_state state;
    CURL *handle; // during an attempt
    int fd;
    char part[4096];
    int64_t have, began_with; // bytes of the file so far, and before this attempt
    int64_t total;            // size that the server reports; -1: none
    long code;
    http_tries tries;
    bool no_range;       // the server ignores range requests and sends the whole file
    char error_code[64]; // X-Error-Code of the hub
    bool too_long;       // the server sent more bytes than the file has
    int write_errno;
} transfer;

// Begins an attempt for a file, which resumes at the end of the .part file.
DRV_CHECKED drv_status transfer_begin(transfer *job, CURLM *multi);
// Handles the end of an attempt: renames the file into place (JOB_DONE), or schedules another
// attempt (JOB_WAITS, until tries.not_before). DRV_E_IO: another attempt would fail too.
DRV_CHECKED drv_status transfer_settle(transfer *job, CURLcode result);
// Closes the handle and the file of an attempt.
void transfer_end(transfer *job, CURLM *multi);
