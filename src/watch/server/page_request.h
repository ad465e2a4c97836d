// A request to the page of a run: what it asks for, and whether it may. Everything in it comes from
// outside; nothing here touches a file or a socket.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SECRET_BYTES = 33, // 128 bits as hexadecimal digits, with the NUL
    TOKEN_MAX = 4096,  // bytes of a token that somebody sends, or keeps in a file
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

// A request as it came; NULL: it has none.
typedef struct page_request {
    const char *method, *target; // target: with its query, nothing decoded
    const char *host, *origin, *authorization, *cookie;
    bool has_body;    // a length above zero, or chunks
    bool broken;      // a NUL in it, or a header twice that must stand once
    bool probe_alone; // so many ask that there is only room for probes
} page_request;

// The keys that open the page.
typedef struct page_keys {
    char token[SECRET_BYTES];      // of every path: "Authorization: Bearer TOKEN"
    char code[SECRET_BYTES];       // "/?code=CODE" gives the cookie, once
    char cookie[SECRET_BYTES];     // of every path
    char cookie_name[32];          // of this port: cookies do not tell ports apart
    char metrics_token[TOKEN_MAX]; // of PATH_PROMETHEUS alone; "": there is none
    const char *password;          // of every path, by HTTP's Basic scheme; NULL: there is none
    char host[256], name[256];     // as the key has it, and of this machine: allowed in Host
} page_keys;

// The answer to a request.
typedef struct page_answer {
    int status;      // 200; 303: the code was right, and gives the cookie; else why it is refused
    const char *why; // of a refusal, for a person
    page_path path;
    int64_t from; // of PATH_RECORDS
} page_answer;

page_answer page_request_check(const page_request *request, const page_keys *keys);

// Returns whether both are the same text; takes as long for what differs early as for what differs
// late.
bool page_secret_is(const char *secret, const char *given, size_t n_given);
