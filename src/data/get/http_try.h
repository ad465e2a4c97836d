// Limits, token and waits that all requests over HTTP have in common.
#pragma once
#include <stdbool.h>

#include "base/arena.h"
#include "base/curl_calls.h"

// Sets the address, the limits and the name of the program. The token (NULL: none) is sent if the
// address lies below `host`, which ends without a slash, and to no other.
void http_prepare(CURL *handle, const char *url, const char *token, const char *host);
// Returns whether a request that ended with this status (0: no answer) may succeed if it is sent
// again.
bool http_worth_a_try(long code);
// Returns how many seconds to wait before the next try; `retry_after`: what the server asked for,
// 0: nothing.
double http_wait_s(int failures, double retry_after);
// Returns the text with %XX for all bytes but what RFC 3986 (2.3) calls unreserved, and those of
// `kept`.
const char *http_escape(arena *a, const char *text, const char *kept);
