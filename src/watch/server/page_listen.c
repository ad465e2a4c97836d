// Opens the socket of a page.
#include "watch/server/page_listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/host_port.h"

enum { WAITING = 128 }; // connections that have not been accepted

typedef union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} address;

static bool is_wildcard(const address *addr) {
    return addr->any.sa_family == AF_INET ? addr->v4.sin_addr.s_addr == htonl(INADDR_ANY)
                                          : IN6_IS_ADDR_UNSPECIFIED(&addr->v6.sin6_addr);
}

static bool is_loopback(const address *addr) {
    return addr->any.sa_family == AF_INET ? ntohl(addr->v4.sin_addr.s_addr) >> 24 == 127
                                          : IN6_IS_ADDR_LOOPBACK(&addr->v6.sin6_addr);
}

static void name_address(const address *addr, page_listener *out) {
    char text[INET6_ADDRSTRLEN] = "?";
    const bool v4 = addr->any.sa_family == AF_INET;
    const int port = ntohs(v4 ? addr->v4.sin_port : addr->v6.sin6_port);
    if (v4)
        inet_ntop(AF_INET, &addr->v4.sin_addr, text, sizeof text);
    else
        inet_ntop(AF_INET6, &addr->v6.sin6_addr, text, sizeof text);
    out->to_others = !is_loopback(addr);
    if (is_wildcard(addr))
        snprintf(out->address, sizeof out->address, "%s:%d", out->name, port);
    else
        snprintf(out->address, sizeof out->address, v4 ? "%s:%d" : "[%s]:%d", text, port);
}

static int open_at(const struct addrinfo *info, page_listener *out) {
    const int yes = 1, fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    address bound;
    socklen_t n = sizeof bound;
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, WAITING) == 0 &&
            getsockname(fd, &bound.any, &n) == 0) {
        name_address(&bound, out);
        return fd;
    }
    const int why = errno;
    close(fd);
    errno = why;
    return -1;
}

drv_status page_listen(const char *where, const char *by, page_listener *out) {
    host_port parsed;
    char port[16];
    struct addrinfo *list = NULL;
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
            .ai_socktype = SOCK_STREAM,
            .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    *out = (page_listener){.fd = -1};
    if (!host_port_parse(where, &parsed) || parsed.port < 0)
        return drv_fail(DRV_E_USAGE, "%s is \"%s\", expected a port or HOST:PORT", by, where);
    snprintf(port, sizeof port, "%d", parsed.port);
    snprintf(out->host, sizeof out->host, "%s", parsed.host);
    if (gethostname(out->name, sizeof out->name - 1) != 0) out->name[0] = 0;
    const int bad = getaddrinfo(*parsed.host ? parsed.host : "127.0.0.1", port, &hints, &list);
    if (bad)
        return drv_fail(DRV_E_IO, "could not find the host \"%s\" of %s: %s", parsed.host, by,
                gai_strerror(bad));
    for (const struct addrinfo *p = list; p && out->fd < 0; p = p->ai_next)
        out->fd = open_at(p, out);
    const int why = errno;
    freeaddrinfo(list);
    if (out->fd >= 0) return DRV_OK;
    return drv_fail(DRV_E_IO, "could not listen at %s (%s): %s", where, by, strerror(why));
}
