// A small HTTP server by libmicrohttpd in its own thread: at most 32 connections of one request and
// 10 s each, without request bodies. If many are open, a request must be complete within a second,
// and 16 further connections are reserved for probes. It knows nothing of runs: a callback answers.
#pragma once
#include "base/str.h"
#include "base/status.h"
#include "watch/server/page_request.h"

typedef struct page_reply {
    int status;
    const char *type;     // type of the body
    const char *cookie;   // a Set-Cookie; NULL: none
    const char *location; // of a redirection; NULL: none
    bool asks_password;   // a 401 asks for a name and a password, else for a token
    str body;             // the server frees it
} page_reply;

typedef struct page_server_calls {
    // Answers one request; only the server's thread calls it.
    void (*answer)(void *ctx, const page_request *request, page_reply *out);
    // Called between requests; returns whether it has more to do soon.
    bool (*idle)(void *ctx);
} page_server_calls;

typedef struct page_server page_server;

// Serves on the listening socket, which belongs to the server from then on; `calls` and `ctx` must
// outlive it. The thread has a low priority and uses at most 2 % of a core, and half a second more
// in a burst, so that steps go first. DRV_E_IO: libmicrohttpd is not installed; DRV_E_DEVICE: no
// thread can be started.
DRV_CHECKED drv_status page_server_start(int listen_fd, const page_server_calls *calls, void *ctx,
        page_server **out);
// Ends the server and its connections. Returns false if it did not end within two seconds because a
// file system does not answer; then the server and its ctx must not be freed. NULL is allowed.
bool page_server_stop(page_server *self);
