// One request to the hub or to its storage, tried again while that may help. What comes back is not
// trusted: addresses are checked before they are called.
#pragma once
#include "base/curl_calls.h"
#include "base/str.h"

typedef struct hub_link {
    const char *endpoint; // https://huggingface.co, or HF_ENDPOINT; without a slash at its end
    const char *token;    // NULL: none
    int tries;            // of a request, in a row
    int parallel;         // requests at a time that carry files
} hub_link;

typedef enum call_state { CALL_WAITS, CALL_RUNS, CALL_DONE } call_state;

typedef struct hub_call {
    const char *method, *url;
    const char *content_type; // NULL: none
    const void *bytes;        // the body: n_bytes of memory,
    int fd;                   // or of an open file from `first` on, where bytes is NULL
    int64_t first, n_bytes;
    bool once; // tried again only if the server cannot have begun to act on it
    // While it runs
    call_state state;
    CURL *handle;
    struct curl_slist *headers;
    int64_t sent;
    bool unreadable; // the file has become shorter
    int failures;
    double not_before, retry_after, rate_reset; // seconds; 0: the server does not say
    void *owner;                                // the caller's
    int number;
    // The answer
    long code;
    str body;
    char etag[256], location[512], error_code[64], error[512];
} hub_call;

// DRV_E_DATA: not an address over https, or, where the hub itself is reached over http, over http
// to this machine. `who` names it: "the hub names the address".
DRV_CHECKED drv_status hub_url_check(const hub_link *link, const char *url, const char *who);

// Begin and end a try by the functions of libcurl's multi interface. hub_call_settle sets `state`:
// CALL_DONE with any answer that another try does not change, CALL_WAITS until not_before.
// DRV_E_IO: given up.
void hub_call_begin(const hub_link *link, hub_call *call, CURLM *multi);
DRV_CHECKED drv_status hub_call_settle(const hub_link *link, hub_call *call, CURLcode result);
// Closes what a try has open; `multi`: as it began.
void hub_call_close(hub_call *call, CURLM *multi);

// Makes all tries. The answer may be any that is final; hub_call_free frees it.
DRV_CHECKED drv_status hub_call_run(const hub_link *link, hub_call *call);
bool hub_call_succeeded(const hub_call *call); // 2xx
void hub_call_free(hub_call *call);
// Records what an answer means that is not the one expected, and what can be done about it.
drv_status hub_call_refused(const hub_call *call);
