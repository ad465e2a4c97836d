// Options of libcurl, and when another try is worth it.
#include "data/get/http_try.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"

enum { FIRST_WAIT_S = 1, MAX_WAIT_S = 60, SILENT_S = 60, CONNECT_S = 30 };

void http_prepare(CURL *handle, const char *url, const http_link *link) {
    curl->easy_setopt(handle, CURLOPT_URL, url);
    curl->easy_setopt(handle, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
    curl->easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl->easy_setopt(handle, CURLOPT_LOW_SPEED_TIME, (long)SILENT_S);
    curl->easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    curl->easy_setopt(handle, CURLOPT_USERAGENT, "drover");
    curl->easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
    curl->easy_setopt(handle, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    // Only to the host that was asked, not to where it redirects.
    const size_t n_host = link->token ? strlen(link->endpoint) : 0;
    if (n_host && strncmp(url, link->endpoint, n_host) == 0 && url[n_host] == '/') {
        curl->easy_setopt(handle, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
        curl->easy_setopt(handle, CURLOPT_XOAUTH2_BEARER, link->token);
    }
}

bool http_worth_a_try(long code) {
    return code == 0 || code == 200 || code == 206 || code == 408 || code == 416 || code == 425 ||
           code == 429 || code >= 500;
}

// Bytes of the URL that are shown: its query may be a signature.
static int shown(const char *url) {
    return (int)strcspn(url, "?");
}

drv_status http_failed(const http_link *link, const char *url, const char *why, int said_from,
        http_tries *tries) {
    const int n = ++tries->failures;
    if (n >= link->tries)
        return drv_fail(DRV_E_IO, "%.*s: given up after %d tr%s: %s", shown(url), url, n,
                n == 1 ? "y" : "ies", why);
    double wait = FIRST_WAIT_S * 0.25 * (1 << (n < 9 ? n : 9));
    if (tries->retry_after > 0) wait = tries->retry_after;
    if (wait > MAX_WAIT_S) wait = MAX_WAIT_S;
    // Later failures are shown: without a word the program would seem to hang.
    tries->not_before = clock_s() + wait;
    (n < said_from ? log_file_only : log_info)("%.*s: %s; try %d of %d in %.1f s", shown(url), url,
            why, n + 1, link->tries, wait);
    return DRV_OK;
}

static const char *advice(const char *method, long code, const char *error_code) {
    if (strcmp(error_code, "GatedRepo") == 0)
        return "gated: accept its terms on its page with the account of the token (HF_TOKEN)";
    switch (code) {
    case 400:
        return "the hub refuses the request";
    case 401:
        return "not authorised: private, or not there; set HF_TOKEN to a valid token, or log in by `hf auth login`";
    case 403:
        return strcmp(method, "GET") == 0
                       ? "forbidden: the token needs the permission to read it"
                       : "forbidden: the token needs the permission to write there";
    case 404:
        return "not found";
    case 409:
        return "it conflicts with what is there";
    case 412:
        return "somebody has committed since";
    case 413:
        return "too large for the server";
    default:
        return code >= 300 && code < 400
                       ? "it leads elsewhere: has the repository another name now?"
                       : "an answer that was not expected";
    }
}

drv_status http_refused(const char *method, const char *url, long code, const char *error_code,
        const char *said) {
    return drv_fail(DRV_E_IO, "%.*s: %s (%ld)%s", shown(url), url, advice(method, code, error_code),
            code, said);
}

bool http_header(const char *line, size_t n, const char *name, char *to, size_t cap) {
    const size_t k = strlen(name);
    if (n <= k || strncasecmp(line, name, k) != 0 || line[k] != ':') return false;
    const char *p = line + k + 1, *end = line + n;
    while (p < end && isspace((unsigned char)*p))
        p++;
    while (end > p && isspace((unsigned char)end[-1]))
        end--;
    const size_t length = (size_t)(end - p);
    snprintf(to, cap, "%.*s", (int)(length < cap ? length : cap - 1), p);
    return true;
}

void http_retry_after(const char *line, size_t n, double *seconds) {
    char value[64];
    if (!http_header(line, n, "Retry-After", value, sizeof value)) return;
    *seconds = strtod(value, NULL);
    if (isdigit((unsigned char)*value) && *seconds <= 0) *seconds = 0.01;
}

const char *http_escape(arena *a, const char *text, const char *kept) {
    str out = {0};
    for (; *text; text++) {
        const bool plain = (isascii(*text) && isalnum((unsigned char)*text)) ||
                           strchr("-._~", *text) || strchr(kept, *text);
        str_printf(&out, plain ? "%c" : "%%%02X", (unsigned char)*text);
    }
    return str_keep(a, &out);
}
