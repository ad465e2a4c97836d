// A small HTTP server in a thread of its own, by libmicrohttpd: 32 connections at most, 10 s and
// one request each, no bodies. Where many are there a request has to be whole within a second, and
// 16 further places are for probes. It knows nothing of runs: one function answers.
#pragma once
#include "base/str.h"
#include "base/status.h"
#include "watch/server/page_request.h"

typedef struct page_reply {
    int status;
    const char *type;     // of the body
    const char *cookie;   // a Set-Cookie; NULL: none
    const char *location; // of a redirection; NULL: none
    bool asks_password;   // a 401 asks for a name and a password, else for a token
    str body;             // the server frees it
} page_reply;

typedef struct page_server_calls {
    // Answers one request; called by the server's thread alone.
    void (*answer)(void *ctx, const page_request *request, page_reply *out);
    // Called between requests; true: there is more to do, soon.
    bool (*idle)(void *ctx);
} page_server_calls;

typedef struct page_server page_server;

// Serves at the listening socket, which is the server's from then on; `calls` and `ctx` must
// outlive it. The thread has a low priority and takes at most 2 % of a core and half a second
// beyond: a step goes first. DRV_E_IO: libmicrohttpd is not there; DRV_E_DEVICE: no thread can be
// started.
DRV_CHECKED drv_status page_server_start(int listen_fd, const page_server_calls *calls, void *ctx,
        page_server **out);
// Ends it, and its connections. False: it did not end within two seconds, as it waits for a file
// system that does not answer; it and its ctx must be left alone then. NULL is allowed.
bool page_server_stop(page_server *self);
