// Built and preloaded by tests/inject_faults.py: reads and writes that move a part of what was
// asked for, as a signal, a pipe or a server may have them do, and some that a signal interrupts.
// SHORT_CALLS: a seed.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static atomic_uint state;

__attribute__((constructor)) static void begin(void) {
    const char *seed = getenv("SHORT_CALLS");
    atomic_store(&state, (unsigned)atoi(seed ? seed : "1") * 2654435761u);
}

static unsigned draw(void) {
    unsigned x = atomic_fetch_add(&state, 0x9E3779B9u);
    x = (x ^ x >> 16) * 0x85EBCA6Bu;
    x = (x ^ x >> 13) * 0xC2B2AE35u;
    return x ^ x >> 16;
}

// Returns how many of n bytes are moved; 0: the call is interrupted.
static size_t part(size_t n) {
    if (n < 2) return n;
    const unsigned x = draw();
    return x % 11 == 0 ? 0 : x % 3 == 0 ? 1 + draw() % (unsigned)n : n;
}

// CALL(name, parameters, arguments): `n` is the parameter that counts the bytes.
#define CALL(name, parameters, arguments)                                                          \
    ssize_t name parameters {                                                                      \
        ssize_t(*original) parameters;                                                             \
        void *symbol = dlsym(RTLD_NEXT, #name);                                                    \
        memcpy(&original, &symbol, sizeof original);                                               \
        const size_t wanted = n;                                                                   \
        n = part(n);                                                                               \
        if (n > 0 || wanted == 0) return original arguments;                                       \
        errno = EINTR;                                                                             \
        return -1;                                                                                 \
    }
CALL(read, (int fd, void *p, size_t n), (fd, p, n))
CALL(pread, (int fd, void *p, size_t n, off_t at), (fd, p, n, at))
CALL(pread64, (int fd, void *p, size_t n, off64_t at), (fd, p, n, at))
CALL(write, (int fd, const void *p, size_t n), (fd, p, n))
CALL(pwrite, (int fd, const void *p, size_t n, off_t at), (fd, p, n, at))
CALL(pwrite64, (int fd, const void *p, size_t n, off64_t at), (fd, p, n, at))
CALL(recv, (int fd, void *p, size_t n, int flags), (fd, p, n, flags))
CALL(send, (int fd, const void *p, size_t n, int flags), (fd, p, n, flags))
