// The socket that the page of a run listens at.
#pragma once
#include <stdbool.h>

#include "base/status.h"

typedef struct page_listener {
    int fd;
    bool to_others;    // other machines reach it
    char address[320]; // "127.0.0.1:8080": where a client finds it; of all addresses, this
                       // machine's name
    char host[256];    // as the key has it; "": it has none
    char name[256];    // of this machine
} page_listener;

// `where` is a port, which is opened on 127.0.0.1, or HOST:PORT; port 0 takes any that is free.
// DRV_E_IO: it cannot be opened.
DRV_CHECKED drv_status page_listen(const char *where, page_listener *out);
