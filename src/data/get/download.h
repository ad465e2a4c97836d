// Downloads files over HTTP, several at a time. Each is written as PATH.part and renamed once its
// size and hash are verified. An interrupted transfer is resumed, by a later run too.
#pragma once
#include "data/get/http_try.h"

typedef struct download {
    const char *url, *path;
    int64_t size;       // -1: not known
    const char *sha256; // in hexadecimal; NULL: not known
    const char *git;    // SHA-1 of git's blob object, header included; NULL: not known
} download;

typedef struct download_stats {
    int64_t files, there_already, bytes; // bytes: received in this call
    double seconds;
} download_stats;

// Reads a URL[#sha256=HEX] whose file goes into a folder. DRV_E_USAGE: it names no file, or the
// hash has another length.
DRV_CHECKED drv_status download_of_url(arena *a, const char *url, const char *dir, download *out);
// DRV_E_IO: a server refused, or the network still failed after all attempts; names the URL.
DRV_CHECKED drv_status download_files(const download *list, int n_files, const http_link *link,
        download_stats *out);
