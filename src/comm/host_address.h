// IPv4 addresses of this host, and which of them leads to another one. All in network byte order.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum { MAX_ADDRESSES = 8 };

typedef struct host_addresses { // goes over the wire
    uint64_t network;           // the same on processes that reach each other by 127.0.0.1
    uint32_t address[MAX_ADDRESSES];
    int32_t n;
    int32_t zero; // no byte is undefined
} host_addresses;

// Finds the addresses that are up, without the loopback. DROVER_INTERFACE leaves one of them: the
// name of an interface, or an address; DRV_E_USAGE: this host has none of that name.
DRV_CHECKED drv_status host_addresses_find(host_addresses *out);
// Returns the address of this host from which packets go to one of `there`: where a process there
// can connect to. 127.0.0.1 where both share a network. 0: none leads there.
uint32_t host_address_towards(const host_addresses *here, const host_addresses *there);
// The same towards one address.
uint32_t host_address_route(uint32_t to);

// Returns whether the host at the other end of a TCP connection is gone: its kernel, which answers
// for a process that is stopped, too, has not been heard of for HOST_GONE_S. A link that is cut
// resets no connection. Asked once a beat of a side that sends each time: *n_silent, which begins
// at 0, lets what this process has slept through come first.
#define HOST_GONE_S 10.0
bool host_is_gone(int fd, int *n_silent);
