// Checks a request, in the order that tells a refused client the least.
#include "watch/server/page_request.h"

#include <string.h>
#include <strings.h>

#include "base/host_port.h"
#include "base/str.h"

static const struct {
    const char *name;
    bool open; // needs no token
} paths[N_PAGE_PATHS] = {
        [PATH_PAGE] = {"/", false},
        [PATH_STYLE] = {"/page.css", false},
        [PATH_SCRIPT] = {"/page.js", false},
        [PATH_STATUS] = {"/api/status", false},
        [PATH_RECORDS] = {"/api/metrics", false},
        [PATH_PROMETHEUS] = {"/metrics", false},
        [PATH_HEALTH] = {"/healthz", true},
        [PATH_READY] = {"/readyz", true},
};

const char *page_path_name(page_path path) {
    return paths[path].name;
}

// Returns whether both texts are equal, in a time that does not depend on where they differ.
static bool is_secret(const char *secret, const char *given, size_t n_given) {
    const size_t n = strlen(secret);
    unsigned differs = n != n_given || n == 0;
    for (size_t i = 0; i < n_given; i++)
        differs |= (unsigned)(unsigned char)(given[i] ^ secret[n ? i % n : 0]);
    return differs == 0;
}

// --- the target
// The owner of a DNS name can make it point here (DNS rebinding); an IP address is what it is.
static bool host_is_ours(const page_keys *keys, const char *text) {
    host_port parsed;
    if (!text || !host_port_parse(text, &parsed) || !*parsed.host) return false;
    return host_is_address(parsed.host) || strcasecmp(parsed.host, "localhost") == 0 ||
           (*keys->host && strcasecmp(parsed.host, keys->host) == 0) ||
           (*keys->name && strcasecmp(parsed.host, keys->name) == 0);
}

// A page of another origin would send requests on behalf of the person who looks at it.
static bool origin_is_ours(const page_request *request) {
    const char *scheme = "http://", *origin = request->origin;
    if (!origin) return true;
    if (!request->host) return false;
    return str_starts(origin, scheme) && strcasecmp(origin + strlen(scheme), request->host) == 0;
}

// Our paths are plain: one with escapes, ".." or bytes that are not text is an attack.
static bool target_is_plain(const char *target) {
    const size_t n = strcspn(target, "?");
    if (target[0] != '/' || n > 64 || strlen(target) > 1024) return false;
    for (const char *p = target; *p; p++)
        if (*p <= ' ' || *p > '~') return false;
    for (size_t i = 0; i < n; i++)
        if (strchr("%\\;#", target[i]) || (i > 0 && target[i] == '.' && target[i - 1] == '.'))
            return false;
    return true;
}

static bool find_path(const char *target, page_path *out) {
    const size_t n = strcspn(target, "?");
    for (int i = 0; i < N_PAGE_PATHS; i++)
        if (strlen(paths[i].name) == n && strncmp(paths[i].name, target, n) == 0) {
            *out = (page_path)i;
            return true;
        }
    return false;
}

// --- the query: at most one field, which the path defines
static const char *query_of(const char *target) {
    const char *mark = strchr(target, '?');
    return mark ? mark + 1 : "";
}

// Returns the value of "name=value" if the query has nothing else.
static const char *only_value(const char *query, const char *name) {
    const size_t n = strlen(name);
    if (strncmp(query, name, n) != 0 || query[n] != '=' || strchr(query, '&')) return NULL;
    return query + n + 1;
}

static bool read_from(const char *query, int64_t *out) {
    const char *text = *query ? only_value(query, "from") : "0";
    if (!text || *text < '0' || *text > '9') return false;
    return str_to_i64(text, out);
}

// --- authentication
static bool has_bearer(const page_request *request, const char *token) {
    const char *scheme = "Bearer ", *text = request->authorization;
    if (!text || strncasecmp(text, scheme, strlen(scheme)) != 0) return false;
    text += strlen(scheme);
    text += strspn(text, " ");
    size_t n = strlen(text);
    while (n > 0 && text[n - 1] == ' ')
        n--;
    return n < TOKEN_MAX && is_secret(token, text, n);
}

// Decodes base64 into at most TOKEN_MAX bytes; 0: it is not base64.
static size_t decode_base64(const char *text, size_t n, char out[TOKEN_MAX]) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned bits = 0;
    size_t n_out = 0;
    while (n > 0 && text[n - 1] == '=')
        n--;
    if (n / 4 * 3 + 3 > TOKEN_MAX) return 0;
    for (size_t i = 0; i < n; i++) {
        const char *digit = strchr(digits, text[i]);
        if (!digit || !text[i]) return 0;
        bits = bits << 6 | (unsigned)(digit - digits);
        if (i % 4) out[n_out++] = (char)(bits >> (6 - 2 * (i % 4)) & 0xFF);
    }
    return n_out;
}

// "Basic BASE64", of NAME:PASSWORD with any name (RFC 7617).
static bool has_password(const page_request *request, const char *password) {
    const char *scheme = "Basic ", *text = request->authorization;
    char pair[TOKEN_MAX];
    if (!password || !text || strncasecmp(text, scheme, strlen(scheme)) != 0) return false;
    text += strlen(scheme);
    text += strspn(text, " ");
    const size_t n = decode_base64(text, strcspn(text, " "), pair);
    const char *colon = memchr(pair, ':', n);
    return colon && is_secret(password, colon + 1, (size_t)(pair + n - colon - 1));
}

// Finds NAME in "a=1; NAME=SECRET".
static bool has_cookie(const page_request *request, const page_keys *keys) {
    const size_t n_name = strlen(keys->cookie_name);
    bool found = false;
    for (const char *p = request->cookie ? request->cookie : ""; *p;) {
        p += strspn(p, " ;");
        const size_t n = strcspn(p, ";");
        if (n > n_name && strncmp(p, keys->cookie_name, n_name) == 0 && p[n_name] == '=')
            found |= is_secret(keys->cookie, p + n_name + 1, n - n_name - 1);
        p += n;
    }
    return found;
}

static bool may(const page_request *request, const page_keys *keys, page_path path) {
    const bool token = has_bearer(request, keys->token), cookie = has_cookie(request, keys);
    const bool metrics = path == PATH_PROMETHEUS && has_bearer(request, keys->metrics_token);
    return token || cookie || metrics || has_password(request, keys->password);
}

static page_answer refuse(int status, const char *why) {
    return (page_answer){.status = status, .why = why, .path = N_PAGE_PATHS};
}

static page_answer check_query(const page_request *request, page_answer answer) {
    const char *query = query_of(request->target);
    if (answer.path == PATH_RECORDS && !read_from(query, &answer.from))
        return refuse(400, "expected ?from=STEP, a step from 0");
    if (answer.path != PATH_RECORDS && *query) return refuse(400, "expected no query");
    return answer;
}

page_answer page_request_check(const page_request *request, const page_keys *keys) {
    page_answer answer = {.status = 200, .why = ""};
    const char *code;
    if (request->broken)
        return refuse(400,
                "expected no NUL, no header over several lines, and no repeated header that must be unique");
    if (strcmp(request->method, "GET") != 0 && strcmp(request->method, "HEAD") != 0)
        return refuse(405, "expected GET or HEAD: no request changes anything");
    if (request->has_body) return refuse(413, "expected no body");
    if (!target_is_plain(request->target)) return refuse(400, "expected a plain path");
    // A browser sends a password only to the name for which it was typed, so any name may be used.
    if (!keys->password && !host_is_ours(keys, request->host))
        return refuse(403,
                "the Host header names another machine; expected an address, localhost, this machine's "
                "name or that of training.http");
    if (!origin_is_ours(request)) return refuse(403, "pages of another origin may not ask");
    const bool known = find_path(request->target, &answer.path);
    if (known && paths[answer.path].open) return check_query(request, answer);
    if (request->probe_alone) return refuse(503, "too many ask at a time; ask again");
    if (known && answer.path == PATH_PAGE && (code = only_value(query_of(request->target), "code")))
        if (is_secret(keys->code, code, strlen(code))) {
            answer.status = 303;
            return answer;
        }
    if (!may(request, keys, known ? answer.path : N_PAGE_PATHS))
        return refuse(401,
                keys->password
                        ? "expected the password, by HTTP's Basic scheme"
                        : "expected the token: \"Authorization: Bearer TOKEN\", or open in a browser the address "
                          "that RUN_DIR/http.json has as \"open\"; it works once and is renewed there");
    if (!known) return refuse(404, "there is no such path");
    return check_query(request, answer);
}
