// Makes requests with libcurl, reads their answers, and repeats them.
#include "data/get/hub_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/host_port.h"
#include "base/json.h"
#include "base/log.h"

enum {
    MAX_ANSWER = 256 << 20,
    BUFFER_BYTES = 1 << 20, // libcurl's 64 KiB are too few for fast networks
    SILENT_S = 300,         // a commit, or the end of a large file, takes minutes
};

// --- addresses
// The folder in which huggingface_hub keeps what belongs to a user (its constants.py).
static const char *hub_home(arena *a) {
    const char *hub = getenv("HF_HOME");
    return hub && *hub ? hub : path_user_cache(a, "huggingface");
}

const char *hub_endpoint(arena *a) {
    const char *endpoint = getenv("HF_ENDPOINT");
    if (!endpoint || !*endpoint) endpoint = "https://huggingface.co";
    size_t length = strlen(endpoint);
    while (length > 0 && endpoint[length - 1] == '/')
        length--;
    return arena_strndup(a, endpoint, length);
}

// The order is that of huggingface_hub's get_token.
const char *hub_token(arena *a) {
    enum { MAX_TOKEN = 4096 };
    const char *token = getenv("HF_TOKEN"), *path = getenv("HF_TOKEN_PATH"), *home = hub_home(a);
    char *text;
    size_t n;
    if (token && *token)
        text = arena_strdup(a, token);
    else {
        if ((!path || !*path) && home) path = path_join(a, home, "token");
        if (!path || !*path || file_read_small(a, path, MAX_TOKEN, &text, &n) != DRV_OK)
            return NULL;
    }
    text += strspn(text, " \t\r\n");
    text[strcspn(text, " \t\r\n")] = 0;
    return *text ? text : NULL;
}

const char *hub_download_token(arena *a, const char *endpoint) {
    const char *token = hub_token(a);
    const http_link link = {.endpoint = endpoint};
    if (!token || hub_url_check(&link, endpoint, "HF_ENDPOINT is") == DRV_OK) return token;
    log_warn("no token is sent: %s", drv_message());
    return NULL;
}

drv_status hub_url_check(const http_link *link, const char *url, const char *who) {
    const bool tls = strncasecmp(url, "https://", 8) == 0;
    const char *begin = tls ? url + 8 : url + 7;
    bool good = tls || strncasecmp(url, "http://", 7) == 0, local = false;
    char authority[512];
    host_port host;
    if (good) {
        const size_t n = strcspn(begin, "/?#");
        snprintf(authority, sizeof authority, "%.*s", (int)(n < 511 ? n : 511), begin);
        good = n < 511 && host_port_parse(authority, &host) && host.host[0];
        local = good && (strcasecmp(host.host, "localhost") == 0 || strcmp(host.host, "::1") == 0 ||
                                (strncmp(host.host, "127.", 4) == 0 && host_is_address(host.host)));
    }
    for (const char *p = url; *p; p++)
        good = good && (unsigned char)*p > ' ' && (unsigned char)*p < 127;
    local = local && strncasecmp(link->endpoint, "http://", 7) == 0;
    if (good && (tls || local)) return DRV_OK;
    return drv_fail(DRV_E_DATA, "%s \"%.200s\", expected https://, or http:// to this machine", who,
            url);
}

// --- a try
static size_t on_read(char *to, size_t size, size_t count, void *ctx) {
    hub_call *call = ctx;
    size_t n = size * count;
    if ((int64_t)n > call->n_bytes - call->sent) n = (size_t)(call->n_bytes - call->sent);
    if (call->bytes) {
        memcpy(to, (const char *)call->bytes + call->sent, n);
    } else if (n) {
        const ssize_t k = pread(call->fd, to, n, call->first + call->sent);
        if (k <= 0) {
            call->unreadable = true;
            return CURL_READFUNC_ABORT;
        }
        n = (size_t)k;
    }
    call->sent += (int64_t)n;
    return n;
}

static int on_seek(void *ctx, curl_off_t offset, int origin) {
    hub_call *call = ctx;
    if (origin != SEEK_SET || offset < 0 || offset > call->n_bytes) return CURL_SEEKFUNC_CANTSEEK;
    call->sent = offset;
    return CURL_SEEKFUNC_OK;
}

static size_t on_body(char *bytes, size_t size, size_t count, void *ctx) {
    hub_call *call = ctx;
    const size_t n = size * count;
    if (call->body.n + n > MAX_ANSWER) return 0;
    str_add(&call->body, bytes, n);
    return n;
}

// The URL in <URL>; rel="next"
static void take_next(hub_call *call, const char *value) {
    const char *rel = strstr(value, "rel=\"next\""), *end = rel;
    if (!rel) return;
    while (end > value && *end != '>')
        end--;
    const char *begin = end;
    while (begin > value && *begin != '<')
        begin--;
    if (*begin != '<' || end <= begin) return;
    free(call->next);
    call->next = strndup(begin + 1, (size_t)(end - begin - 1));
}

static size_t on_header(char *line, size_t size, size_t count, void *ctx) {
    hub_call *call = ctx;
    const size_t n = size * count;
    char value[2048];
    http_retry_after(line, n, &call->tries.retry_after);
    if (http_header(line, n, "RateLimit", value, sizeof value)) { // "api";r=0;t=55
        const char *reset = strstr(value, ";t=");
        call->rate_reset = reset ? strtod(reset + 3, NULL) : 0;
    }
    http_header(line, n, "ETag", call->etag, sizeof call->etag);
    http_header(line, n, "Location", call->location, sizeof call->location);
    http_header(line, n, "X-Error-Code", call->error_code, sizeof call->error_code);
    http_header(line, n, "X-Error-Message", call->error, sizeof call->error);
    if (http_header(line, n, "Link", value, sizeof value)) take_next(call, value);
    return n;
}

static void add_header(hub_call *call, const char *line) {
    struct curl_slist *list = curl->slist_append(call->headers, line);
    DRV_MEMORY(list, "no memory for the header of a request");
    call->headers = list;
}

void hub_call_begin(const http_link *link, hub_call *call, CURLM *multi) {
    CURL *handle = call->handle = curl->easy_init();
    DRV_MEMORY(handle, "no memory for a request");
    str_clear(&call->body);
    call->etag[0] = call->location[0] = call->error_code[0] = call->error[0] = 0;
    call->sent = 0;
    call->code = 0;
    call->tries.retry_after = call->rate_reset = 0;
    http_prepare(handle, call->url, link);
    curl->easy_setopt(handle, CURLOPT_FOLLOWLOCATION, call->follows ? 1L : 0L);
    curl->easy_setopt(handle, CURLOPT_MAXREDIRS, 10L);
    curl->easy_setopt(handle, CURLOPT_WRITEFUNCTION, on_body);
    curl->easy_setopt(handle, CURLOPT_WRITEDATA, call);
    curl->easy_setopt(handle, CURLOPT_HEADERFUNCTION, on_header);
    curl->easy_setopt(handle, CURLOPT_HEADERDATA, call);
    curl->easy_setopt(handle, CURLOPT_PRIVATE, call);
    if (call->content_type) {
        char line[128];
        snprintf(line, sizeof line, "Content-Type: %s", call->content_type);
        add_header(call, line);
        add_header(call, "Accept: application/vnd.git-lfs+json, application/json");
    }
    if (strcmp(call->method, "GET") != 0) {
        curl->easy_setopt(handle, CURLOPT_LOW_SPEED_TIME, (long)SILENT_S);
        add_header(call, "Expect:"); // a server that does not know it costs a second each
        curl->easy_setopt(handle, CURLOPT_UPLOAD, 1L);
        curl->easy_setopt(handle, CURLOPT_CUSTOMREQUEST, call->method);
        curl->easy_setopt(handle, CURLOPT_INFILESIZE_LARGE, (curl_off_t)call->n_bytes);
        curl->easy_setopt(handle, CURLOPT_READFUNCTION, on_read);
        curl->easy_setopt(handle, CURLOPT_READDATA, call);
        curl->easy_setopt(handle, CURLOPT_UPLOAD_BUFFERSIZE, (long)BUFFER_BYTES);
        curl->easy_setopt(handle, CURLOPT_SEEKFUNCTION, on_seek);
        curl->easy_setopt(handle, CURLOPT_SEEKDATA, call);
    }
    if (call->headers) curl->easy_setopt(handle, CURLOPT_HTTPHEADER, call->headers);
    call->state = CALL_RUNS;
    if (multi) curl->multi_add_handle(multi, handle);
}

void hub_call_close(hub_call *call, CURLM *multi) {
    if (call->handle && multi) curl->multi_remove_handle(multi, call->handle);
    if (call->handle) curl->easy_cleanup(call->handle);
    curl->slist_free_all(call->headers);
    call->handle = NULL;
    call->headers = NULL;
}

// --- its result
// Returns whether the server cannot have begun to act on the request.
static bool never_began(const hub_call *call, CURLcode result) {
    if (call->code) return call->code == 429 || call->code == 503;
    return result == CURLE_COULDNT_CONNECT || result == CURLE_COULDNT_RESOLVE_HOST ||
           result == CURLE_SSL_CONNECT_ERROR;
}

drv_status hub_call_settle(const http_link *link, hub_call *call, CURLcode result) {
    char why[64];
    curl->easy_getinfo(call->handle, CURLINFO_RESPONSE_CODE, &call->code);
    if (call->unreadable)
        return drv_fail(DRV_E_IO, "a file has become shorter while it was sent to %.*s",
                (int)strcspn(call->url, "?"), call->url);
    const bool answered = result == CURLE_OK || call->code >= 300; // before all was sent
    if (answered && !(http_worth_a_try(call->code) && call->code >= 300)) {
        call->state = CALL_DONE;
        return DRV_OK;
    }
    snprintf(why, sizeof why, "the server answered %ld", call->code);
    const char *reason = answered ? why : curl->easy_strerror(result);
    if (call->once && !never_began(call, result))
        return drv_fail(DRV_E_IO, "%.*s: %s: it is not known whether the request took effect",
                (int)strcspn(call->url, "?"), call->url, reason);
    if (call->code == 429 && call->tries.retry_after <= 0)
        call->tries.retry_after = call->rate_reset;
    call->state = CALL_WAITS;
    return http_failed(link, call->url, reason, call->follows ? HTTP_SAID_FROM : 1, &call->tries);
}

drv_status hub_call_run(const http_link *link, hub_call *call) {
    drv_status status = curl_open("requests need");
    call->state = CALL_WAITS;
    while (status == DRV_OK && call->state == CALL_WAITS) {
        const double wait = call->tries.not_before - clock_s();
        if (wait > 0) {
            usleep((useconds_t)((wait < 0.1 ? wait : 0.1) * 1e6));
            continue;
        }
        hub_call_begin(link, call, NULL);
        const CURLcode result = curl->easy_perform(call->handle);
        status = hub_call_settle(link, call, result);
        hub_call_close(call, NULL);
    }
    return status;
}

bool hub_call_succeeded(const hub_call *call) {
    return call->code >= 200 && call->code < 300;
}

void hub_call_free(hub_call *call) {
    str_free(&call->body);
    free(call->next);
    call->next = NULL;
}

// Appends the server's explanation, from a header or from "error" in the body.
static void add_reason(const hub_call *call, str *out) {
    json_t *root = NULL;
    if (call->error[0]) {
        str_printf(out, ": %s", call->error);
    } else if (call->body.n && call->body.n < 65536 &&
               json_parse(call->body.p, call->body.n, &root) == DRV_OK) {
        const json_t *error = json_object_get(root, "error");
        const char *text = json_string_value(error);
        if (!text) text = json_string_value(json_object_get(error, "message"));
        if (!text) text = json_string_value(json_object_get(root, "message"));
        if (text) str_printf(out, ": %.500s", text);
    }
    json_decref(root);
}

drv_status hub_call_refused(const hub_call *call) {
    str said = {0};
    str_puts(&said, "");
    add_reason(call, &said);
    if (call->code >= 300 && call->code < 400)
        str_printf(&said, " %.*s", (int)strcspn(call->location, "?"), call->location);
    const drv_status status =
            http_refused(call->method, call->url, call->code, call->error_code, said.p);
    str_free(&said);
    return status;
}

hub_call hub_call_post(const char *url, const char *content_type, const char *text,
        size_t n_bytes) {
    return (hub_call){.method = "POST",
            .url = url,
            .content_type = content_type,
            .bytes = text,
            .n_bytes = (int64_t)n_bytes,
            .fd = -1};
}

drv_status hub_call_answer(hub_call *call, drv_status status, json_t **out) {
    if (status == DRV_OK && !hub_call_succeeded(call)) status = hub_call_refused(call);
    if (status == DRV_OK && out)
        status = json_read_bytes(call->url, call->body.p ? call->body.p : "", call->body.n, out);
    hub_call_free(call);
    return status;
}

drv_status hub_call_list(arena *a, const http_link *link, const char *url, json_t **out,
        char **next) {
    hub_call call = {.method = "GET", .url = url, .fd = -1, .follows = true};
    const drv_status status = hub_call_run(link, &call);
    *next = arena_strdup(a, call.next ? call.next : "");
    return hub_call_answer(&call, status, out);
}
