// One error scheme (design D11): a failure is made only by drv_fail, which records this thread's
// message and returns the code, so the two cannot drift. Only the code that ends a process prints
// it (log_failure).
#pragma once

typedef enum drv_status {
    DRV_OK = 0,
    DRV_E_USAGE,  // wrong command line or configuration: exit 2
    DRV_E_DATA,   // input that is malformed or inconsistent
    DRV_E_IO,     // the operating system refused
    DRV_E_DEVICE, // the back end refused
    // Another try of the same command may heal these (exit_status.h):
    DRV_E_PEER,  // another rank failed
    DRV_E_FULL,  // no space is left where a file is to go
    DRV_E_BUSY,  // a resource is held by another process, or did not arrive in time
    DRV_E_FAULT, // a device failed that had worked
    DRV_STOPPED, // a signal asked for it; saved and resumable: exit 3 (docs/adr/0006)
} drv_status;

#define DRV_CHECKED __attribute__((warn_unused_result))
// After a parameter that a function does not use, but has because its callers pass it.
#define DRV_UNUSED  __attribute__((unused))

// Records the message (lower case, no full stop, names quoted, value and expectation) and returns
// `code`. It stays one line: control characters become "?"; one of more than 8 KiB loses its middle.
drv_status drv_fail(drv_status code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

// Puts "context: " before the recorded message and returns `code` unchanged.
drv_status drv_context(drv_status code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

// Returns the message of this thread's last failure; "" when there was none.
const char *drv_message(void);

// A status with its message, kept for later, when other calls have replaced this thread's message,
// or for another thread. The message of DRV_OK is "".
typedef struct drv_saved {
    drv_status status;
    char message[2048]; // a longer one loses its middle
} drv_saved;

// Keeps a status with this thread's last message.
void drv_save(drv_status status, drv_saved *out);
// Records the message again, unless the status is DRV_OK, and returns the status.
drv_status drv_restore(const drv_saved *saved);

_Noreturn void drv_abort(const char *file, int line, const char *cond, const char *fmt, ...)
        __attribute__((format(printf, 4, 5)));

#define DRV_TRY(expr)                                                                              \
    do {                                                                                           \
        drv_status drv_s_ = (expr);                                                                \
        if (drv_s_ != DRV_OK) return drv_s_;                                                       \
    } while (0)

#define DRV_TRY_CTX(expr, ...)                                                                     \
    do {                                                                                           \
        drv_status drv_s_ = (expr);                                                                \
        if (drv_s_ != DRV_OK) return drv_context(drv_s_, __VA_ARGS__);                             \
    } while (0)

// Prints one line and ends the process with exit status 1, without allocating.
_Noreturn void drv_out_of_memory(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

// Does so unless `cond`, which says that memory was allocated.
#define DRV_MEMORY(cond, ...)                                                                      \
    do {                                                                                           \
        if (__builtin_expect(!(cond), 0)) drv_out_of_memory(__VA_ARGS__);                          \
    } while (0)

// Aborts in every build if `cond` is false: for our own bugs, never for input from outside.
#define DRV_ASSERT(cond, ...)                                                                      \
    do {                                                                                           \
        if (__builtin_expect(!(cond), 0)) drv_abort(__FILE__, __LINE__, #cond, __VA_ARGS__);       \
    } while (0)
