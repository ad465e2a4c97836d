// Addresses of interfaces, and the kernel's routes.
#include "comm/host_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/rng.h"

// Identifies the boot of this machine and the network namespace: processes that share both share
// 127.0.0.1. Host names are not enough, since containers on two machines may have the same one.
static uint64_t name_network(void) {
    arena *a = arena_new("network");
    struct stat namespace = {0};
    char *boot = NULL;
    size_t n;
    uint64_t name = 0;
    if (file_read(a, "/proc/sys/kernel/random/boot_id", &boot, &n) == DRV_OK &&
            stat("/proc/self/ns/net", &namespace) == 0)
        name = hash_name(arena_printf(a, "%s %llu", boot, (unsigned long long)namespace.st_ino));
    arena_free(a);
    return name;
}

static bool is_wanted(const struct ifaddrs *i, uint32_t address) {
    const char *only = getenv("DROVER_INTERFACE");
    struct in_addr given;
    if (!only || !*only) return !(i->ifa_flags & IFF_LOOPBACK);
    if (strcmp(only, i->ifa_name) == 0) return true;
    return inet_pton(AF_INET, only, &given) == 1 && given.s_addr == address;
}

drv_status host_addresses_find(host_addresses *out) {
    const char *only = getenv("DROVER_INTERFACE");
    struct ifaddrs *list = NULL;
    *out = (host_addresses){.network = name_network()};
    if (getifaddrs(&list) != 0) list = NULL;
    for (const struct ifaddrs *i = list; i && out->n < MAX_ADDRESSES; i = i->ifa_next) {
        struct sockaddr_in in;
        if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || !(i->ifa_flags & IFF_UP)) continue;
        memcpy(&in, i->ifa_addr, sizeof in);
        if (is_wanted(i, in.sin_addr.s_addr)) out->address[out->n++] = in.sin_addr.s_addr;
    }
    if (list) freeifaddrs(list);
    if (out->n > 0 || !only || !*only) return DRV_OK;
    return drv_fail(DRV_E_USAGE,
            "DROVER_INTERFACE is \"%s\", expected the name or the IPv4 address of an interface that is up",
            only);
}

// Connecting a datagram socket sends nothing: the kernel chooses the way, and with it the address.
static uint32_t route_to(uint32_t to) {
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = to},
                       here = {0};
    socklen_t n = sizeof here;
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return 0;
    const bool known = connect(fd, (const struct sockaddr *)&there, sizeof there) == 0 &&
                       getsockname(fd, (struct sockaddr *)&here, &n) == 0;
    close(fd);
    return known ? here.sin_addr.s_addr : 0;
}

static bool has(const host_addresses *of, uint32_t address) {
    for (int i = 0; i < of->n; i++)
        if (of->address[i] == address) return true;
    return false;
}

uint32_t host_address_towards(const host_addresses *here, const host_addresses *there) {
    if (here->network != 0 && here->network == there->network) return htonl(INADDR_LOOPBACK);
    // An address that both hosts have (of a bridge of containers) leads from a host to itself.
    for (int i = 0; i < there->n; i++) {
        const uint32_t mine = has(here, there->address[i]) ? 0 : route_to(there->address[i]);
        if (mine && has(here, mine)) return mine;
    }
    // DROVER_INTERFACE asks for another interface than that of the route.
    return here->n > 0 && there->n > 0 ? here->address[0] : 0;
}

bool host_is_unreachable(int fd, int *n_silent) {
    enum { LOOKS = 3 };
    struct tcp_info info;
    socklen_t n = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n) != 0) return false; // no TCP
    const uint32_t ack_ms = info.tcpi_last_ack_recv, data_ms = info.tcpi_last_data_recv;
    const bool silent = (ack_ms < data_ms ? ack_ms : data_ms) > 1000 * HOST_UNREACHABLE_S;
    *n_silent = silent ? *n_silent + 1 : 0;
    return *n_silent >= LOOKS;
}
