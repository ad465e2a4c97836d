// Options of the verbs that download, and the download itself.
#include "cli/fetch.h"

#include "base/log.h"
#include "base/str.h"
#include "data/get/hub_call.h"

drv_status fetch_options(arena *a, const cli_args *args, const char *out, hub_opts *o) {
    int64_t parallel = 8, tries = 8;
    DRV_TRY(cli_get_i64(args, "--parallel", 1, 64, &parallel));
    DRV_TRY(cli_get_i64(args, "--tries", 1, 1000, &tries));
    const char *endpoint = hub_endpoint(a);
    *o = (hub_opts){.link = {.endpoint = endpoint,
                            .token = hub_download_token(a, endpoint),
                            .parallel = (int)parallel,
                            .tries = (int)tries},
            .revision = cli_get(args, "--revision", "main"),
            .out = out};
    return DRV_OK;
}

drv_status fetch_files(const hub_opts *o, const download *list, int n) {
    download_stats s;
    DRV_TRY(download_files(list, n, &o->link, &s));
    log_info("%s: %lld file%s, %lld of them already there; %s in %s", o->out, (long long)s.files,
            str_plural(s.files), (long long)s.there_already, str_bytes((double)s.bytes),
            str_long_duration(s.seconds));
    return DRV_OK;
}
