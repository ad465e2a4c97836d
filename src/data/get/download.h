// Downloads files over HTTP, several at a time. Each is written as PATH.part and renamed once its
// size and hash are verified. An interrupted transfer is resumed, by a later run too.
#pragma once
#include "base/arena.h"
#include "base/status.h"

typedef struct download {
    const char *url, *path;
    int64_t size;       // -1: not known
    const char *sha256; // in hexadecimal; NULL: not known
    const char *git;    // SHA-1 of git's blob object, header included; NULL: not known
} download;

typedef struct download_opts {
    int parallel;
    int tries;         // consecutive attempts without progress before giving up
    const char *token; // sent only to `host`; NULL: none
    const char *host;  // the token is sent to URLs that begin with this
} download_opts;

typedef struct download_stats {
    int64_t files, there_already, bytes; // bytes: received in this call
    double seconds;
} download_stats;

// DRV_E_IO: a server refused, or the network still failed after all attempts; names the URL.
DRV_CHECKED drv_status download_files(const download *list, int n_files, const download_opts *opts,
        download_stats *out);
// Reads a small response into memory. *next: the URL of the next page, "" if there is none.
DRV_CHECKED drv_status download_text(arena *a, const char *url, const download_opts *opts,
        char **text, size_t *n_bytes, char **next);
