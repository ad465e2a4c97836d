// Files over HTTP, several at a time. Each grows as PATH.part and is renamed when its size and
// hash are right; a transfer that is cut off is resumed, also by a later run.
#pragma once
#include "base/arena.h"
#include "base/status.h"

typedef struct download {
    const char *url, *path;
    int64_t size;       // -1: not known
    const char *sha256; // in hexadecimal; NULL: not known
    const char *git;    // git's hash of the file (SHA-1 with its header); NULL: not known
} download;

typedef struct download_opts {
    int parallel;
    int tries;         // in a row without progress, before a file is given up
    const char *token; // sent to `host` alone; NULL: none
    const char *host;  // beginning of the URLs that get the token
} download_opts;

typedef struct download_stats {
    int64_t files, there_already, bytes; // bytes: received in this call
    double seconds;
} download_stats;

// DRV_E_IO: a server refused or the network failed for good; names the URL.
DRV_CHECKED drv_status download_files(const download *list, int n_files, const download_opts *opts,
        download_stats *out);
// Reads a small answer into memory. next: the URL of the next page, "" if there is none.
DRV_CHECKED drv_status download_text(arena *a, const char *url, const download_opts *opts,
        char **text, size_t *n_bytes, char **next);
