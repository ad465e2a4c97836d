// libcurl, opened at its first use.
#include "base/curl_calls.h"

#include "base/library.h"

#define CALL(name)                                                                                 \
    { "curl_" #name, offsetof(curl_calls, name) }

static const library_call calls[] = {CALL(global_init), CALL(easy_init), CALL(easy_setopt),
        CALL(easy_perform), CALL(easy_getinfo), CALL(easy_strerror), CALL(easy_cleanup),
        CALL(multi_init), CALL(multi_add_handle), CALL(multi_remove_handle), CALL(multi_perform),
        CALL(multi_info_read), CALL(multi_poll), CALL(multi_cleanup), CALL(slist_append),
        CALL(slist_free_all)};
enum { N_CALLS = sizeof calls / sizeof *calls };
_Static_assert(sizeof(curl_calls) == N_CALLS * sizeof(void *), "every function has a row");

static curl_calls table;
const curl_calls *const curl = &table;

drv_status curl_open(const char *what) {
    static library libcurl = {.file = LIBRARY_FILE,
            .calls = calls,
            .n_calls = N_CALLS,
            .table = &table};
    if (!library_ready(&libcurl))
        return drv_fail(DRV_E_IO,
                "%s libcurl, which cannot be loaded: %s (on Debian: apt-get install libcurl4)",
                what, libcurl.why);
    curl->global_init(CURL_GLOBAL_DEFAULT);
    return DRV_OK;
}
