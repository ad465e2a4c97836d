// Makes one request to the hub or to its storage, and repeats it while that may help. Responses are
// not trusted: a URL in one is checked before it is requested.
#pragma once
#include "base/json.h"
#include "base/str.h"
#include "data/get/http_try.h"

typedef enum call_state { CALL_WAITS, CALL_RUNS, CALL_DONE } call_state;

typedef struct hub_call {
    const char *method, *url;
    const char *content_type; // NULL: none
    const void *bytes;        // the body: n_bytes of memory,
    int fd;                   // or of an open file from `first` on, where bytes is NULL
    int64_t first, n_bytes;
    bool follows; // redirects lead to the answer; its first failures are logged to the file alone
    bool once;    // repeat it only if the server cannot have begun to act on it
    // While it runs
    call_state state;
    CURL *handle;
    struct curl_slist *headers;
    int64_t sent;
    bool unreadable; // the file has become shorter
    http_tries tries;
    double rate_reset; // seconds until the hub takes requests again; 0: not given by the server
    void *owner;       // for the caller's use
    int number;
    // The answer
    long code;
    str body;
    char *next; // URL of the next page, from the Link header; NULL: none
    char etag[256], location[512], error_code[64], error[512];
} hub_call;

// Returns https://huggingface.co or HF_ENDPOINT, without a slash at its end.
const char *hub_endpoint(arena *a);
// Returns HF_TOKEN, or the token with which huggingface_hub has logged in (HF_TOKEN_PATH,
// HF_HOME/token); NULL: there is none.
const char *hub_token(arena *a);
// The same for downloads, which go on without a token if others could read it on its way.
const char *hub_download_token(arena *a, const char *endpoint);

// Checks a URL: it must use https or, if the hub itself is reached over http, http to this machine;
// otherwise DRV_E_DATA. `who` begins the message: "the hub names the address".
DRV_CHECKED drv_status hub_url_check(const http_link *link, const char *url, const char *who);

// Begin and end an attempt with libcurl's multi interface. hub_call_settle sets `state`: CALL_DONE
// after a response that another attempt would not change, else CALL_WAITS, until tries.not_before.
// DRV_E_IO: all attempts failed.
void hub_call_begin(const http_link *link, hub_call *call, CURLM *multi);
DRV_CHECKED drv_status hub_call_settle(const http_link *link, hub_call *call, CURLcode result);
// Closes the handles of an attempt; `multi`: as given to hub_call_begin.
void hub_call_close(hub_call *call, CURLM *multi);

// Makes all attempts, until the response is final, whether success or not. hub_call_free frees it.
DRV_CHECKED drv_status hub_call_run(const http_link *link, hub_call *call);
bool hub_call_succeeded(const hub_call *call); // 2xx
void hub_call_free(hub_call *call);
// Returns the error for an unexpected response: what it means and what can be done about it.
drv_status hub_call_refused(const hub_call *call);
// Returns a call that posts a text, which outlives it.
hub_call hub_call_post(const char *url, const char *content_type, const char *text, size_t n_bytes);
// Ends a call of which `status` is the result: frees it, and returns its response as JSON, which
// the caller owns (`out` NULL: ignores it), or why it was refused.
DRV_CHECKED drv_status hub_call_answer(hub_call *call, drv_status status, json_t **out);
// Gets a page of a list. *next: the URL of the next page, "" if there is none.
DRV_CHECKED drv_status hub_call_list(arena *a, const http_link *link, const char *url, json_t **out,
        char **next);
