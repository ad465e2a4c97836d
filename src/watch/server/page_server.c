// Runs the server's thread and connections, and sets the headers of every answer.
#include "watch/server/page_server.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/task.h"
#include "watch/server/http_calls.h"
#include "watch/server/page_headers.h"

enum {
    MAX_GUESTS =
            32, // connections of any kind; further ones are for probes, whose requests are short
    MAX_PROBES = 16,
    MAX_PLACES = MAX_GUESTS + MAX_PROBES,
    MANY = MAX_GUESTS / 2,
    GUEST_S = 10,
    GUEST_BYTES = 24 << 10, // most bytes of a request with its headers
    TARGET_BYTES = 2048,
    NICE = 10,
    END_S = 2,
    SOON_MS = 50,
};

// Seconds in which a request must be complete if there are many connections, and if none is free.
#define MANY_S 1.0
#define FULL_S 0.1

typedef struct guest {
    int fd; // -1: free
    double since_s;
    bool asked;                          // its request is complete
    const char *received, *received_end; // the target, in libmicrohttpd's memory
    char target[TARGET_BYTES];
} guest;

struct page_server {
    struct MHD_Daemon *daemon;
    int stop_fd, epoll_fd;
    const page_server_calls *calls;
    void *ctx;
    pthread_t thread;
    bool one_left; // a connection has ended in this round; libmicrohttpd accepts new ones only in
                   // the next
    guest guests[MAX_PLACES];
    guest nobody; // for a connection beyond the limit
};

// --- connections
static void on_connection(void *ctx, struct MHD_Connection *connection, void **socket_context,
        enum MHD_ConnectionNotificationCode what) {
    page_server *self = ctx;
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        guest *old = *socket_context;
        if (old) old->fd = -1;
        self->one_left = true;
        return;
    }
    const union MHD_ConnectionInfo *info =
            http->get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    guest *slot = &self->nobody;
    for (int i = 0; i < MAX_PLACES && slot == &self->nobody; i++)
        if (self->guests[i].fd < 0) slot = &self->guests[i];
    slot->fd = info ? info->connect_fd : -1;
    slot->since_s = clock_s();
    slot->asked = false;
    *socket_context = slot;
}

static int count_guests(const page_server *self) {
    int n = 0;
    for (int i = 0; i < MAX_PLACES; i++)
        n += self->guests[i].fd >= 0;
    return n;
}

// Returns the seconds in which a request must be complete: fewer if few connections are free.
static double patience_s(int n_guests) {
    return n_guests == MAX_PLACES ? FULL_S : n_guests >= MANY ? MANY_S : GUEST_S;
}

// libmicrohttpd's own timeout starts again at every byte, so a slow sender would stay for ever.
static void reject_connection(page_server *self) {
    const double now = clock_s(), patience = patience_s(count_guests(self));
    for (int i = 0; i < MAX_PLACES; i++) {
        const guest *g = &self->guests[i];
        if (g->fd >= 0 && now >= g->since_s + (g->asked ? GUEST_S : patience))
            shutdown(g->fd, SHUT_RDWR);
    }
}

// Keeps the target as it was received, before libmicrohttpd decodes it.
static void *on_target(void *ctx DRV_UNUSED, const char *target,
        struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info =
            http->get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    guest *from = info ? info->socket_context : NULL;
    if (!from) return NULL;
    snprintf(from->target, sizeof from->target, "%s", target);
    from->received = target;
    from->received_end = target + strlen(target);
    return from;
}

// Keeps libmicrohttpd from decoding a request.
static size_t leave_escaped(void *ctx DRV_UNUSED, struct MHD_Connection *connection DRV_UNUSED,
        char *text) {
    return strlen(text);
}

// --- answers
static void add_headers(struct MHD_Response *made, const page_reply *reply) {
    static const char *const always[][2] = {
            {"Connection", "close"},
            {"Cache-Control", "no-store"},
            {"Content-Security-Policy",
                    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
            {"Cross-Origin-Resource-Policy", "same-origin"},
            {"Referrer-Policy", "no-referrer"},
            {"X-Content-Type-Options", "nosniff"},
            {"X-Frame-Options", "DENY"},
    };
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        http->add_response_header(made, always[i][0], always[i][1]);
    http->add_response_header(made, "Content-Type", reply->type);
    if (reply->status == 401)
        http->add_response_header(made, "WWW-Authenticate",
                reply->asks_password ? "Basic realm=\"drover\"" : "Bearer realm=\"drover\"");
    if (reply->status == 405) http->add_response_header(made, "Allow", "GET, HEAD");
    if (reply->cookie) http->add_response_header(made, "Set-Cookie", reply->cookie);
    if (reply->location) http->add_response_header(made, "Location", reply->location);
}

static bool has_body(struct MHD_Connection *connection) {
    const char *length =
            http->lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Length");
    return (length && strspn(length, "0 ") != strlen(length)) ||
           http->lookup_connection_value(connection, MHD_HEADER_KIND, "Transfer-Encoding");
}

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection,
        const char *url DRV_UNUSED, const char *method, const char *version,
        const char *upload DRV_UNUSED, size_t *upload_bytes, void **request_context) {
    page_server *self = ctx;
    guest *from = *request_context;
    if (!from || from == &self->nobody || *upload_bytes) return MHD_NO;
    from->asked = true;
    const page_request request = {.method = method,
            .target = from->target,
            .host = http->lookup_connection_value(connection, MHD_HEADER_KIND, "Host"),
            .origin = http->lookup_connection_value(connection, MHD_HEADER_KIND, "Origin"),
            .authorization =
                    http->lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization"),
            .cookie = http->lookup_connection_value(connection, MHD_HEADER_KIND, "Cookie"),
            .probe_alone = from >= self->guests + MAX_GUESTS,
            .has_body = has_body(connection),
            .broken = page_headers_are_broken(connection,
                    &(page_line){method, from->received, from->received_end, version})};
    page_reply reply = {.status = 200, .type = "text/plain; charset=utf-8"};
    self->calls->answer(self->ctx, &request, &reply);
    struct MHD_Response *made = http->create_response_from_buffer(reply.body.n,
            reply.body.p ? reply.body.p : (char[]){""}, MHD_RESPMEM_MUST_COPY);
    str_free(&reply.body);
    if (!made) return MHD_NO;
    add_headers(made, &reply);
    const enum MHD_Result queued = http->queue_response(connection, (unsigned)reply.status, made);
    http->destroy_response(made);
    return queued;
}

// --- the thread
static int wait_ms(page_server *self, bool more) {
    MHD_UNSIGNED_LONG_LONG own;
    if (self->one_left) {
        self->one_left = false;
        return 0;
    }
    const int n_guests = count_guests(self);
    int limit = more || n_guests >= MANY ? SOON_MS : n_guests ? 1000 : -1;
    if (http->get_timeout(self->daemon, &own) == MHD_YES && (limit < 0 || own < (unsigned)limit))
        limit = (int)own;
    return limit;
}

// Requests, however many, take no more than this processor time from the steps; then clients wait.
// Unused time cannot be saved up.
#define SHARE       0.02 // of a core
#define BURST_S     0.5  // beyond it
#define MOST_REST_S 0.5  // at a time, so that the thread can be ended
typedef struct allowance {
    double left_s, clock_s,
            used_s; // processor time that the thread may still use, and when that was computed
} allowance;

static double thread_s(void) {
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
}

static void rest(allowance *self) {
    const double now = clock_s(), used = thread_s();
    self->left_s += SHARE * (now - self->clock_s);
    if (self->left_s > BURST_S) self->left_s = BURST_S;
    self->left_s -= used - self->used_s;
    self->clock_s = now;
    self->used_s = used;
    const double owed_s = -self->left_s / SHARE;
    const struct timespec pause = {0, (long)(1e9 * (owed_s < MOST_REST_S ? owed_s : MOST_REST_S))};
    if (owed_s > 0) nanosleep(&pause, NULL);
}

static void *server_main(void *arg) {
    page_server *self = arg;
    setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
    allowance left = {BURST_S, clock_s(), thread_s()};
    for (;;) {
        struct pollfd fds[] = {{.fd = self->stop_fd, .events = POLLIN},
                {.fd = self->epoll_fd, .events = POLLIN}};
        poll(fds, 2, wait_ms(self, self->calls->idle(self->ctx)));
        if (fds[0].revents) break;
        http->run(self->daemon);
        reject_connection(self);
        rest(&left);
    }
    http->stop_daemon(self->daemon);
    return NULL;
}

static drv_status start_daemon(page_server *self, int listen_fd) {
    self->daemon = http->start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, on_request, self,
            MHD_OPTION_LISTEN_SOCKET, listen_fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)MAX_PLACES,
            MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)GUEST_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
            (size_t)GUEST_BYTES, MHD_OPTION_NOTIFY_CONNECTION, on_connection, self,
            MHD_OPTION_URI_LOG_CALLBACK, on_target, self, MHD_OPTION_UNESCAPE_CALLBACK,
            leave_escaped, NULL, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
    if (!self->daemon) return drv_fail(DRV_E_IO, "libmicrohttpd does not start");
    const union MHD_DaemonInfo *info =
            http->get_daemon_info(self->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    self->epoll_fd = info->epoll_fd;
    self->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    const drv_status status = self->stop_fd < 0 ? drv_fail(DRV_E_DEVICE, "no eventfd")
                                                : thread_start(&self->thread, server_main, self);
    if (status != DRV_OK) http->stop_daemon(self->daemon);
    return status;
}

drv_status page_server_start(int listen_fd, const page_server_calls *calls, void *ctx,
        page_server **out) {
    const drv_status opened = http_open();
    if (opened != DRV_OK) {
        close(listen_fd);
        return opened;
    }
    page_server *self = mem_zeroed(sizeof *self);
    self->calls = calls;
    self->ctx = ctx;
    for (int i = 0; i < MAX_PLACES; i++)
        self->guests[i].fd = -1;
    const drv_status status = start_daemon(self, listen_fd);
    if (status == DRV_OK)
        *out = self;
    else
        free(self);
    return status;
}

bool page_server_stop(page_server *self) {
    const uint64_t one = 1;
    if (!self) return true;
    if (write(self->stop_fd, &one, sizeof one) != sizeof one) return false;
    const struct timespec until = clock_after(END_S);
    if (pthread_timedjoin_np(self->thread, NULL, &until) != 0) return false;
    close(self->stop_fd);
    free(self);
    return true;
}
