// Determines the path that a request to the page of a run asks for, and whether it is allowed.
// Everything in a request is untrusted. These functions are pure: they use no file and no socket.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SECRET_BYTES = 33, // 128 bits as hexadecimal digits, and a NUL
    TOKEN_MAX = 4096,  // most bytes of a token, sent or in a file
};

typedef enum page_path {
    PATH_PAGE,       // "/"
    PATH_STYLE,      // "/page.css"
    PATH_SCRIPT,     // "/page.js"
    PATH_STATUS,     // "/api/status"
    PATH_RECORDS,    // "/api/metrics?from=STEP"
    PATH_PROMETHEUS, // "/metrics"
    PATH_HEALTH,     // "/healthz"
    PATH_READY,      // "/readyz"
    N_PAGE_PATHS
} page_path;
const char *page_path_name(page_path path); // "/api/status"

// A request as it was received; NULL: absent.
typedef struct page_request {
    const char *method, *target; // target: with its query, not decoded
    const char *host, *origin, *authorization, *cookie;
    bool has_body;    // its length is above zero, or it is chunked
    bool broken;      // it has a NUL, or two of a header that must be unique
    bool probe_alone; // the server is too busy to serve anything but probes
} page_request;

// The secrets that open the page.
typedef struct page_keys {
    char token[SECRET_BYTES];      // for every path: "Authorization: Bearer TOKEN"
    char code[SECRET_BYTES];       // "/?code=CODE" sets the cookie, once
    char cookie[SECRET_BYTES];     // for every path
    char cookie_name[32];          // has the port in it, since cookies do not distinguish ports
    char metrics_token[TOKEN_MAX]; // for PATH_PROMETHEUS alone; "": there is none
    char host[256], name[256];     // the configured host and this machine's name: allowed in Host
    const char *password;          // for every path, by HTTP's Basic scheme; NULL: there is none
} page_keys;

// The answer to a request.
typedef struct page_answer {
    int status; // 200; 303: the code was right and sets the cookie; else the status of the refusal
    const char *why; // the reason for a refusal, for people
    page_path path;
    int64_t from; // for PATH_RECORDS
} page_answer;

page_answer page_request_check(const page_request *request, const page_keys *keys);
