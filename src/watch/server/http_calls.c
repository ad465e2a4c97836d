// Loads libmicrohttpd at its first use.
#include "watch/server/http_calls.h"

#include "base/library.h"

#define CALL(name)                                                                                 \
    { "MHD_" #name, offsetof(http_calls, name) }

static const library_call calls[] = {CALL(start_daemon), CALL(stop_daemon), CALL(get_daemon_info),
        CALL(get_timeout), CALL(run), CALL(get_connection_info), CALL(lookup_connection_value),
        CALL(get_connection_values), CALL(create_response_from_buffer), CALL(add_response_header),
        CALL(queue_response), CALL(destroy_response)};
enum { N_CALLS = sizeof calls / sizeof *calls };
_Static_assert(sizeof(http_calls) == N_CALLS * sizeof(void *), "every function has a row");

static http_calls table;
const http_calls *const http = &table;

drv_status http_open(void) {
    static library microhttpd = {.file = LIBRARY_FILE,
            .calls = calls,
            .n_calls = N_CALLS,
            .table = &table};
    if (library_ready(&microhttpd)) return DRV_OK;
    return drv_fail(DRV_E_IO,
            "the page of a run needs libmicrohttpd, which cannot be loaded: %s (on Debian: apt-get install "
            "libmicrohttpd12)",
            microhttpd.why);
}
