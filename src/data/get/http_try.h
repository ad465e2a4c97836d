// The timeouts, the token and the delays between attempts that all HTTP requests share.
#pragma once
#include <stdbool.h>

#include "base/arena.h"
#include "base/curl_calls.h"

// Sets the URL, the timeouts and the user agent. The token (NULL: none) is sent only if the URL is
// below `host`, which has no slash at its end.
void http_prepare(CURL *handle, const char *url, const char *token, const char *host);
// Returns whether a request that ended with this status (0: no response) may succeed when it is
// repeated.
bool http_worth_a_try(long code);
// Returns the seconds to wait before the next attempt. `retry_after`: seconds that the server asked
// for, 0: none.
double http_wait_s(int failures, double retry_after);
// Copies the value of a header line, without the white space around it; false: it has another name.
bool http_header(const char *line, size_t n, const char *name, char *to, size_t cap);
// Sets *seconds if the header line is Retry-After; above 0 wherever it has a number.
void http_retry_after(const char *line, size_t n, double *seconds);
// Percent-encodes the text, except for the unreserved characters of RFC 3986 (2.3) and those in
// `kept`.
const char *http_escape(arena *a, const char *text, const char *kept);
