// The IPv4 addresses of this host, and the one by which another host reaches it. All are in network
// byte order.
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

// Finds the addresses of interfaces that are up, without the loopback. DROVER_INTERFACE, the name
// of an interface or an address, selects one of them; DRV_E_USAGE: this host does not have it.
DRV_CHECKED drv_status host_addresses_find(host_addresses *out);
// Returns the address of this host to which a process on a host with addresses `there` can connect.
// 127.0.0.1 if both share a network namespace. 0: there is no route.
uint32_t host_address_towards(const host_addresses *here, const host_addresses *there);

// Returns whether the host at the other end of a TCP connection is gone, that is, whether its
// kernel (which answers for a stopped process too) has not answered for HOST_UNREACHABLE_S. A link
// that is cut does not reset connections. Call it once per beat on a side that sends each time.
// *n_silent begins at 0; it keeps a process that has slept itself from blaming the other host.
#define HOST_UNREACHABLE_S 10.0
bool host_is_unreachable(int fd, int *n_silent);
