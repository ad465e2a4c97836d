// The parts that all HTTP requests share: timeouts, the token, the delays between attempts, and the
// messages about failures.
#pragma once
#include <stdbool.h>

#include "base/arena.h"
#include "base/curl_calls.h"
#include "base/status.h"

typedef struct http_link {
    const char *endpoint; // https://huggingface.co, or HF_ENDPOINT; without a slash at its end
    const char *token;    // sent only to URLs below the endpoint; NULL: none
    int tries;            // attempts for a request; for a file: in a row without progress
    int parallel;         // files at a time
} http_link;

typedef struct http_tries { // the attempts of one request
    int failures;           // in a row
    double not_before;      // clock_s() at which the next one may begin
    double retry_after;     // seconds that the server asked for; 0: none
} http_tries;

enum { HTTP_SAID_FROM = 3 }; // http_failed of a request that is one of many

// Sets the URL, the timeouts, the user agent and the token.
void http_prepare(CURL *handle, const char *url, const http_link *link);
// Returns whether a request that ended with this status (0: no response) may succeed when it is
// repeated.
bool http_worth_a_try(long code);
// Counts a failed attempt and sets when the next one may begin. Failures before number `said_from`
// are logged to the file alone. DRV_E_IO: it was the last attempt.
DRV_CHECKED drv_status http_failed(const http_link *link, const char *url, const char *why,
        int said_from, http_tries *tries);
// Returns the error for an unexpected response: what it means and what can be done about it.
// `error_code`: the hub's X-Error-Code; `said`: what else is known, such as ": no such branch".
drv_status http_refused(const char *method, const char *url, long code, const char *error_code,
        const char *said);
// Copies the value of a header line, without the white space around it; false: it has another name.
bool http_header(const char *line, size_t n, const char *name, char *to, size_t cap);
// Sets *seconds if the header line is Retry-After; above 0 wherever it has a number.
void http_retry_after(const char *line, size_t n, double *seconds);
// Percent-encodes the text, except for the unreserved characters of RFC 3986 (2.3) and those in
// `kept`.
const char *http_escape(arena *a, const char *text, const char *kept);
