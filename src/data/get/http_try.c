// Options of libcurl, and when another try is worth it.
#include "data/get/http_try.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"

enum { FIRST_WAIT_S = 1, MAX_WAIT_S = 60, SILENT_S = 60, CONNECT_S = 30 };

void http_prepare(CURL *handle, const char *url, const char *token, const char *host) {
    curl->easy_setopt(handle, CURLOPT_URL, url);
    curl->easy_setopt(handle, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
    curl->easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl->easy_setopt(handle, CURLOPT_LOW_SPEED_TIME, (long)SILENT_S);
    curl->easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    curl->easy_setopt(handle, CURLOPT_USERAGENT, "drover");
    curl->easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
    curl->easy_setopt(handle, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    // Only to the host that was asked, not to where it redirects.
    const size_t n_host = token ? strlen(host) : 0;
    if (n_host && strncmp(url, host, n_host) == 0 && url[n_host] == '/') {
        curl->easy_setopt(handle, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
        curl->easy_setopt(handle, CURLOPT_XOAUTH2_BEARER, token);
    }
}

bool http_worth_a_try(long code) {
    return code == 0 || code == 200 || code == 206 || code == 408 || code == 416 || code == 425 ||
           code == 429 || code >= 500;
}

double http_wait_s(int failures, double retry_after) {
    double wait = FIRST_WAIT_S * 0.25 * (1 << (failures < 9 ? failures : 9));
    if (retry_after > 0) wait = retry_after;
    return wait > MAX_WAIT_S ? MAX_WAIT_S : wait;
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
