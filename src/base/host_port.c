// Reading addresses; nothing is looked up.
#include "base/host_port.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

static bool take_port(const char *text, int *out) {
    int port = 0, n = 0;
    for (; text[n] >= '0' && text[n] <= '9' && n < 6; n++)
        port = 10 * port + (text[n] - '0');
    if (n == 0 || text[n] || port > 65535) return false;
    *out = port;
    return true;
}

static bool is_name(const char *host, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const char c = host[i];
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!letter && !(c >= '0' && c <= '9') && c != '-' && c != '_' && c != '.') return false;
    }
    return n > 0;
}

bool host_is_address(const char *host) {
    struct in6_addr address; // room for either
    return inet_pton(AF_INET, host, &address) == 1 || inet_pton(AF_INET6, host, &address) == 1;
}

bool host_port_parse(const char *text, host_port *out) {
    host_port made = {.port = -1};
    const char *end;
    size_t n;
    if (take_port(text, &made.port)) {
        *out = made;
        return true;
    }
    const bool bracket = text[0] == '[';
    text += bracket;
    end = strchr(text, bracket ? ']' : ':');
    n = end ? (size_t)(end - text) : strlen(text);
    if (n >= sizeof made.host || (bracket && !end)) return false;
    snprintf(made.host, sizeof made.host, "%.*s", (int)n, text);
    if (bracket ? !host_is_address(made.host) || !strchr(made.host, ':') : !is_name(text, n))
        return false;
    text += n + bracket;
    if (*text == ':' && !take_port(text + 1, &made.port)) return false;
    if (*text && *text != ':') return false;
    *out = made;
    return true;
}
