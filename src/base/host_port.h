// An address in a key or in the Host header of a request: PORT, HOST or HOST:PORT, with IPv6
// addresses in brackets.
#pragma once
#include <stdbool.h>

enum { HOST_BYTES = 256 }; // with its NUL; a name of DNS has 253 bytes at most

typedef struct host_port {
    char host[HOST_BYTES]; // without brackets; "": only a port was given
    int port;              // 0 to 65535; -1: none was given
} host_port;

// Parses all of `text`. A host is a name (letters, digits, "-", "_" and ".") or an address. False:
// it has none of the forms above.
bool host_port_parse(const char *text, host_port *out);
// Returns whether the host is an IPv4 or IPv6 address, not a name.
bool host_is_address(const char *host);
