// Options of the verbs that download, and the download itself.
#include "cli/fetch.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/str.h"

drv_status fetch_options(arena *a, const cli_args *args, const char *out, fetch_opts *o) {
    int64_t parallel = 8, tries = 8;
    DRV_TRY(cli_get_i64(args, "--parallel", 1, 64, &parallel));
    DRV_TRY(cli_get_i64(args, "--tries", 1, 1000, &tries));
    const char *endpoint = getenv("HF_ENDPOINT"), *token = getenv("HF_TOKEN");
    if (!endpoint || !*endpoint) endpoint = "https://huggingface.co";
    size_t length = strlen(endpoint);
    while (length > 0 && endpoint[length - 1] == '/')
        length--;
    *o = (fetch_opts){.hub = {.endpoint = arena_strndup(a, endpoint, length),
                              .token = token && *token ? token : NULL,
                              .revision = cli_get(args, "--revision", "main"),
                              .out = out,
                              .tries = (int)tries}};
    o->http = (download_opts){.parallel = (int)parallel,
            .tries = (int)tries,
            .token = o->hub.token,
            .host = o->hub.endpoint};
    return DRV_OK;
}

drv_status fetch_files(const fetch_opts *o, const download *list, int n) {
    download_stats s;
    DRV_TRY(download_files(list, n, &o->http, &s));
    log_info("%s: %lld file%s, %lld of them already there; %s in %s", o->hub.out,
            (long long)s.files, str_plural(s.files), (long long)s.there_already,
            str_bytes((double)s.bytes), str_long_duration(s.seconds));
    return DRV_OK;
}
