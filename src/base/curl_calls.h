// The functions of libcurl that drover calls; no other file includes libcurl's header. The library
// is opened by the first download, upload or post of a run's progress (base/library.h).
#pragma once
#include <curl/curl.h>

#include "base/status.h"

typedef struct curl_calls {
    __typeof__(curl_global_init) *global_init;
    __typeof__(curl_easy_init) *easy_init;
    __typeof__(curl_easy_setopt) *easy_setopt;
    __typeof__(curl_easy_perform) *easy_perform;
    __typeof__(curl_easy_getinfo) *easy_getinfo;
    __typeof__(curl_easy_strerror) *easy_strerror;
    __typeof__(curl_easy_cleanup) *easy_cleanup;
    __typeof__(curl_multi_init) *multi_init;
    __typeof__(curl_multi_add_handle) *multi_add_handle;
    __typeof__(curl_multi_remove_handle) *multi_remove_handle;
    __typeof__(curl_multi_perform) *multi_perform;
    __typeof__(curl_multi_info_read) *multi_info_read;
    __typeof__(curl_multi_poll) *multi_poll;
    __typeof__(curl_multi_cleanup) *multi_cleanup;
    __typeof__(curl_slist_append) *slist_append;
    __typeof__(curl_slist_free_all) *slist_free_all;
} curl_calls;

extern const curl_calls *const curl; // has the functions once curl_open has succeeded

// Opens the library. DRV_E_IO: it is not installed; the message begins with `what` ("downloads
// need"). No other thread may be in libcurl during the first call.
DRV_CHECKED drv_status curl_open(const char *what);
