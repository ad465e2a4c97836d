// Opens the socket on which the page of a run listens.
#pragma once
#include <stdbool.h>

#include "base/status.h"

typedef struct page_listener {
    int fd;
    bool to_others;    // other machines can reach it
    char address[320]; // "127.0.0.1:8080", where clients find it; with this machine's name if it
                       // listens on all addresses
    char host[256];    // from the configuration; "": it has none
    char name[256];    // this machine's name
} page_listener;

// Opens the socket. `where` is a port on 127.0.0.1, or HOST:PORT; port 0 is any free port. `by`
// names the key or option in messages. DRV_E_USAGE: `where` is neither. DRV_E_IO: the port cannot
// be opened.
DRV_CHECKED drv_status page_listen(const char *where, const char *by, page_listener *out);
